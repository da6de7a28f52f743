"""Where bytes come from. One small interface; knows nothing about models."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import Protocol


class ModelSource(Protocol):
    """The files of one model, at one revision; what only a remote one does is nothing here."""

    label: str
    """How the user knows it: a path or a repo id."""
    revision: str | None
    """The commit that every read is from; None where there is no such thing."""

    def files(self) -> Mapping[str, int]:
        """File names and their sizes in bytes."""
        ...

    def digest(self, name: str) -> str | None:
        """Digest of the content that is known without reading it: git-sha1:… or sha256:…"""
        return None

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

    def called(self, name: str) -> str:
        """The file in a message to the user."""
        ...

    def expect(self, heads: Mapping[str, int]) -> None:
        """The first bytes that will be read next: a remote source gets them in parallel."""
        return

    def vouch(self, name: str) -> None:
        """What was read of this file made sense: a remote source may keep it for the next run."""
        return

    def bases(self) -> Mapping[str, str]:
        """What its publisher says the model was made from -> how, as far as nobody is asked."""
        return {}

    def offer(self, name: str, data: bytes) -> None:
        """Perhaps the content of this file: a remote source takes it if the digest is right."""
        return
