"""What the user says about a deployment: a frozen dataclass, no I/O.

Numbers come from options, deploy files, lists of models and Python callers. They are held against
limits here, where all of these meet, so that nothing behind counts up to a number without end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from draftcheck.errors import UsageError
from draftcheck.values.memory import Machine

LARGEST = 1 << 40
LEAST = {
    "context": 1, "sequences": 1, "tensor_parallel": 1, "draft_tensor_parallel": 1,
    "pipeline_parallel": 1, "draft_tokens": 1, "draft_gpu": 0,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What the user says about the deployment; None: nothing."""

    context: int | None = None
    """Tokens per sequence."""
    sequences: int | None = None
    tensor_parallel: int | None = None
    draft_tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    """Stages that the target's layers are cut into."""
    dtype: str | None = None
    kv_dtype: str | None = None
    draft_tokens: int | None = None
    memory_fraction: float | None = None
    gpu: str | None = None
    """What --gpu said."""
    capability: tuple[int, int] | None = None
    """Compute capability of that GPU; of several, the lowest."""
    machine: Machine | None = None
    """The devices that gpu names."""
    draft_gpu: int | None = None
    """Number of the device that holds the draft alone, from 0."""

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            number = getattr(self, name)
            if number is not None and not (type(number) is int and least <= number <= LARGEST):
                raise UsageError(f"{name} is no whole number from {least} to {LARGEST:,}")
        share = self.memory_fraction
        if share is not None and not (isinstance(share, int | float) and 0 < share <= 1):
            raise UsageError("memory_fraction is no number above 0, up to 1")


class CircumstanceWords(TypedDict, total=False):
    """The circumstances that a user says word by word: keyword arguments of the Python API."""

    context: int | None
    sequences: int | None
    tensor_parallel: int | None
    draft_tensor_parallel: int | None
    pipeline_parallel: int | None
    dtype: str | None
    kv_dtype: str | None
    draft_tokens: int | None
    memory_fraction: float | None
    gpu: str | None
    draft_gpu: int | None
