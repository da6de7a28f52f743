"""The GPUs of rules/gpus.toml by every spelling of their names."""

from __future__ import annotations

import re
from functools import cache

from draftcheck.rulebook import files
from draftcheck.rulebook.files import Names, RuleRow, Text
from draftcheck.values.memory import Gpu

MIB = 1 << 20
GIB = 1 << 30
MAX_DEVICES = 1024
"""Of one machine."""
_MAKERS = re.compile(r"\b(nvidia|geforce|tesla|quadro|amd|radeon|instinct|apple)\b")


class HeldBack(RuleRow, frozen=True):
    """MiB that a driver keeps for itself."""

    low: int
    typical: int
    high: int


class UnifiedMemory(RuleRow, frozen=True):
    """The share of unified memory that Metal hands out, as [over, under]."""

    up_to_gib: int
    share: tuple[int, int]
    share_above: tuple[int, int]


class GpuRow(RuleRow, frozen=True):
    name: Text
    mib: int
    bandwidth: int
    aliases: Names = ()
    usable: int | None = None
    capability: tuple[int, int] | None = None


class AppleChip(RuleRow, frozen=True):
    chip: Text
    gib: tuple[int, ...]
    bandwidth: int


class GpuFile(RuleRow, frozen=True):
    """rules/gpus.toml."""

    held_back: HeldBack
    unified: UnifiedMemory
    gpu: tuple[GpuRow, ...]
    apple: tuple[AppleChip, ...]


def named(text: str) -> Gpu | None:
    """Find the one GPU of that name in the table; None when there is none, or several."""
    rows = names().get(slug(text), [])
    return rows[0] if len(rows) == 1 else None


def slug(text: str) -> str:
    """NVIDIA GeForce RTX 4090 -> rtx-4090."""
    plain = _MAKERS.sub(" ", text.strip().lower().replace("_", " ").replace("-", " "))
    return "-".join(plain.split())


def usable_of_unified(memory: int) -> int:
    """Tell what Metal lets one process take of the machine's memory."""
    unified = files.read("gpus", GpuFile).unified
    small = memory <= unified.up_to_gib * GIB
    over, under = unified.share if small else unified.share_above
    return int(memory * over // under)


@cache
def names() -> dict[str, list[Gpu]]:
    """Every spelling -> the GPUs that it can mean."""
    spellings: dict[str, list[Gpu]] = {}
    table = files.read("gpus", GpuFile)
    kept = table.held_back
    held_back = (kept.low * MIB, kept.typical * MIB, kept.high * MIB)
    for row in table.gpu:
        gpu = Gpu(
            name=row.name,
            memory=row.usable or row.mib * MIB,
            bandwidth=row.bandwidth * 10**9,
            capability=row.capability,
            held_back=(0, 0, 0) if row.usable else held_back,
        )
        for name in (row.name, *row.aliases):
            spellings.setdefault(name, []).append(gpu)
    for chip in table.apple:
        for gib in chip.gib:
            memory = usable_of_unified(gib * GIB)
            gpu = Gpu(f"{chip.chip}-{gib}gb", memory, bandwidth=chip.bandwidth * 10**9)
            for name in (gpu.name, chip.chip):
                spellings.setdefault(name, []).append(gpu)
    return spellings
