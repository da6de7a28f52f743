"""What is wrong with weight files: a frozen dataclass that travels inside WeightFacts; no I/O."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that the bytes of a checkpoint prove; rules say what it means."""

    kind: str
    """pointer, header, span, cut-off, missing-shard, missing-parameter, shape …"""
    file: str
    says: str
    tensor: str | None = None

    def __str__(self) -> str:
        return f"{self.file}: {self.says}" if self.file else self.says
