"""The same scan on a real Ray cluster of several workers, one of which is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from draftcheck.scan.ray import count_requests
from tests.conftest import ROOT
from tests.hub import Hub
from tests.hub.process import HANGS, Draftcheck
from tests.scan.world import TARGET, assert_same, results

pytestmark = pytest.mark.ray
pytest.importorskip("ray", reason="Ray is not installed (the ray extra)")
if not Path("/proc").is_dir():
    pytest.skip("looks for worker processes in /proc", allow_module_level=True)


def descendants(root: int) -> Iterator[tuple[int, str]]:
    """Processes that this one started, and what they are called."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                names[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
                parents[int(entry.name)] = int(stat[1])
            except (OSError, ValueError):
                continue
    for pid in parents:
        at = pid
        while at in parents and at != root:
            at = parents[at]
        if at == root and pid != root:
            yield pid, names[pid]


def kill_one_at_work(root: int, patience: float) -> str | None:
    """Kill a worker that is doing a task; its name."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        for pid, name in descendants(root):
            if name.startswith(f"ray::{count_requests.__name__}"):
                os.kill(pid, signal.SIGKILL)
                return name
        time.sleep(0.05)
    return None


def test_a_cluster_finds_what_threads_find(
    hub: Hub, draftcheck: Draftcheck, tmp_path: Path
) -> None:
    arguments = ["scan", "--target", TARGET, "--quiet", "--store"]
    assert draftcheck(*arguments, tmp_path / "local.db").code == 0
    hub.reset()
    hub.fault("delay", path="/api/models/*", times=None, seconds=1.0)
    home = tmp_path / "cluster"
    home.mkdir()
    store = tmp_path / "ray.db"
    command = [*arguments, str(store), "--executor", "ray", "--workers", "4"]
    child = subprocess.Popen(
        [sys.executable, "-m", "draftcheck", *command],
        env={**hub.env(home), "PYTHONPATH": str(ROOT)},
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        killed = kill_one_at_work(child.pid, 120)
        out, err = child.communicate(timeout=HANGS)
    finally:
        child.kill()
        child.wait()
    assert killed is not None, "no worker was seen at work"
    assert child.returncode == 0, out + err
    assert_same(results(store), results(tmp_path / "local.db"))


def test_no_cluster_there(draftcheck: Draftcheck, tmp_path: Path) -> None:
    ran = draftcheck(
        "scan", "--target", TARGET, "--store", tmp_path / "s.db", "--executor", "ray:127.0.0.1:1"
    )
    assert ran.code == 3 and "no Ray cluster at 127.0.0.1:1" in ran.err
