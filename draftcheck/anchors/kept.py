"""Answers about the files of an installed engine, kept until a file has another size or time.

An engine is hundreds of files and changes with an upgrade; a verdict is asked for many times a day.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

import msgspec

from draftcheck import atomic, settings
from draftcheck.anchors import compare
from draftcheck.anchors.compare import AnchorCheck
from draftcheck.anchors.lines import digest
from draftcheck.anchors.trees import FolderTree
from draftcheck.rulebook.anchors import AnchorFile

FORM = 1
"""Changes with the way digests are made: answers of another form are not taken."""


class KeptFile(msgspec.Struct, array_like=True):
    """What one file answered, and the size and time that it had then."""

    size: int
    time: int
    answers: dict[str, str]


class KeptAnswers(msgspec.Struct):
    form: int
    files: dict[str, KeptFile]


def check(file: AnchorFile, tree: FolderTree) -> AnchorCheck:
    """The places of an engine against its installed files, from the cache where it holds."""
    path = settings.cache() / "anchors" / f"{file.engine}-{digest(str(tree.root))}.json"
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=KeptAnswers)
    except (OSError, ValueError, msgspec.DecodeError, RecursionError):
        kept = KeptAnswers(FORM, {})
    if kept.form != FORM:
        kept = KeptAnswers(FORM, {})
    changed = False

    def ask(name: str, queries: Iterable[str]) -> dict[str, str]:
        nonlocal changed
        try:
            seen = os.stat(f"{tree.root}/{name}")  # noqa: PTH116  a thousand of them
            size, time = seen.st_size, seen.st_mtime_ns
        except (OSError, ValueError):
            size = time = -1
        entry = kept.files.get(name)
        if entry is None or (entry.size, entry.time) != (size, time):
            entry = kept.files[name] = KeptFile(size, time, {})
        missing = [query for query in queries if query not in entry.answers]
        if missing:
            changed = True
            entry.answers |= compare.answers(name, tree.text(name), missing)
        return {query: entry.answers[query] for query in queries}

    found = compare.check(file, tree, ask)
    if changed:
        # A cache that cannot be written is no error.
        with contextlib.suppress(OSError):
            path.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.parent.mkdir(exist_ok=True)
            atomic.write(path, msgspec.json.encode(kept))
    return found
