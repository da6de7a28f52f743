"""Which files the gate looks at: named ones, what git has here, or what changed since a revision.

git is asked, never made to run anything that the repository configures.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import stat
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from draftcheck.errors import ReadError, UsageError

LARGEST = 2 << 20
"""Bytes of one file; deploy files are small."""
MOST = 200_000
SKIPPED = frozenset(
    (
        ".git", ".hg", ".svn", "node_modules", ".venv", "venv", ".tox", ".nox", "__pycache__",
        ".mypy_cache", ".ruff_cache", ".pytest_cache", "site-packages", ".terraform", ".cache",
    )
)  # fmt: skip
GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


def root(start: Path) -> Path:
    """The folder that draftcheck.toml and draftcheck.lock belong to."""
    try:
        start = start.resolve()
    except OSError as error:
        raise ReadError("the current folder does not exist any more") from error
    for folder in (start, *start.parents):
        if any((folder / name).exists() for name in ("draftcheck.toml", "draftcheck.lock", ".git")):
            return folder
    return start


def named(paths: Sequence[str]) -> list[str]:
    """Files that were named, and those in folders that were named."""
    found: dict[str, None] = {}
    for text in paths:
        path = Path(text)
        try:
            kind = path.stat().st_mode
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "no name of a file"
            raise UsageError(f"{text}: {reason}") from error
        if stat.S_ISDIR(kind):
            # A folder that git ignores was meant all the same when it was named.
            found.update(dict.fromkeys(here(path) or _listed(path, _walk(path))))
        else:
            found[shown(path)] = None
    return list(found)


def here(folder: Path) -> list[str]:
    """What git has under this folder, new files that it does not ignore too, or what lies there."""
    listed = _git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return _listed(folder, _split(listed) if listed is not None else _walk(folder))


def _listed(folder: Path, names: Iterable[str]) -> list[str]:
    found = []
    start = os.path.normpath(folder)
    for name in sorted(set(names)):
        if SKIPPED.isdisjoint(name.split("/")[:-1]):
            found.append(shown(name if start == "." else f"{start}/{name}"))
            if len(found) > MOST:
                raise ReadError(f"{folder}: more than {MOST:,} files", hint="Name some of them.")
    return found


def changed(base: str) -> list[str]:
    """Files under the current folder that differ from where this branch left REV, and new ones."""
    if base.startswith("-"):
        raise UsageError(f"--diff-base {base!r} is not a revision")
    folder = Path()
    if _git(folder, "rev-parse", "--is-inside-work-tree") is None:
        raise UsageError("--diff-base needs a git repository here")
    commit = _git(folder, "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}")
    if commit is None:
        raise UsageError(
            f"--diff-base {base!r}: git does not know this revision",
            hint="In CI, fetch it first (actions/checkout: fetch-depth: 0).",
        )
    start = _git(folder, "merge-base", commit.decode().strip(), "HEAD") or commit
    diff = _git(
        folder, "diff", "--name-only", "-z", "--relative", "--no-ext-diff", "--no-textconv",
        "--no-renames", "--diff-filter=d", start.decode().strip(), "--",
    )  # fmt: skip
    new = _git(folder, "ls-files", "-z", "--others", "--exclude-standard")
    if diff is None or new is None:
        raise ReadError(f"--diff-base {base}: git could not compare")
    return sorted({*_split(diff), *_split(new)})


def shown(path: Path | str) -> str:
    """A path as reports have it: relative to the current folder where it lies below."""
    text = os.path.normpath(path)
    if text[:1] in ("/", "\\") or text[1:2] == ":":
        inside = os.path.relpath(text)
        text = text if inside.startswith("..") else inside
    return text.replace(os.sep, "/")


def wanted(
    names: Iterable[str], root: Path, include: Sequence[str], exclude: Sequence[str]
) -> Iterator[str]:
    """Names that the globs of the manifest at the root leave; * also crosses folders."""
    elsewhere = bool(include or exclude) and Path.cwd() != root
    for name in names:
        place = from_root(name, root) if elsewhere or name.startswith(("..", "/")) else name
        if include and not _matches(place, include):
            continue
        if not _matches(place, exclude):
            yield name


def from_root(name: str, root: Path) -> str:
    """A shown path as the manifest at the root would write it."""
    return os.path.relpath(Path.cwd() / name, root).replace(os.sep, "/")


def read(name: str, *, follow: bool) -> bytes | None:
    """The file, at most a byte more than LARGEST; None: no regular file. Never waits.

    follow: links too; in a listing they are left out, since what they lead to is listed itself.
    """
    try:
        descriptor = os.open(name, FLAGS if follow else FLAGS | NO_LINKS)
    except OSError as error:
        # A link; deleted and not yet committed; a submodule.
        if not follow and error.errno in (errno.ELOOP, errno.ENOENT, errno.EISDIR):
            return None
        raise ReadError(f"{name}: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        try:
            return file.read(LARGEST + 1)
        except OSError as error:
            raise ReadError(f"{name}: {error.strerror}") from error


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(
        fnmatch.fnmatchcase(name, glob) or name.startswith(glob.rstrip("/") + "/") for glob in globs
    )


def _walk(folder: Path) -> list[str]:
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if name not in SKIPPED and not (Path(place) / name / "pyvenv.cfg").exists()
        )
        inside = Path(place).relative_to(folder)
        found += [(inside / name).as_posix() for name in sorted(files)]
        if len(found) > MOST:
            break
    return found


def _split(listed: bytes) -> list[str]:
    return [os.fsdecode(name) for name in listed.split(b"\0") if name]


def _git(folder: Path, *words: str) -> bytes | None:
    """What git says; None when it fails or is not there."""
    try:
        done = subprocess.run([*GIT, *words], cwd=folder, capture_output=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
