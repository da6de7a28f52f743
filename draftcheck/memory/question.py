"""What a memory plan depends on: two models, an engine's habits, devices and circumstances."""

from __future__ import annotations

from dataclasses import dataclass, replace

from draftcheck.memory.profiles import Profile
from draftcheck.memory.shape import Shape
from draftcheck.values.facts import ModelFacts
from draftcheck.values.memory import Gpu


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """One model: its facts and its table."""

    facts: ModelFacts
    shape: Shape


@dataclass(frozen=True, slots=True)
class MemoryQuestion:
    """Everything that the plan depends on."""

    profile: Profile
    devices: tuple[Gpu, ...]
    target: PlannedModel
    draft: PlannedModel | None
    role: str
    """Of the draft: full, eagle3 …; itself: the target's own prediction layers; empty: none."""
    context: int
    sequences: int
    kv_dtype: str | None
    dtype: str | None
    ranks: int
    draft_ranks: int
    draft_tokens: int
    fraction: float | None
    draft_gpu: int | None
    sequences_said: bool
    stages: int = 1
    """Of a pipeline: the target's layers, cut into so many runs."""
    last: bool = True
    """Whether this is the stage that makes the logits and holds the draft."""

    def without_draft(self) -> MemoryQuestion:
        """Ask the same of the target alone."""
        return replace(self, draft=None, role="", draft_gpu=None)
