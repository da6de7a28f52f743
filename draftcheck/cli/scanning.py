"""What the scan command does with its options: a job, an executor, a line of progress."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from draftcheck.errors import UsageError
from draftcheck.scan.executors import LocalRunner, Runner
from draftcheck.scan.night import Say, StageProgress
from draftcheck.scan.rows import PinRow
from draftcheck.scan.run import ScanSummary, scan
from draftcheck.scan.targets import HubSearch, ScanJob, count, load, merge


def night(
    file: Path | None,
    store: Path,
    say: Say,
    *,
    max_time: float | None,
    retry: bool,
    offline: bool,
    executor: str,
    workers: int | None,
    connections: int,
    **options: Any,
) -> ScanSummary:
    """Everything checked before the store is touched, then the scan."""
    job = _job(load(file) if file else ScanJob(), options)
    from draftcheck.scan import judging

    judging.ask(job.engines, job.said)  # says what is wrong with engines and circumstances
    return scan(
        job,
        store,
        runner=_runner(executor, workers, connections),
        max_time=max_time,
        retry=retry,
        offline=offline,
        say=say,
    )


def _job(job: ScanJob, options: dict[str, Any]) -> ScanJob:
    author, words, filters = options.pop("author"), options.pop("words"), options.pop("filters")
    size, limit, trials = options.pop("max_size"), options.pop("limit"), options.pop("trials")
    asked: dict[str, Any] = {}
    if author or words or filters or size or limit:
        largest = count(size, "--max-size") if size else None
        part = HubSearch(filters, words or "", author or "", max_parameters=largest)
        asked["candidates"] = (replace(part, limit=limit) if limit else part,)
    if trials is not None:
        asked["trials"] = replace(job.trials, per_target=trials)
    return merge(
        job,
        targets=options.pop("targets"),
        named=options.pop("named"),
        pins=tuple(PinRow(*pair) for pair in options.pop("pins")),
        engines=options.pop("engines"),
        said=options,
        **asked,
    )


def _runner(executor: str, workers: int | None, connections: int) -> Runner:
    name, _, address = executor.partition(":")
    if name == "local" and not address:
        return LocalRunner(workers, connections)
    if name != "ray":
        raise UsageError(f"no executor {executor!r}", hint="local, ray or ray:ADDRESS.")
    from draftcheck.scan.ray import open_cluster

    return open_cluster(address or None, connections, workers)


@contextmanager
def watch(quiet: bool) -> Iterator[Say]:
    """A line that is written over on a terminal; in a log, a line now and then."""
    if quiet:
        yield lambda _: None
        return
    line = _StageLine(sys.stderr.isatty())
    try:
        yield line.say
    finally:
        line.wipe()


class _StageLine:
    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal
        self._width = 0
        self._shown = 0.0

    def say(self, step: StageProgress) -> None:
        import time

        now = time.monotonic()
        last = step.total is not None and step.done == step.total
        if now - self._shown < (0.2 if self._terminal else 30.0) and not (last and self._terminal):
            return
        self._shown = now
        self._write(_words(step))

    def wipe(self) -> None:
        if self._terminal and self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()

    def _write(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self._width) if self._terminal else text + "\n")
        sys.stderr.flush()
        self._width = len(text)


def _words(step: StageProgress) -> str:
    of = f" of {step.total:,}" if step.total is not None else ""
    left = f", about {_span(step.left)} left" if step.left is not None and step.left >= 1 else ""
    return f"scan: {step.stage} {step.done:,}{of}{left}"


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
