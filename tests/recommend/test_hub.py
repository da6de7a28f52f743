"""Drafts for a known target among known good and bad candidates, on the loopback Hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ran
from tests.hub import Hub, models
from tests.hub.log import Entry
from tests.hub.process import Draftcheck, assert_calm
from tests.hub.words import tokenizer_json

pytest.importorskip("huggingface_hub")
COST: list[Entry] = []
"""Requests of the one question."""
TARGET = "acme/Llama-9-70B-Instruct"
SMALL = "acme/Llama-9-1B-Instruct"
MIDDLE = "acme/Llama-9-3B-Instruct"
WIDE = "acme/Llama-9-1B-Everywhere"
TUNED = "tuner/Llama-9-1B-Poems"
HEAD = "heads/Llama-9-70B-Instruct-EAGLE3"
WORDS = 600
ONE = {**models.SMALL, "num_hidden_layers": 8}
THREE = {**models.SMALL, "hidden_size": 3072}
AWQ = {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}


def model(shape: dict[str, Any], words: int = WORDS, seed: int = 0) -> models.Files:
    return models.checkpoint(shape, words=words, seed=seed)


def fill(hub: Hub) -> None:
    """A target, drafts that are good for it, and all kinds that are not."""
    llama = {"tags": ("llama", "text-generation")}
    child = (f"base_model:{TARGET}", f"base_model:finetune:{TARGET}")
    hub.add_repo(TARGET, model(models.BIG), downloads=9000, **llama)
    hub.add_repo(SMALL, model(ONE), downloads=5000, **llama)
    hub.add_repo(TUNED, model(ONE), downloads=7, **llama)
    hub.add_repo(MIDDLE, model(THREE), downloads=8000, **llama)
    hub.add_repo(WIDE, model({**ONE, "num_key_value_heads": 32}), downloads=6000, **llama)
    hub.add_repo(HEAD, models.head(TARGET, WORDS, 200), tags=("eagle3",))
    hub.add_repo("acme/Llama-8-1B", model(ONE, seed=1), **llama)
    hub.add_repo("acme/Llama-7-1B", model(ONE, words=5000), **llama)
    hub.add_repo("tuner/Llama-9-70B-Prose", model(models.BIG), tags=child)
    hub.add_repo("packer/Llama-9-70B-Instruct-AWQ", model({**models.BIG, **AWQ}), tags=child)
    hub.add_repo("acme/Llama-9-1B-GGUF", {"x-Q4_K_M.gguf": models.small_gguf()}, tags=("gguf",))
    hub.add_repo("heads/EAGLE3-for-another", models.head("acme/Zebra-70B", WORDS, 200), tags=child)
    hub.add_repo("heads/Llama-9-70B-EAGLE3", models.head("other/Moose-70B", WORDS, 200))
    unnamed = models.head("x", WORDS, 200)
    about = json.loads(str(unnamed["config.json"]))
    del about["speculators_config"]["verifier"]["name_or_path"]
    hub.add_repo("heads/an-eagle3-head", {**unnamed, "config.json": json.dumps(about)})
    hub.add_repo("acme/Llama-9-1B-Closed", model(ONE), gated="manual", **llama)
    hub.add_repo("acme/Llama-9-1B-Gone", model(ONE), **llama)
    hub.add_repo("acme/Llama-9-tiny-random", model(ONE), **llama)
    hub.add_repo("acme/Llama-9-1B-LoRA", {"adapter_config.json": "{}", "a.safetensors": b""})
    hub.add_repo("acme/a-painter", model(ONE), extra={"pipeline_tag": "text-to-image"})
    listed = {"safetensors": {"total": 70 * 10**9, "parameters": {"BF16": 70 * 10**9}}}
    hub.add_repo("acme/Llama-9-70B-Base", model(models.BIG), extra=listed)
    hub.add_repo("evil/\x1b[31m<script>|`", model(ONE), **llama)
    hub.add_repo("evil/..", model(ONE), **llama)


def vanish(hub: Hub) -> None:
    """Listed, and gone when somebody wants to read it."""
    headers = {"X-Error-Code": "RepoNotFound"}
    gone = "/api/models/acme/Llama-9-1B-Gone*"
    hub.fault("status", path=gone, times=None, code=404, headers=headers)


@pytest.fixture(scope="module")
def world() -> Iterator[Hub]:
    with Hub() as hub:
        fill(hub)
        vanish(hub)
        yield hub


@pytest.fixture(scope="module")
def asked(world: Hub, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One question, which most tests look at."""
    ran = Draftcheck(world, tmp_path_factory.mktemp("home"))(
        "recommend", TARGET, "--format", "json", "--gpu", "8x h200"
    )
    assert_calm(ran)
    COST[:] = world.log
    return ran


def rejected(ran: Ran) -> dict[str, dict[str, Any]]:
    return {row["draft"]: row for row in ran.json["rejected"]}


def test_good_drafts_are_ranked_by_what_is_known(asked: Ran) -> None:
    assert asked.code == 0
    rows = asked.json["candidates"]
    assert [row["rank"] for row in rows] == [1, 2, 3, 4, 5]
    full = [row["draft"] for row in rows if row["kind"] == "full"]
    # Equal costs: popularity. As many parameters but more cache, or more parameters: later,
    # however popular.
    assert full == [SMALL, TUNED, WIDE, MIDDLE]
    assert [row["draft"] for row in rows if row["kind"] == "eagle3"] == [HEAD]
    prices = [row["break_even_acceptance"] for row in rows]
    assert prices == sorted(prices) and 0 < prices[0] < 0.1
    assert all(row["speedup"] is None for row in rows), "nothing was measured"


def test_every_field_of_the_contract_is_there(asked: Ran, world: Hub) -> None:
    body = asked.json
    assert body["schema_version"] == 1 and body["engine"] is None
    assert body["target"]["ref"] == TARGET and body["target"]["revision"] == world.repos[TARGET].sha
    row = next(row for row in body["candidates"] if row["draft"] == SMALL)
    assert row["revision"] == world.repos[SMALL].sha
    assert row["verdict"] == "compatible" and row["reaction"] == "runs"
    assert row["size_ratio"] == pytest.approx(row["params"] / 68.5e9, rel=0.02)
    assert SMALL in row["setup"] and TARGET in row["setup"]
    assert "the same tokenizer" in row["why"] and "\n" not in row["why"]
    head = next(row for row in body["candidates"] if row["draft"] == HEAD)
    assert "names this target" in head["why"]


@pytest.mark.parametrize(
    ("draft", "rule", "words"),
    [
        ("acme/Llama-8-1B", "TRU001", "ids differ"),
        ("acme/Llama-7-1B", "config", "vocabulary of 5,120 rows"),
        ("tuner/Llama-9-70B-Prose", "TRU004", "as the target"),
        ("packer/Llama-9-70B-Instruct-AWQ", "TRU004", "however it is packed"),
        ("acme/Llama-9-70B-Base", "TRU004", "70B parameters"),
        ("acme/Llama-9-1B-GGUF", "listing", "GGUF files only"),
        ("heads/EAGLE3-for-another", "TRU104", "made for acme/Zebra-70B"),
        ("heads/Llama-9-70B-EAGLE3", "TRU104", "made for other/Moose-70B"),
        ("heads/an-eagle3-head", "head", "nothing ties it"),
        ("acme/Llama-9-1B-Closed", "read", "gated"),
        ("acme/Llama-9-1B-Gone", "read", "no such repo"),
        ("acme/Llama-9-tiny-random", "listing", "random"),
        ("acme/Llama-9-1B-LoRA", "listing", "adapter"),
        ("acme/a-painter", "listing", "text-to-image"),
        ("evil/..", "listing", "not a name"),
    ],
)
def test_each_bad_candidate_keeps_its_reason(asked: Ran, draft: str, rule: str, words: str) -> None:
    row = rejected(asked)[draft]
    assert row["rule"] == rule and words in row["saw"], row
    unread = draft.endswith(("Closed", "Gone"))
    assert row["verdict"] == ("undecided" if unread else "incompatible")


def test_nothing_is_lost_and_nothing_is_named_twice(asked: Ran, world: Hub) -> None:
    body = asked.json
    names = [row["draft"] for row in body["candidates"] + body["rejected"]]
    assert len(names) == len(set(names))
    assert set(names) == set(world.repos) - {TARGET}


def test_threads_and_caches_change_nothing(asked: Ran, world: Hub, tmp_path: Path) -> None:
    draftcheck = Draftcheck(world, tmp_path)
    for _ in range(2):  # an empty cache, then a full one
        again = draftcheck("recommend", TARGET, "--format", "json", "--gpu", "8x h200")
        assert {**again.json, "target": None} == {**asked.json, "target": None}


def test_what_it_costs(asked: Ran, world: Hub) -> None:
    """One tokenizer per digest, one list of files per repo, no weights."""
    texts = [entry for entry in COST if (entry.file or "").endswith("/tokenizer.json")]
    read = [entry for entry in texts if entry.status == 200]
    assert len(read) == 2, world.story()  # the target's, and the one of another family
    lists = [entry for entry in COST if entry.path == "/api/models"]
    assert len(lists) <= 10, world.story()
    least = sum(len(tokenizer_json(WORDS, seed)) for seed in (0, 1))
    assert sum(entry.wire for entry in COST) < 1_500_000 + least
    assert not world.leaks
    assert not [entry for entry in COST if "evil" in entry.path], world.story()


def test_text_for_people(world: Hub, tmp_path: Path) -> None:
    draftcheck = Draftcheck(world, tmp_path)
    ran = draftcheck("recommend", TARGET, "--engine", "vllm", "--limit", "2", "--verbose")
    assert ran.code == 0 and "requests," in ran.err
    assert f"5 drafts for {TARGET}" in ran.out
    assert "to switch it on (vllm" in ran.out and "--speculative-config" in ran.out
    assert MIDDLE not in ran.out.partition("turned away")[0]
    assert "\x1b" not in ran.out and r"\x1b[31m<script>" in ran.out
    before = world.requests
    again = draftcheck("recommend", TARGET, "--engine", "vllm", "--format", "markdown")
    assert "| 1 |" in again.out and "&lt;script" not in again.out and "\\<script\\>" in again.out
    # A second time: the questions, and those who could not be read.
    assert world.requests - before <= 16, world.story()
    offline = draftcheck("recommend", TARGET, "--offline", "--format", "json")
    assert offline.code == 0, offline.err
    known = [row["draft"] for row in offline.json["candidates"]]
    assert SMALL in known and HEAD in known


def test_a_size_and_a_gpu_turn_drafts_away(world: Hub, tmp_path: Path) -> None:
    draftcheck = Draftcheck(world, tmp_path)
    said = ("--engine", "vllm", "--format", "json")
    ran = draftcheck("recommend", TARGET, "--max-size", "600M", *said)
    assert {row["draft"] for row in ran.json["candidates"]} == {SMALL, TUNED, WIDE, HEAD}
    assert rejected(ran)[MIDDLE]["rule"] == "max-size"
    ran = draftcheck("recommend", TARGET, "--gpu", "24GiB", *said)
    assert ran.code == 1 and not ran.json["candidates"]
    assert rejected(ran)[SMALL]["rule"] == "MEM001"


def test_an_engine_that_translates_takes_another_vocabulary(world: Hub, tmp_path: Path) -> None:
    """llama.cpp did so before b9109; the verdict must be the one that pair gives."""
    draftcheck = Draftcheck(world, tmp_path)
    engine = ("--engine", "llama.cpp@b8000", "--format", "json")
    ran = draftcheck("recommend", TARGET, *engine)
    rows = {row["draft"]: row for row in ran.json["candidates"]}
    assert rows["acme/Llama-8-1B"]["reaction"] == "falls-back"
    pair = draftcheck("pair", TARGET, "acme/Llama-8-1B", *engine).json
    assert pair["verdict"] == rows["acme/Llama-8-1B"]["verdict"]


def test_a_hub_that_knows_no_expand_and_pages_shortly(hub: Hub, draftcheck: Draftcheck) -> None:
    fill(hub)
    hub.expands, hub.list_page = False, 4
    ran = draftcheck("recommend", TARGET, "--format", "json")
    assert_calm(ran)
    assert {row["draft"] for row in ran.json["candidates"]} >= {SMALL, TUNED, MIDDLE, HEAD}


def test_named_candidates_alone(hub: Hub, draftcheck: Draftcheck) -> None:
    fill(hub)
    ran = draftcheck(
        "recommend", TARGET, "--candidate", MIDDLE, "--candidate", "acme/nobody", "--format", "json"
    )
    assert ran.code == 0
    assert [row["draft"] for row in ran.json["candidates"]] == [MIDDLE]
    assert rejected(ran)["acme/nobody"]["rule"] == "read"
    assert not [entry for entry in hub.log if entry.path == "/api/models"]
    assert draftcheck("recommend", TARGET, "--candidate", "acme/nobody").code == 3
    assert draftcheck("recommend", "acme/nobody").code == 3
    assert draftcheck("recommend", HEAD).code == 2


def test_a_head_of_the_model_that_the_target_was_made_from(
    hub: Hub, draftcheck: Draftcheck
) -> None:
    hub.add_repo("me/Gazelle", model(models.BIG), tags=(f"base_model:{TARGET}",))
    hub.add_repo(HEAD, models.head(TARGET, WORDS, 200), tags=("eagle3",))
    [row] = draftcheck("recommend", "me/Gazelle", "--format", "json").json["candidates"]
    assert row["draft"] == HEAD and row["verdict"] == "degraded"
    assert "made for the model that this target was made from" in row["why"]


def test_gguf_drafts_for_a_gguf_target(hub: Hub, draftcheck: Draftcheck) -> None:
    big = models.gguf(WORDS)
    beside = {"big-Q4_K_M.gguf": big, "mtp-big-Q8_0.gguf": models.small_gguf(WORDS)}
    hub.add_repo("packer/Llama-9-70B-GGUF", beside, tags=("gguf",))
    files = {f"small-{tag}.gguf": models.small_gguf(WORDS) for tag in ("Q2_K", "Q4_K_M", "Q8_0")}
    hub.add_repo("packer/Llama-9-1B-GGUF", files, tags=("gguf",))
    other = models.small_gguf(WORDS, **{"tokenizer.ggml.model": ("string", "llama")})
    hub.add_repo("packer/Llama-8-1B-GGUF", {"x.gguf": other}, tags=("gguf",))
    hub.add_repo(SMALL, model(ONE))
    hub.add_repo(TUNED, {**model(ONE), "poems-Q8_0.gguf": models.small_gguf(WORDS)})
    ran = draftcheck(
        "recommend", "packer/Llama-9-70B-GGUF:Q4_K_M", "--engine", "llama.cpp", "--format", "json"
    )
    assert ran.code == 0, ran.out
    rows = ran.json["candidates"]
    drafts = ["packer/Llama-9-1B-GGUF/small-Q4_K_M.gguf", f"{TUNED}/poems-Q8_0.gguf"]
    assert [row["draft"] for row in rows if "mtp-" not in row["draft"]] == drafts
    assert "small-Q4_K_M.gguf" in rows[0]["setup"]
    assert "packer/Llama-8-1B-GGUF" in rejected(ran)
    assert rejected(ran)[SMALL]["rule"] == "listing"
    looked = {row["draft"] for row in (*rows, *ran.json["rejected"])}
    assert "packer/Llama-9-70B-GGUF/mtp-big-Q8_0.gguf" in looked, "a head beside the target"


def test_measured_trials_come_first(hub: Hub, draftcheck: Draftcheck, tmp_path: Path) -> None:
    for name in (TARGET, SMALL, MIDDLE, TUNED):
        shape = {TARGET: models.BIG, MIDDLE: THREE}.get(name, ONE)
        hub.add_repo(name, model(shape), downloads=1)
    trials = tmp_path / "trials"
    trials.mkdir()
    for number, (draft, speed) in enumerate(((MIDDLE, 1.8), (SMALL, 0.7))):
        lengths = [{"draft_tokens": 1, "tokens_per_pass": 1.5, "speedup": speed}]
        body = {"target": {"ref": TARGET}, "draft": {"ref": draft}, "lengths": lengths}
        more = {"device": "cuda:0", "dtype": "bfloat16", "broken": None}
        (trials / f"{number}.json").write_text(json.dumps({**body, **more}))
    (trials / "notes.json").write_text("[1]")
    ran = draftcheck("recommend", TARGET, "--trials", trials, "--format", "json")
    rows = ran.json["candidates"]
    # What is known not to pay stands last.
    assert [row["draft"] for row in rows] == [MIDDLE, TUNED, SMALL]
    assert [row["speedup"] for row in rows] == [1.8, None, 0.7]
    assert rows[0]["why"].startswith("measured 1.80x (cuda:0, bfloat16)")
    wrong = draftcheck("recommend", TARGET, "--trials", trials / "notes.json")
    assert wrong.code == 3 and "not a trial's report" in wrong.err


@pytest.mark.parametrize("place", ["datasets?cursor=Mjoy", "models?cursor=Mjoy", "models?cursor=2"])
def test_a_list_that_goes_on_elsewhere(hub: Hub, draftcheck: Draftcheck, place: str) -> None:
    """Somewhere else, in a circle, at a page that there is none of: never at another host."""
    fill(hub)
    link = f'<{hub.elsewhere_url}/api/{place}>; rel="next"'
    hub.fault("headers", path="/api/models", times=None, set={"Link": link})
    ran = draftcheck("recommend", TARGET, "--format", "json")
    assert not [entry for entry in hub.log if entry.origin == "elsewhere"], hub.story()
    words = "answered 400" if place.endswith("=2") else "goes on elsewhere"
    assert ran.code == 0 and words in ran.err, ran.err
