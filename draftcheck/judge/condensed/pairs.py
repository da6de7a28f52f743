"""What only two vocabularies together tell: taken from whole files once, put back later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from draftcheck.errors import ReadError
from draftcheck.judge import compare as whole
from draftcheck.judge.checks import CHECKS
from draftcheck.judge.condensed import id_ranges, token_tables
from draftcheck.judge.condensed.facts import condense, restore
from draftcheck.models.stored import to_bytes, to_text
from draftcheck.rulebook import book
from draftcheck.values.comparison import (
    Behaviour,
    Comparison,
    Difference,
    VocabularyComparison,
    recorded_name,
)
from draftcheck.values.facts import ModelFacts
from draftcheck.values.verdicts import EngineSetup
from draftcheck.values.words import CheckOutcome, Outcome, Relation

TEXT_CHECKS = ("draft_vocabulary_exceeds", "shared_texts", "probe_count_equal")
"""Checks that look at the texts of both sides, and at nothing that a deployment says."""
MOST_TEXTS = 128
MOST_RANGES = 256


def _take(comparison: Comparison, restored: Comparison) -> dict[str, Any]:
    """Notes that turn the restored comparison into this one."""
    notes: dict[str, Any] = {}
    if comparison.vocabulary != restored.vocabulary:
        notes["vocabulary"] = _vocabulary(comparison.vocabulary)
        if comparison.vocabulary.differing_ids:
            notes["differing"] = _differing(comparison)
    if comparison.behaviour != restored.behaviour:
        notes["behaviour"] = [comparison.behaviour.same, comparison.behaviour.detail]
    again = restored
    if notes and restored.draft is not None:
        again = _apply(restored.target, restored.draft, notes)
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
        for comparison_side in (comparison.target, comparison.drafter)
    )
    ids = whole.differing_within(ours, theirs)
    packed = id_ranges.pack(ids).split(",")
    if len(packed) > MOST_RANGES:  # from there on: all of them
        last = packed[MOST_RANGES - 1].partition("-")[0]
        packed = [*packed[: MOST_RANGES - 1], f"{last}-{ids[-1]}"]
    out: dict[str, Any] = {"ids": ",".join(packed) if ids else ""}
    shown = ids if len(ids) <= MOST_TEXTS else ids[: whole.SAMPLE]
    for side, table in (("target", ours), ("draft", theirs)):
        texts = {i: table[i] for i in shown}
        out[side] = {
            str(i): None if text is None else to_text(text[: token_tables.LONGEST])
            for i, text in texts.items()
        }
    return out


def _recorded(comparison: Comparison, restored: Comparison) -> dict[str, list[str]]:
    """What checks of texts see in the whole files, where stand-ins would mislead them."""
    found = {}
    for name, params in _text_rules():
        setup = EngineSetup(engine="", version="", method="", order=str, checked="")
        seen = CHECKS[name](comparison, setup, **params)
        if seen != CHECKS[name](restored, setup, **params):
            found[recorded_name(name, params)] = [str(seen.outcome), seen.saw]
    return found


def _text_rules() -> list[tuple[str, dict[str, Any]]]:
    rows: dict[str, tuple[str, dict[str, Any]]] = {}
    for engine in book.engine_files():
        for rule in book.load(engine).rules:
            if rule.check in TEXT_CHECKS:
                rows[recorded_name(rule.check, rule.params)] = (rule.check, dict(rule.params))
    return list(rows.values())


def _apply(target: ModelFacts, draft: ModelFacts, notes: Mapping[str, Any]) -> Comparison:
    """The comparison of two restored models, with the notes put back."""
    where = f"notes on {target.ref} and {draft.ref}"
    try:
        if "differing" in notes:
            target, draft = _with_texts(target, draft, notes["differing"], where)
        vocabulary = whole.compare_vocabularies(target, draft)
        if "vocabulary" in notes:
            vocabulary = _vocabulary_again(target, draft, notes["vocabulary"])
        if "behaviour" in notes:
            same, detail = notes["behaviour"]
            behaviour = Behaviour(same if isinstance(same, bool) else None, str(detail))
        else:
            behaviour = whole.compare_behaviour(target.tokenizer, draft.tokenizer, vocabulary)
        recorded = {
            str(name): CheckOutcome(Outcome(outcome), str(saw))
            for name, (outcome, saw) in notes.get("seen", {}).items()
        }
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ReadError(f"{where}: not in the form that draftcheck writes: {error}") from None
    specials = whole.compare_specials(target.tokenizer, draft.tokenizer)
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
    if not isinstance(ours, token_tables.TokenTable) or not isinstance(
        theirs, token_tables.TokenTable
    ):
        return target, draft
    left = token_tables.with_texts(ours, differing["target"], where)
    right = _rebased(ours, theirs, differing, where)
    return (
        replace(target, tokenizer=replace(target.tokenizer, tokens=left)),
        replace(draft, tokenizer=replace(draft.tokenizer, tokens=right)),
    )


def _rebased(
    ours: token_tables.TokenTable,
    theirs: token_tables.TokenTable,
    differing: Mapping[str, Any],
    where: str,
) -> token_tables.TokenTable:
    """The draft's table: the target's texts where they are the same, its own elsewhere."""
    table = token_tables.TokenTable(theirs.digest, theirs.family, theirs)
    common = min(len(ours), len(theirs))
    own = {i: theirs[i] for i in id_ranges.unpack(differing["ids"], where) if i < common}
    table[:common] = ours[:common]
    for i, text in own.items():
        table[i] = text
    token_tables.put(table, differing["draft"], where)
    return table


def pair_notes(comparison: Comparison) -> dict[str, Any]:
    """What the two condensed models do not tell by themselves; empty where they tell it all."""
    target = restore(condense(comparison.target), comparison.target.ref)
    draft = comparison.draft
    if draft is not None:
        draft = restore(condense(draft), draft.ref)
    return _take(comparison, compare(target, draft))


def compare(
    target: ModelFacts, draft: ModelFacts | None, notes: Mapping[str, Any] | None = None
) -> Comparison:
    """Hold two restored models side by side; unknown where only the texts would tell."""
    if draft is None:
        return whole.compare(target, None)
    if notes:
        return _apply(target, draft, notes)
    ours, theirs = target.tokenizer, draft.tokenizer
    digests = [getattr(tokens, "digest", None) for tokens in (ours.tokens, theirs.tokens)]
    if None in digests or digests[0] == digests[1]:
        return whole.compare(target, draft)
    return whole.compare(_without_texts(target), _without_texts(draft))


def _without_texts(facts: ModelFacts) -> ModelFacts:
    return replace(facts, tokenizer=replace(facts.tokenizer, tokens=None))
