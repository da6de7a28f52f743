"""What the user says about a deployment: a frozen dataclass, no I/O.

Options, lists, deploy files and Python callers all end here, so the numbers are bounded here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from draftcheck.errors import UsageError
from draftcheck.values.memory import Machine

MOST = 2**40
_COUNTS = ("context", "sequences", "tensor_parallel", "draft_tensor_parallel",
           "pipeline_parallel", "draft_tokens")  # fmt: skip


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
        for name, least in (*((name, 1) for name in _COUNTS), ("draft_gpu", 0)):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and least <= value <= MOST):
                raise UsageError(f"{name} must be a whole number from {least} to {MOST:,}")
        fraction = self.memory_fraction
        if fraction is not None and not (isinstance(fraction, int | float) and 0 < fraction <= 1):
            raise UsageError("memory_fraction must be a number above 0, and at most 1")


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
