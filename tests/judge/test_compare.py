"""Relation, differing ids, overlap and behaviour of two vocabularies."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftcheck.judge.compare import compare
from draftcheck.values.facts import ConfigFacts, ModelFacts, TokenizerFacts


def model(
    tokens: list[bytes | None],
    *,
    rows: int | None = None,
    added: frozenset[int] = frozenset(),
    padding: frozenset[int] = frozenset(),
) -> ModelFacts:
    rows = len(tokens) if rows is None else rows
    facts = TokenizerFacts(tokens=tokens, length=len(tokens), added=added, padding=padding)
    return ModelFacts("m", "folder", tokenizer=facts, config=ConfigFacts(vocab_size=rows))


A = [b"a", b"b", b"c", b"<s>"]


@pytest.mark.parametrize(
    ("target", "draft", "relation", "differing"),
    [
        (model(A), model(list(A)), "identical", 0),
        (model(A, rows=8), model(A, rows=4), "padded", 0),
        (model(A, added=frozenset({3})), model([*A[:3], b"<x>"]), "specials-differ", 1),
        (model(A), model([*A, b"<x>"], added=frozenset({4})), "specials-differ", 1),
        (model(A), model([b"a", b"x", b"c", b"<s>"]), "differs", 1),
        (model(A), model([*A, b"new"]), "differs", 1),
        (model([*A, b"[PAD4]"], padding=frozenset({4})), model(A), "padded", 0),
        (model(A), ModelFacts("m", "folder"), "unknown", None),
        (model(A), model([*A[:3], None]), "differs", 1),
    ],
)
def test_relation(target: ModelFacts, draft: ModelFacts, relation: str, differing: int) -> None:
    found = compare(target, draft).vocabulary
    assert (found.relation, found.differing_ids) == (relation, differing)


def test_rows_not_read_means_unknown_although_the_texts_are_the_same() -> None:
    found = compare(model(A), replace(model(A), config=ConfigFacts())).vocabulary
    assert (found.relation, found.differing_ids, found.draft_size) == ("unknown", 0, None)


def test_overlap_counts_texts_whatever_their_ids() -> None:
    found = compare(model([b"a", b"b", b"c"]), model([b"c", b"a", b"z", b"y"])).vocabulary
    assert found.overlap == 0.5
    assert [d.id for d in found.differences] == [0, 1, 2, 3]


def test_a_table_that_ends_early_is_not_different() -> None:
    """tiktoken files do not hold special tokens: what lies behind their end is unknown."""
    short = replace(model(A[:3]), tokenizer=TokenizerFacts(tokens=A[:3], length=None))
    assert compare(model(A), short).vocabulary.relation == "unknown"
    other = replace(short, tokenizer=TokenizerFacts(tokens=[b"x", b"b"], length=None))
    assert compare(model(A), other).vocabulary.relation == "differs"


tokens = st.lists(st.one_of(st.none(), st.binary(max_size=3)), max_size=12)


@given(tokens, tokens, st.frozensets(st.integers(0, 12)), st.frozensets(st.integers(0, 12)))
def test_against_a_plain_count(
    left: list[bytes | None],
    right: list[bytes | None],
    added: frozenset[int],
    padding: frozenset[int],
) -> None:
    target, draft = model(left, added=added, padding=padding), model(right)
    found = compare(target, draft).vocabulary

    def at(table: list[bytes | None], i: int, hidden: frozenset[int]) -> bytes | None:
        return table[i] if i < len(table) and i not in hidden else None

    expected = [
        i
        for i in range(max(len(left), len(right)))
        if at(left, i, padding) != at(right, i, frozenset())
    ]
    assert found.differing_ids == len(expected)
    assert [d.id for d in found.differences] == expected[:8]
    back = compare(draft, target).vocabulary
    assert (back.relation, back.differing_ids) == (found.relation, found.differing_ids)
    if expected:
        wanted = "specials-differ" if set(expected) <= added else "differs"
        assert found.relation == wanted
