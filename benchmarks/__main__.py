"""Run every promise about a verdict and print one table; exit 1 when one is not kept.

python -m benchmarks [ROUNDS]. Ours and the peers' commands take turns in one run. With real
tokenizers where DRAFTCHECK_REALDATA names the folder that holds them, else with made-up ones.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks import models, peers
from benchmarks.measure import Command, cpu_seconds, peak_megabytes
from benchmarks.rows import Row, show

ANSWERS = (0, 1, 3)
"""Exit codes of a verdict, whatever it says."""
Pair = tuple[Path, Path]


def verdict(pair: Pair) -> Command:
    return Command(sys.executable, "-m", "draftcheck", "pair", *pair, "--quiet", codes=ANSWERS)


def verdicts(folders: Pair, files: Pair, rounds: int) -> list[Row]:
    """A whole verdict for all engines against reading the two vocabularies in other ways."""
    costs = cpu_seconds(
        {
            "AutoTokenizer": peers.auto_tokenizer(*folders),
            "GGUFReader": peers.gguf_reader(*files),
            "llama.cpp": peers.llama_cpp(*files),
            "folders": verdict(folders),
            "gguf": verdict(files),
        },
        rounds,
    )
    promises = (
        ("folders", "AutoTokenizer", 0.08),
        ("gguf", "GGUFReader", 0.03),
        ("gguf", "llama.cpp", 1.0),
    )
    rows = []
    for form, peer, limit in promises:
        if peer in costs:
            rows.append(Row(f"verdict, {form} / {peer} x 2", costs[form], costs[peer], limit, "s"))
        else:
            print(f"skipped: {form} against {peer}: {peers.WHY[peer]}", file=sys.stderr)
    return rows


def real(root: Path, work: Path) -> tuple[Pair, Pair]:
    """Qwen2.5 and Qwen3 as folders; Qwen2 as GGUF, and the same with another special token."""
    folders = []
    for name in ("qwen2_5", "qwen3"):
        folder = work / name
        shutil.copytree(root / "tokenizers" / name, folder)
        models.config(folder, 151_936)
        folders.append(folder)
    file = root / "gguf-vocab/ggml-vocab-qwen2.gguf"
    sibling = work / "sibling.gguf"
    sibling.write_bytes(file.read_bytes().replace(b"<|im_end|>", b"<|im_END|>"))
    return (folders[0], folders[1]), (file, sibling)


def memory(work: Path) -> list[Row]:
    """Peak memory of a verdict on two models of 262k tokens and 520k merges."""
    rows = []
    for form, made in (
        ("folders", models.folders(work / "large", 262_144, 2)),
        ("gguf", models.ggufs(work / "large-gguf", 262_144, 2)),
    ):
        peak = peak_megabytes(["pair", *map(str, made), "--quiet"])
        rows.append(Row(f"peak memory, 262k tokens, {form} / 300 MB", peak, 300, 1, "MB"))
    return rows


def start(rounds: int) -> list[Row]:
    """--help and --version against an interpreter that imports click."""
    options = ("--help", "--version")
    commands = {name: Command(sys.executable, "-m", "draftcheck", name) for name in options}
    bare = Command(sys.executable, "-c", "import click")
    costs = cpu_seconds({**commands, "click": bare}, rounds)
    return [
        Row(f"draftcheck {option} / import click", costs[option], costs["click"], 1.5, "s")
        for option in options
    ]


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    root = os.environ.get("DRAFTCHECK_REALDATA")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if root:
            print(f"Qwen2.5 and Qwen3 (folders), Qwen2 and a sibling (GGUF) of {root}")
            folders, files = real(Path(root), work)
        else:
            print("made-up vocabularies of 150k tokens: DRAFTCHECK_REALDATA names no real ones")
            folders = models.folders(work / "folders", 150_000)
            files = models.ggufs(work / "ggufs", 150_000)
        rows = [*verdicts(folders, files, rounds), *memory(work), *start(3 * rounds)]
    return show(rows)


if __name__ == "__main__":
    sys.exit(main())
