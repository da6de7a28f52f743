"""What only two vocabularies together tell: taken from whole files once, put back later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from draftcheck import compare, rulebook
from draftcheck.checks import CHECKS
from draftcheck.condensed import ranges, tables
from draftcheck.errors import ReadError
from draftcheck.facts.saved import to_bytes, to_text
from draftcheck.types import (
    Behaviour,
    Comparison,
    Difference,
    ModelFacts,
    Outcome,
    Relation,
    Seen,
    Setup,
    VocabularyComparison,
    recorded_name,
)

TEXT_CHECKS = ("draft_vocabulary_exceeds", "shared_texts", "probe_count_equal")
"""Checks that look at the texts of both sides, and at nothing that a deployment says."""
MOST_TEXTS = 128
MOST_RANGES = 256


def take(comparison: Comparison, restored: Comparison) -> dict[str, Any]:
    """Notes that turn the restored comparison into this one."""
    notes: dict[str, Any] = {}
    if comparison.vocabulary != restored.vocabulary:
        notes["vocabulary"] = _vocabulary(comparison.vocabulary)
        if comparison.vocabulary.differing_ids:
            notes["differing"] = _differing(comparison)
    if comparison.behaviour != restored.behaviour:
        notes["behaviour"] = [comparison.behaviour.same, comparison.behaviour.detail]
    again = apply(restored.target, restored.draft, notes) if notes else restored
    if seen := _recorded(comparison, again):
        notes["seen"] = seen
    return notes


def _vocabulary(found: VocabularyComparison) -> dict[str, Any]:
    return {
        "relation": str(found.relation),
        "differing_ids": found.differing_ids,
        "differences": [
            [d.id, *(None if t is None else to_text(t) for t in (d.target, d.draft))]
            for d in found.differences
        ],
        "only_special": found.only_special,
        "overlap": found.overlap,
        "same_file": found.same_file,
    }


def _differing(comparison: Comparison) -> dict[str, Any]:
    """Which ids differ, and the texts where they are few."""
    ours, theirs = (
        comparison_side.tokenizer.tokens or ()
        for comparison_side in (comparison.target, comparison.draft)
    )
    ids = compare.differing_within(ours, theirs)
    packed = ranges.pack(ids).split(",")
    if len(packed) > MOST_RANGES:  # from there on: all of them
        last = packed[MOST_RANGES - 1].partition("-")[0]
        packed = [*packed[: MOST_RANGES - 1], f"{last}-{ids[-1]}"]
    out: dict[str, Any] = {"ids": ",".join(packed) if ids else ""}
    shown = ids if len(ids) <= MOST_TEXTS else ids[: compare.SAMPLE]
    for side, table in (("target", ours), ("draft", theirs)):
        texts = {i: table[i] for i in shown}
        out[side] = {
            str(i): None if text is None else to_text(text[: tables.LONGEST])
            for i, text in texts.items()
        }
    return out


def _recorded(comparison: Comparison, restored: Comparison) -> dict[str, list[str]]:
    """What checks of texts see in the whole files, where stand-ins would mislead them."""
    found = {}
    for name, params in _text_rules():
        setup = Setup(engine="", version="", method="", order=str, checked="")
        seen = CHECKS[name](comparison, setup, **params)
        if seen != CHECKS[name](restored, setup, **params):
            found[recorded_name(name, params)] = [str(seen.outcome), seen.saw]
    return found


def _text_rules() -> list[tuple[str, dict[str, Any]]]:
    rows: dict[str, tuple[str, dict[str, Any]]] = {}
    for engine in rulebook.engine_files():
        for rule in rulebook.load(engine).rules:
            if rule.check in TEXT_CHECKS:
                rows[recorded_name(rule.check, rule.params)] = (rule.check, dict(rule.params))
    return list(rows.values())


def apply(target: ModelFacts, draft: ModelFacts, notes: Mapping[str, Any]) -> Comparison:
    """The comparison of two restored models, with the notes put back."""
    where = f"notes on {target.ref} and {draft.ref}"
    try:
        if "differing" in notes:
            target, draft = _with_texts(target, draft, notes["differing"], where)
        vocabulary = compare.compare_vocabularies(target, draft)
        if "vocabulary" in notes:
            vocabulary = _vocabulary_again(target, draft, notes["vocabulary"])
        if "behaviour" in notes:
            same, detail = notes["behaviour"]
            behaviour = Behaviour(same if isinstance(same, bool) else None, str(detail))
        else:
            behaviour = compare.compare_behaviour(target.tokenizer, draft.tokenizer, vocabulary)
        recorded = {
            str(name): Seen(Outcome(outcome), str(saw))
            for name, (outcome, saw) in notes.get("seen", {}).items()
        }
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ReadError(f"{where}: not in the form that draftcheck writes: {error}") from None
    specials = compare.compare_specials(target.tokenizer, draft.tokenizer)
    return Comparison(target, draft, vocabulary, specials, behaviour, recorded)


def _vocabulary_again(
    target: ModelFacts, draft: ModelFacts, entry: Mapping[str, Any]
) -> VocabularyComparison:
    return VocabularyComparison(
        relation=Relation(entry["relation"]),
        target_size=target.rows,
        draft_size=draft.rows,
        differing_ids=entry["differing_ids"],
        differences=tuple(
            Difference(int(i), *(None if t is None else to_bytes(t) for t in (ours, theirs)))
            for i, ours, theirs in entry["differences"]
        ),
        only_special=entry["only_special"],
        overlap=entry["overlap"],
        same_file=entry["same_file"],
    )


def _with_texts(
    target: ModelFacts, draft: ModelFacts, differing: Mapping[str, Any], where: str
) -> tuple[ModelFacts, ModelFacts]:
    """Both tables on the same stand-ins, but for the ids that differ."""
    ours, theirs = target.tokenizer.tokens, draft.tokenizer.tokens
    if not isinstance(ours, tables.Table) or not isinstance(theirs, tables.Table):
        return target, draft
    left = tables.with_texts(ours, differing["target"], where)
    right = _rebased(ours, theirs, differing, where)
    return (
        replace(target, tokenizer=replace(target.tokenizer, tokens=left)),
        replace(draft, tokenizer=replace(draft.tokenizer, tokens=right)),
    )


def _rebased(
    ours: tables.Table, theirs: tables.Table, differing: Mapping[str, Any], where: str
) -> tables.Table:
    """The draft's table: the target's texts where they are the same, its own elsewhere."""
    table = tables.Table(theirs.digest, theirs.family, theirs)
    common = min(len(ours), len(theirs))
    own = {i: theirs[i] for i in ranges.unpack(differing["ids"], where) if i < common}
    table[:common] = ours[:common]
    for i, text in own.items():
        table[i] = text
    tables.put(table, differing["draft"], where)
    return table
