"""Where a log comes from: a file, a pipe, standard input. Hands out blocks of bytes."""

from __future__ import annotations

import codecs
import os
import select
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from draftcheck.errors import ReadError, UsageError

BLOCK = 256 * 1024
MOST = 1024**3
"""Bytes that are read at most; an error stands long before."""
PATIENCE = 5.0
"""Seconds to wait for somebody to write into a named pipe."""
STANDARD_INPUT = "-"


class LogSource:
    """One log, read once in blocks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cut = False
        """Whether there was more than is read."""

    def blocks(self) -> Iterator[bytes]:
        """Read it, block by block; what cannot be read is one error."""
        if self.name == STANDARD_INPUT:
            yield from self._limited(_standard_input())
            return
        try:
            with _open(self.name) as stream:
                yield from self._limited(stream)
        except OSError as error:
            raise ReadError(f"{self.name}: {error.strerror or error}") from None
        except ValueError as error:  # a NUL in the name
            raise ReadError(f"{self.name}: {error}") from None

    def _limited(self, stream: BinaryIO) -> Iterator[bytes]:
        left = MOST
        decoder: codecs.IncrementalDecoder | None = None
        first = True
        while block := stream.read(min(BLOCK, left)):
            left -= len(block)
            if first and block[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                # What `>` of Windows PowerShell writes.
                decoder = codecs.getincrementaldecoder("utf-16")("replace")
            first = False
            yield decoder.decode(block).encode("utf-8", "replace") if decoder else block
            if not left:
                self.cut = bool(stream.read(1))
                return


def named(name: str | None) -> LogSource:
    """Find the log that was asked for; without a name, what is piped in."""
    if name is None and (sys.stdin is None or sys.stdin.isatty()):
        raise UsageError("no log was named", hint="Name a file, or pipe a log into `why -`.")
    return LogSource(name or STANDARD_INPUT)


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise ReadError("standard input is closed")
    return sys.stdin.buffer


def _open(name: str) -> BinaryIO:
    path = Path(name)
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise ReadError(f"{name}: is a folder", hint="Name the log file in it.")
    if not stat.S_ISFIFO(mode):
        return path.open("rb")
    # Opening a pipe waits for its writer; so that nobody waits for ever, look first.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not select.select([handle], [], [], PATIENCE)[0] and not _has_writer(handle):
            raise ReadError(f"{name}: nobody opened this pipe to write for {PATIENCE:g} seconds")
        os.set_blocking(handle, True)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _has_writer(handle: int) -> bool:
    """Whether an empty pipe has a writer that is only silent."""
    try:
        return bool(os.read(handle, 1))
    except BlockingIOError:
        return True
