"""Repos and answers made to hurt: one line, exit 3, no file but those of the repos named."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.hub import LFS, Hub, Plain, Virtual, models
from tests.hub.process import Draftcheck, assert_calm, assert_discreet, reason
from tests.hub.storm import Case, Storm
from tests.models.hub.test_weather import SHAPE, WORDS

pytest.importorskip("huggingface_hub")
PAIR = ("pair", "org/bad", "org/good", "--format", "json", "--engine", "vllm")
INDEX = "model.safetensors.index.json"
TOKEN = "hf_" + "TokenOfTheVictim" * 2


def sound() -> models.Files:
    return models.checkpoint(SHAPE, count=3, words=WORDS)


def bad(**changes: Any) -> Callable[[Hub], None]:
    """A sound repo with some files changed (None: removed), made now or when it is time."""

    def arrange(hub: Hub) -> None:
        hub.add_repo("org/good", sound())
        files = sound()
        for key, content in changes.items():
            name = FILES.get(key, key)
            files.pop(name, None)
            if content is not None:
                files[name] = content() if callable(content) else content
        hub.add_repo("org/bad", files)
        hub.add_repo("org/victim", models.small_checkpoint(), private=True)
        hub.add_token(TOKEN, repos={"org/victim"})

    return arrange


def mend(hub: Hub) -> None:
    hub.add_repo("org/bad", sound())


FILES = {
    "shard": "model-00002-of-00003.safetensors",
    "index": INDEX,
    "config": "config.json",
    "tokenizer": "tokenizer.json",
    "tokenizer_config": "tokenizer_config.json",
}


def index(change: Callable[[dict[str, str]], object]) -> str:
    """The index of the sound repo with another weight_map."""
    text = sound()[INDEX]
    assert isinstance(text, str)
    body = json.loads(text)
    made = change(body["weight_map"])
    return json.dumps({**body, "weight_map": made if made is not None else body["weight_map"]})


def leading(where: str) -> str:
    """One tensor is said to be in another place."""
    return index(lambda table: table.update({"model.norm.weight": where}))


def many() -> Plain:
    names = {f"t{i}": f"model-{i:06d}-of-200000.safetensors" for i in range(200_000)}
    return Plain(index(lambda table: {**table, **names}).encode())


def header(body: object, size: int | None = None, length: int | None = None) -> Virtual:
    """A safetensors file with any header."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = struct.pack("<Q", len(text) if length is None else length) + text
    return Virtual(head, len(head) if size is None else size)


def tensor(start: int = 0, stop: int = 8, **changes: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [2], "data_offsets": [start, stop], **changes}


DEEP = b'{"a":' * 100_000
UP = "../../../../org/victim/resolve/main/model.safetensors"
REPOS = [
    Case("index up", bad(index=leading(UP)), PAIR, ["index"]),
    Case("index up and down", bad(index=leading(f"x/{UP}")), PAIR, ["index"]),
    Case("index absolute", bad(index=leading("/etc/passwd")), PAIR, ["index"]),
    Case("index drive", bad(index=leading("C:\\x.safetensors")), PAIR, ["index"]),
    Case("index address", bad(index=leading("http://localhost/x.safetensors")), PAIR, ["index"]),
    Case("index quoted", bad(index=leading("%2e%2e%2fx.safetensors")), PAIR, ["index"]),
    Case("index query", bad(index=leading("model.safetensors?x=")), PAIR, ["index"]),
    Case("index of pickles", bad(index=leading("original/consolidated.00.pth")), PAIR, ["index"]),
    Case("index missing", bad(index=leading("model-00009-of-00003.safetensors")), PAIR, ["index"]),
    Case("index of many", bad(index=many), PAIR, ["index"], most_bytes=12_000_000),
    Case("index a list", bad(index=index(lambda table: list(table))), PAIR, ["index"]),
    Case("index of numbers", bad(index=index(lambda t: dict.fromkeys(t, 7))), PAIR, ["index"]),
    Case("index deep", bad(index=Plain(DEEP)), PAIR, ["index"]),
    Case("index cut", bad(index='{"weight_map": {"a'), PAIR, ["index"]),
    Case("header 2^63", bad(shard=header({}, 10**10, 2**63)), PAIR, ["model-00002"]),
    Case("header 2^40", bad(shard=header({}, 10**13, 2**40)), PAIR, ["model-00002"]),
    Case("header 120 MB", bad(shard=header(b"{}", 10**10, 120_000_000)), PAIR, ["model-00002"]),
    Case("header past the end", bad(shard=header({}, 1000, 5000)), PAIR, ["model-00002"]),
    Case("header 0", bad(shard=header(b"", 5000)), PAIR, ["model-00002"]),
    Case("seven bytes", bad(shard=LFS(b"1234567")), PAIR, ["model-00002"]),
    Case("empty shard", bad(shard=LFS(b"")), PAIR, ["model-00002"]),
    Case("header a list", bad(shard=header([1, 2])), PAIR, ["model-00002"]),
    Case("tensor a list", bad(shard=header({"a": [1]})), PAIR, ["model-00002"]),
    Case("header deep", bad(shard=header(DEEP)), PAIR, ["model-00002"]),
    Case("overlap", bad(shard=header({"a": tensor(), "b": tensor(4, 12)}, 200)), PAIR, ["00002"]),
    Case("hole", bad(shard=header({"a": tensor(8, 16)}, 200)), PAIR, ["model-00002"]),
    Case("too short", bad(shard=header({"a": tensor()}, 70)), PAIR, ["model-00002"]),
    Case("too long", bad(shard=header({"a": tensor()}, 10**9)), PAIR, ["model-00002"]),
    Case("shape", bad(shard=header({"a": tensor(shape=[2**40, 2**40])})), PAIR, ["model-00002"]),
    Case("negative", bad(shard=header({"a": tensor(-8, 0)})), PAIR, ["model-00002"]),
    Case("dtype", bad(shard=header({"a": tensor(dtype="X\x1b[2J")})), PAIR, ["model-00002"]),
    Case("not UTF-8", bad(shard=header(b'{"\xff": 1}')), PAIR, ["model-00002"]),
    Case("HTML saved as a shard", bad(shard=LFS(b"<!doctype html>" * 99)), PAIR, ["model-00002"]),
    Case("config deep", bad(config=Plain(DEEP)), PAIR, ["config.json"]),
    Case("config of digits", bad(config='{"vocab_size": ' + "9" * 10_000 + "}"), PAIR, ["config"]),
    Case("config a list", bad(config="[]"), PAIR, ["config.json"]),
    Case("config UTF-16", bad(config="{}".encode("utf-16")), PAIR, ["config.json"]),
    Case("config 2 GB of spaces", bad(config=Virtual(b" " * 100, 2 << 30)), PAIR, ["config.json"]),
    Case("tokenizer deep", bad(tokenizer=Plain(DEEP)), PAIR, ["tokenizer.json"]),
    Case("tokenizer 40 GB", bad(tokenizer=Virtual(b"{", 40 * 10**9)), PAIR, ["tokenizer.json"]),
    Case(
        "id 10^12",
        bad(tokenizer=json.dumps({"model": {"type": "BPE", "vocab": {"a": 10**12}, "merges": []}})),
        PAIR,
        ["tokenizer.json"],
    ),
]


def listed(change: Callable[[dict[str, Any]], object]) -> Callable[[Hub], None]:
    """A listing that lies."""

    def edit(body: bytes) -> bytes:
        answer = json.loads(body)
        if not isinstance(answer, dict):
            return body  # the tree is sound
        made = change(answer)
        return json.dumps(answer if made is None else made).encode()

    def arrange(hub: Hub) -> None:
        bad()(hub)
        hub.fault("edit", path="/api/models/org/bad*", times=None, do=edit)

    return arrange


def rows(**changes: Any) -> Callable[[dict[str, Any]], object]:
    """Every row of the list of files changed."""

    def change(answer: dict[str, Any]) -> None:
        for row in answer["siblings"]:
            row.update(changes)
            if "lfs" in row and "lfs" not in changes:
                row["lfs"].update({k: v for k, v in changes.items() if k == "size"})

    return change


def strange_names(answer: dict[str, Any]) -> None:
    names = ["../../x.safetensors", "/etc/passwd", "a\\..\\b.safetensors", "C:x.safetensors"]
    names += ["x\0.safetensors", "n" * 4000, "", ".", "..", "a//b.safetensors", "a/./b.json"]
    names += ["\x1b]0;pwned\x07.safetensors", "\u202egnp.safetensors"]
    rows = [{"rfilename": name, "size": 10, "blobId": "0" * 40} for name in names]
    answer["siblings"] = [*rows, 7, None, {"size": 3}, {"rfilename": 9}, *answer["siblings"]]


def crowded(answer: dict[str, Any]) -> None:
    answer["siblings"] = [{"rfilename": f"f{i}", "size": 1} for i in range(300_000)]


def no_tokenizer_digest(answer: dict[str, Any]) -> None:
    for row in answer["siblings"]:
        row["blobId"] = "f" * 40


LISTINGS = [
    Case("a list", listed(lambda answer: [answer]), PAIR, ["org/bad"]),
    Case("no commit", listed(lambda a: a.pop("sha") and None), PAIR, ["org/bad"]),
    Case("odd commit", listed(lambda a: a.update(sha="../../x")), PAIR, ["org/bad"]),
    Case("long commit", listed(lambda a: a.update(sha="a" * 10**6)), PAIR, ["org/bad"]),
    Case("odd name", listed(lambda a: a.update(id="../../etc", modelId=9)), PAIR, ["org/bad"]),
    Case("no files", listed(lambda a: a.update(siblings=None)), PAIR, ["org/bad"]),
    Case("empty", listed(lambda a: a.update(siblings=[])), PAIR, ["org/bad"]),
    Case("too many files", listed(crowded), PAIR, ["org/bad"]),
    Case("other digests", listed(no_tokenizer_digest), PAIR, ["org/bad", "digest"]),
    Case("size 10", listed(rows(size=10)), PAIR, ["org/bad"]),
]
HARMLESS = [
    Case("size text", listed(rows(size="12")), PAIR),
    Case("size 2^70", listed(rows(size=2**70)), PAIR),
    Case("size -1", listed(rows(size=-1)), PAIR),
    Case("strange names beside", listed(strange_names), PAIR),
    Case(
        "remote code",
        bad(
            tokenizer_config=json.dumps(
                {"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["org/x--e.Evil", None]}}
            ),
            evil="import os",
        ),
        PAIR,
    ),
    Case("pickles beside", bad(**{"pytorch_model.bin": LFS(b"\x80\x04"), "x.pkl": b"."}), PAIR),
    Case("huge template", bad(**{"chat_template.jinja": "{{ 'a' * 10**9 }}" * 1000}), PAIR),
]
EVERY = [*REPOS, *LISTINGS, *HARMLESS]


@pytest.fixture(scope="module")
def storm(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Storm]:
    asked = [
        item.callspec.params["case"]
        for item in request.session.items
        if item.module is request.module and "case" in getattr(item, "fixturenames", ())
    ]
    mended = [Case(**{**vars(case), "repair": mend, "env": {"HF_TOKEN": TOKEN}}) for case in asked]
    running = Storm(mended, tmp_path_factory.mktemp("hostile"))
    yield running
    running.close()


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
def test_a_hostile_repo(case: Case, storm: Storm) -> None:
    outcome = storm.outcome(case)
    ran = outcome.first
    assert_calm(ran)
    if case.says:
        line = reason(ran)
        assert len(line) < 500 and not any(ord(letter) < 32 for letter in line)
        for word in case.says:
            assert word in line, line
    else:
        assert ran.code in (0, 3), ran.err
    assert not outcome.leaks and TOKEN not in ran.out + ran.err
    for entry in outcome.log:
        assert entry.origin != "elsewhere" and ".." not in entry.path
        assert entry.file is None or entry.file.startswith(("org/bad/", "org/good/")), outcome.story
        assert not entry.path.endswith((".pth", ".bin", ".pkl", ".py")), outcome.story
    assert len(outcome.log) <= 60, outcome.story
    assert outcome.bytes <= case.most_bytes, outcome.story
    assert outcome.second is None or outcome.second.code == 0, outcome.second.err


def test_words_of_the_server_are_made_harmless(hub: Hub, draftcheck: Draftcheck) -> None:
    for status in (400, 403, 404, 418, 451):
        text = "\x9b2J\x07 ::error::pwned " + "long " * 2000
        hub.fault("status", code=status, headers={"X-Error-Message": text, "X-Error-Code": text})
        ran = draftcheck("pair", "org/bad", "org/good")
        line = reason(ran)
        assert len(line) < 700 and "\x9b" not in ran.err and "\x07" not in ran.err
        assert not any(line.startswith("::") for line in ran.err.splitlines())


def test_pickles_only(hub: Hub, draftcheck: Draftcheck) -> None:
    files = sound()
    for name in list(files):
        if name.endswith((".safetensors", INDEX)):
            del files[name]
    files["pytorch_model.bin"] = Virtual(b"PK\x03\x04", 10**10)
    hub.add_repo("org/bad", files)
    hub.add_repo("org/good", sound())
    ran = draftcheck("pair", "org/bad", "org/good", "--engine", "vllm")
    assert_calm(ran)
    assert ran.code == 3 or "pickle" in ran.out + ran.err
    assert not hub.asked("org/bad/pytorch_model.bin")


def test_pages_that_lead_elsewhere(hub: Hub, draftcheck: Draftcheck) -> None:
    """A Hub without sizes in its info answer is asked for the tree, page by page."""
    hub.add_repo("org/a", models.small_checkpoint())

    def without_sizes(body: bytes) -> bytes:
        answer = json.loads(body)
        answer["siblings"] = [{"rfilename": row["rfilename"]} for row in answer["siblings"]]
        return json.dumps(answer).encode()

    def info(**options: Any) -> None:
        hub.reset()
        hub.fault("edit", path="/api/models/org/a", do=without_sizes, times=None)
        hub.fault("edit", path="/api/models/org/a/revision/*", do=without_sizes, times=None)
        if options:
            hub.fault("headers", path="/api/models/org/a/tree/*", times=None, **options)

    hub.tree_page = 3
    info()
    ran = draftcheck("pair", "org/a", "org/a", "--engine", "vllm")
    assert ran.code == 0, ran.err
    assert len([entry for entry in hub.log if "/tree/" in entry.path]) >= 3
    places = (
        f"{hub.elsewhere_url}/api/models/org/a/tree/main?cursor=1",
        f"{hub.url}/api/models/org/other/tree/main",
        f"{hub.url}/api/models/org/a/tree/{hub.repos['org/a'].sha}?recursive=true",
        "file:///etc/passwd",
    )
    for number, where in enumerate(places):
        info(set={"Link": f'<{where}>; rel="next"'})
        other = Draftcheck(hub, draftcheck.home / str(number), TOKEN)
        hub.add_token(TOKEN)
        ran = other("pair", "org/a", "org/a", "--engine", "vllm")
        assert "org/a" in reason(ran)
        assert_discreet(hub, "org/a")
        assert hub.requests <= 110


def test_range_ignored_on_forty_gigabytes(hub: Hub, draftcheck: Draftcheck) -> None:
    hub.add_repo("org/a", {"a-Q4_K_M.gguf": models.gguf(), "a-Q8_0.gguf": models.gguf()})
    hub.fault("ignore_range", origin="cdn", times=None)
    ran = draftcheck("pair", "org/a:Q4_K_M", "org/a:Q8_0")
    assert_calm(ran)
    assert ran.code in (0, 3), ran.err
    assert hub.bytes < 200_000_000, hub.story()
