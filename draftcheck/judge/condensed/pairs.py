"""What only two vocabularies together tell: taken from whole files once, put back later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from msgspec import Meta, Struct, structs, to_builtins

from draftcheck.errors import ReadError
from draftcheck.judge import compare as whole
from draftcheck.judge.checks import see
from draftcheck.judge.condensed import decode, pack_ids, token_tables, unpack_ids
from draftcheck.judge.condensed.facts import condense, restore
from draftcheck.judge.condensed.token_tables import TokenTable
from draftcheck.models.readers.tokenizer.vocabulary import MAX_ID
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
from draftcheck.values.verdicts import EngineSetup, JudgedPair
from draftcheck.values.words import CheckOutcome, Outcome, Relation

TEXT_CHECKS = ("draft_vocabulary_exceeds", "shared_texts", "probe_count_equal")
"""Checks that look at the texts of both sides, and at nothing that a deployment says."""
MOST_TEXTS = 128
MOST_RANGES = 256
TokenId = Annotated[int, Meta(ge=0, le=MAX_ID)]
Texts = dict[str, str | None]


class VocabularyNotes(Struct, forbid_unknown_fields=True):
    """A VocabularyComparison as it is written; the two sizes are those of the models."""

    relation: Relation
    differing_ids: TokenId | None
    differences: list[tuple[TokenId, str | None, str | None]]
    only_special: bool | None
    overlap: Annotated[float, Meta(ge=0, le=1)] | None
    same_file: bool


class DifferingTexts(Struct, forbid_unknown_fields=True):
    """Which ids differ, and the texts where they are few."""

    ids: str
    target: Texts
    draft: Texts


class PairNotes(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What turns the comparison of two restored models into that of the whole files."""

    vocabulary: VocabularyNotes | None = None
    differing: DifferingTexts | None = None
    behaviour: tuple[bool | None, str] | None = None
    seen: dict[str, tuple[Outcome, str]] = {}
    """What checks of texts saw, by recorded_name()."""


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else to_text(raw)


def _differing(comparison: Comparison) -> DifferingTexts:
    ours, theirs = (side.tokenizer.tokens or () for _, side in comparison.both)
    ids = whole.differing_within(ours, theirs)
    packed = pack_ids(ids).split(",")
    if len(packed) > MOST_RANGES:  # from there on: all of them
        last = packed[MOST_RANGES - 1].partition("-")[0]
        packed = [*packed[: MOST_RANGES - 1], f"{last}-{ids[-1]}"]
    shown = ids if len(ids) <= MOST_TEXTS else ids[: whole.SAMPLE]
    # A converter pads the shorter table, so ids of one side alone are compared too.
    common = min(len(ours), len(theirs))
    shown = [*shown, *range(common, common + whole.SAMPLE)]

    def texts(table: Sequence[bytes | None]) -> Texts:
        found = ((i, table[i]) for i in shown if i < len(table))
        return {str(i): _text(text and text[: token_tables.LONGEST]) for i, text in found}

    return DifferingTexts(",".join(packed), texts(ours), texts(theirs))


def _recorded(comparison: Comparison, restored: Comparison) -> dict[str, tuple[Outcome, str]]:
    """What checks of texts see in the whole files, where stand-ins would mislead them."""
    found = {}
    setup = EngineSetup(engine="", version="", method="", order=str, checked="")
    pairs = [JudgedPair.of(side, setup) for side in (comparison, restored)]
    every = (rule for engine in book.engine_files() for rule in book.load(engine).rules)
    rules = (rule for rule in every if rule.check in TEXT_CHECKS)
    for name, rule in {recorded_name(rule.check, rule.params): rule for rule in rules}.items():
        seen, again = (see(rule.check, pair, rule.params) for pair in pairs)
        if seen != again:
            found[name] = seen.outcome, seen.saw
    return found


def _apply(target: ModelFacts, draft: ModelFacts, notes: PairNotes) -> Comparison:
    """The comparison of two restored models, with the notes put back."""
    where = f"notes on {target.ref} and {draft.ref}"
    ours, theirs = target.tokenizer.tokens, draft.tokenizer.tokens
    if notes.differing and isinstance(ours, TokenTable) and isinstance(theirs, TokenTable):
        table = TokenTable(ours.digest, ours.family, len(ours))
        table.own = dict(ours.own)
        token_tables.put(table, notes.differing.target, where)
        table.foresee()
        target = _with_table(target, table)
        # The draft's table: the target's texts where they are the same, its own elsewhere.
        common = min(len(ours), len(theirs))
        table = TokenTable(theirs.digest, theirs.family, len(theirs))
        differing = frozenset(unpack_ids(notes.differing.ids, where, common))
        table.share(ours, common, differing)
        for side, taken in ((ours, False), (theirs, True)):
            own = side.own.items()
            table.own |= {i: text for i, text in own if (i >= common or i in differing) is taken}
        token_tables.put(table, notes.differing.draft, where)
        table.foresee()
        draft = _with_table(draft, table)
    if notes.vocabulary is not None:
        try:
            differences = tuple(
                Difference(i, *(None if text is None else to_bytes(text) for text in texts))
                for i, *texts in notes.vocabulary.differences
            )
        except UnicodeEncodeError:
            raise ReadError(f"{where}: a text of the differences is no text") from None
        told = {**structs.asdict(notes.vocabulary), "differences": differences}
        vocabulary = VocabularyComparison(target_size=target.rows, draft_size=draft.rows, **told)
    else:
        vocabulary = whole.compare_vocabularies(target, draft)
    if notes.behaviour is not None:
        behaviour = Behaviour(*notes.behaviour)
    else:
        behaviour = whole.compare_behaviour(target.tokenizer, draft.tokenizer, vocabulary)
    specials = whole.compare_specials(target.tokenizer, draft.tokenizer)
    recorded = {name: CheckOutcome(*seen) for name, seen in notes.seen.items()}
    return Comparison(target, draft, vocabulary, specials, behaviour, recorded)


def _with_table(facts: ModelFacts, table: TokenTable | None) -> ModelFacts:
    return replace(facts, tokenizer=replace(facts.tokenizer, tokens=table))


def pair_notes(comparison: Comparison) -> dict[str, Any]:
    """What the two condensed models do not tell by themselves; empty where they tell it all."""
    target = restore(condense(comparison.target), comparison.target.ref)
    draft = comparison.draft
    if draft is not None:
        draft = restore(condense(draft), draft.ref)
    restored = compare(target, draft)
    notes = PairNotes()
    if comparison.vocabulary != restored.vocabulary:
        found = comparison.vocabulary
        told = {name: getattr(found, name) for name in VocabularyNotes.__struct_fields__}
        told["differences"] = [(d.id, _text(d.target), _text(d.draft)) for d in found.differences]
        notes.vocabulary = VocabularyNotes(**told)
        if found.differing_ids:
            notes.differing = _differing(comparison)
    if comparison.behaviour != restored.behaviour:
        notes.behaviour = comparison.behaviour.same, comparison.behaviour.detail
    again = restored
    if notes != PairNotes() and restored.draft is not None:
        again = _apply(restored.target, restored.draft, notes)
    notes.seen = _recorded(comparison, again)
    written: dict[str, Any] = to_builtins(notes)
    return written


def compare(
    target: ModelFacts, draft: ModelFacts | None, notes: Mapping[str, Any] | None = None
) -> Comparison:
    """Hold two restored models side by side; unknown where only the texts would tell."""
    if draft is None:
        return whole.compare(target, None)
    if notes:
        where = f"notes on {target.ref} and {draft.ref}"
        return _apply(target, draft, decode(notes, PairNotes, where))
    digests = [getattr(facts.tokenizer.tokens, "digest", None) for facts in (target, draft)]
    if None in digests or digests[0] == digests[1]:
        return whole.compare(target, draft)
    return whole.compare(_with_table(target, None), _with_table(draft, None))
