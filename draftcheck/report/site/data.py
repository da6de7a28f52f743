"""What the site shows: rows of the scan's store, and pairs that are put together from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta, Struct

from draftcheck.judge.decide import BEST_FIRST
from draftcheck.recommend.methods import RankedMethod
from draftcheck.scan.rows import (
    ChangeRow,
    Count,
    FailedRuleRow,
    MemoryRow,
    ModelRow,
    PinRow,
    ScanRow,
    VerdictRow,
)
from draftcheck.values.words import Outcome, Severity, Verdict

ORDER = BEST_FIRST
"""How pairs are sorted, and which of a pair's verdicts stands for it."""
USABLE = (Verdict.COMPATIBLE, Verdict.DEGRADED)
NOT_APPLICABLE = "not applicable"
"""Shown where the rulebook has no method of the engine for such files: nothing was left unread."""


@dataclass(frozen=True, slots=True)
class EngineColumn:
    """An engine that every pair is held against."""

    asked: str
    """The question: an engine, or engine@version."""
    engine: str
    version: str
    since: int = 0
    """The scan that asked it last."""


Figure = Annotated[float, Meta(ge=-1e12, le=1e12)]


class LengthFigures(Struct):
    """What a draft length came to."""

    draft_tokens: Count | None = None
    tokens_per_pass: Figure | None = None
    speedup: Figure | None = None
    acceptance_by_position: list[Figure] | None = None


class LoadGain(Struct):
    """What so many sequences at once come to, with the best draft length for them."""

    sequences: Annotated[int, Meta(ge=1, le=1 << 20)]
    speedup: Figure


class EngineLoads(Struct):
    """An engine's gain by load."""

    engine: str
    version: str
    loads: list[LoadGain] = []


class RateFigure(Struct):
    value: Figure | None = None


class TrialFigures(Struct):
    """What the pages show of the contract's JSON of a trial; a trial must fit it to be shown."""

    backend: str | None = None
    device: str | None = None
    dtype: str | None = None
    prompts: Count | None = None
    length: Count | None = None
    broken: str | None = None
    best: LengthFigures | None = None
    lengths: list[LengthFigures] | None = None
    acceptance_rate: RateFigure | None = None
    acceptance_by_position: list[Figure] | None = None
    speeds: list[EngineLoads] | None = None
    loads: list[LoadGain] | None = None


@dataclass(frozen=True, slots=True)
class SitePair:
    """A draft for a target, and all that is known of it."""

    target: str
    draft: str
    answers: tuple[VerdictRow, ...]
    """In the order of the columns, one each."""
    relation: str = "unknown"
    why: str = ""
    """Its rank in one sentence."""
    speedup: float | None = None
    """Measured; None where no trial was made."""
    break_even: float | None = None
    at_best: bool = False
    """It takes more than that: checking several tokens reads more experts than one step does."""
    size_ratio: float | None = None
    trial: Mapping[str, Any] | None = None
    """The contract's JSON of a trial."""
    problem: str | None = None
    """Why a trial failed."""

    @property
    def verdict(self) -> Verdict:
        """The best that some engine makes of it."""
        found = {answer.verdict for answer in self.answers}
        return next((verdict for verdict in ORDER if verdict in found), Verdict.UNDECIDED)

    @property
    def memory(self) -> MemoryRow | None:
        """What it takes with an engine of the best verdict."""
        return next((answer.memory for answer in best_first(self.answers) if answer.memory), None)


@dataclass(frozen=True, slots=True)
class SiteData:
    """Everything; pairs of one target stand together, best first."""

    title: str
    targets: Sequence[ModelRow]
    drafts: Sequence[ModelRow]
    columns: Sequence[EngineColumn]
    """Engines in the order of reports."""
    pairs: Mapping[str, Sequence[SitePair]]
    """Target -> its pairs, ranked."""
    alone: Mapping[str, Sequence[VerdictRow]] = field(default_factory=dict)
    """Target -> what it can do without a draft."""
    methods: Mapping[str, Sequence[RankedMethod]] = field(default_factory=dict)
    """Target -> every way of speculating for it, best first."""
    scan: ScanRow | None = None
    previous: ScanRow | None = None
    changes: Sequence[ChangeRow] = ()
    earlier: Sequence[tuple[ScanRow, Sequence[ChangeRow]]] = ()
    """Scans before this one with what they changed, the newest first."""
    pins: Sequence[PinRow] = ()
    unread: Sequence[ModelRow] = ()
    """Models that nobody could read, with the reason."""
    gated: frozenset[str] = frozenset()
    """Models whose files are only for those whom their owner let in."""

    def every(self) -> list[SitePair]:
        return [pair for target in self.targets for pair in self.pairs.get(target.ref, ())]


def place(verdict: str) -> int:
    """0 for the best verdict, 3 for the worst."""
    return ORDER.index(Verdict(verdict))


def word(answer: VerdictRow) -> str:
    """The verdict as the pages say it."""
    if answer.verdict == Verdict.UNDECIDED and answer.method is None:
        return NOT_APPLICABLE
    return str(answer.verdict)


def reasons(answer: VerdictRow) -> tuple[FailedRuleRow, ...]:
    """What speaks against a pair: failed rules, else the notes; never nothing where it is bad."""
    if answer.findings or answer.verdict in USABLE:
        return answer.findings
    notes = answer.notes or ("no reason was recorded",)
    return tuple(
        FailedRuleRow("", Outcome.FAIL, Severity.NOTE, answer.reaction, note) for note in notes
    )


def best_first(answers: Sequence[VerdictRow]) -> list[VerdictRow]:
    return sorted(answers, key=lambda answer: place(answer.verdict))
