"""draftcheck as a process of its own: its Hub, its caches, limits, and what it must never do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conftest import ROOT, Ran
from tests.hub import forks
from tests.hub.hub import Hub
from tests.report import make_schemas

HANGS = 180
"""Seconds after which a process counts as hanging; nothing here takes a tenth of it."""
MEMORY = 2 << 30
"""Address space: nothing here is worth more, and no length in an answer may be believed."""
LIMITED = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background ignores it
import draftcheck.models.sources.hub.client as client
client.PAUSE /= 20  # nobody wants to wait that long between two tries
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
except ImportError:
    pass
"""
WITHOUT_SLEEP = """
import types, time as real
from draftcheck.models.sources import progress
from draftcheck.models.sources.hub import budget
slept = [0.0]
budget.time = types.SimpleNamespace(monotonic=lambda: real.monotonic() + slept[0])
def sleep(self, seconds, shown):
    slept[0] += seconds
    progress.came("", 0, shown)
    with open("waits", "a") as notes:
        print(seconds, file=notes)
client.HubClient._sleep = sleep
"""
"""Waits take no time, and are noted."""
RUN = """
import runpy, sys
sys.argv[0] = "draftcheck"
runpy.run_module("draftcheck", run_name="__main__", alter_sys=True)
"""
PREFIXES = ("error: ", "hint: ", "warning: ")


class Draftcheck:
    """Call it with the arguments of a command line."""

    def __init__(self, hub: Hub, home: Path, token: str | None = None, **more: str) -> None:
        self.hub, self.home, self.token, self.more = hub, home, token, more
        self.first = LIMITED
        """Python that is run before."""

    def skip_waits(self) -> Draftcheck:
        """Let it wait in no time."""
        self.first = LIMITED + WITHOUT_SLEEP
        return self

    @property
    def waited(self) -> float:
        """Seconds that it would have waited, in all runs with waits skipped."""
        notes = self.home / "waits"
        return sum(map(float, notes.read_text().split())) if notes.exists() else 0.0

    def start(
        self, *arguments: object, stderr: int = subprocess.PIPE, **more: str
    ) -> subprocess.Popen[str]:
        home = self.home
        home.mkdir(parents=True, exist_ok=True)
        return subprocess.Popen(
            [sys.executable, "-c", self.first + RUN, *map(str, arguments)],
            env=self._env(more),
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

    def __call__(self, *arguments: object, **more: str) -> Ran:
        ran = self._ran(*arguments, **more)
        if make_schemas.SHAPES and "json" in arguments and ran.out.startswith("{"):
            make_schemas.remember(str(arguments[0]), json.loads(ran.out))
        return ran

    def _ran(self, *arguments: object, **more: str) -> Ran:
        if not forks.POSSIBLE or any(name.startswith("PYTHON") for name in {**self.more, **more}):
            return finish(self.start(*arguments, **more))
        self.home.mkdir(parents=True, exist_ok=True)
        return forks.run(list(map(str, arguments)), self._env(more), self.home, self.first, HANGS)

    def _env(self, more: Mapping[str, str]) -> dict[str, str]:
        ours = self.hub.env(self.home, self.token)
        return {**ours, "PYTHONPATH": str(ROOT), **self.more, **more}


def finish(child: subprocess.Popen[str]) -> Ran:
    try:
        out, err = child.communicate(timeout=HANGS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise AssertionError("draftcheck hangs") from None
    return Ran(child.returncode, out, err or "")


def assert_calm(ran: Ran) -> None:
    """No bug report, nothing but lines of the three kinds, at most one of them an error."""
    assert ran.code in (0, 1, 2, 3), ran.err
    lines = ran.err.splitlines()
    assert all(line.startswith(PREFIXES) for line in lines), ran.err
    assert sum(line.startswith("error: ") for line in lines) <= 1, ran.err
    assert "\x1b" not in ran.err + ran.out


def reason(ran: Ran) -> str:
    """The one line that says why a model could not be read."""
    assert_calm(ran)
    assert ran.code == 3, f"{ran.code}\n{ran.out}\n{ran.err}"
    [line] = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    return line.removeprefix("error: ")


def assert_discreet(hub: Hub, *repos: str) -> None:
    """No token but to the API, nobody led elsewhere, no file but of the repos that were named."""
    assert not hub.leaks, hub.story()
    assert not [entry for entry in hub.log if entry.origin == "elsewhere"], hub.story()
    for entry in hub.log:
        assert ".." not in entry.path.split("/"), hub.story()
        if entry.file is not None:
            assert entry.file.startswith(tuple(f"{repo}/" for repo in repos)), hub.story()


def verdict(ran: Ran) -> dict[str, Any]:
    """The part of the JSON that weather must not change."""
    assert_calm(ran)
    found = ran.json
    return {name: found[name] for name in ("vocabulary", "engines", "verdict")}
