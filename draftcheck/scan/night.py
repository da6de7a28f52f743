"""One run of a scan: its settings, its clock, its progress, and what its stages found so far.

Every stage gets the night, asks its runner for results and hands them to its writer at once, so
that a night that is killed, or cut short by --max-time, loses only what was under way.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from draftcheck.models.refs import ModelRef
from draftcheck.scan.executors import Runner
from draftcheck.scan.rows import RepoRow, TargetRow, VocabularyRow
from draftcheck.scan.store import ScanStore, stable_json
from draftcheck.scan.targets import ScanJob
from draftcheck.scan.tasks import TaskProblem, TaskSession
from draftcheck.scan.writing import ScanWriter

A = TypeVar("A")
R = TypeVar("R")
READING = 0.8
"""Share of --max-time after which nothing more is read: what was read is still judged."""


@dataclass(frozen=True, slots=True)
class StageProgress:
    """How far a stage is; left: seconds, as far as the pace so far tells."""

    stage: str
    done: int
    total: int | None
    left: float | None


Say = Callable[[StageProgress], None]


class StageClock:
    """How long a night has run, by a clock that nobody sets."""

    def __init__(self, seconds: float | None) -> None:
        self._start = time.monotonic()
        self._seconds = seconds
        self.cut = False
        """Something was left undone for want of time."""

    @property
    def spent(self) -> float:
        return time.monotonic() - self._start

    def over(self, share: float = 1.0) -> bool:
        return self._seconds is not None and self.spent >= self._seconds * share


@dataclass
class ScanNight:
    """What the stages of one scan share."""

    job: ScanJob
    store: ScanStore
    writer: ScanWriter
    runner: Runner
    session: TaskSession
    clock: StageClock
    say: Say
    retry: bool = False
    offline: bool = False
    relist: bool = False
    """Walk along the whole list of the Hub, though a part may do."""
    base: int = 0
    """Repos that were seen since this scan are there now."""
    counts: Counter[str] = field(default_factory=Counter)
    searched: list[str] = field(default_factory=list)
    """Targets that searches brought, in the Hub's order."""
    named: dict[str, ModelRef] = field(default_factory=dict)
    """Models that were named, at their commits."""
    lost: dict[str, TaskProblem] = field(default_factory=dict)
    """Named models that could not be found."""
    vanished: dict[str, str] = field(default_factory=dict)
    """Repos that are gone since the last scan."""
    targets: Sequence[TargetRow] = ()

    def step(self, stage: str, done: int, total: int | None, left: float | None = None) -> None:
        """Tell who watches how far a stage is."""
        self.say(StageProgress(stage, done, total, left))

    def run(
        self,
        stage: str,
        work: Callable[[A], R],
        items: Iterable[A],
        total: int | None = None,
        *,
        kind: str = "io",
        share: float = READING,
    ) -> Iterator[tuple[A, R]]:
        """Do tasks and give their results as they come; fewer when time is up."""
        if total is None:
            items = list(items)
            total = len(items)
        if not total:
            return
        began = time.monotonic()
        done = 0
        results = self.runner.run(work, items, kind, lambda: self.clock.over(share))
        for done, (item, result) in enumerate(results, 1):
            yield item, result
            pace = (time.monotonic() - began) / done
            self.step(stage, done, total, pace * (total - done))
        self.clock.cut = self.clock.cut or done < total

    def read(
        self,
        stage: str,
        work: Callable[[A], R | TaskProblem],
        items: Iterable[A],
        total: int | None = None,
    ) -> Iterator[tuple[A, R | TaskProblem]]:
        """Do tasks that read; what failed is tried once more before it counts."""
        failed: list[A] = []
        for item, result in self.run(stage, work, items, total):
            if isinstance(result, TaskProblem) and not result.missing:
                failed.append(item)
            else:
                yield item, result
        yield from self.run(f"{stage}, again", work, failed)

    def repo(self, name: str) -> RepoRow | None:
        """Find a repo that is there now."""
        query = "name = ? AND seen >= ?"
        return next(self.store.read(RepoRow, query, name, self.base), None)

    def families(self) -> dict[str, str | None]:
        """List the vocabularies that were read: family by digest of the file."""
        return {row.digest: row.family for row in self.store.read(VocabularyRow)}


def settings(job: ScanJob) -> dict[str, Any]:
    """Write a job in plain values, as it is kept with its scan."""
    plain: dict[str, Any] = json.loads(stable_json(asdict(job)))
    return plain
