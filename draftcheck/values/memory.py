"""What a memory answer holds, and the devices it is about. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device."""

    name: str
    memory: int
    """Bytes: what the driver reports as total, for a program where that is known."""
    free: int | None = None
    """Bytes free now; known only when the driver was asked."""
    bandwidth: int | None = None
    """Bytes per second."""
    flops: float | None = None
    """Dense 16-bit operations per second."""
    capability: tuple[int, int] | None = None
    """CUDA compute capability."""
    held_back: tuple[int, int, int] = (0, 0, 0)
    """What the driver keeps of `memory`: low, typical, high."""
    maker: str | None = None
    """nvidia, amd or apple; None where only an amount of memory is known."""

    @property
    def usable(self) -> int:
        """Bytes that programs can have in all, typically."""
        return self.memory - self.held_back[1]

    @property
    def available(self) -> int:
        """Bytes that an engine finds at its start, typically."""
        return self.usable if self.free is None else min(self.free, self.usable)


@dataclass(frozen=True, slots=True)
class Machine:
    """The devices that the user named, in order."""

    spec: str
    devices: tuple[Gpu, ...]

    @property
    def capability(self) -> tuple[int, int] | None:
        """The lowest compute capability that is known."""
        return min((gpu.capability for gpu in self.devices if gpu.capability), default=None)


class Fit(StrEnum):
    """The answer in a word."""

    FITS = "fits"
    TIGHT = "tight"
    DOES_NOT_FIT = "does-not-fit"
    CANNOT_TELL = "cannot-tell"


class Basis(StrEnum):
    """How well a number is known."""

    EXACT = "exact"
    MODELLED = "modelled"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """One thing that takes memory on one device."""

    name: str
    owner: str
    """target, draft or engine."""
    nbytes: int
    basis: Basis
    low: int
    high: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class DeviceFit:
    """One device: what lies on it, against what it has."""

    gpu: str
    available: int
    """Bytes that the engine may use on it."""
    parts: tuple[MemoryPart, ...]
    slack: tuple[int, int] = (0, 0)
    """How much less, or more, than `available` there may be."""

    @property
    def required(self) -> int:
        return sum(part.nbytes for part in self.parts)

    @property
    def low(self) -> int:
        return sum(part.low for part in self.parts)

    @property
    def high(self) -> int:
        return sum(part.high for part in self.parts)

    @property
    def headroom(self) -> int:
        return self.available - self.required

    @property
    def answer(self) -> Fit:
        if self.low > self.available + self.slack[1]:
            return Fit.DOES_NOT_FIT
        if self.high <= self.available - self.slack[0]:
            return Fit.FITS
        return Fit.TIGHT if self.required <= self.available else Fit.DOES_NOT_FIT

    def total(self, name: str, owner: str) -> int:
        return sum(p.nbytes for p in self.parts if p.name == name and p.owner == owner)


@dataclass(frozen=True, slots=True)
class Limits:
    """How far one can go on this machine; None: not even one token, or not known."""

    context: int | None
    sequences: int | None


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """Whether a pair fits a machine with an engine, and what would change that."""

    machine: str
    engine: str
    version: str
    context: int
    sequences: int
    """As asked for."""
    kv_dtype: str
    answer: Fit
    devices: tuple[DeviceFit, ...] = ()
    draft_tokens: int = 0
    limits: Limits = Limits(None, None)
    alone: Limits = Limits(None, None)
    """The same without the draft."""
    changes: tuple[str, ...] = ()
    """What would make it fit, the smallest change first."""
    notes: tuple[str, ...] = ()
    when_full: Mapping[str, Any] = field(default_factory=dict)
    """What the engine does when it does not fit: reaction, severity, says, without."""
    per_token: tuple[int, int] = (0, 0)
    """Bytes that one more token of context costs: target, draft."""
    at_once: int = 1
    """Sequences that the devices were counted with: fewer where an engine lets the rest wait."""
    ranks: int = 1
    """Of the target's tensor-parallel group."""

    @property
    def fullest(self) -> DeviceFit | None:
        """The device with the least headroom."""
        return min(self.devices, key=lambda device: device.headroom, default=None)
