"""What is asked of a trial, and what it has measured so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from draftcheck.trial.backends.backend import TargetText, TrialOptions
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.simulate.traces import Trace
from draftcheck.trial.simulate.trees import DraftTree
from draftcheck.trial.speedup import Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPlan:
    """What is asked of a trial; api.trial makes it."""

    target: str
    draft: str
    prompts: Sequence[Prompt]
    backend: str | None = None
    """None: chosen by the files."""
    options: TrialOptions = field(default_factory=TrialOptions)
    """What the backend has to know."""
    precision: float = 0.03
    """Enough prompts were asked when acceptance is known to within this."""
    budget: float | None = None
    """Seconds after which no more prompts are asked."""
    cost: bool = True
    """Time steps too."""
    verify: bool = False
    """Also speculate for real."""
    reuse: Path | None = None
    """Where the target's texts are kept, or come from."""
    tree: DraftTree | None = None
    """A tree of the user's, beside the best ones."""
    greedy_share: float = 0.0
    """At a temperature: the share of the prompts that is answered greedily all the same."""


@dataclass(slots=True)
class TrialWork:
    """What is there so far: kept when the trial ends half-way."""

    texts: list[TargetText] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)
    costs: list[Costs] = field(default_factory=list)
    """One for each number of sequences at once."""
    floor: Costs | None = None
    stopped: str = "all prompts were used"
    incomplete: str | None = None
    """Why it ended before it was done."""
