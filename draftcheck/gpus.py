"""`h200`, `2x rtx-4090`, `24GiB`, `auto` -> the devices of a machine. Names are rules/gpus.toml."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from draftcheck import rulefiles
from draftcheck.errors import UsageError
from draftcheck.memorytypes import Gpu, Machine

MIB = 1 << 20
GIB = 1 << 30
MAX_DEVICES = 1024
MAX_MEMORY = 1 << 50
UNITS = {"gib": GIB, "g": GIB, "gb": 10**9, "mib": MIB, "m": MIB, "mb": 10**6}
_COUNT = re.compile(r"(\d{1,9})\s*[x×*]\s*(.+)", re.IGNORECASE)
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(gib|gb|g|mib|mb|m)", re.IGNORECASE)
_MAKERS = re.compile(r"\b(nvidia|geforce|tesla|quadro|amd|radeon|instinct|apple)\b")


def parse(spec: str) -> Machine:
    """The machine that a --gpu text means; a UsageError says what could be meant."""
    if spec.strip().lower() == "auto":
        # Imported here: only `auto` starts other programs.
        from draftcheck import gpu_drivers

        return Machine("auto", gpu_drivers.ask())
    devices: list[Gpu] = []
    for part in spec.split("+"):
        for gpu in _several(part.strip(), spec):
            devices.append(gpu)
            if len(devices) > MAX_DEVICES:
                raise UsageError(f"--gpu {spec[:80]!r} names more than {MAX_DEVICES:,} GPUs")
    return Machine(spec.strip(), tuple(devices))


def named(text: str) -> Gpu | None:
    """The one GPU of that name in the table; None when there is none, or several."""
    rows = _names().get(slug(text), [])
    return rows[0] if len(rows) == 1 else None


def slug(text: str) -> str:
    """NVIDIA GeForce RTX 4090 -> rtx-4090."""
    plain = _MAKERS.sub(" ", text.strip().lower().replace("_", " ").replace("-", " "))
    return "-".join(plain.split())


def usable_of_unified(memory: int) -> int:
    """What Metal lets one process take of the machine's memory."""
    table = rulefiles.load("gpus")["unified"]
    over, under = table["share" if memory <= table["up_to_gib"] * GIB else "share_above"]
    return int(memory * over // under)


def _several(part: str, spec: str) -> Iterator[Gpu]:
    if not part:
        raise UsageError(f"--gpu {spec[:80]!r} names no GPU", hint="For example h200, or 24GiB.")
    count = 1
    if match := _COUNT.fullmatch(part):
        count, part = int(match[1]), match[2].strip()
        if not 1 <= count <= MAX_DEVICES:
            raise UsageError(f"--gpu {spec[:80]!r}: {count} GPUs; from 1 to {MAX_DEVICES:,} work")
    gpu = _size(part) or _one(part)
    for _ in range(count):
        yield gpu


def _size(text: str) -> Gpu | None:
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    memory = int(float(match[1]) * UNITS[match[2].lower()])
    if not 0 < memory <= MAX_MEMORY:
        raise UsageError(f"--gpu {text[:80]!r}: no GPU has {memory:,} bytes")
    return Gpu(text, memory)


def _one(text: str) -> Gpu:
    names = _names()
    rows = names.get(slug(text), [])
    if len(rows) == 1:
        return rows[0]
    if rows:
        raise UsageError(
            f"--gpu {text[:80]!r} comes with several memories",
            hint=f"Name one: {', '.join(gpu.name for gpu in rows)}.",
        )
    near = difflib.get_close_matches(slug(text)[:80], names, n=4, cutoff=0.5)
    meant = dict.fromkeys(gpu.name for name in near for gpu in names[name])
    hint = f"Near: {', '.join(meant)}. " if meant else ""
    raise UsageError(
        f"--gpu {text[:80]!r}: no such GPU in the table",
        hint=f"{hint}A memory such as 24GiB always works.",
    )


@cache
def _names() -> dict[str, list[Gpu]]:
    """Every spelling -> the GPUs that it can mean."""
    found: dict[str, list[Gpu]] = {}
    table = rulefiles.load("gpus")
    for row in table["gpu"]:
        gpu = _row(row, table["held_back"])
        for name in (row["name"], *row.get("aliases", ())):
            found.setdefault(name, []).append(gpu)
    for row in table["apple"]:
        for gib in row["gib"]:
            memory = usable_of_unified(gib * GIB)
            gpu = Gpu(f"{row['chip']}-{gib}gb", memory, bandwidth=row["bandwidth"] * 10**9)
            for name in (gpu.name, row["chip"]):
                found.setdefault(name, []).append(gpu)
    return found


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
