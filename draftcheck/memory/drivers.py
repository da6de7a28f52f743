"""Ask this machine's drivers for its GPUs: NVIDIA, torch, ROCm, Metal. Every question is timed."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from draftcheck.errors import UsageError
from draftcheck.memory import gpus
from draftcheck.memory.gpus import MIB
from draftcheck.values.memory import Gpu, Machine

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
        bandwidth=_bandwidth(name),
        capability=(int(match[1]), int(match[2])) if match else None,
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
                bandwidth=_bandwidth(str(name)),
                capability=(int(capability[0]), int(capability[1])) if capability else None,
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
            answering.append(Gpu(label, int(total), free, _bandwidth(label)))
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
    usable = raised or gpus.usable_of_unified(int(memory))
    return (Gpu(chip, usable, bandwidth=_bandwidth(f"{chip} {int(memory) // gpus.GIB}gb")),)


def _bandwidth(name: str) -> int | None:
    known = gpus.named(name)
    return known.bandwidth if known else None
