"""Files of a local folder, or one local file: regular files only, none outside the folder."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from draftcheck.errors import PointerError, ReadError
from draftcheck.models import bases
from draftcheck.models.sources.source import ModelSource

MAX_ENTRIES = 100_000
MAPPED = 128 * 1024 * 1024
"""As much of a file is mapped at once: no header needs more, and address space can be short."""
LFS_POINTER = b"version https://git-lfs"
# O_NONBLOCK: opening a FIFO must not wait for a writer. O_BINARY: Windows only.
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class FolderSource(ModelSource):
    """A checkpoint folder; a Hub cache snapshot is one too."""

    def __init__(
        self, root: Path, only: tuple[str, ...] | None = None, *, named: bool = False
    ) -> None:
        """only: nothing but these files; named: the user named them, so links may lead anywhere."""
        self.root = root
        self.label = str(root if only is None else root / only[0])
        self.revision: str | None = None
        self._only = only
        self._named = named

    @cached_property
    def _inside(self) -> tuple[Path, ...]:
        """Folders that links may lead to: the root, and the blobs of a Hub cache."""
        root = self.root.resolve()
        places = [root]
        for commit in (root, *root.parents):  # a folder inside a snapshot is of it, too
            if commit.parent.name == "snapshots" and (commit.parent.parent / "blobs").is_dir():
                repo = commit.parent.parent
                places += [repo / "blobs", repo.parent / "blobs"]
                break
        return tuple(places)

    @cached_property
    def _files(self) -> dict[str, int]:
        found: dict[str, int] = {}
        try:
            with os.scandir(self.root) as entries:
                for entry in entries:
                    if self._only is not None and entry.name not in self._only:
                        continue
                    if len(found) >= MAX_ENTRIES:
                        raise ReadError(f"{self.root}: more than {MAX_ENTRIES:,} files")
                    try:
                        info = entry.stat()
                    except OSError:  # a dangling link is named when somebody wants to read it
                        found[entry.name] = 0
                        continue
                    if not stat.S_ISDIR(info.st_mode):
                        found[entry.name] = info.st_size
        except OSError as error:
            raise ReadError(f"{self.root}: {_reason(error)}") from error
        return found

    def files(self) -> Mapping[str, int]:
        return self._files

    def read(self, name: str, limit: int) -> bytes:
        with self._open(name) as (file, size):
            if size > limit:
                raise ReadError(
                    f"{self.root / name}: {size:,} bytes is more than such a file can"
                    f" sensibly have (limit {limit:,})"
                )
            data = file.read(size + 1)
            if len(data) != size:
                raise ReadError(f"{self.root / name}: changed while it was read")
        return data

    def read_range(self, name: str, start: int, length: int) -> bytes:
        with self._open(name) as (file, _):
            file.seek(start)
            return file.read(length)

    def head(self, name: str, length: int) -> bytes | mmap.mmap:
        with self._open(name) as (file, size):
            mapped = min(size, max(length, MAPPED))
            if mapped == 0:
                return b""
            try:
                return mmap.mmap(file.fileno(), mapped, access=mmap.ACCESS_READ)
            except (OSError, ValueError):  # not every file system can; or the file shrank
                return file.read(length)

    def path(self, name: str) -> str | None:
        return str(self.root / name)

    def called(self, name: str) -> str:
        return str(self.root / name)

    def bases(self) -> Mapping[str, str]:
        if bases.CARD not in self.files():
            return {}
        try:
            return bases.from_card(self.read_range(bases.CARD, 0, bases.LONGEST_HEADER))
        except ReadError:  # of a card nothing else depends
            return {}

    @contextmanager
    def _open(self, name: str) -> Iterator[tuple[BinaryIO, int]]:
        """The file and its size; every error of reading it names it."""
        path = self.root / name
        if not self._named:
            self._stay_inside(path)
        try:
            with os.fdopen(os.open(path, FLAGS), "rb") as file:
                info = os.fstat(file.fileno())
                if not stat.S_ISREG(info.st_mode):
                    raise ReadError(f"{path}: not a regular file")
                if info.st_size < 1024 and file.read(len(LFS_POINTER)) == LFS_POINTER:
                    raise PointerError(
                        f"{path}: a git-lfs pointer, not the file itself",
                        hint="Fetch the real files: git lfs pull.",
                    )
                file.seek(0)
                yield file, info.st_size
        except OSError as error:
            raise ReadError(f"{path}: {_reason(error)}") from error

    def _stay_inside(self, path: Path) -> None:
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise ReadError(f"{path}: {_reason(error)}") from error
        if not any(real.is_relative_to(place) for place in self._inside):
            raise ReadError(
                f"{path}: a link that leaves the folder (to {real})",
                hint="Copy the file into the folder, or name the folder it is in.",
            )


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return str(text)[:1].lower() + str(text)[1:]
