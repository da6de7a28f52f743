"""Judging on a Ray cluster of this machine: four workers against one, and the same verdicts.

python -m benchmarks.scan_ray; needs the ray extra. CPU-bound, so cores bound what it can gain.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.rows import Row, show
from benchmarks.scan import folders
from draftcheck.judge.condensed import facts as condensed
from draftcheck.models.read import read
from draftcheck.models.refs import parse
from draftcheck.rulebook import book
from draftcheck.scan.judging import JudgeTask, StoredModel, judge_pairs
from draftcheck.scan.ray import open_cluster
from draftcheck.scan.rows import FactsRow

BATCHES, DRAFTS = 64, 24
GAIN = 2.5
WORKERS = 4


def tasks(work: Path) -> list[JudgeTask]:
    """So many batches of pairs, all from two models."""
    large, small = (_known(path) for path in folders(work))
    asked = tuple(book.engine_files())
    return [
        JudgeTask(
            large,
            tuple(
                StoredModel(
                    f"draft-{batch}-{number}", replace(small.facts, digest=f"{batch}-{number}")
                )
                for number in range(DRAFTS)
            ),
            asked,
            {},
            False,
        )
        for batch in range(BATCHES)
    ]


def _known(path: Path) -> StoredModel:
    entry = condensed.condense(read(parse(str(path))))
    return StoredModel(path.name, FactsRow(path.name, entry))


def timed(work: list[JudgeTask], workers: int) -> tuple[float, dict[str, Any]]:
    """Seconds for all batches once the workers are warm, and what they found."""
    cluster = open_cluster(None, workers=workers)
    try:
        warm = work[: 2 * workers]
        list(cluster.run(judge_pairs, warm, "cpu", lambda: False))
        start = time.monotonic()
        found: dict[str, Any] = {}
        for _, rows in cluster.run(judge_pairs, work, "cpu", lambda: False):
            found.update(rows)
        return time.monotonic() - start, found
    finally:
        cluster.close()


def main() -> int:
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        work = tasks(Path(folder))
        here = dict(pair for task in work for pair in judge_pairs(task))
        one, first = timed(work, 1)
        many, second = timed(work, WORKERS)
    if not here == first == second:
        print("the cluster finds something else than this process", file=sys.stderr)
        return 1
    count = sum(map(len, here.values()))
    print(f"{count} verdicts: 1 worker {one:.1f} s, {WORKERS} workers {many:.1f} s, {cores} cores,"
          f" load {os.getloadavg()[0]:.1f}", file=sys.stderr)  # fmt: skip
    if cores < WORKERS:
        print(f"{cores} cores: nothing is promised for {WORKERS} workers", file=sys.stderr)
        return 0
    return show([Row(f"{WORKERS} workers / 1", many, one, 1 / GAIN, "s")])


if __name__ == "__main__":
    sys.exit(main())
