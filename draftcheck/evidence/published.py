"""The rows of rules/evidence: figures that were published, pairs that are meant for each other.

One definition for all figures. Tokens per pass count the target's own token. A rate is accepted
over drafted tokens. Rates by position are marginal (a share of all passes) or conditional (of the
passes that came so far), as the row says. A draft length is without the target's own token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Literal, TypeVar

import msgspec

from draftcheck.evidence.matching import ModelNames
from draftcheck.rulebook import files
from draftcheck.rulebook.files import RuleRow, Text

OWN, NO_DRAFT = "own", "none"
"""In the column draft: layers of the target itself; nothing but the text so far."""
Work = Literal["code", "maths", "chat", "long", "translation", "other", "mixed", "random"]
FigureText = Annotated[
    str, msgspec.Meta(pattern=r"^(~|>=)?\d+(\.\d+)?$|^\d+(\.\d+)?\.\.\d+(\.\d+)?$")
]
"""2.6, ~3.1 (about), >=2.8 (at least), 2.91..2.93 (between)."""
RepoId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@\w+)?$")]
Draft = Annotated[
    str, msgspec.Meta(pattern=r"^(own|none|[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@\w+)?)$")
]
RowId = Annotated[str, msgspec.Meta(pattern=r"^[A-Z]\d+[a-d]?$")]
Day = Annotated[str, msgspec.Meta(pattern=r"^20\d\d(-\d\d(-\d\d)?)?$")]
Length = Annotated[int, msgspec.Meta(ge=1, le=64)]


class Figure(msgspec.Struct, frozen=True):
    """A published number, as sure as its source is."""

    low: float
    high: float | None
    """None: at least `low`."""
    text: str

    @property
    def middle(self) -> float:
        return self.low if self.high is None else (self.low + self.high) / 2

    @property
    def words(self) -> str:
        return {"~": "about ", ">": "at least "}.get(self.text[0], "") + self.text.lstrip("~>=")


def figure(text: str) -> Figure | None:
    if not text:
        return None
    if text.startswith(">="):
        return Figure(float(text[2:]), None, text)
    low, _, high = text.removeprefix("~").partition("..")
    return Figure(float(low), float(high or low), text)


class PublishedFigure(RuleRow, frozen=True):
    """What somebody measured of a target and a draft, a head or a method."""

    id: RowId
    target: RepoId
    method: Text
    source: Text
    target_form: str = ""
    """How the target was packed, where its id does not say so."""
    draft: Draft | None = None
    """None: no public file; draft_said has the source's words."""
    draft_form: str = ""
    draft_said: str = ""
    tokens: Length | None = None
    """Drafted tokens of a pass, at most."""
    tree: str = ""
    work: Work | None = None
    dataset: str = ""
    thinking: Literal["on", "off"] | None = None
    temperature: float | None = None
    sampling: str = ""
    drafting: Literal["greedy", "sampled"] | None = None
    tokens_per_pass: FigureText | None = None
    rate: FigureText | None = None
    positions: str = ""
    positions_are: Literal["marginal", "conditional"] | None = None
    speedup: FigureText | None = None
    speedup_over: Literal["plain", "mtp"] | None = None
    engine: str = ""
    version: str = ""
    hardware: str = ""
    at_once: int | None = None
    date: Day | None = None
    second_hand: bool = False
    """Read in a copy of the source."""
    note: str = ""

    @property
    def by_position(self) -> list[float]:
        return [float(part) for part in self.positions.split()]

    @property
    def length(self) -> Figure | None:
        """Tokens per pass."""
        return figure(self.tokens_per_pass or "")

    @property
    def who(self) -> str:
        return self.draft or self.draft_said

    @property
    def words(self) -> str:
        """2.60 tokens per pass on MT-Bench with 3 drafted (thinking off)."""
        told = f"{self.length.words} tokens per pass" if self.length else f"{self.rate} accepted"
        on = f" on {self.dataset}" if self.dataset else ""
        drafted = f" with {self.tokens} drafted" if self.tokens else ""
        more = ["tree"] * bool(self.tree) + [f"thinking {self.thinking}"] * bool(self.thinking)
        rest = ", ".join(more + ["second-hand"] * self.second_hand)
        return f"{told}{on}{drafted}" + (f" ({rest})" if rest else "")


class PublishedPair(RuleRow, frozen=True):
    """What a publisher or an engine's makers give as a pair."""

    id: RowId
    target: RepoId
    draft: Draft
    method: Text
    kind: Literal["publisher", "engine recipe", "community"]
    source: Text
    tokens: Length | None = None
    engines: str = ""
    """vllm>=0.23.0 sglang: ours by id, each with the oldest version that the source names."""
    setting: str = ""
    """The source's own words."""
    thinking: Literal["on", "off"] | None = None
    date: Day | None = None
    note: str = ""

    @property
    def since(self) -> dict[str, str]:
        """Engine -> the oldest version that the source names, or nothing."""
        parts = (part.partition(">=") for part in self.engines.split())
        return {engine: version for engine, _, version in parts}


R = TypeVar("R", PublishedFigure, PublishedPair)


class LeftOut(RuleRow, frozen=True):
    """A row that was collected and is of no use here."""

    id: RowId
    what: Text
    reason: Text
    source: Text


def figures(text: str = "") -> tuple[PublishedFigure, ...]:
    """text: only lines that hold it."""
    return files.read_table("evidence/acceptance", PublishedFigure, text)


def pairs(text: str = "") -> tuple[PublishedPair, ...]:
    return files.read_table("evidence/pairs", PublishedPair, text)


def left_out() -> tuple[LeftOut, ...]:
    return files.read_table("evidence/left-out", LeftOut)


def holding(read: Callable[[str], tuple[R, ...]], model: ModelNames) -> Iterable[R]:
    """Rows that hold one of a model's names somewhere."""
    return dict.fromkeys(row for stem in model.stems for row in read(stem))


def figures_of(target: ModelNames, draft: ModelNames | None) -> Iterator[PublishedFigure]:
    """Of a pair, or of the target's own layers."""
    for row in holding(figures, target):
        same = row.draft == OWN if draft is None else row.draft and draft.match(row.draft)
        if same and target.match(row.target):
            yield row


def best(rows: Iterable[PublishedFigure], work: str | None = None) -> PublishedFigure | None:
    """The figure to show first: of this work, chains, seen in the source, the longest."""
    fitting = [
        (not row.tree, not row.second_hand, length.middle, row) for row in rows
        if (length := row.length) and row.work != "random" and work in (None, row.work)
    ]  # fmt: skip
    return max(fitting, key=lambda one: one[:3])[3] if fitting else None


def repo(draft: str) -> str:
    """A draft without its revision."""
    return re.sub(r"@\w+$", "", draft)
