"""Two sets of facts -> Comparison: what differs, side by side. No opinion.

Nearly everything is a comparison of tables in memory. One question may need more: whether both
tokenizers cut a text alike. Where digests do not answer it and both have a tokenizer.json,
tokenizers_agree runs the two files in a child process (tens of megabytes, a second or two).
"""

from __future__ import annotations

from collections.abc import Sequence

from draftcheck.judge import tokenizers_agree
from draftcheck.values.comparison import (
    Behaviour,
    Comparison,
    Difference,
    SpecialToken,
    VocabularyComparison,
)
from draftcheck.values.facts import NO_TOKEN, ModelFacts, TokenizerFacts
from draftcheck.values.words import Relation

SAMPLE = 8
BLOCK = 4096


def compare(target: ModelFacts, draft: ModelFacts | None) -> Comparison:
    """Hold the two models side by side; without a draft, the target's tokenizer against itself."""
    drafter = target if draft is None else draft
    vocabulary = compare_vocabularies(target, drafter)
    return Comparison(
        target=target,
        draft=draft,
        vocabulary=vocabulary,
        specials=compare_specials(target.tokenizer, drafter.tokenizer),
        behaviour=compare_behaviour(target.tokenizer, drafter.tokenizer, vocabulary),
    )


def compare_vocabularies(target: ModelFacts, draft: ModelFacts) -> VocabularyComparison:
    """Relation, sizes, the ids that differ, and the overlap of texts."""
    ours, theirs = target.tokenizer, draft.tokenizer
    if ours.tokens is None or theirs.tokens is None:
        return _unread(target, draft)
    left, right = _defined(ours), _defined(theirs)
    differing = differing_within(left, right)
    whole = ours.length is not None and theirs.length is not None
    if whole:  # otherwise a table ends early, without special tokens: unknown, not different
        longer = left if len(left) > len(right) else right
        common = min(len(left), len(right))
        differing += [i for i in range(common, len(longer)) if longer[i] is not None]
    special = ours.added | ours.special | theirs.added | theirs.special
    only_special = all(i in special for i in differing)
    relation = _by_rows(target, draft) if whole else Relation.UNKNOWN
    if differing:
        relation = Relation.SPECIALS_DIFFER if only_special else Relation.DIFFERS
    return VocabularyComparison(
        relation=relation,
        target_size=target.rows,
        draft_size=draft.rows,
        differing_ids=len(differing),
        differences=tuple(Difference(i, _at(left, i), _at(right, i)) for i in differing[:SAMPLE]),
        only_special=only_special if differing else None,
        overlap=_overlap(left, right, differing),
    )


def _unread(target: ModelFacts, draft: ModelFacts) -> VocabularyComparison:
    """Without the texts: the same file means the same vocabulary, anything else is unknown."""
    ours, theirs = (
        {name: digest.removeprefix("sha256:") for name, digest in facts.tokenizer.files.items()}
        for facts in (target, draft)
    )
    if not ours or ours != theirs:
        return VocabularyComparison(Relation.UNKNOWN, target.rows, draft.rows)
    relation = _by_rows(target, draft)
    return VocabularyComparison(
        relation, target.rows, draft.rows, differing_ids=0, overlap=1.0, same_file=True
    )


def _by_rows(target: ModelFacts, draft: ModelFacts) -> Relation:
    """The relation of two vocabularies with the same texts."""
    if target.rows is None or draft.rows is None:
        return Relation.UNKNOWN
    return Relation.IDENTICAL if target.rows == draft.rows else Relation.PADDED


def _defined(facts: TokenizerFacts) -> Sequence[bytes | None]:
    """The token table with mere padding taken out."""
    tokens = facts.tokens or ()
    if not facts.padding:
        return tokens
    return [None if i in facts.padding else text for i, text in enumerate(tokens)]


def _at(tokens: Sequence[bytes | None], i: int) -> bytes | None:
    return tokens[i] if i < len(tokens) else None


def differing_within(
    left: Sequence[bytes | None], right: Sequence[bytes | None], start: int = 0
) -> list[int]:
    """Ids from start to the end of the shorter table whose texts differ, block by block."""
    if left is right:
        return []
    told = getattr(left, "differing", None)
    if told is not None and type(left) is type(right) and (ids := told(right, start)) is not None:
        return list(ids)
    common = min(len(left), len(right))
    found: list[int] = []
    for first in range(start, common, BLOCK):
        ours, theirs = left[first : first + BLOCK], right[first : first + BLOCK]
        if ours != theirs:
            pairs = zip(ours, theirs, strict=False)
            found += [i for i, (a, b) in enumerate(pairs, first) if a != b]
    return found


def _overlap(
    left: Sequence[bytes | None], right: Sequence[bytes | None], differing: list[int]
) -> float | None:
    """Share of the right side's texts that stand anywhere on the left."""
    if left is right:
        return 1.0 if len(right) > right.count(None) else None
    defined = len(right) - right.count(None)
    if not defined:
        return None
    moved = [_at(right, i) for i in differing]
    same = defined - len(moved) + moved.count(None)
    ours = set(left) if len(moved) > 32 else left
    return (same + sum(text is not None and text in ours for text in moved)) / defined


def compare_specials(target: TokenizerFacts, draft: TokenizerFacts) -> tuple[SpecialToken, ...]:
    """Ids and texts of bos, eos, pad and unk, side by side."""
    rows = []
    for name in ("bos", "eos", "pad", "unk"):
        ours, theirs = getattr(target, f"{name}_id"), getattr(draft, f"{name}_id")
        rows.append(SpecialToken(name, ours, theirs, _named(target, ours), _named(draft, theirs)))
    return tuple(rows)


def _named(facts: TokenizerFacts, number: int | None) -> bytes | None:
    if number is None or number == NO_TOKEN or facts.tokens is None:
        return None
    return _at(facts.tokens, number)


def compare_behaviour(
    target: TokenizerFacts, draft: TokenizerFacts, vocabulary: VocabularyComparison
) -> Behaviour:
    """Do both cut text alike? Digests first; the tokenizers library only when they differ."""
    if vocabulary.differing_ids is None:
        return Behaviour(None, "a vocabulary was not read")
    if vocabulary.same_file:
        return Behaviour(True, "the same tokenizer file")
    if target is draft:
        return Behaviour(True, "one tokenizer")
    if vocabulary.differing_ids and not vocabulary.only_special:
        return Behaviour(False, "the vocabularies differ")
    ours, theirs = (target.merges, target.behaviour), (draft.merges, draft.behaviour)
    if all(ours) and ours == theirs:
        return Behaviour(True, "same merges, normalizer and pre-tokenizer")
    if target.definition and draft.definition:
        return tokenizers_agree.run(target.definition, draft.definition)
    if target.pre and target.merges and (target.pre, target.merges) == (draft.pre, draft.merges):
        return Behaviour(True, f"same merges and pre-tokenizer ({target.pre})")
    if target.merges and draft.merges and target.merges != draft.merges:
        return Behaviour(None, "the merges differ; the tokenizers could not be run side by side")
    return Behaviour(None, f"pre-tokenizers {target.pre or '?'} and {draft.pre or '?'}: not run")
