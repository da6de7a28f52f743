"""`h200`, `2x rtx-4090`, `24GiB`, `auto` -> the devices of a machine.

The one place where such a text is understood: options, manifests, rule cases and stores use it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import replace

from draftcheck.errors import UsageError
from draftcheck.memory import drivers, gpus
from draftcheck.memory.gpus import GIB, MAX_DEVICES, MIB
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.memory import Gpu, Machine

MAX_MEMORY = 1 << 50
UNITS = {"gib": GIB, "g": GIB, "gb": 10**9, "mib": MIB, "m": MIB, "mb": 10**6}
_COUNT = re.compile(r"(\d{1,9})\s*[x×*]\s*(.+)", re.IGNORECASE)
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(gib|gb|g|mib|mb|m)", re.IGNORECASE)


def parse(spec: str) -> Machine:
    """Find the machine that a --gpu text means; a UsageError says what could be meant."""
    if spec.strip().lower() == "auto":
        return Machine("auto", drivers.ask())
    devices: list[Gpu] = []
    for part in spec.split("+"):
        for gpu in _several(part.strip(), spec):
            devices.append(gpu)
            if len(devices) > MAX_DEVICES:
                raise UsageError(f"--gpu {spec[:80]!r} names more than {MAX_DEVICES:,} GPUs")
    return Machine(spec.strip(), tuple(devices))


def placed(circumstances: Circumstances) -> Circumstances:
    """Add the devices that the circumstances' ``gpu`` names, and what these can do."""
    if circumstances.gpu is None:
        return circumstances
    machine = parse(circumstances.gpu)
    return replace(circumstances, machine=machine, capability=machine.capability)


def _several(part: str, spec: str) -> Iterator[Gpu]:
    if not part:
        raise UsageError(f"--gpu {spec[:80]!r} names no GPU", hint="For example h200, or 24GiB.")
    count = 1
    if match := _COUNT.fullmatch(part):
        count, part = int(match[1]), match[2].strip()
        if not 1 <= count <= MAX_DEVICES:
            raise UsageError(f"--gpu {spec[:80]!r}: {count} GPUs; from 1 to {MAX_DEVICES:,} work")
    if match := _SIZE.fullmatch(part):
        memory = int(float(match[1]) * UNITS[match[2].lower()])
        if not 0 < memory <= MAX_MEMORY:
            raise UsageError(f"--gpu {part[:80]!r}: no GPU has {memory:,} bytes")
        gpu = Gpu(part, memory)
    else:
        gpu = _one(part)
    for _ in range(count):
        yield gpu


def _one(text: str) -> Gpu:
    names = gpus.names()
    rows = names.get(gpus.slug(text), [])
    if len(rows) == 1:
        return rows[0]
    if rows:
        raise UsageError(
            f"--gpu {text[:80]!r} comes with several memories",
            hint=f"Name one: {', '.join(gpu.name for gpu in rows)}.",
        )
    near = difflib.get_close_matches(gpus.slug(text)[:80], names, n=4, cutoff=0.5)
    meant = dict.fromkeys(gpu.name for name in near for gpu in names[name])
    hint = f"Near: {', '.join(meant)}. " if meant else ""
    raise UsageError(
        f"--gpu {text[:80]!r}: no such GPU in the table",
        hint=f"{hint}A memory such as 24GiB always works.",
    )
