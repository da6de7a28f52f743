"""What draftcheck has read before, by content: shared by all commands, safe for parallel runs.

Every file is written aside and moved into place, so a reader sees all of it or nothing; and it is
held against its digest when it is read, so a damaged one counts as absent.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftcheck import atomic
from draftcheck.models.sources.folder import FLAGS

LAYOUT = "1"
KINDS = ("blobs", "heads", "listings", "refs")
MARK = b"draftcheck-head-1 "
ROOM = 0.8
"""Share of the limit that is left after making room."""
READ_ONLY = FLAGS | getattr(os, "O_NOFOLLOW", 0)
"""A link or a FIFO that somebody planted is neither followed nor waited for."""
STALE = 3600
"""Seconds after which a file that was never moved into place is rubbish."""


@dataclass(frozen=True, slots=True)
class CachedFile:
    kind: str
    name: str
    size: int
    used: float
    path: Path


def digest_of(data: bytes, like: str) -> str:
    """The digest of the content, of the same kind as another one."""
    if like.startswith("git-sha1:"):
        return "git-sha1:" + hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    return "sha256:" + hashlib.sha256(data).hexdigest()


class HubCache:
    """The cache folder; one that cannot be written to is as good as an empty one."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self._root = folder / LAYOUT
        self.limit = limit
        self._written = 0
        self._unwritten: dict[Path, bytes] = {}

    def blob(self, digest: str) -> bytes | None:
        data = self._load(self._place("blobs", digest))
        if data is None or digest_of(data, digest) == digest:
            return data
        self._drop(self._place("blobs", digest))
        return None

    def has_blob(self, digest: str) -> bool:
        place = self._place("blobs", digest)
        return place in self._unwritten or place.is_file()

    def place(self, digest: str) -> Path | None:
        """The file that holds the content, for those who need one."""
        place = self._place("blobs", digest)
        return place if place.is_file() else None

    def keep_blob(self, digest: str, data: bytes) -> None:
        self._save(self._place("blobs", digest), data)

    def head(self, scope: str, digest: str, start: int = 0) -> bytes:
        """The bytes from start on that are known of a content too large to keep.

        scope: who said that it has this digest; a part cannot be held against it.
        """
        place = self._place("heads", digest, start, scope)
        data = self._load(place)
        if data is None:
            return b""
        mark, _, rest = data.partition(b"\n")
        if mark == MARK + hashlib.sha256(rest).hexdigest().encode():
            return rest
        self._drop(place)
        return b""

    def keep_head(self, scope: str, digest: str, data: bytes, start: int = 0) -> None:
        place = self._place("heads", digest, start, scope)
        if len(data) > len(self.head(scope, digest, start)):
            self._save(place, MARK + hashlib.sha256(data).hexdigest().encode() + b"\n" + data)

    def listing(self, endpoint: str, repo: str, commit: str) -> Any:
        return self._json(self._key("listings", endpoint, repo, commit))

    def keep_listing(self, endpoint: str, repo: str, commit: str, body: dict[str, Any]) -> None:
        body = {"endpoint": endpoint, "asked": repo, "kept": time.time(), **body}
        self._save(self._key("listings", endpoint, repo, commit), json.dumps(body).encode())

    def drop_listing(self, endpoint: str, repo: str, commit: str) -> None:
        self._drop(self._key("listings", endpoint, repo, commit))

    def ref(self, endpoint: str, repo: str, revision: str | None) -> str | None:
        """The commit that a revision meant when it was last asked for."""
        body = self._json(self._key("refs", endpoint, repo, revision or ""))
        commit = body.get("commit") if isinstance(body, dict) else None
        return commit if isinstance(commit, str) else None

    def keep_ref(self, endpoint: str, repo: str, revision: str | None, commit: str) -> None:
        body = {"endpoint": endpoint, "repo": repo, "revision": revision, "commit": commit}
        self._save(self._key("refs", endpoint, repo, revision or ""), json.dumps(body).encode())

    def entries(self) -> Iterator[CachedFile]:
        places = {kind: self._root / kind for kind in KINDS}
        for kind, place in {**places, "rules": self.folder / "rules"}.items():
            for path in sorted(place.rglob("*")):
                with contextlib.suppress(OSError):
                    info = path.lstat()
                    if path.is_file() and not path.is_symlink() and not atomic.unfinished(path):
                        yield CachedFile(kind, path.name, info.st_size, info.st_mtime, path)

    def listings(self) -> Iterator[dict[str, Any]]:
        for path in sorted((self._root / "listings").glob("*.json")):
            body = self._json(path)
            if isinstance(body, dict) and isinstance(body.get("files"), dict):
                yield body

    def clear(self) -> tuple[int, int]:
        """Remove everything; how many files and bytes that were."""
        count = size = 0
        for kept in list(self.entries()):
            with contextlib.suppress(OSError):
                kept.path.unlink()
                count, size = count + 1, size + kept.size
        self._sweep(0)
        return count, size

    def trim(self) -> None:
        """Make room when the limit is passed: what was not used for longest goes first."""
        if not self._written:
            return
        self._written = 0
        kept = list(self.entries())
        total = sum(entry.size for entry in kept)
        if total <= self.limit:
            return
        self._sweep(STALE)
        for entry in sorted(kept, key=lambda entry: entry.used):
            if total <= self.limit * ROOM:
                break
            self._drop(entry.path)
            total -= entry.size

    def _sweep(self, age: float) -> None:
        """Remove what interrupted writers left."""
        for path in self._root.rglob(".*.part"):
            with contextlib.suppress(OSError):
                if time.time() - path.lstat().st_mtime >= age:
                    path.unlink()

    def _place(self, kind: str, digest: str, start: int = 0, scope: str = "") -> Path:
        algorithm, _, text = digest.partition(":")
        name = f"{text}@{start}" if start else text
        who = hashlib.sha256(scope.encode()).hexdigest()[:16] if scope else ""
        return self._root / kind / who / algorithm / text[:2] / name

    def _key(self, kind: str, *parts: str) -> Path:
        text = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
        return self._root / kind / f"{text[:40]}.json"

    def _json(self, path: Path) -> Any:
        data = self._load(path)
        try:
            return json.loads(data) if data is not None else None
        except (ValueError, RecursionError):
            self._drop(path)
            return None

    def _load(self, path: Path) -> bytes | None:
        try:
            descriptor = os.open(path, READ_ONLY)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # nothing that we wrote
                    return None
                data = file.read()
        except OSError:
            return self._unwritten.get(path)
        with contextlib.suppress(OSError):
            os.utime(path)  # used: the last to go
        return data

    def _save(self, path: Path, data: bytes) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # repos can be private
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic.write(path, data)
            self._written += len(data)
        except OSError:  # full, read-only, no home: then this run alone remembers it
            self._unwritten[path] = data

    def _drop(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
