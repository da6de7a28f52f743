"""Bad weather: what passes is waited for, what lasts is one line; the cache stays sound."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.hub import Hub, models
from tests.hub.process import Draftcheck, assert_calm, reason, verdict
from tests.hub.storm import Case, Outcome, Storm
from tests.hub.words import tokenizer_json

pytest.importorskip("huggingface_hub")
WORDS = 3000
SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
PAIR = ("pair", "org/big", "org/small", "--format", "json", "--engine", "vllm")
GGUFS = ("pair", "org/gguf:Q4_K_M", "org/gguf:Q8_0", "--format", "json", "--engine", "llama.cpp")
LISTING = "/api/models/org/big*"
WORDY = "org/*/tokenizer.json"
SHARD = "org/big/model-00002-of-00003.safetensors"
FILES = "org/*"
QUICK, PATIENT = ({"HF_HUB_DOWNLOAD_TIMEOUT": seconds} for seconds in "13")
"""A read that takes longer counts as stuck: nobody wants to wait for the usual ten seconds.

PATIENT, where something has to come in time on a busy machine."""
DRIP = {"bytes": 1, "seconds": 0.2}
TOKEN = "hf_" + "TokenInTheStorm" * 2


def repos(hub: Hub) -> None:
    """A sharded target; a draft with the same tokens in other bytes; two GGUFs."""
    hub.add_token(TOKEN)
    hub.add_repo("org/big", models.checkpoint(SHAPE, count=3, words=WORDS))
    compact = json.dumps(json.loads(tokenizer_json(WORDS)), ensure_ascii=False).encode()
    hub.add_repo("org/small", models.checkpoint(SHAPE, words=WORDS, tokenizer=compact))
    other = models.small_gguf(4000, **{"general.name": ("string", "Another model")})
    hub.add_repo("org/gguf", {"m-Q4_K_M.gguf": models.small_gguf(4000), "m-Q8_0.gguf": other})


def wrong(kind: str, **options: Any) -> Callable[[Hub], None]:
    """The repos, with one fault."""

    def arrange(hub: Hub) -> None:
        repos(hub)
        hub.fault(kind, **options)

    return arrange


def always(kind: str, **options: Any) -> Callable[[Hub], None]:
    return wrong(kind, times=None, **options)


def elsewhere(status: int = 302, **options: Any) -> Callable[[Hub], None]:
    def arrange(hub: Hub) -> None:
        repos(hub)
        hub.fault("redirect", to=f"{hub.elsewhere_url}/x", status=status, times=None, **options)

    return arrange


def tight_quota(hub: Hub) -> None:
    repos(hub)
    hub.quotas.set(2, api=2, resolvers=4)


def expired_between(hub: Hub) -> None:
    """Links are void as soon as somebody has used one."""
    repos(hub)
    hub.fault("call", origin="cdn", nth=2, do=hub.expire_links)


def moved_on(hub: Hub) -> None:
    """After the listing, main is another commit with another tokenizer."""
    repos(hub)
    big = hub.repos["org/big"]
    other = {"tokenizer.json": tokenizer_json(WORDS, 5)}
    hub.fault("call", file="org/big/*", do=lambda: big.commit(other, keep=True))


def moved_back(hub: Hub) -> None:
    big = hub.repos["org/big"]
    big.refs["main"] = next(iter(big.commits))


PASSING = [
    Case("busy listing", wrong("status", path=LISTING, code=503), PAIR),
    Case("gateway", wrong("status", path=LISTING, code=502, times=2), PAIR),
    Case("busy file", wrong("status", file=WORDY, code=500, times=2), PAIR),
    Case("busy storage", wrong("status", file=SHARD, origin="cdn", code=503), PAIR),
    Case("429 and Retry-After", wrong("status", path=LISTING, code=429, retry_after=1), PAIR),
    Case("429 and RateLimit", wrong("status", file=WORDY, code=429, reset=1), PAIR),
    Case("quota", tight_quota, PAIR),
    Case("cut by FIN", wrong("cut", file=WORDY, after=60_000), PAIR),
    Case("cut by RST", wrong("cut", file=WORDY, after=60_000, how="rst"), PAIR),
    Case("cut at once", wrong("cut", file=WORDY, after=0, how="rst"), PAIR),
    Case("cut listing", wrong("cut", path=LISTING, after=200), PAIR),
    Case("cut header", wrong("cut", file=SHARD, after=700), PAIR),
    Case("cut GGUF", wrong("cut", file="*Q4_K_M.gguf", after=50_000, how="rst"), GGUFS),
    Case("no answer", wrong("drop", file=SHARD), PAIR),
    Case("reset answer", wrong("drop", path=LISTING, how="rst"), PAIR),
    Case("slow to answer", wrong("delay", path=LISTING, seconds=1.0), PAIR),
    Case("stuck once", wrong("hang", file=SHARD), PAIR, env=QUICK),
    Case("expired link", wrong("expired", file=SHARD, origin="cdn"), PAIR),
    Case("expired GGUF link", wrong("expired", origin="cdn", nth=2), GGUFS),
    Case("links expire in between", expired_between, GGUFS),
    Case("damaged once", wrong("corrupt", file=WORDY), PAIR),
    Case("a page once", wrong("html", path=LISTING), PAIR),
    Case("no length", always("no_length", file=FILES), PAIR),
    Case("chunked", always("no_length", file=FILES, chunked=True), PAIR),
    Case("Range ignored", always("ignore_range", file=FILES), PAIR),
    Case("Range ignored by GGUFs", always("ignore_range", file=FILES), GGUFS),
    Case("more than asked", always("longer", file=FILES, by=100_000), PAIR),
    Case("less than asked", wrong("shorter", file=SHARD, by=100, honest=True), PAIR),
    Case("moved on", moved_on, PAIR, repair=moved_back),
]
LASTING = [
    Case("always busy", always("status", path=LISTING, code=503), PAIR, ["503"]),
    Case("storage busy", always("status", origin="cdn", code=500), PAIR, ["500"]),
    Case("storm of 429", always("status", path=LISTING, code=429, retry_after=1), PAIR, ["429"]),
    Case("wait a year", always("status", code=429, retry_after=10**9), PAIR, ["429"]),
    Case("wait for ever", always("status", code=429, reset=10**12), PAIR, ["429"]),
    Case("odd Retry-After", always("status", code=503, retry_after="-1e9;\x1b["), PAIR, ["503"]),
    Case("teapot", always("status", path=LISTING, code=418), PAIR, ["418"]),
    Case("stuck listing", always("hang", path=LISTING), PAIR, ["org/big"], env=QUICK),
    Case("stuck storage", always("hang", origin="cdn"), PAIR, ["org/"], env=QUICK),
    Case("byte by byte", always("slow", file=WORDY, **DRIP), PAIR, ["bytes in"], env=PATIENT),
    Case(
        "listing byte by byte",
        always("slow", path=LISTING, **DRIP),
        PAIR,
        ["bytes in"],
        env=PATIENT,
    ),
    Case(
        "drip",
        always("slow", file=WORDY, bytes=7, seconds=0.3),
        PAIR,
        ["bytes in"],
        env=PATIENT,
    ),
    Case("headers byte by byte", always("slow_head", path=LISTING), PAIR, ["org/big"], env=QUICK),
    Case("endless headers", always("endless_head", path=LISTING), PAIR, ["org/big"], env=QUICK),
    Case("endless 100", always("endless_100", path=LISTING), PAIR, ["org/big"], env=QUICK),
    Case(
        "refused byte by byte",
        always("status", path=LISTING, code=418, body=bytes(4000), pace=(1, 1.0)),
        PAIR,
        ["418"],
        env=QUICK,
    ),
    Case(
        "redirected byte by byte",
        always("redirect", file=SHARD, to="/x", body=bytes(1000), pace=(1, 1.0)),
        PAIR,
        ["model-00002"],
        env=QUICK,
    ),
    Case("endless listing", always("endless", path=LISTING, piece=b" " * 65536), PAIR, ["org/big"]),
    Case("endless file", always("endless", file=WORDY), PAIR, ["tokenizer.json"]),
    Case("endless header", always("endless", file=SHARD), PAIR, ["model-00002"]),
    Case("a page for a listing", always("html", path=LISTING), PAIR, ["org/big", "web page"]),
    Case("a page for a file", always("html", file=WORDY), PAIR, ["tokenizer.json", "web page"]),
    Case("a page from storage", always("html", origin="cdn"), PAIR, ["web page"]),
    Case("cut JSON", always("cut_json", path=LISTING), PAIR, ["org/big"]),
    Case("always cut", always("cut", file=WORDY, after=10), PAIR, ["tokenizer.json"]),
    Case("always reset", always("cut", file=SHARD, after=0, how="rst"), PAIR, ["model-00002"]),
    Case("nobody answers", always("drop"), PAIR, ["org/big"]),
    Case("always damaged", always("corrupt", file=WORDY), PAIR, ["tokenizer.json", "digest"]),
    Case("always expired", always("expired", origin="cdn"), PAIR, ["403"]),
    Case("wrong range", always("wrong_range", file=SHARD), PAIR, ["model-00002", "asked for"]),
    Case("no range", always("wrong_range", file=SHARD, value=None), PAIR, ["model-00002"]),
    Case("odd range", always("wrong_range", file=SHARD, value="x\x1b[2J"), PAIR, ["model-00002"]),
    Case("other size", always("wrong_range", file=SHARD, shift=0, total=9), PAIR, ["model-00002"]),
    Case("less for ever", always("shorter", file=SHARD, by=10**9), PAIR, ["model-00002"]),
    Case("loop", always("loop", path=LISTING), PAIR, ["org/big", "redirect"]),
    Case("loop of files", always("loop", file=WORDY), PAIR, ["redirect"]),
    Case("loop of storage", always("loop", origin="cdn"), PAIR, ["redirect"]),
    Case(
        "to a file", always("redirect", path=LISTING, to="file:///etc/passwd"), PAIR, ["redirect"]
    ),
    Case(
        "to the cloud's own",
        always("redirect", file=SHARD, to="http://169.254.169.254/latest/meta-data"),
        PAIR,
        ["redirect", "169.254.169.254"],
    ),
    Case(
        "to another repo",
        always("redirect", file=WORDY, to="/org/gguf/resolve/main/m-Q4_K_M.gguf"),
        PAIR,
        ["tokenizer.json"],
    ),
    Case("nowhere", always("redirect", file=SHARD, to=""), PAIR, ["model-00002"]),
    Case("listing elsewhere", elsewhere(307, path=LISTING), PAIR, ["org/big"]),
    Case("packed", always("gzip", file=WORDY), PAIR, ["tokenizer.json"]),
    Case("bomb", always("gzip", file=WORDY, bomb=4 << 30), PAIR, ["tokenizer.json"]),
    Case("bomb of a listing", always("gzip", path=LISTING, bomb=4 << 30), PAIR, ["org/big"]),
]
CASES = {case.name: case for case in (*PASSING, *LASTING)}


WITH_A_TOKEN = Case("with a token", elsewhere(file=SHARD), PAIR, token=TOKEN)


@pytest.fixture(scope="module")
def storm(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Storm]:
    """All cases that were selected, some at a time."""
    asked = [
        item.callspec.params["case"]
        for item in request.session.items
        if item.module is request.module and "case" in getattr(item, "fixturenames", ())
    ]
    running = Storm(asked, tmp_path_factory.mktemp("storm"))
    yield running
    running.close()


def assert_same_verdict(case: Case, outcome: Outcome) -> None:
    """What holds in any weather."""
    assert_calm(outcome.first)
    assert not outcome.leaks, outcome.story
    assert outcome.bytes <= case.most_bytes, outcome.story
    assert len(outcome.log) <= case.most_requests, outcome.story
    again = outcome.second
    assert again is None or again.code == 0, f"the cache is spoilt: {again.err}\n{outcome.story}"
    assert any(entry.faults for entry in outcome.log) or case.name == "quota", outcome.story


@pytest.fixture(scope="module")
def fair(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The verdicts when nothing is wrong, by the first model of the pair."""
    with Hub() as hub:
        repos(hub)
        draftcheck = Draftcheck(hub, tmp_path_factory.mktemp("fair"))
        return {command[1]: verdict(draftcheck(*command)) for command in (PAIR, GGUFS)}


@pytest.mark.parametrize("case", PASSING, ids=lambda case: case.name)
def test_it_passes(case: Case, storm: Storm, fair: dict[str, dict[str, Any]]) -> None:
    outcome = storm.outcome(case)
    assert_same_verdict(case, outcome)
    assert outcome.first.code == 0, outcome.first.err + outcome.story
    assert verdict(outcome.first) == fair[case.command[1]]
    assert outcome.second is None or verdict(outcome.second) == fair[case.command[1]]


@pytest.mark.parametrize("case", LASTING, ids=lambda case: case.name)
def test_it_lasts(case: Case, storm: Storm) -> None:
    outcome = storm.outcome(case)
    assert_same_verdict(case, outcome)
    line = reason(outcome.first)
    for word in case.says:
        assert word in line, line
    assert len(line) < 500 and not any(ord(letter) < 32 for letter in line)
    assert "elsewhere" not in {entry.origin for entry in outcome.log if entry.had_token}


def test_reads_go_on_where_they_were_cut(hub: Hub, draftcheck: Draftcheck) -> None:
    repos(hub)
    size = hub.repos["org/big"].files["tokenizer.json"].size
    hub.fault("cut", file="org/big/tokenizer.json", after=size - 1000)
    ran = draftcheck(*PAIR)
    assert ran.code == 0, ran.err
    bodies = [e for e in hub.asked("org/big/tokenizer.json") if e.status in (200, 206)]
    assert [entry.body for entry in bodies] == [size - 1000, 1000], hub.story()


def test_every_read_is_of_one_commit(hub: Hub, draftcheck: Draftcheck) -> None:
    moved_on(hub)
    before = hub.repos["org/big"].sha
    ran = draftcheck(*PAIR)
    assert ran.code == 0 and ran.json["target"]["revision"] == before
    asked = [entry.path for entry in hub.log if entry.file and entry.file.startswith("org/big/")]
    assert asked and all(before in path for path in asked), hub.story()


@pytest.mark.parametrize("case", [WITH_A_TOKEN], ids=lambda case: case.name)
def test_the_token_stays_with_the_api(case: Case, storm: Storm) -> None:
    """The way to the storage, to another host, and back."""
    outcome = storm.outcome(case)
    ran = outcome.first
    assert_calm(ran)
    assert ran.code == 3, ran.err
    assert not outcome.leaks and any(entry.had_token for entry in outcome.log), outcome.story
    assert TOKEN not in ran.out + ran.err
    for path in outcome.home.rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path


def test_nobody_listens(hub: Hub, draftcheck: Draftcheck) -> None:
    with Hub() as gone:
        address = gone.url
    ran = draftcheck(*PAIR, HF_ENDPOINT=address)
    assert "org/big" in reason(ran)
    ran = draftcheck(*PAIR, HF_ENDPOINT="http://nothing.invalid")
    assert "nothing.invalid" in reason(ran)
