"""One scan at a time on a store. The kernel drops the lock with its process, kill -9 included."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

from draftcheck.errors import ReadError

LONGEST = 4096


class StoreHeld(ReadError):
    """Another process is scanning into this store."""


class StoreLock:
    """Held from creation to close; the file beside the store says by whom."""

    def __init__(self, store: Path) -> None:
        self._path = store.with_name(store.name + ".lock")
        try:
            # Not inherited by children: a worker that outlives us must not keep the lock.
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise ReadError(f"{store}: cannot be locked: {error.strerror}") from error
        try:
            _take(self._fd)
        except OSError:
            holder = _holder(self._fd)
            os.close(self._fd)
            raise StoreHeld(
                f"{store}: in use by {holder}",
                hint="Wait for that scan to end; two scans never share a store.",
            ) from None
        self._sign()

    def _sign(self) -> None:
        body = {
            "pid": os.getpid(),
            "host": platform.node(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        with contextlib.suppress(OSError):  # a full disk: then nobody knows who, but it is held
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, json.dumps(body).encode(), 0)

    def close(self) -> None:
        """Let others in."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, 0)
        os.close(self._fd)


def _holder(fd: int) -> str:
    try:
        body = json.loads(os.pread(fd, LONGEST, 0))
        return f"process {int(body['pid'])} on {body['host']!s:.80}, since {body['since']!s:.40}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


if sys.platform == "win32":
    import msvcrt

    def _take(fd: int) -> None:
        os.lseek(fd, 1 << 30, os.SEEK_SET)  # far behind the words, which others may read
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _take(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
