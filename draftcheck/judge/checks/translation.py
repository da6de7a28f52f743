"""Checks on methods that translate between two vocabularies through text, or token by token."""

from __future__ import annotations

from draftcheck.judge.checks.outcomes import fail, ok, unknown
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import TokenizerFacts
from draftcheck.values.verdicts import EngineSetup
from draftcheck.values.words import CheckOutcome, Relation

SPACES = {"byte-bpe": "Ġ".encode(), "spm-bpe": "▁".encode(), "unigram": "▁".encode()}
"""How a leading space is written in the vocabulary file."""


def vocab_size_differs(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the configured vocabulary sizes are the same: then nothing may be translated."""
    ours, theirs = comparison.target.config.vocab_size, comparison.drafter.config.vocab_size
    if ours is None or theirs is None:
        sides = [n for n, v in (("target", ours), ("draft", theirs)) if v is None]
        return unknown(f"vocab_size of the {' and the '.join(sides)} was not read")
    if ours == theirs:
        return fail(f"vocab_size {ours:,} on both sides")
    return ok(f"target vocab_size {ours:,}, draft {theirs:,}")


def draft_vocabulary_exceeds(
    comparison: Comparison, setup: EngineSetup, *, sizes_differ: bool = False
) -> CheckOutcome:
    """Fail when every token of the draft is one of the target's too, and no id is skipped.

    sizes_differ: only asked where the configured sizes do, and nothing to say elsewhere.
    """
    ours, theirs = comparison.target.tokenizer, comparison.drafter.tokenizer
    if sizes_differ:
        rows = {comparison.target.config.vocab_size, comparison.drafter.config.vocab_size}
        if None in rows:
            return unknown("a vocab_size was not read")
        if len(rows) == 1:
            return ok("vocab_size is the same on both sides: nothing is translated")
    if comparison.vocabulary.same_file:
        return fail("the same tokenizer file: every token of the draft is one of the target")
    if ours.tokens is None or theirs.tokens is None:
        return unknown("the token texts were not read on both sides")
    gap = next((i for i, text in enumerate(theirs.tokens) if text is None), None)
    if gap is not None:
        return ok(f"the draft's vocabulary skips id {gap:,}")
    known = {text for text in ours.tokens if text is not None}
    for i, text in enumerate(theirs.tokens):
        if text is not None and _spelled(text, theirs, ours) not in known:
            return ok(f"id {i:,} of the draft is no token of the target")
    return fail(f"all {len(theirs.tokens):,} tokens of the draft are tokens of the target")


def _spelled(text: bytes, own: TokenizerFacts, other: TokenizerFacts) -> bytes:
    """A token with its leading space written as the other vocabulary writes it."""
    mine, yours = SPACES.get(own.kind or ""), SPACES.get(other.kind or "")
    if mine is None or yours is None or mine == yours or not text.startswith(mine):
        return text
    return yours + text[len(mine) :]


def draft_cuts_no_finer(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the draft cuts texts into more tokens than the target does."""
    relation = comparison.vocabulary.relation
    if relation in (Relation.IDENTICAL, Relation.PADDED):
        return ok("both cut a text into the same tokens")
    ours, theirs = comparison.target.tokenizer.base_size, comparison.drafter.tokenizer.base_size
    if relation is Relation.UNKNOWN or ours is None or theirs is None:
        return unknown("the vocabularies were not read on both sides")
    words = f"base vocabulary {ours:,} / {theirs:,} (target / draft)"
    if theirs < ours:
        return fail(f"{words}: a smaller one needs more tokens for the same text")
    return unknown(f"{words}: which one needs more tokens depends on the prompt")


def both_decode_alone(
    comparison: Comparison, setup: EngineSetup, *, types: list[str]
) -> CheckOutcome:
    """Fail when the target is of these encoder-decoder types and the draft is not."""
    sides = {"target": comparison.target.config, "draft": comparison.drafter.config}
    names = {side: config.outer_type or config.model_type for side, config in sides.items()}
    if missing := [side for side, name in names.items() if name is None]:
        return unknown(f"model_type of the {' and the '.join(missing)} was not read")
    found = [f"{side} model_type is {name}" for side, name in names.items() if name in types]
    if names["draft"] in types:
        return unknown(f"{', '.join(found)}: drafts with an encoder were not read")
    return fail(found[0]) if found else ok("both are decoders")


def no_nested_config(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when a side keeps its language model in a part of the config."""
    for side, facts in comparison.both:
        config = facts.config
        if config.multimodal is None or config.model_type is None:
            return unknown(f"the config of the {side} was not read")
        if config.multimodal and config.outer_type != config.model_type:
            return fail(
                f"{side} model_type is {config.outer_type}, of its text {config.model_type}"
            )
    return ok("no vision or audio parts")
