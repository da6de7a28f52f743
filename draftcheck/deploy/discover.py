"""Which files the gate looks at: named ones, what git has here, or what changed since a revision.

git is asked, never made to run anything that the repository configures. Near a deploy file lie its
Neighbours: requirements and lock files that tell a version, and the .env.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from draftcheck.deploy.text import decoded
from draftcheck.errors import ReadError, UsageError

LARGEST = 2 << 20
"""Bytes of one file; deploy files are small."""
MOST = 200_000
MOST_BESIDE = 2000
"""Files of a folder that are looked at for what is beside a deploy file."""
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
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            return None
        wanted = min(info.st_size, LARGEST) + 1
        data = more = os.read(descriptor, wanted)
        while more and wanted <= len(data) <= LARGEST:  # it grew, or does not tell its size
            more = os.read(descriptor, LARGEST + 1 - len(data))
            data += more
        return data
    except OSError as error:
        raise ReadError(f"{name}: {error.strerror}") from error
    finally:
        os.close(descriptor)


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
            # os.path: False where a folder may not be looked into, as os.walk passes it over
            if name not in SKIPPED and not os.path.exists(f"{place}/{name}/pyvenv.cfg")  # noqa: PTH110
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


# ---- beside a deploy file ----


class KnownFolders:
    """Lists and reads each folder once, however many deploy files lie in it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._names: dict[Path, tuple[str, ...]] = {}
        self._near: dict[str, Neighbours] = {}

    def beside(self, name: str) -> Neighbours:
        folder = os.path.dirname(name)  # noqa: PTH120 (asked for every file)
        if folder not in self._near:
            # This folder's files, then those of the folders above it.
            paths: dict[str, Path] = {}
            here = Path(folder).resolve()
            for place in (here, *here.parents):
                if not place.is_relative_to(self._root):
                    break
                for base in self._listed(place):
                    paths.setdefault(base, place / base)
            self._near[folder] = Neighbours(paths, here)
        return self._near[folder]

    def _listed(self, folder: Path) -> tuple[str, ...]:
        if folder not in self._names:
            try:
                with os.scandir(folder) as entries:
                    names = [entry.name for entry in entries if entry.is_file()]
            except OSError:
                names = []
            self._names[folder] = tuple(sorted(names)[:MOST_BESIDE])
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
        return shown(self._paths[name])

    def far(self, name: str) -> int:
        """How many folders up it lies."""
        return len(self._here.parts) - len(self._paths[name].parts) + 1

    def read(self, name: str) -> bytes | None:
        if name in self._paths and name not in self._read:
            try:
                data = read(str(self._paths[name]), follow=True)
            except ReadError:
                data = None
            self._read[name] = None if data is None or len(data) > LARGEST else data
        return self._read.get(name)


ENV_FILE = ".env"
LONGEST = 1 << 14
"""Characters of a value."""
_LINE = re.compile(
    r"[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_]\w*)[ \t]*=[ \t]*"
    r"(?:'(?P<plain>[^'\n]*)'|\"(?P<quoted>[^\"\\\n]*)\"|(?P<bare>[^'\"\n][^\n]*|))[ \t]*(?:#.*)?"
)
_COMMENT = re.compile(r"(?:^|[ \t])#.*")


def variables(name: str, folders: KnownFolders) -> Mapping[str, str]:
    """Of a compose file: those of the .env in its folder, which docker compose fills in.

    One that is made of other variables is left out: it is not known.
    """
    if "compose" not in name.rpartition("/")[2].lower():
        return {}
    near = folders.beside(name)
    if ENV_FILE not in near.names or near.far(ENV_FILE):
        return {}
    found: dict[str, str] = {}
    for line in decoded(near.read(ENV_FILE) or b"").text.splitlines():
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
