"""The GPUs of rules/gpus.toml by every spelling of their names."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from draftcheck.rulebook import files
from draftcheck.values.memory import Gpu

MIB = 1 << 20
GIB = 1 << 30
_MAKERS = re.compile(r"\b(nvidia|geforce|tesla|quadro|amd|radeon|instinct|apple)\b")


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
    table = files.load("gpus")["unified"]
    over, under = table["share" if memory <= table["up_to_gib"] * GIB else "share_above"]
    return int(memory * over // under)


@cache
def names() -> dict[str, list[Gpu]]:
    """Every spelling -> the GPUs that it can mean."""
    spellings: dict[str, list[Gpu]] = {}
    table = files.load("gpus")
    for row in table["gpu"]:
        gpu = _row(row, table["held_back"])
        for name in (row["name"], *row.get("aliases", ())):
            spellings.setdefault(name, []).append(gpu)
    for row in table["apple"]:
        for gib in row["gib"]:
            memory = usable_of_unified(gib * GIB)
            gpu = Gpu(f"{row['chip']}-{gib}gb", memory, bandwidth=row["bandwidth"] * 10**9)
            for name in (gpu.name, row["chip"]):
                spellings.setdefault(name, []).append(gpu)
    return spellings


def _row(row: dict[str, Any], held_back: dict[str, int]) -> Gpu:
    usable = row.get("usable")
    kept = tuple(held_back[name] * MIB for name in ("low", "typical", "high"))
    return Gpu(
        name=row["name"],
        memory=usable or row["mib"] * MIB,
        bandwidth=row["bandwidth"] * 10**9,
        capability=(row["capability"][0], row["capability"][1]) if "capability" in row else None,
        held_back=(0, 0, 0) if usable else (kept[0], kept[1], kept[2]),
    )
