"""What an engine in this process prints: kept out of our output, asked when the engine fails."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

READ = 1 << 18
"""Bytes of the end that are searched."""
SAID = 300
RAISED = re.compile(r"(?:^|[\s.])([A-Z]\w*(?:Error|Exception)): (\S.*)$")
EMPTY = re.compile(r"See (?:root cause|stack trace)", re.IGNORECASE)
"""Words of an error that only points at another one."""


class EngineOutput:
    """Standard output and error of the processes that are started while it is taken."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  (it lives as long as the engines)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Engines start inside: their processes go on writing here, ours goes back."""
        sys.stdout.flush()
        sys.stderr.flush()
        saved = [os.dup(number) for number in (1, 2)]
        try:
            for number in (1, 2):
                os.dup2(self._file.fileno(), number)
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, copy in zip((1, 2), saved, strict=True):
                os.dup2(copy, number)
                os.close(copy)

    def reason(self, error: BaseException) -> str:
        """What went wrong in a line: the first cause printed, where the error only points at it."""
        words = " ".join(str(error).split())
        if EMPTY.search(words) or not words:
            words = self._cause() or words or type(error).__name__
        return words[:SAID]

    def _cause(self) -> str | None:
        size = os.fstat(self._file.fileno()).st_size
        text = os.pread(self._file.fileno(), READ, max(0, size - READ)).decode(errors="replace")
        raised = [found.groups() for line in text.splitlines() if (found := RAISED.search(line))]
        causes = [f"{name}: {words}" for name, words in raised if not EMPTY.search(words)]
        return causes[0] if causes else None
