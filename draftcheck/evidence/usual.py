"""Is this acceptance normal? A figure beside those that were published of the same pair."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from draftcheck.evidence.matching import ModelNames, plain
from draftcheck.evidence.published import PublishedFigure, figures_of
from draftcheck.rulebook import files
from draftcheck.rulebook.files import RuleRow, Text

NEAR = 0.85
"""Of the least that was published: from here on a figure is usual."""
FAR = 0.7
"""Below that something is wrong, or other work was measured."""
Place = Literal["usual", "above", "below", "far below"]


class LowCause(RuleRow, frozen=True):
    """Why a pair may accept far less than was published."""

    text: Text
    fix: Text


class LowCauses(RuleRow, frozen=True):
    """rules/evidence/causes.toml."""

    cause: tuple[LowCause, ...]


class UsualRange(msgspec.Struct, frozen=True):
    """What was published of a pair, brought to one draft length."""

    low: float
    high: float
    """Tokens per pass."""
    tokens: int
    figures: tuple[PublishedFigure, ...]
    place: Place
    """Of the figure that was asked about."""

    @property
    def causes(self) -> tuple[LowCause, ...]:
        """The likeliest first; none where nothing is wrong."""
        return files.read("evidence/causes", LowCauses).cause if self.place == "far below" else ()


def usual(target: str, draft: str | None, tokens: int, tokens_per_pass: float) -> UsualRange | None:
    """Where a figure stands; None: nothing to compare it with. draft: None for own layers."""
    rows = [row for row in _rows(target, draft) if row.length is not None and row.tokens]
    if not rows:
        return None
    made = [_at(row, tokens) for row in rows]
    low, high = min(made), max(made)
    place: Place = "usual"
    if tokens_per_pass > high * (2 - NEAR):
        place = "above"
    elif tokens_per_pass < low * NEAR:
        place = "below" if tokens_per_pass >= 1 + (low - 1) * FAR else "far below"
    return UsualRange(low, high, tokens, tuple(rows), place)


def _rows(target: str, draft: str | None) -> Iterable[PublishedFigure]:
    """Chains of this pair; random prompts and floors of tests say nothing about it."""
    named = None if draft is None else ModelNames(plain(draft))
    for row in figures_of(ModelNames(plain(target)), named):
        length = row.length
        if not row.tree and row.work != "random" and length is not None and length.high is not None:
            yield row


def _at(row: PublishedFigure, tokens: int) -> float:
    """Tokens per pass of another draft length, each draft token accepted as likely as the last."""
    assert row.length is not None and row.tokens is not None
    if tokens == row.tokens:
        return row.length.middle
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if chain(middle, row.tokens) < row.length.middle:
            low = middle
        else:
            high = middle
    return chain(low, tokens)


def chain(rate: float, tokens: int) -> float:
    """Tokens per pass where every drafted token is accepted at this rate."""
    return sum(rate**n for n in range(tokens + 1))
