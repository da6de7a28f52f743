"""What a trial found out: the figures of the contract, ready to be written or drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from draftcheck.trial.backends.backend import VerifiedRun
from draftcheck.trial.speed.speedup import Costs, ratio

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class VllmCounters:
    """What a draft length came to, in the counters of vLLM's /metrics."""

    num_drafts: float
    """Passes that checked at least one drafted token."""
    num_draft_tokens: float
    num_accepted_tokens: float
    num_accepted_tokens_per_pos: tuple[float, ...]
    """Passes that accepted at least the first 1, 2, 3 … drafts."""

    @property
    def by_position(self) -> list[float]:
        """Share of the drafts whose first i + 1 tokens were accepted: vLLM's figure."""
        return [ratio(n, self.num_drafts) for n in self.num_accepted_tokens_per_pos]

    @property
    def by_position_given_the_last(self) -> list[float]:
        """The same among the drafts whose token before it was accepted."""
        reached = [self.num_drafts, *self.num_accepted_tokens_per_pos]
        return [ratio(now, before) for before, now in pairwise(reached)]

    @property
    def histogram(self) -> list[float]:
        """Drafts by the number of their tokens that were accepted: 0, 1, 2 …"""
        reached = [self.num_drafts, *self.num_accepted_tokens_per_pos, 0.0]
        return [before - now for before, now in pairwise(reached)]


@dataclass(frozen=True, slots=True)
class SpeculationFigures:
    """One way of speculating and what it came to."""

    method: str
    name: str
    tokens_per_pass: float
    """Block efficiency, tau."""
    draft_efficiency: float
    drafted_per_pass: float
    speedup: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    interval: Interval | None = None
    """Of tokens_per_pass."""
    mbsu: float | None = None
    """Memory-bound speed-up: tau / (c g + 1)."""
    counters: VllmCounters | None = None
    """Of draft lengths."""


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """What a number of sequences at once makes of it."""

    sequences: int
    draft_tokens: int
    speedup: float
    target_step: float


@dataclass(frozen=True, slots=True)
class CategoryFigures:
    """The figures of some of the prompts: a category, or the greedy share of a mixed workload."""

    prompts: int
    tokens: int
    acceptance: float
    interval: Interval | None
    tokens_per_pass: float
    draft_tokens: int
    """The length that is best for this part; the trial's own where no costs are known."""
    speedup: float | None = None


@dataclass(frozen=True, slots=True)
class MeasuredModel:
    """Which model it was, so that a saved result is not taken for that of another."""

    ref: str
    revision: str | None = None
    """The commit of a model of the Hub."""
    digest: str | None = None
    """Of the names, sizes and ends of local files."""


@dataclass(frozen=True, slots=True)
class Trial:
    target: str
    draft: str
    backend: str
    device: str
    dtype: str
    temperature: float
    seed: int
    prompts: int
    tokens: int
    seconds: float
    stopped: str
    """Why no more prompts were taken."""
    length: int
    """The draft length that single figures are about."""
    acceptance: float
    interval: Interval | None
    lengths: tuple[SpeculationFigures, ...] = ()
    thresholds: tuple[SpeculationFigures, ...] = ()
    trees: tuple[SpeculationFigures, ...] = ()
    ngram: tuple[SpeculationFigures, ...] = ()
    greedy_lengths: tuple[SpeculationFigures, ...] = ()
    """At a temperature: draft lengths when the draft proposes its first choice."""
    categories: Mapping[str, CategoryFigures] = field(default_factory=dict)
    workload: Mapping[str, CategoryFigures] = field(default_factory=dict)
    """The greedy and the sampled part of a mixed workload."""
    translation: str | None = None
    """How texts were brought from one vocabulary to the other; None: ids mean the same."""
    reencoded: tuple[SpeculationFigures, ...] = ()
    """Of a translated draft: lengths, in the draft's tokens, when text is encoded anew."""
    shared: float | None = None
    """Of a translated draft: share of the target's tokens that the draft has too."""
    overlap: float | None = None
    greedy_draft: float | None = None
    costs: Costs | None = None
    floor: Costs | None = None
    floor_speedup: float | None = None
    loads: tuple[LoadFigures, ...] = ()
    break_even: float | None = None
    best: SpeculationFigures | None = None
    """None: no costs were measured."""
    verified: VerifiedRun | None = None
    broken: str | None = None
    incomplete: str | None = None
    """Why the trial ended before it was done."""
    notes: tuple[str, ...] = ()
    models: Mapping[str, MeasuredModel] = field(default_factory=dict)
    prompts_digest: str | None = None
    tokens_per_prompt: int | None = None
    greedy_share: float = 0.0

    @property
    def pays(self) -> bool | None:
        """Whether anything beats not speculating."""
        return None if self.best is None else self.best.method != "none"

    @property
    def row(self) -> SpeculationFigures | None:
        """The draft length that single figures are about."""
        return next((r for r in self.lengths if r.settings["draft_tokens"] == self.length), None)

    @property
    def counters(self) -> VllmCounters | None:
        return self.row.counters if self.row is not None else None

    @property
    def by_position(self) -> list[float]:
        return self.counters.by_position if self.counters is not None else []

    @property
    def serving(self) -> Interval | None:
        """Where a serving engine's speed-up lies: between the timed steps and the floor."""
        if self.row is None or self.row.speedup is None or self.floor_speedup is None:
            return None
        low, high = sorted((self.row.speedup, self.floor_speedup))
        return low, high

    @property
    def token_rate_ratio(self) -> float | None:
        """Tokens per second with the draft over those without it: of the real run, if any."""
        if self.verified is not None and self.verified.speedup is not None:
            return self.verified.speedup
        return self.row.speedup if self.row is not None else None
