"""How the files of a site come to lie in a folder, night after night."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from draftcheck import atomic
from draftcheck.errors import ReadError

MANIFEST = "files.json"
LONGEST = 16 << 20
FOREIGN = "Move it away, or name another folder."


def put(folder: Path, made: Mapping[str, Callable[[], bytes]], ours: re.Pattern[str]) -> None:
    """Write these files; those of an earlier run are replaced, or taken away. Others are not.

    made: name -> what makes the content, so that one file at a time is held; ours: names that
    may be taken away. The list of files is written before them and after them: a run that is
    killed in between leaves none that the next one would not know for its own.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        before = _earlier(folder)
        for name in (*made, MANIFEST):
            if name not in before and os.path.lexists(folder / name):
                raise ReadError(f"{folder / name}: not a file that draftcheck wrote", hint=FOREIGN)
        _list(folder, before | set(made))
        for name, content in made.items():
            _inside(folder, name)
            atomic.write(folder / name, content())
        for name in sorted(before - set(made)):
            if ours.fullmatch(name):  # a list is a file like any other
                _inside(folder, name)
                (folder / name).unlink(missing_ok=True)
        _list(folder, set(made))
    except OSError as error:
        where = error.filename or folder
        raise ReadError(f"{where}: cannot be written: {error.strerror}") from error


def _inside(folder: Path, name: str) -> None:
    """Make the folders of a file; a link among them would lead elsewhere."""
    here = folder
    for part in name.split("/")[:-1]:
        here /= part
        if here.is_symlink():
            raise ReadError(f"{here}: a link, not a folder that draftcheck made", hint=FOREIGN)
        here.mkdir(exist_ok=True)


def _list(folder: Path, names: set[str]) -> None:
    manifest = json.dumps({"files": sorted(names - {MANIFEST})}, indent=1) + "\n"
    atomic.write(folder / MANIFEST, manifest.encode())


def _earlier(folder: Path) -> set[str]:
    """Files that an earlier run says it wrote, the list of them included."""
    try:
        with (folder / MANIFEST).open("rb") as file:
            found = json.loads(file.read(LONGEST))["files"]
        return {MANIFEST, *(name for name in found if isinstance(name, str))}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return set()
