"""A line on the terminal while models are read from far away."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 1.0
"""Seconds before anything is shown."""
EVERY = 0.1


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show how much was read so far, on a terminal, when it takes longer than a second.

    What it yields says what is being done, in words of our own.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from draftcheck.models.sources import progress as meter

    line = _Line()
    meter.listen(line.came)
    try:
        yield line.say
    finally:
        meter.listen(None)
        line.wipe()


class _Line:
    """One line that is written over; files are counted, never named: names can hold anything."""

    def __init__(self) -> None:
        self._start = self._shown = time.monotonic()
        self._names: set[str] = set()
        self._bytes = 0
        self._about = "reading"
        self._width = 0
        self._lock = threading.Lock()

    def came(self, name: str, count: int, wait: float) -> None:
        with self._lock:
            if count:
                self._names.add(name)
            self._bytes += count
            now = time.monotonic()
            soon = now - self._start < PATIENCE or now - self._shown < EVERY
            if soon and wait < PATIENCE:
                return
            self._shown = now
            files = len(self._names)
            text = f"{self._about}: {self._bytes / 1e6:,.1f} MB, {files} file{'s' * (files != 1)}"
            self._write(f"{text}, waiting {wait:.0f} s" if wait >= PATIENCE else text)

    def say(self, text: str) -> None:
        """What the next bytes are for."""
        self._about = text
        self.came("", 0, 0.0)

    def wipe(self) -> None:
        if self._width:
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()

    def _write(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)
