"""Many processes in bad weather at once: most of their time is waiting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import Ran
from tests.hub.hub import Hub
from tests.hub.log import Entry
from tests.hub.process import Draftcheck

AT_ONCE = 6


@dataclass(frozen=True)
class Case:
    """A Hub, what is wrong with it, and what is asked of it."""

    name: str
    arrange: Callable[[Hub], object]
    """Adds repos and faults."""
    command: Sequence[str]
    says: Sequence[str] = ()
    """Words of the one-line reason; none: the run succeeds."""
    most_bytes: int = 40_000_000
    most_requests: int = 200
    env: Mapping[str, str] = field(default_factory=dict)
    repair: Callable[[Hub], object] | None = None
    """Beyond faults: what makes the repos sound again."""
    token: str | None = None


@dataclass(frozen=True)
class Outcome:
    """The run in the storm, and, if anything wrong was sent, one after it on the same cache."""

    first: Ran
    log: list[Entry]
    story: str
    bytes: int
    leaks: list[Entry]
    second: Ran | None
    home: Path
    """The folder that draftcheck could write to."""


def endure(case: Case, home: Path) -> Outcome:
    with Hub() as hub:
        case.arrange(hub)
        draftcheck = Draftcheck(hub, home, case.token, **case.env)
        first = draftcheck(*case.command)
        log, story, size, leaks = hub.log, hub.story(), hub.bytes, hub.leaks
        hub.reset()
        if case.repair is not None:
            case.repair(hub)
        spoilt = any(entry.faults and entry.body for entry in log)
        second = draftcheck(*case.command) if spoilt else None
        return Outcome(first, log, story, size, leaks, second, home)


class Storm:
    """Starts the cases that will be asked for; each is waited for by its own test."""

    def __init__(self, cases: Sequence[Case], folder: Path) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._running: dict[str, Future[Outcome]] = {
            case.name: self._pool.submit(endure, case, folder / case.name) for case in cases
        }

    def outcome(self, case: Case) -> Outcome:
        return self._running[case.name].result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
