"""Killed at any point, a scan that goes on finds what an undisturbed one finds, once each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.hub import Hub
from tests.hub.process import HANGS, Draftcheck
from tests.scan.world import TARGET, assert_same, checkpoint, results

pytest.importorskip("huggingface_hub")
if sys.platform == "win32":
    pytest.skip("needs fork and SIGKILL", allow_module_level=True)


def arguments(store: Path) -> list[str]:
    pins = ["--pin", TARGET, "org/draft-1"]
    return ["scan", "--target", TARGET, *pins, "--store", str(store), "--quiet", "--workers", "1"]


def disturbed(hub: Hub, home: Path, store: Path, seed: int) -> int:
    """How often it was killed."""
    home.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.scan.killer", str(seed), *arguments(store)],
        env={**hub.env(home), "PYTHONPATH": str(ROOT)},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert "a bug" not in done.stderr, done.stderr
    return int(done.stderr.split("killed ")[-1].split()[0])


@pytest.mark.parametrize("seed", [1])
def test_two_nights(hub: Hub, tmp_path: Path, seed: int) -> None:
    calm, wild = tmp_path / "calm.db", tmp_path / "wild.db"
    quiet = Draftcheck(hub, tmp_path / "calm")
    assert quiet(*arguments(calm)).code == 0
    killed = disturbed(hub, tmp_path / "wild", wild, seed)
    assert_same(results(wild), results(calm))
    hub.add_repo("org/newcomer", checkpoint(layers=3))
    del hub.repos["org/draft-0"]
    hub.repos["org/draft-1"].commit(checkpoint(seed=1))
    hub.repos["org/draft-2"].gated = "auto"
    hub.repos["org/draft-2"].commit({**checkpoint(layers=2), "README.md": "# closed\n"})
    assert quiet(*arguments(calm)).code == 1
    killed += disturbed(hub, tmp_path / "wild", wild, seed + 100)
    expected = results(calm)
    assert {change.kind for change in expected["changes"]} >= {"new", "gone", "broke"}
    assert_same(results(wild), expected)
    assert killed >= 5, "too calm to prove anything"
