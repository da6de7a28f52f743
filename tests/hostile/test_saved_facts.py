"""Facts files from elsewhere: every field of every type, cut off anywhere, and paths in them."""

from __future__ import annotations

import dataclasses
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from draftcheck.values.facts import (
    ConfigFacts,
    Conversion,
    GgufFacts,
    HeadFacts,
    ModelFacts,
    Tensor,
    TokenizerFacts,
    WeightFacts,
    WeightFile,
)
from tests import make
from tests.conftest import Run
from tests.hostile.support import ANY, READ, assert_calm, examine, some, strict_json, write

GROUPS: dict[str, type] = {
    "tokenizer": TokenizerFacts,
    "config": ConfigFacts,
    "weights": WeightFacts,
    "gguf": GgufFacts,
    "conversion": Conversion,
    "head": HeadFacts,
}
VALUES: list[Any] = [
    5, -2, 2**70, 10**400, 1.5, True, "\ud800", [], [5], ["x"], [None], [[True]], {"x": 5},
    {"x": "y"}, {"x": ["uint32", 5]}, {"x": {"dtype": "F32"}},
]  # fmt: skip


@pytest.fixture
def saved(run: Run, good: Path, tmp_path: Path) -> dict[str, Any]:
    """What inspect writes for a folder."""
    assert run("inspect", good, "--output", tmp_path / "folder.facts.json").code == 0
    found: dict[str, Any] = json.loads((tmp_path / "folder.facts.json").read_text())
    return found


@pytest.fixture
def saved_gguf(run: Run, good_gguf: Path, tmp_path: Path) -> dict[str, Any]:
    """What inspect writes for a GGUF file."""
    assert run("inspect", good_gguf, "--output", tmp_path / "gguf.facts.json").code == 0
    found: dict[str, Any] = json.loads((tmp_path / "gguf.facts.json").read_text())
    return found


def attempt(run: Run, path: Path, body: object, good: Path, must_fail: bool) -> str:
    """Read the file alone and in a pair: facts, or one error that names it."""
    whole = body if isinstance(body, str) else json.dumps(body)
    write(path, whole)
    ran = run("inspect", path, "--format", "json")
    assert_calm(ran)
    assert ran.code == (3 if must_fail or not ran.out else 0), (whole[-300:], ran.err)
    if ran.code == 3:
        assert ran.out == "" and f"{path.name}: " in ran.err, whole[-300:]
        return ran.err
    strict_json(ran.out)
    if zlib.crc32(whole.encode()) % 3 == 0:  # there are many
        judged = run("pair", path, good, "--format", "json")
        assert_calm(judged)
        assert judged.code in ANY
        strict_json(judged.out)
    return ran.err


@pytest.mark.parametrize("group", [None, *GROUPS])
def test_every_field_with_every_kind_of_value(
    run: Run, good: Path, tmp_path: Path, saved: dict[str, Any], saved_gguf: dict[str, Any],
    group: str | None,
) -> None:  # fmt: skip
    base = saved_gguf if group == "gguf" else saved
    for field in dataclasses.fields(GROUPS[group] if group else ModelFacts):
        for value in some(VALUES, f"{group} {field.name}"):
            body = json.loads(json.dumps(base))
            (body.setdefault(group, {}) if group else body)[field.name] = value
            if field.name in ("ref", "name"):  # only a name to show
                attempt(run, tmp_path / "m.facts.json", body, good, False)
                continue
            attempt(run, tmp_path / "m.facts.json", body, good, clearly_wrong(field, value))


def clearly_wrong(field: dataclasses.Field[Any], value: Any) -> bool:
    """Whether no reading of the field's type lets the value through."""
    hint = str(field.type)
    unsaved = field.name in ("definition", "download", "downloaded")
    if unsaved or value in (-2, 10**400) or isinstance(value, float):
        return "Any" not in hint
    if hint.startswith(("str", "int", "bool")):
        return not isinstance(value, bool if "bool" in hint else int if "int" in hint else str) or (
            "int" in hint and isinstance(value, bool)
        )
    if hint.startswith(("tuple[", "frozenset", "Sequence")):
        return not isinstance(value, list)
    if hint.startswith(("Mapping", "Origin")) or field.name in GROUPS:
        return not isinstance(value, dict)
    return False


@pytest.mark.parametrize("kind", [Tensor, WeightFile])
def test_entries_of_weights(
    run: Run, good: Path, tmp_path: Path, saved: dict[str, Any], kind: type
) -> None:
    for field in dataclasses.fields(kind):
        for value in VALUES:
            body = json.loads(json.dumps(saved))
            files, tensors = body["weights"]["files"], body["weights"]["tensors"]
            entry = files[0] if kind is WeightFile else tensors["model.embed_tokens.weight"]
            entry[field.name] = value
            wrong = clearly_wrong(field, value)
            attempt(run, tmp_path / "m.facts.json", body, good, wrong)
    for value in VALUES:
        body = json.loads(json.dumps(saved))
        body["weights"].update(
            {"files": [value]} if kind is WeightFile else {"tensors": {"a": value}}
        )
        attempt(run, tmp_path / "m.facts.json", body, good, True)


SHAPES = [[2**62] * 9, [2**300], [-1, -1], [0] * 65, ["a", 10**9], [[0], 10**9], "ab", {"a": 1}, 5]


@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
def test_impossible_shapes(
    run: Run, good: Path, tmp_path: Path, saved: dict[str, Any], shape: Any
) -> None:
    """Products of sizes must stay numbers that can be divided and printed."""
    saved["weights"]["tensors"]["a"] = {"dtype": "F32", "shape": shape, "file": "x"}
    attempt(run, tmp_path / "m.facts.json", saved, good, True)


KEYS: list[Any] = [
    None, 5, "ab", "abc", [], ["uint32"], ["uint32", 1, 2], [5, 5], [None, None], ["", ""],
    ["uint33", 5], ["array", []], ["array[]", []], ["array[array[uint8]]", [[1]]],
    ["array[uint8", [1]], ["uint8]", 1], ["uint8", 256], ["uint8", -1], ["uint8", 1.5],
    ["uint8", "1"], ["uint8", None], ["int8", 200], ["uint64", 2**64], ["float32", "x"],
    ["float32", [1]], ["float32", 10**400], ["bool", 1], ["bool", None], ["string", 5],
    ["string", None], ["string", "\ud800"], ["string", ["a"]], ["array[string]", [5]],
    ["array[string]", "ab"[:0] or 5], ["array[uint8]", [256]], ["array[uint8]", ["1"]],
    ["array[int32]", [2**31]], ["array[int32]", [1.5]], ["array[uint64]", [2**64]],
    ["array[uint8]", 5], ["array[uint8]", {}], ["array[uint8]", {"count": "5"}],
    ["array[uint8]", {"count": -5}], ["array[uint8]", {"count": 5, "sha256": 5}],
    ["array[uint8]", {"count": 5, "x": 5}], ["array[float64]", ["x"]], {"uint8": 1, "b": 2},
]  # fmt: skip


@pytest.mark.parametrize("entry", KEYS, ids=range(len(KEYS)))
def test_keys_that_are_no_pairs(
    run: Run, good_gguf: Path, tmp_path: Path, saved_gguf: dict[str, Any], entry: Any
) -> None:
    for name in ("tokenizer.ggml.bos_token_id", "other"):
        saved_gguf["gguf"]["keys"][name] = entry
        attempt(run, tmp_path / "m.facts.json", saved_gguf, good_gguf, True)


@pytest.mark.parametrize("entry", [
    ["uint64", 2**64 - 1], ["int64", -(2**63)], ["float32", None], ["float64", 5], ["bool", False],
    ["array[float32]", [None, 1, 2.5]], ["array[uint64]", [2**64 - 1]], ["array[bool]", [1, 0]],
    ["array[string]", ["\udcff"]], ["array[uint8]", {"count": 10**12}], ["string", "\x1b[2J\udcff"],
])  # fmt: skip
def test_keys_that_are_sound(
    run: Run, good_gguf: Path, tmp_path: Path, saved_gguf: dict[str, Any], entry: Any
) -> None:
    for name in ("general.architecture", "tokenizer.ggml.scores", "other"):
        body = json.loads(json.dumps(saved_gguf))
        body["gguf"]["keys"][name] = entry
        attempt(run, tmp_path / "m.facts.json", body, good_gguf, False)


@pytest.mark.parametrize("body", [
    "", "{", "[]", "null", "5", "NaN", '"x"', "{}", '{"a": 1}', '{"draftcheck_facts": 2}',
    '{"draftcheck_facts": 0}', '{"draftcheck_facts": "1"}', '{"draftcheck_facts": true}',
    '{"draftcheck_facts": null}', '{"draftcheck_facts": [1]}', '{"draftcheck_facts": 1e999}',
    '{"draftcheck_facts": 1, "x": 1}', '{"draftcheck_facts": 1, "\\u001b[2J\\ud800": 1}',
    '{"draftcheck_facts": 1, "tokenizer": {"x": 1}}', '{"draftcheck_facts": 1, "tokenizer": null}',
    '{"draftcheck_facts": 1, "gguf": {}}', '{"draftcheck_facts": 1, "conversion": {}}',
    '{"draftcheck_facts": 1, "config": {"rope_scaling": ' + "[" * 500 + "]" * 500 + "}}",
    '{"draftcheck_facts": 1, "config": {"vocab_size": 2097153}}',
    '{"draftcheck_facts": 1, "tokenizer": {"tokens": ["a", 5]}}',
    '{"draftcheck_facts": 1, "tokenizer": {"tokens": "ab"}}',
    '{"draftcheck_facts": 1, "tokenizer": {"tokens": {"a": 0}}}',
    '{"draftcheck_facts": 1, "tokenizer": {"tokens": ["\\ud800"]}}',
    '{"draftcheck_facts": 1, "tokenizer": {"bos_id": -7, "tokens": ["a"]}}',
    '{"draftcheck_facts": 1, "tokenizer": {"tokens": ["a"], "special": [1]}}',
    '{"draftcheck_facts": 1, "tokenizer": {"tokens": ["a"], "added": [-1]}}',
    '{"draftcheck_facts": 1, "tokenizer": {"padding": [0]}}',
    "<html>", "\ufeff{}", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
])  # fmt: skip
def test_bodies_that_are_no_facts(run: Run, good: Path, tmp_path: Path, body: str) -> None:
    path = write(tmp_path / "m.facts.json", body)
    assert "m.facts.json: " in examine(run, path, READ, good).err


@pytest.mark.parametrize("body", [
    '{"draftcheck_facts": 1}', '{"draftcheck_facts": 1, "tokenizer": {}, "weights": {}}',
    '{"draftcheck_facts": 1, "ref": 5}', '{"draftcheck_facts": 1, "gguf": null}',
    '{"draftcheck_facts": 1, "gguf": {"version": 3, "keys": {}}}',
    '{"draftcheck_facts": 1, "kind": "\\u001b[2J", "role": "\\u202e", "notes": ["\\u001b"]}',
    '{"draftcheck_facts": 1, "tokenizer": {"tokens": [], "length": 5, "bos_id": 3}}',
    '{"draftcheck_facts": 1, "tokenizer": {"tokens": ["a"], "special": [0], "eos_id": 99}}',
    '{"draftcheck_facts": 1, "config": {"rope_scaling": {"factor": NaN}, "architectures": []}}',
    '{"draftcheck_facts": 1, "conversion": {"model": "gpt2"}, "config": {"vocab_size": 2000000}}',
])  # fmt: skip
def test_bodies_that_say_little(run: Run, good: Path, tmp_path: Path, body: str) -> None:
    examine(run, write(tmp_path / "m.facts.json", body), ANY, good)


def test_cut_off_anywhere(run: Run, tmp_path: Path, saved_gguf: dict[str, Any]) -> None:
    whole = json.dumps(saved_gguf).encode()
    path = tmp_path / "m.facts.json"
    for cut in range(0, len(whole), 97):
        write(path, whole[:cut])
        ran = run("inspect", path)
        assert_calm(ran)
        assert ran.code == 3
        assert "m.facts.json: not valid JSON" in ran.err


def test_a_path_in_the_facts_is_never_opened(
    run: Run, good: Path, tmp_path: Path, saved: dict[str, Any]
) -> None:
    """definition names a file of the machine that read the model."""
    saved["tokenizer"]["definition"] = str(make.folder(tmp_path / "m") / "tokenizer.json")
    err = attempt(run, tmp_path / "x.facts.json", saved, good, True)
    assert "unknown field 'definition'" in err


def test_facts_of_hostile_files_come_back(run: Run, tmp_path: Path) -> None:
    """What inspect wrote it must also read, whatever the model's texts are."""
    tokens = [
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\0",
        b"\x1b[2J",
        "\u202e".encode(),
        *[b"x%d" % i for i in range(95)],
    ]
    model = make.gguf(tmp_path / "a.gguf", tokens, keys={"x\u202e": ("array[string]", [b"\xff"])})
    path = tmp_path / "a.facts.json"
    assert run("inspect", model, "--output", path).code == 0
    examine(run, path, ANY, model)
    body = run("pair", model, path, "--format", "json").json
    assert body["vocabulary"]["relation"] == "identical"
