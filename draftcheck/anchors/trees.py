"""An engine's source as text: a folder, or a wheel read as the zip file that it is.

Nothing is unpacked, imported or run. What is larger than source files are is not read.
"""

from __future__ import annotations

import glob
import os
import re
import zipfile
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Protocol

from draftcheck.errors import ReadError

LARGEST = 4 << 20
MOST = 200_000
"""Files of a tree that are listed at most."""
SUFFIXES = (".py", ".cpp", ".h", ".hpp", ".c")
STARTS = ("", "src", "python")
"""Where checkouts keep their package."""
META = re.compile(r"[^/]+\.dist-info/METADATA")
VERSION = re.compile(r"(?m)^Version: (\S+)$")


class SourceTree(Protocol):
    """Files by their path below the engine's package."""

    @property
    def label(self) -> str:
        """What a message calls it."""

    @property
    def version(self) -> str | None:
        """What it says of itself, where it does."""

    @property
    def names(self) -> list[str]:
        """Every source file, sorted."""

    def matching(self, pattern: str) -> list[str]:
        """The files that a path with * stands for; * does not cross a folder."""

    def text(self, path: str) -> str | None:
        """A file's text; None when it is not there, or is no text of the usual size."""


class FolderTree:
    """A checkout, an unpacked archive, or an installed package."""

    def __init__(self, folder: Path, package: str = "", version: str | None = None) -> None:
        inside = (folder / start / package for start in STARTS if package)
        self.root = next((path for path in inside if path.is_dir()), folder)
        self.label = str(folder)
        self.version = version
        self._matched: dict[str, list[str]] = {}
        if not self.root.is_dir():
            raise ReadError(f"{folder}: not a folder")

    @cached_property
    def names(self) -> list[str]:
        found = []
        for path in self.root.rglob("*"):
            if path.suffix in SUFFIXES and not path.is_symlink():
                found.append(path.relative_to(self.root).as_posix())
            if len(found) > MOST:
                raise ReadError(f"{self.label}: more than {MOST} files")
        return sorted(found)

    def matching(self, pattern: str) -> list[str]:
        if pattern not in self._matched:
            # Texts, not paths: there may be a thousand of them in front of every verdict.
            found = glob.glob(pattern, root_dir=self.root)  # noqa: PTH207
            self._matched[pattern] = sorted(name.replace(os.sep, "/") for name in found)
        return self._matched[pattern]

    def text(self, path: str) -> str | None:
        try:
            file = self.root / path
            if not file.is_file() or file.stat().st_size > LARGEST:
                return None
            return file.read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None


class WheelTree:
    """A wheel."""

    def __init__(self, file: Path, package: str) -> None:
        self.label = file.name
        self.package = package.strip("/")
        try:
            self.zip = zipfile.ZipFile(file)
            self.infos = {info.filename: info for info in self.zip.infolist()[:MOST]}
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise ReadError(f"{file}: not a wheel that can be read: {error}") from None

    @cached_property
    def version(self) -> str | None:
        meta = next((name for name in self.infos if META.fullmatch(name)), None)
        match = VERSION.search(self._whole(meta) or "") if meta else None
        return match[1] if match else None

    @cached_property
    def names(self) -> list[str]:
        start = f"{self.package}/"
        inside = (name for name in self.infos if name.startswith(start))
        paths = (name.removeprefix(start) for name in inside)
        return sorted(path for path in paths if PurePosixPath(path).suffix in SUFFIXES)

    def matching(self, pattern: str) -> list[str]:
        deep = pattern.count("/")
        return [n for n in self.names if n.count("/") == deep and fnmatchcase(n, pattern)]

    def text(self, path: str) -> str | None:
        return self._whole(f"{self.package}/{path}")

    def _whole(self, name: str) -> str | None:
        info = self.infos.get(name)
        if info is None or info.file_size > LARGEST:
            return None
        try:
            with self.zip.open(info) as file:
                return file.read(LARGEST + 1)[: LARGEST + 1].decode("utf-8")
        except (
            OSError,
            ValueError,
            RuntimeError,
            NotImplementedError,
            zipfile.BadZipFile,
            EOFError,
        ):
            return None
        except Exception as error:  # zlib.error has no other parent
            if type(error).__name__ != "error":
                raise
            return None
