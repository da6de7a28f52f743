"""What the site shows: plain values, filled from the store, rendered without another thought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from draftcheck.judge.decide import BEST_FIRST
from draftcheck.values.words import Verdict

ORDER = BEST_FIRST
"""How pairs are sorted, and which of a pair's verdicts stands for it."""
USABLE = (Verdict.COMPATIBLE, Verdict.DEGRADED)


@dataclass(frozen=True, slots=True)
class SiteModel:
    """A target or a draft."""

    ref: str
    revision: str | None = None
    kind: str = "full"
    """full, or the kind of head."""
    family: str | None = None
    """Equal: the same ordinary tokens."""
    architecture: str | None = None
    parameters: int | None = None
    nbytes: int | None = None
    context: int | None = None
    rows: int | None = None
    """Rows of the embedding: the vocabulary as engines count it."""
    downloads: int | None = None
    unread: str | None = None
    """Why its files could not be read."""
    url: str | None = None
    """Where people look at its files; only for a link."""


@dataclass(frozen=True, slots=True)
class SiteReason:
    """A rule that failed, or could not be checked."""

    rule: str
    slug: str
    title: str
    outcome: str
    saw: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class SitePart:
    """One thing that takes memory."""

    owner: str
    name: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class SiteMemory:
    """Whether a pair fits a machine."""

    gpu: str
    answer: str
    required: int | None
    available: int | None
    max_context: int | None = None
    parts: tuple[SitePart, ...] = ()


@dataclass(frozen=True, slots=True)
class SiteAnswer:
    """What one engine does with a pair."""

    asked: str
    """The question: an engine, or engine@version; the key of a column."""
    engine: str
    version: str
    verdict: Verdict
    reaction: str
    method: str | None = None
    checked: bool = True
    """Whether this version's source was read."""
    reasons: tuple[SiteReason, ...] = ()
    """The deciding one first."""
    setup: str | None = None
    memory: SiteMemory | None = None
    """Whether it fits the machine that the scan was told of."""


@dataclass(frozen=True, slots=True)
class EngineColumn:
    """An engine that every pair is held against."""

    asked: str
    engine: str
    version: str
    since: int = 0
    """The scan that asked it last."""


@dataclass(frozen=True, slots=True)
class SitePair:
    """A draft for a target, and all that is known of it."""

    target: str
    draft: str
    answers: tuple[SiteAnswer, ...]
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
    def memory(self) -> SiteMemory | None:
        """What it takes with an engine of the best verdict."""
        ordered = sorted(self.answers, key=lambda answer: ORDER.index(answer.verdict))
        return next((answer.memory for answer in ordered if answer.memory), None)


@dataclass(frozen=True, slots=True)
class SiteChange:
    """What became different between two scans, and why."""

    kind: str
    """new, broke, works, worse, better or gone."""
    target: str
    draft: str | None
    """None: the target by itself."""
    engine: str
    before: str | None
    after: str | None
    cause: str
    why: str = ""
    pinned: bool = False
    """Somebody relies on this pair."""


@dataclass(frozen=True, slots=True)
class SiteScan:
    """One night."""

    number: int
    started: str
    finished: str | None = None
    version: str = ""
    complete: bool = True
    counts: Mapping[str, int] = field(default_factory=dict)
    """What it did: listed, candidates, models, verdicts, requests …"""


@dataclass(frozen=True, slots=True)
class SitePin:
    """A pair that somebody relies on."""

    target: str
    draft: str
    engines: tuple[str, ...] = ()
    """Questions that count; empty: some engine must take it."""


@dataclass(frozen=True, slots=True)
class SiteData:
    """Everything; pairs of one target stand together, best first."""

    title: str
    targets: Sequence[SiteModel]
    drafts: Sequence[SiteModel]
    columns: Sequence[EngineColumn]
    """Engines in the order of reports."""
    pairs: Mapping[str, Sequence[SitePair]]
    """Target -> its pairs, ranked."""
    alone: Mapping[str, Sequence[SiteAnswer]] = field(default_factory=dict)
    """Target -> what it can do without a draft."""
    scan: SiteScan | None = None
    previous: SiteScan | None = None
    changes: Sequence[SiteChange] = ()
    earlier: Sequence[tuple[SiteScan, Sequence[SiteChange]]] = ()
    """Scans before this one with what they changed, the newest first."""
    pins: Sequence[SitePin] = ()
    unread: Sequence[SiteModel] = ()
    """Models that nobody could read, with the reason."""

    def every(self) -> list[SitePair]:
        return [pair for target in self.targets for pair in self.pairs.get(target.ref, ())]
