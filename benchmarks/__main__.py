"""Run every benchmark and print one table; exit 1 when a promise is not kept."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks import models, peers
from benchmarks.measure import peak_megabytes, seconds
from benchmarks.rows import Row, show

ANSWERS = (0, 1, 3)
"""Exit codes of a verdict, whatever it says."""


def pair(target: Path, draft: Path) -> list[str]:
    return [sys.executable, "-m", "draftcheck", "pair", str(target), str(draft), "--quiet"]


def verdicts(work: Path, rounds: int) -> list[Row]:
    """A whole verdict on two models of 150k tokens against reading them in other ways."""
    folders = models.folders(work / "folders", 150_000)
    files = models.ggufs(work / "ggufs", 150_000)
    others = {
        "AutoTokenizer": peers.auto_tokenizer(*folders),
        "GGUFReader": peers.gguf_reader(*files),
        "llama.cpp": peers.llama_cpp(*files),
    }
    costs = {name: seconds(command, rounds) for name, command in others.items() if command}
    ours = {
        form: seconds(pair(*made), rounds, ANSWERS)
        for form, made in (("folders", folders), ("gguf", files))
    }
    rows = []
    for form, cost in ours.items():
        rows += _against(f"verdict, 150k tokens, {form}", cost, costs, "AutoTokenizer", 1 / 10)
        rows += _against(f"verdict, 150k tokens, {form}", cost, costs, "GGUFReader", 1 / 20)
    rows += _against("verdict, 150k tokens, gguf", ours["gguf"], costs, "llama.cpp", 1.0)
    return rows


def _against(name: str, cost: float, costs: dict[str, float], peer: str, limit: float) -> list[Row]:
    if peer not in costs:
        print(f"skipped: {name} against {peer}: {peers.WHY[peer]}", file=sys.stderr)
        return []
    return [Row(f"{name} / {peer} x 2", cost, costs[peer], limit, "s")]


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
    bare = seconds([sys.executable, "-c", "import click"], rounds)
    rows = []
    for option in ("--help", "--version"):
        ours = seconds([sys.executable, "-m", "draftcheck", option], rounds)
        rows.append(Row(f"draftcheck {option} / import click", ours, bare, 3.0, "s"))
    return rows


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        rows = [*verdicts(work, rounds), *memory(work), *start(3 * rounds)]
    return show(rows)


if __name__ == "__main__":
    sys.exit(main())
