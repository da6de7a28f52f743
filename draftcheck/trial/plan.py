"""What is asked of a trial, and what it has measured so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from draftcheck.trial.backends.backend import TargetText, TrialOptions
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.simulate.traces import Trace
from draftcheck.trial.speed.speedup import Costs


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """What is asked of a trial."""

    target: str
    draft: str
    prompts: Sequence[Prompt]
    backend: str | None = None
    """None: chosen by the files."""
    options: TrialOptions = field(default_factory=TrialOptions)
    precision: float = 0.03
    budget: float | None = None
    cost: bool = True
    verify: bool = False
    reuse: Path | None = None
    tree: Path | None = None
    greedy_share: float = 0.0
    """At a temperature: the share of the prompts that is answered greedily all the same."""


@dataclass(slots=True)
class TrialWork:
    """What is there so far: kept when the trial ends half-way."""

    texts: list[TargetText] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)
    costs: list[Costs] = field(default_factory=list)
    floor: Costs | None = None
    stopped: str = "all prompts were used"
    incomplete: str | None = None
