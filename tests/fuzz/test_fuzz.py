"""Some hundred cases of every surface; `make fuzz MINUTES=…` runs more, with another seed.

DRAFTCHECK_FUZZ=20 runs twenty times as many.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.conftest import ROOT
from tests.fuzz import harness
from tests.fuzz.surfaces import SURFACES
from tests.hostile.support import LONG

SEED = 20261115


@pytest.mark.parametrize("name", SURFACES)
def test_surface(name: str) -> None:
    cases = int(SURFACES[name].suite * LONG)
    words = ["-m", "tests.fuzz", name, "--seed", str(SEED), "--cases", str(cases)]
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert f"{name}: {cases:,} cases, 0 failures" in done.stdout


def test_the_harness_sees_what_it_looks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each invariant fails for a command that breaks it."""

    def breaks(what: str) -> int:
        if what == "crash":
            return 70
        if what == "traceback":
            click.echo("Traceback (most recent call last):", err=True)
        if what == "changes":
            Path("kept").write_text("changed")
        if what == "runs":
            Path(harness.CANARY).touch()
        if what == "raw":
            click.echo("\u202e")
        if what == "hangs":
            while True:
                pass
        if what == "memory":
            assert bytearray(harness.PEAK_BYTES + (64 << 20))
        return 0

    monkeypatch.setattr(harness, "main", lambda words: breaks(words[0]))

    old = signal.signal(signal.SIGPROF, harness._too_long)
    try:
        for what, said in {
            "crash": "exit 70", "traceback": "traceback", "changes": "'kept' was changed",
            "runs": "executed", "raw": "raw characters", "hangs": "s of CPU", "memory": "MB more",
            "fine": None,
        }.items():  # fmt: skip
            # A slow machine may need seconds to touch the memory.
            monkeypatch.setattr(harness, "CPU_SECONDS", 1.5 if what == "hangs" else 60)
            case = harness.Case({"kept": b"x"}, (harness.Command((what,)),))
            found = harness.run(case, tmp_path / "case")
            assert found is None if said is None else said in (found or ""), (what, found)
    finally:
        signal.signal(signal.SIGPROF, old)
