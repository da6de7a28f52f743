"""Standard streams that never change the answer.

A full disk, a reader that went away or a closed stream must not end a command before its verdict
is known. What cannot be written is dropped and the first failure kept; main() looks at it when
the command is done, and a report that was lost on its way is exit 3 instead of 0.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from typing_extensions import Buffer


class DroppingFile(io.FileIO):
    """A descriptor that takes everything; after the first failure it writes nothing more."""

    failure: OSError | None = None

    def write(self, data: Buffer, /) -> int:
        if self.failure is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failure = error
        return memoryview(data).nbytes


def guard() -> None:
    """Put such files under standard output and error; terminals stay as they are."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # Else the next file that is opened gets this number, and messages go into it.
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = _guarded(sys.stdout, 1)
    sys.stderr = _guarded(sys.stderr, 2)


def _guarded(stream: TextIO | None, number: int) -> TextIO:
    if stream is not None and stream.isatty():
        return stream
    encoding = stream.encoding if stream is not None else "utf-8"
    file = io.BufferedWriter(DroppingFile(number, "wb", closefd=False))
    return io.TextIOWrapper(file, encoding, line_buffering=number == 2)


def lost() -> str | None:
    """Why standard output did not take all of the report; a reader that left wanted no more."""
    file = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    failure = file.failure if isinstance(file, DroppingFile) else None
    return None if isinstance(failure, BrokenPipeError | None) else failure.strerror
