"""One scan at a time on a store. The kernel drops the lock with its process, kill -9 included.

The lock is a file of its own beside the store, under a name that nothing else has; what lies there
and is not ours is never followed, emptied or written to.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import stat
import sys
from datetime import UTC, datetime
from pathlib import Path

from draftcheck.errors import ReadError

LONGEST = 4096
NAME = ".{}.draftcheck-scan-lock"


class StoreHeld(ReadError):
    """Another process is scanning into this store."""


class StoreLock:
    """Held from creation to close; the file beside the store says by whom."""

    def __init__(self, store: Path) -> None:
        real = Path(os.path.realpath(store))  # one lock, whatever link the store is reached by
        path = real.with_name(NAME.format(real.name))
        try:
            # Not inherited by children: a worker that outlives us must not keep the lock.
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            self._fd = os.open(path, flags, 0o644)
        except OSError as error:
            raise ReadError(f"{store}: cannot be locked: {path.name}: {error.strerror}") from error
        try:
            about = os.fstat(self._fd)
            if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
                raise ReadError(f"{store}: cannot be locked: {path.name} is not a file of its own")
            try:
                _take(self._fd)
            except OSError:
                raise StoreHeld(
                    f"{store}: in use by {_holder(self._fd) or 'another process'}",
                    hint="Wait for that scan to end; two scans never share a store.",
                ) from None
            self._ours = about.st_size == 0 or _holder(self._fd) is not None
        except BaseException:
            os.close(self._fd)
            raise
        since = datetime.now(UTC).isoformat(timespec="seconds")
        body = {"pid": os.getpid(), "host": platform.node(), "since": since}
        self._say(json.dumps(body).encode())

    def _say(self, words: bytes) -> None:
        if self._ours:
            with contextlib.suppress(OSError):  # a full disk: then nobody knows who, but it is held
                os.ftruncate(self._fd, 0)
                os.lseek(self._fd, 0, os.SEEK_SET)
                os.write(self._fd, words)

    def close(self) -> None:
        """Let others in."""
        self._say(b"")
        os.close(self._fd)


def _holder(fd: int) -> str | None:
    """Who wrote the lock file; None where no scan did."""
    try:
        os.lseek(fd, 0, os.SEEK_SET)
        body = json.loads(os.read(fd, LONGEST))
        return f"process {int(body['pid'])} on {body['host']!s:.80}, since {body['since']!s:.40}"
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


if sys.platform == "win32":
    import msvcrt

    def _take(fd: int) -> None:
        os.lseek(fd, 1 << 30, os.SEEK_SET)  # far behind the words, which others may read
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _take(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
