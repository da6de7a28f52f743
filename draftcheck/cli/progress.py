"""A line on standard error that says how far the work is: bytes of models, a scan, a trial.

On a terminal the line is written over; in a log each one is a line of its own, and rarer. Models
are counted, never named: their names can hold anything.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from draftcheck.values.progress import FleetingText, time_span

if TYPE_CHECKING:
    from draftcheck.scan.night import Say, StageProgress

PATIENCE = 1.0
"""Seconds before anything is shown of reading models."""
EVERY = 0.1
WORTH_A_LINE = 10.0
"""Seconds of waiting that are said in a log, too."""
EVERY_STAGE, EVERY_LOG_LINE = 0.2, 30.0
"""Seconds between two lines about a scan, on a terminal and in a log."""


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show how much was read so far, on a terminal, when it takes longer than a second.

    Elsewhere nothing is said but that the Hub makes us wait for long.
    What it yields says what is being done, in words of our own.
    """
    if quiet:
        yield lambda _: None
        return
    from draftcheck.models.sources import progress as meter

    terminal = sys.stderr.isatty()
    line = ProgressLine(EVERY, patience=PATIENCE) if terminal else _log_line()
    count = _ByteCount(line)
    meter.listen(count.came if terminal else _WaitNotes(line, "").came)
    try:
        yield count.say if terminal else lambda _: None
    finally:
        meter.listen(None)
        line.wipe()


@contextmanager
def scan_progress(quiet: bool) -> Iterator[Say]:
    """Show the stage of a scan, how much of it is done, and about how long the rest takes."""
    if quiet:
        yield lambda _: None
        return
    from draftcheck.models.sources import progress as meter

    terminal = sys.stderr.isatty()
    line = ProgressLine(EVERY_STAGE if terminal else EVERY_LOG_LINE, terminal=terminal)

    def say(step: StageProgress) -> None:
        last = step.total is not None and step.done == step.total
        if line.due or (last and terminal):
            line.show(_stage_text(step))

    meter.listen(_WaitNotes(line if terminal else _log_line(), "scan: ").came)
    try:
        yield say
    finally:
        meter.listen(None)
        line.wipe()


@contextmanager
def trial_progress(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Say what measures, and why, wherever standard error goes; how far it is, on one line."""
    if quiet:
        yield lambda _: None
        return
    terminal = sys.stderr.isatty()
    wait = 0.0 if terminal else EVERY_LOG_LINE
    line = ProgressLine(wait, patience=wait, terminal=terminal)

    def say(text: str) -> None:
        if not isinstance(text, FleetingText):
            line.wipe()
            sys.stderr.write(f"  {text}\n")
            sys.stderr.flush()
        elif line.due:
            line.show(f"  {text}")

    try:
        yield say
    finally:
        line.wipe()


class ProgressLine:
    """One line that changes, at most every so many seconds and not before some patience."""

    def __init__(self, every: float, *, patience: float = 0.0, terminal: bool = True) -> None:
        self._every, self._terminal = every, terminal
        self._next = time.monotonic() + patience
        self._width = 0

    @property
    def due(self) -> bool:
        return time.monotonic() >= self._next

    def show(self, text: str) -> None:
        self._next = time.monotonic() + self._every
        self._write("\r" + text.ljust(self._width) if self._terminal else text + "\n")
        self._width = len(text)

    def wipe(self) -> None:
        if self._terminal and self._width:
            self._write("\r" + " " * self._width + "\r")
            self._width = 0

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def _log_line() -> ProgressLine:
    return ProgressLine(EVERY_LOG_LINE, terminal=False)


class _ByteCount:
    """Files and bytes that came so far; sources call it from several threads."""

    def __init__(self, line: ProgressLine) -> None:
        self._line = line
        self._names: set[str] = set()
        self._bytes = 0
        self._about = "reading"
        self._lock = threading.Lock()

    def came(self, name: str, count: int, wait: float) -> None:
        with self._lock:
            if count:
                self._names.add(name)
            self._bytes += count
            waits = wait >= PATIENCE
            if not (waits or self._line.due):
                return
            files = len(self._names)
            text = f"{self._about}: {self._bytes / 1e6:,.1f} MB, {files} file{'s' * (files != 1)}"
            self._line.show(f"{text}, waiting {wait:.0f} s" if waits else text)

    def say(self, text: str) -> None:
        """What the next bytes are for."""
        self._about = text
        self.came("", 0, 0.0)


class _WaitNotes:
    """Says that the Hub makes us wait, and how long it will be; nothing else of what is read."""

    def __init__(self, line: ProgressLine, head: str) -> None:
        self._line, self._head = line, head
        self._lock = threading.Lock()

    def came(self, name: str, count: int, wait: float) -> None:
        with self._lock:
            if wait >= WORTH_A_LINE and self._line.due:
                self._line.show(f"{self._head}waiting {time_span(wait)}: the Hub's rate limit")


def _stage_text(step: StageProgress) -> str:
    of = f" of {step.total:,}" if step.total is not None else ""
    left = (
        f", about {time_span(step.left)} left" if step.left is not None and step.left >= 1 else ""
    )
    return f"scan: {step.stage} {step.done:,}{of}{left}"
