"""GPUs: a text such as `h200`, `2x rtx-4090`, `24GiB` or `auto` -> the devices of a machine.

The one place where such a text is understood: options, manifests, rule cases and stores use it.
Known GPUs are rules/gpus.toml, by every spelling of their names; for `auto` this machine's
drivers are asked (NVIDIA, torch, ROCm, Metal), and every question is timed.
"""

from __future__ import annotations

import csv
import difflib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal, TypedDict

from draftcheck.errors import UsageError
from draftcheck.rulebook import files
from draftcheck.rulebook.files import Names, RuleRow, Text
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.memory import Gpu, Machine

MIB = 1 << 20
GIB = 1 << 30
MAX_DEVICES = 1024
"""Of one machine."""
_MAKERS = re.compile(r"\b(nvidia|geforce|tesla|quadro|amd|radeon|instinct|apple)\b")
MAX_MEMORY = 1 << 50
UNITS = {"gib": GIB, "g": GIB, "gb": 10**9, "mib": MIB, "m": MIB, "mb": 10**6}
_COUNT = re.compile(r"(\d{1,9})\s*[x×*]\s*(.+)", re.IGNORECASE)
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(gib|gb|g|mib|mb|m)", re.IGNORECASE)
SECONDS = 10.0
TORCH_SECONDS = 60.0
_SMI = "name,uuid,memory.total,memory.free,memory.reserved,compute_cap"
_BUILT_FOR = re.compile(r"^(?:cuda|hip)\b[^=\n]*=\s*['\"]", re.MULTILINE)
# Its own process: importing torch takes seconds and memory that a static verdict never needs.
_TORCH = """
import json, torch
rows = []
for i in range(torch.cuda.device_count()):
    free, total = torch.cuda.mem_get_info(i)
    cap = list(torch.cuda.get_device_capability(i)) if torch.version.cuda else None
    rows.append([torch.cuda.get_device_name(i), total, free, cap])
print(json.dumps(rows))
"""


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
    tflops: int | None = None
    capability: tuple[int, int] | None = None
    maker: Literal["nvidia", "amd"] = "nvidia"


class GpuSpeeds(TypedDict, total=False):
    bandwidth: int | None
    flops: float | None


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


def parse(spec: str) -> Machine:
    """Find the machine that a --gpu text means; a UsageError says what could be meant."""
    if spec.strip().lower() == "auto":
        return Machine("auto", ask())
    devices: list[Gpu] = []
    for part in map(str.strip, spec.split("+")):
        if not part:
            hint = "For example h200, or 24GiB."
            raise UsageError(f"--gpu {spec[:80]!r} names no GPU", hint=hint)
        match = _COUNT.fullmatch(part)
        count, name = (int(match[1]), match[2].strip()) if match else (1, part)
        if not 1 <= count <= MAX_DEVICES:
            raise UsageError(f"--gpu {spec[:80]!r}: {count} GPUs; from 1 to {MAX_DEVICES:,} work")
        devices += [_one(name)] * count
        if len(devices) > MAX_DEVICES:
            raise UsageError(f"--gpu {spec[:80]!r} names more than {MAX_DEVICES:,} GPUs")
    return Machine(spec.strip(), tuple(devices))


def placed(circumstances: Circumstances) -> Circumstances:
    """Add the devices that the circumstances' ``gpu`` names, and what these can do."""
    if circumstances.gpu is None:
        return circumstances
    machine = parse(circumstances.gpu)
    return replace(circumstances, machine=machine, capability=machine.capability)


def _one(text: str) -> Gpu:
    if match := _SIZE.fullmatch(text):
        memory = int(float(match[1]) * UNITS[match[2].lower()])
        if not 0 < memory <= MAX_MEMORY:
            raise UsageError(f"--gpu {text[:80]!r}: no GPU has {memory:,} bytes")
        return Gpu(text, memory)
    known = names()
    rows = known.get(slug(text), [])
    if len(rows) == 1:
        return rows[0]
    if rows:
        raise UsageError(
            f"--gpu {text[:80]!r} comes with several memories",
            hint=f"Name one: {', '.join(gpu.name for gpu in rows)}.",
        )
    near = difflib.get_close_matches(slug(text)[:80], known, n=4, cutoff=0.5)
    meant = dict.fromkeys(gpu.name for name in near for gpu in known[name])
    hint = f"Near: {', '.join(meant)}. " if meant else ""
    raise UsageError(
        f"--gpu {text[:80]!r}: no such GPU in the table",
        hint=f"{hint}A memory such as 24GiB always works.",
    )


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
            flops=row.tflops * 1e12 if row.tflops else None,
            capability=row.capability,
            held_back=(0, 0, 0) if row.usable else held_back,
            maker=row.maker,
        )
        for name in (row.name, *row.aliases):
            spellings.setdefault(name, []).append(gpu)
    for chip in table.apple:
        for gib in chip.gib:
            memory = usable_of_unified(gib * GIB)
            name, bandwidth = f"{chip.chip}-{gib}gb", chip.bandwidth * 10**9
            gpu = Gpu(name, memory, bandwidth=bandwidth, maker="apple")
            for name in (gpu.name, chip.chip):
                spellings.setdefault(name, []).append(gpu)
    return spellings


def ask() -> tuple[Gpu, ...]:
    """Ask for the GPUs of this machine and what is free on each; an error when none answers."""
    for question in (_nvidia, _torch, _rocm, _metal):
        if answer := question():
            return answer
    raise UsageError(
        "--gpu auto: no GPU answers here (nvidia-smi, torch, rocm-smi, Metal)",
        hint="Name the GPU that will serve, such as rtx-4090 or 24GiB.",
    )


def here() -> Machine | None:
    """Ask for the GPUs of this machine where there are any; never an error."""
    if not present():
        return None
    try:
        return Machine("auto", ask())
    except UsageError:
        return None


def present() -> bool:
    """Whether a driver's tool is installed here; starts nothing."""
    if shutil.which("nvidia-smi") or shutil.which("rocm-smi"):
        return True
    return platform.system() == "Darwin" and platform.machine() == "arm64"


def _output(*command: str, seconds: float = SECONDS) -> str:
    """What a program prints; nothing when it is missing, fails or takes too long."""
    program = shutil.which(command[0])
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, *command[1:]],
            capture_output=True,
            timeout=seconds,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout[: 1 << 20].decode("utf-8", "replace")


def _nvidia() -> tuple[Gpu, ...]:
    text = _output("nvidia-smi", f"--query-gpu={_SMI}", "--format=csv,noheader,nounits")
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines())]
    rows = [row for row in rows if len(row) == 6]
    listed = [gpu for row in rows if (gpu := _smi_row(row))]
    return tuple(_visible(listed, [row[1] for row in rows]))


def _smi_row(row: list[str]) -> Gpu | None:
    """One line of nvidia-smi; [N/A] where the driver does not know (unified memory)."""
    name, _, total, free, reserved, capability = row
    if not total.isdigit():
        return None
    kept = int(reserved) if reserved.isdigit() else 0
    match = re.fullmatch(r"(\d+)\.(\d+)", capability)
    return Gpu(
        name=name,
        memory=(int(total) - kept) * MIB,
        free=int(free) * MIB if free.isdigit() else None,
        **_speeds(name),
        capability=(int(match[1]), int(match[2])) if match else None,
        maker="nvidia",
    )


def _visible(listed: list[Gpu], uuids: list[str]) -> list[Gpu]:
    """Those that CUDA_VISIBLE_DEVICES leaves; all of them where it says nothing that we read."""
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None or len(uuids) != len(listed):
        return listed
    kept = []
    for word in filter(None, (part.strip() for part in wanted.split(","))):
        if word.isdigit() and int(word) < len(listed):
            kept.append(listed[int(word)])
            continue
        matches = [i for i, uuid in enumerate(uuids) if word and uuid.startswith(word)]
        if len(matches) != 1:
            break  # CUDA, too, stops at the first one that it does not know
        kept.append(listed[matches[0]])
    return kept


def _torch() -> tuple[Gpu, ...]:
    """torch, when it is there and was built for a GPU; asked in a process of its own."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return ()
    try:
        version = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ()
    if not _BUILT_FOR.search(version):
        return ()
    text = _output(sys.executable, "-c", _TORCH, seconds=TORCH_SECONDS)
    try:
        return tuple(
            Gpu(
                name=str(name),
                memory=int(total),
                free=int(free),
                **_speeds(str(name)),
                capability=(int(capability[0]), int(capability[1])) if capability else None,
                maker="nvidia" if capability else "amd",
            )
            for name, total, free, capability in json.loads(text or "[]")
        )
    except (ValueError, TypeError, IndexError):
        return ()


def _rocm() -> tuple[Gpu, ...]:
    text = _output("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json")
    try:
        cards = json.loads(text or "{}")
    except ValueError:
        return ()
    answering = []
    for name, card in cards.items() if isinstance(cards, dict) else ():
        if not isinstance(card, dict):
            continue
        total = str(card.get("VRAM Total Memory (B)", ""))
        used = str(card.get("VRAM Total Used Memory (B)", ""))
        if total.isdigit() and int(total):
            label = str(card.get("Card Series") or card.get("Card series") or name)
            free = int(total) - int(used) if used.isdigit() else None
            answering.append(Gpu(label, int(total), free, **_speeds(label), maker="amd"))
    return tuple(answering)


def _metal() -> tuple[Gpu, ...]:
    if platform.system() != "Darwin":
        return ()
    memory = _output("sysctl", "-n", "hw.memsize").strip()
    chip = _output("sysctl", "-n", "machdep.cpu.brand_string").strip()
    if not memory.isdigit() or not chip.startswith("Apple"):
        return ()
    limit = _output("sysctl", "-n", "iogpu.wired_limit_mb").strip()
    raised = int(limit) * MIB if limit.isdigit() else 0
    usable = raised or usable_of_unified(int(memory))
    return (Gpu(chip, usable, **_speeds(f"{chip} {int(memory) // GIB}gb"), maker="apple"),)


def _speeds(name: str) -> GpuSpeeds:
    rows = names().get(slug(name), [])
    if len(rows) != 1:
        return {}
    return {"bandwidth": rows[0].bandwidth, "flops": rows[0].flops}
