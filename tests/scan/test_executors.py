"""Threads and processes: every result once, a worker that dies, a scan that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from draftcheck.scan.executors import FEW, LocalRunner
from tests.conftest import ROOT
from tests.scan import work

ORPHANS = """
import sys
from draftcheck.scan.executors import LocalRunner
from tests.scan import work
if __name__ == "__main__":
    for _ in LocalRunner(2).run(work.sleep, [sys.argv[1]] * 20, "cpu", lambda: False):
        pass
"""


def never() -> bool:
    return False


@pytest.mark.parametrize("kind", ["io", "cpu", "gpu"])
@pytest.mark.parametrize("count", [0, 3, FEW, FEW + 1, 40])
def test_every_result_once(kind: str, count: int) -> None:
    runner = LocalRunner(2 if kind == "cpu" and count == 40 else 1)
    try:
        found = list(runner.run(work.square, range(count), kind, never))
    finally:
        runner.close()
    assert sorted(found) == [(number, number * number) for number in range(count)]


def test_a_worker_that_dies(tmp_path: Path) -> None:
    runner = LocalRunner(2)
    items = [(str(tmp_path / "flag"), number) for number in range(FEW + 8)]
    try:
        found = [result for _, result in runner.run(work.die_once, items, "cpu", never)]
    finally:
        runner.close()
    assert sorted(found) == list(range(FEW + 8))


@pytest.mark.parametrize("kind", ["io", "gpu"])
def test_no_task_is_begun_when_time_is_up(kind: str) -> None:
    runner = LocalRunner(1)
    seen: list[int] = []
    for number, _ in runner.run(work.square, range(100), kind, lambda: len(seen) >= 5):
        seen.append(number)
    runner.close()
    assert 5 <= len(seen) < 60


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes in /proc")
def test_workers_of_a_killed_scan_end(tmp_path: Path) -> None:
    script = tmp_path / "orphans.py"
    script.write_text(ORPHANS)
    signs = tmp_path / "signs"
    signs.mkdir()
    child = subprocess.Popen(
        [sys.executable, str(script), str(signs)], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    end = time.monotonic() + 60
    while len(list(signs.iterdir())) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    workers = [Path("/proc") / sign.name for sign in signs.iterdir()]
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert len(workers) == 2
    while any(worker.exists() for worker in workers) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(worker.exists() for worker in workers)
