"""Where bytes come from. One small interface; knows nothing about models."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import Protocol


class Source(Protocol):
    """The files of one model."""

    label: str
    """How the user knows it: a path or a repo id."""

    def files(self) -> Mapping[str, int]:
        """File names and their sizes in bytes."""
        ...

    def read(self, name: str, limit: int) -> bytes:
        """The whole file; an error when it is longer than limit."""
        ...

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """At most length bytes from start."""
        ...

    def head(self, name: str, length: int) -> bytes | mmap.mmap:
        """At least the first length bytes (all of them when the file is shorter)."""
        ...

    def path(self, name: str) -> str | None:
        """A local path of the file, when there is one."""
        ...
