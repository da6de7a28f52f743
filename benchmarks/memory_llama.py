"""Our tables against llama.cpp's own figures, for a folder of GGUF files.

    python -m benchmarks.memory_llama DRY_RUN FOLDER

DRY_RUN is the program built from benchmarks/dry_run.cpp; FOLDER holds GGUF files, for example those
that llama.cpp's tests/test-llama-archs writes with --out: one or two per architecture.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from draftcheck.memory import caches, fit, profiles
from draftcheck.models.read import read
from draftcheck.models.refs import parse
from draftcheck.versions import build

BUILD = "b11312"
BITS = {"f16": 16.0, "q8_0": 8.5}
CASES = (
    (8192, 1, 0, "f16", 0), (8448, 3, 0, "q8_0", 0), (16384, 4, 1, "f16", 0),
    (8192, 2, 0, "f16", 3),
)  # fmt: skip


def truth(program: str, file: Path) -> list[int | None]:
    arguments = [str(part) for case in CASES for part in (file, *case)]
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith(str(file))]
    found = [
        int(line.split("context=")[1].split()[0]) if "context=" in line else None for line in lines
    ]
    return found + [None] * (len(CASES) - len(found))


def ours(file: Path) -> list[int]:
    profile = profiles.load("llama.cpp", BUILD, build)
    assert profile is not None
    table = fit.table(read(parse(str(file))))
    rolls = table.arch in profiles.table().rollback.architectures
    found = []
    for context, sequences, unified, kind, rollback in CASES:
        whole = -(-context // 256) * 256
        stream = whole if unified else -(-(whole // sequences) // 256) * 256
        found.append(
            caches.layer_cells(
                profile, table.layers, stream, 1 if unified else sequences, sequences,
                BITS[kind], rollback if rolls else 0, bool(unified),
            )
        )  # fmt: skip
    return found


def main() -> int:
    program, folder = sys.argv[1], Path(sys.argv[2])
    equal = other = skipped = 0
    for file in sorted(folder.glob("*.gguf")):
        for case, real, mine in zip(CASES, truth(program, file), ours(file), strict=True):
            if real is None:
                skipped += 1
            elif real == mine:
                equal += 1
            else:
                other += 1
                print(f"{file.name} {case}: llama.cpp {real:,}, ours {mine:,}")
    print(f"{equal} equal, {other} different, {skipped} that llama.cpp does not run")
    return 1 if other else 0


if __name__ == "__main__":
    raise SystemExit(main())
