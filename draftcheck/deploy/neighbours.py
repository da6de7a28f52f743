"""Files near a deploy file: requirements and lock files that tell a version, and the .env."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from draftcheck.deploy import discover
from draftcheck.deploy.text import decoded
from draftcheck.errors import ReadError

MOST = 2000
"""Files of a folder that are looked at."""


class KnownFolders:
    """Lists and reads each folder once, however many deploy files lie in it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._names: dict[Path, tuple[str, ...]] = {}
        self._near: dict[Path, Neighbours] = {}

    def beside(self, name: str) -> Neighbours:
        folder = Path(name).parent
        if folder not in self._near:
            self._near[folder] = Neighbours(self._paths(folder), folder.resolve())
        return self._near[folder]

    def _paths(self, folder: Path) -> Mapping[str, Path]:
        """Base name -> path: this folder's files, then those of the folders above it."""
        found: dict[str, Path] = {}
        here = folder.resolve()
        for place in (here, *here.parents):
            if not place.is_relative_to(self._root):
                break
            for name in self._listed(place):
                found.setdefault(name, place / name)
        return found

    def _listed(self, folder: Path) -> tuple[str, ...]:
        if folder not in self._names:
            try:
                with os.scandir(folder) as entries:
                    names = [entry.name for entry in entries if entry.is_file()]
            except OSError:
                names = []
            self._names[folder] = tuple(sorted(names)[:MOST])
        return self._names[folder]


class Neighbours:
    """The files around one folder."""

    def __init__(self, paths: Mapping[str, Path], here: Path) -> None:
        self._paths, self._here = paths, here
        self._read: dict[str, bytes | None] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._paths)

    def path(self, name: str) -> str:
        """The file as reports have it."""
        return discover.shown(self._paths[name])

    def far(self, name: str) -> int:
        """How many folders up it lies."""
        return len(self._here.parts) - len(self._paths[name].parts) + 1

    def read(self, name: str) -> bytes | None:
        if name not in self._read:
            self._read[name] = self._fetch(name)
        return self._read[name]

    def _fetch(self, name: str) -> bytes | None:
        if name not in self._paths:
            return None
        try:
            data = discover.read(str(self._paths[name]), follow=True)
        except ReadError:
            return None
        return None if data is None or len(data) > discover.LARGEST else data


ENV_FILE = ".env"
LONGEST = 1 << 14
"""Characters of a value."""
_LINE = re.compile(
    r"[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_]\w*)[ \t]*=[ \t]*"
    r"(?:'(?P<plain>[^'\n]*)'|\"(?P<quoted>[^\"\\\n]*)\"|(?P<bare>[^'\"\n][^\n]*|))[ \t]*(?:#.*)?"
)
_COMMENT = re.compile(r"(?:^|[ \t])#.*")


def variables(name: str, near: Neighbours) -> Mapping[str, str]:
    """Of a compose file: those of the .env in its folder, which docker compose fills in."""
    if "compose" not in name.rpartition("/")[2].lower():
        return {}
    if ENV_FILE not in near.names or near.far(ENV_FILE):
        return {}
    return _values(near.read(ENV_FILE) or b"")


def _values(data: bytes) -> Mapping[str, str]:
    """Names and values; one that is made of other variables is left out: it is not known."""
    found: dict[str, str] = {}
    for line in decoded(data).text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        plain = match["plain"]
        text = plain if plain is not None else match["quoted"]
        if text is None:
            text = _COMMENT.sub("", match["bare"]).strip()
        if len(text) > LONGEST or (plain is None and "$" in text):
            found.pop(match["name"], None)
        else:
            found[match["name"]] = text
    return found
