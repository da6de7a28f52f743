"""Condensed facts: a few kB, and the same verdicts as from the whole files."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import pytest

from draftcheck.errors import ReadError
from draftcheck.judge import questions
from draftcheck.judge.compare import compare
from draftcheck.judge.condensed import facts as condensed
from draftcheck.judge.condensed import folded_tensors, pack_ids, token_tables, unpack_ids
from draftcheck.judge.condensed import pairs as condensed_pairs
from draftcheck.judge.decide import judge, judge_methods
from draftcheck.memory import gpus
from draftcheck.models.read import read
from draftcheck.models.refs import parse
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import ModelFacts, Tensor
from draftcheck.values.verdicts import EngineVerdict
from tests.conftest import ROOT
from tests.judge.rule_cases import cases

PAIR = ROOT / "fixtures" / "pair"


def again(facts: ModelFacts) -> ModelFacts:
    """Condensed, written, read and restored."""
    return condensed.restore(json.loads(json.dumps(condensed.condense(facts))), facts.ref)


def through_notes(comparison: Comparison) -> Comparison:
    notes = json.loads(json.dumps(condensed_pairs.pair_notes(comparison)))
    target = again(comparison.target)
    draft = None if comparison.draft is None else again(comparison.draft)
    return condensed_pairs.compare(target, draft, notes)


def heart(verdict: EngineVerdict) -> dict[str, Any]:
    return {
        "engine": (verdict.engine, verdict.version, verdict.method),
        "said": (str(verdict.reaction), str(verdict.verdict), verdict.decided_by),
        "findings": [(f.rule, str(f.outcome)) for f in verdict.findings],
        "memory": verdict.memory,
    }


@pytest.fixture
def no_small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases have tiny vocabularies; make stand-ins of them all the same."""
    monkeypatch.setattr(token_tables, "SMALL", 0)


def test_every_case_gives_the_same_verdict(no_small_tables: None) -> None:
    wrong = []
    for case in cases():
        comparison, question = case.comparison(), case.question()
        restored = judge_methods(through_notes(comparison), question)
        shown = [finding.saw for verdict in restored for finding in verdict.findings]
        assert not [saw for saw in shown if re.search(r"~[0-9a-f]{16}\.", saw)], case.name
        ours = [heart(v) for v in judge_methods(comparison, question)]
        theirs = [heart(v) for v in restored]
        if ours != theirs:
            wrong.append(f"{case.name}: {ours} {theirs}")
    assert not wrong, f"{len(wrong)} of {len(cases())}\n" + "\n".join(wrong[:5])


def test_whole_pairs_give_the_same_verdicts_on_every_engine() -> None:
    for target, draft in (("target", "draft"), ("target.gguf", "draft.gguf")):
        facts = [read(parse(str(PAIR / name))) for name in (target, draft)]
        assert_same_everywhere(compare(*facts), small=16_000)
        assert_same_everywhere(compare(facts[0], None), small=16_000)


def assert_same_everywhere(comparison: Comparison, small: int) -> None:
    """Every engine at its newest version, with and without a GPU."""
    restored = through_notes(comparison)
    assert restored.vocabulary == comparison.vocabulary
    assert restored.behaviour == comparison.behaviour
    for said in ({}, {"gpu": "rtx-4090", "context": 4096}):
        asked = questions.ask([], circumstances=circumstances(**said))
        ours = judge(comparison, asked, explicit=True)
        theirs = judge(restored, asked, explicit=True)
        assert [heart(v) for v in ours.engines] == [heart(v) for v in theirs.engines]
    for _, facts in comparison.sides:
        size = len(json.dumps(condensed.condense(facts)))
        assert size < small, f"{facts.ref}: {size:,} bytes"


def circumstances(**said: Any) -> Circumstances:
    return gpus.placed(Circumstances(**said))


@pytest.mark.realdata
def test_real_vocabularies_give_the_same_verdicts(realdata: Path) -> None:
    files = sorted((realdata / "gguf-vocab").glob("*.gguf"))[:3]
    folders = sorted(path for path in (realdata / "tokenizers").iterdir() if path.is_dir())[:3]
    for group in (files, folders):
        facts = [read(parse(str(path))) for path in group]
        for target, draft in combinations(facts, 2):
            assert_same_everywhere(compare(target, draft), small=24_000)


def test_fingerprints_tell_vocabularies_apart() -> None:
    target, draft = (read(parse(str(PAIR / name))) for name in ("target", "draft"))
    gguf = read(parse(str(PAIR / "target.gguf")))
    assert condensed.fingerprint(target) == condensed.fingerprint(draft)
    assert condensed.fingerprint(target) == condensed.fingerprint(gguf)
    tokens = list(target.tokenizer.tokens or ())
    changed = replace(target.tokenizer, tokens=[*tokens[:9], b"other", *tokens[10:]])
    assert token_tables.fingerprint(changed) != condensed.fingerprint(target)
    special = replace(changed, special=changed.special | {9})
    assert token_tables.family(special) != token_tables.family(changed)
    moved = replace(target.tokenizer, tokens=[b"ab", b"c"], added=frozenset(), special=frozenset())
    other = replace(moved, tokens=[b"a", b"bc"])
    assert token_tables.fingerprint(moved) != token_tables.fingerprint(other)


def test_without_notes_other_vocabularies_are_unknown(no_small_tables: None) -> None:
    target = read(parse(str(PAIR / "target")))
    tokens = list(target.tokenizer.tokens or ())
    other = replace(
        target,
        tokenizer=replace(target.tokenizer, tokens=[*tokens[:9], b"other", *tokens[10:]], files={}),
    )
    found = condensed_pairs.compare(again(target), again(other))
    assert str(found.vocabulary.relation) == "unknown"
    assert found.vocabulary.differing_ids is None
    noted = through_notes(compare(target, other))
    assert noted.vocabulary == compare(target, other).vocabulary


def test_tensors_fold_without_loss() -> None:
    names = {f"model.layers.{i}.mlp.experts.{e}.w1.weight": (4, i + 1) for i in range(3, 9)
             for e in range(16) if (i, e) != (5, 7)}  # fmt: skip
    names |= {f"model.layers.{i}.norm.weight": (8,) for i in range(9)}
    names |= {"lm_head.weight": (10, 8), "odd*name.0": (1,), "x.**.007": (), "0.a": (2,)}
    found = {name: Tensor("BF16", shape, "", 2) for name, shape in names.items()}
    rows = json.loads(json.dumps(folded_tensors.fold(found)))
    folded = folded_tensors.FoldedTensors(rows, "here")
    assert dict(folded) == found
    assert len(folded) == len(found)
    assert len(rows) < len(found) / 4


@pytest.mark.parametrize(
    "entry",
    [
        {},
        [],
        {"condensed": 2},
        {"condensed": 1, "kind": "hub", "table": 3},
        {"condensed": 1, "kind": "hub", "table": {"count": 1 << 40, "digest": "a" * 64}},
        {"condensed": 1, "kind": "hub", "table": {"count": 9, "digest": "<b>" * 9}},
        {"condensed": 1, "kind": "hub", "table": {"count": 9, "digest": "a" * 64, "texts": [1]}},
        {"condensed": 1, "kind": "hub", "table": {"count": 9, "digest": "a" * 64},
         "ids": {"special": "0-99"}},
        {"condensed": 1, "kind": "hub", "table": {"count": 9, "digest": "a" * 64},
         "ids": {"special": "0-9999999999999"}},
        {"condensed": 1, "kind": "hub", "tensors": [["a.*", ["0-99999999"], "F32", [1], 4]]},
        {"condensed": 1, "kind": "hub", "tensors": [["a.*", [], "F32", [1], 4]]},
        {"condensed": 1, "kind": "hub", "tensors": [["a", [], "F32", [-1], 4]]},
        {"condensed": 1, "kind": "hub", "gguf": {"version": 3},
         "keys": {"a": ["int32", {"runs": 1}]}},
        {"condensed": 1, "kind": "hub", "unheard": 1},
        # Numbers that would be spelled out to gigabytes.
        {"condensed": 1, "kind": "hub", "table": {"count": (1 << 24) - 1, "digest": "a" * 64}},
        {"condensed": 1, "kind": "hub", "table": {"count": 9, "digest": "a" * 64,
                                                  "undefined": "0-16777214"}},
        {"condensed": 1, "kind": "hub", "table": {"count": 9, "digest": "a" * 64,
                                                  "padding": "3-16777214"}},
        {"condensed": 1, "kind": "hub", "table": {"count": 9, "digest": "a" * 64, "more": 1}},
        {"condensed": 1, "kind": "hub", "table": {"count": 9, "digest": "a" * 64,
                                                  "bytes_from": "0"}},
        {"condensed": 1, "kind": "hub", "table": {"count": 9, "digest": "a" * 64},
         "ids": {"other": "1"}},
        {"condensed": 1, "kind": "hub", "tensors": [["a.*", ["0-1999999"], "F32", [1], 4]]},
        {"condensed": 1, "kind": "hub", "tensors": [["a.*.*", ["", "0-9999999"], "F32", [1], 4]]},
        {"condensed": 1, "kind": "hub",
         "tensors": [["a" * 10_000 + ".*", ["0-99999"], "F32", [1], 4]]},
        {"condensed": 1, "kind": "hub", "gguf": {"version": 3},
         "keys": {name: ["array[int32]", {"runs": [[1, 1 << 21]]}] for name in "abc"}},
    ],
)  # fmt: skip
def test_nonsense_is_refused_in_one_line(entry: Any) -> None:
    with pytest.raises(ReadError) as caught:
        condensed.restore(entry, "somewhere")
    assert "\n" not in caught.value.message
    assert caught.value.message.startswith("somewhere")


def test_many_large_tables_at_once_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_tables, "_LIVE", WeakValueDictionary())
    monkeypatch.setattr(token_tables, "MOST_TOKENS", 2500)

    def table(letter: str) -> token_tables.TokenTable:
        return token_tables.unpack({"count": 1000, "digest": letter * 40}, "here")

    held = [table("p"), table("q"), table("p")]
    assert held[0] is held[2]
    with pytest.raises(ReadError, match=r"^here: .* in all vocabularies at once$"):
        table("r")
    held.clear()
    assert len(table("r")) == 1000


VOCABULARY = {
    "relation": "differs", "differing_ids": 1, "differences": [[5, "a", "b"]],
    "only_special": False, "overlap": 0.5, "same_file": False,
}  # fmt: skip


@pytest.mark.parametrize(
    "notes",
    [
        {"vocabulary": 3},
        {"behaviour": 1},
        {"behaviour": [1, "x"]},
        {"seen": {"a": "b"}},
        {"seen": {"a": ["ok", 1]}},
        {"differing": {}},
        {"differing": {"ids": "0-9999999999", "target": {}, "draft": {}}},
        {"unheard": 1},
        {"vocabulary": {**VOCABULARY, "differing_ids": "x"}},
        {"vocabulary": {**VOCABULARY, "differing_ids": 10**400}},
        {"vocabulary": {**VOCABULARY, "overlap": float("nan")}},
        {"vocabulary": {**VOCABULARY, "overlap": []}},
        {"vocabulary": {**VOCABULARY, "differences": [["5", "a", "b"]]}},
        {"vocabulary": {**VOCABULARY, "differences": [[5, "\ud800", "b"]]}},
    ],
)
def test_notes_that_make_no_sense_are_refused(notes: Any) -> None:
    target = again(read(parse(str(PAIR / "target"))))
    with pytest.raises(ReadError) as caught:
        condensed_pairs.compare(target, again(target), notes)
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 600


HOSTILE = (
    None, True, 0, -1, 2**31, 2**64, 10**400, 1.5, float("nan"), float("inf"), "", "x", "a" * 9999,
    "\x1b[31m", "\ud800", "0-1048575", "1-99999999999999", "5,4,3", "\u00b2", [], [[]], {}, ["x"],
    {"runs": [[1, 10**7]]}, {"count": 10**30}, [0] * 500, "array[int32]", "blk.*.*",
)  # fmt: skip


def places(entry: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys: Iterable[Any] = ()
    if isinstance(entry, dict):
        keys = entry
    elif isinstance(entry, list):
        keys = range(min(len(entry), 6))
    for key in keys:
        yield (*path, key)
        yield from places(entry[key], (*path, key))


def spoilt(entry: Any, chance: random.Random) -> Any:
    """One cell is another, is missing, or has company."""
    entry = copy.deepcopy(entry)
    *path, key = chance.choice([place for place in places(entry) if len(place) > 1])
    part = entry
    for step in path:
        part = part[step]
    if isinstance(part, dict) and chance.random() < 0.2:
        part.pop(key)
    else:
        part[key] = copy.deepcopy(chance.choice(HOSTILE))
    return entry


@pytest.mark.parametrize("name", ["target", "target.gguf"])
def test_a_wrong_cell_anywhere_is_refused_or_harmless(name: str) -> None:
    """500 lines of a lock with one wrong cell: a ReadError in one line, or a verdict."""
    target = read(parse(str(PAIR / name)))
    tokens = list(target.tokenizer.tokens or ())
    changed = replace(target.tokenizer, tokens=[*tokens[:5], b"x", *tokens[6:]], files={})
    draft = replace(target, tokenizer=changed)
    notes = condensed_pairs.pair_notes(compare(target, draft))
    lines = json.loads(json.dumps([condensed.condense(target), condensed.condense(draft), notes]))
    asked = questions.ask(["llama.cpp", "vllm"], circumstances=circumstances(gpu="rtx-4090"))
    for seed in range(250):
        chance = random.Random(seed)
        ours, theirs, noted = spoilt(lines, chance)
        try:
            facts = condensed.restore(ours, "target"), condensed.restore(theirs, "draft")
            judge(condensed_pairs.compare(*facts, noted), asked, explicit=True)
        except ReadError as error:
            assert "\n" not in error.message, seed
            assert len(error.message) < 600, seed


def test_ranges_come_back() -> None:
    for numbers in ([], [0], [1, 2, 3, 9], list(range(5, 500)), [1, 3, 5]):
        assert unpack_ids(pack_ids(numbers), "x") == numbers
    assert pack_ids([1, 2, 3, 9]) == "1-3,9"


def test_condensed_facts_can_be_saved_and_read_as_json() -> None:
    facts = read(parse(str(PAIR / "target.gguf")))
    entry = condensed.condense(facts)
    assert json.loads(json.dumps(entry)) == json.loads(json.dumps(condensed.condense(again(facts))))
    assert condensed.family(again(facts)) == condensed.family(facts)
