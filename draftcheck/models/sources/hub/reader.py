"""Bytes of one repo at one commit: whole files, heads and ranges; cached, verified, resumed."""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

from draftcheck.errors import ReadError
from draftcheck.models.sources.hub import addresses, huggingface_cache
from draftcheck.models.sources.hub.addresses import Shortcut
from draftcheck.models.sources.hub.cache import HubCache, digest_of
from draftcheck.models.sources.hub.client import (
    ByteSpan,
    HttpAnswer,
    HubClient,
    refuse,
)
from draftcheck.models.sources.hub.listing import ListedFile, Listing
from draftcheck.models.sources.hub.transport import OfflineError, RetryableError
from draftcheck.models.sources.source import ModelSource

WORKERS = 8
NEAR = 4 * 1024
"""A gap that is read over rather than jumped."""
GONE = {400, 401, 403, 404, 410}


class HubSource(ModelSource):
    """The files directly in one folder of a repo; every byte is of the listing's commit.

    Inside, files are known by their paths in the repo: folders share what was read.
    """

    def __init__(
        self,
        web: HubClient,
        store: HubCache,
        shortcut: Shortcut,
        listing: Listing,
        label: str,
        *,
        offline: bool,
    ) -> None:
        self.listing = listing
        self.label = self._repo = label
        self.revision: str | None = listing.commit
        self._prefix = ""
        self._web = web
        self._store = store
        self._shortcut = shortcut
        self._offline = offline
        self._links: dict[str, str] = {}
        self._wholes: dict[str, bytes] = {}
        self._heads: dict[str, bytes] = {}
        self._spans: dict[tuple[str, int], bytes] = {}
        self._fresh: set[tuple[str, int]] = set()
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def inside(self, folder: str) -> HubSource:
        """The same repo, seen from one of its folders."""
        found = copy.copy(self)
        found._prefix = f"{folder}/" if folder else ""
        found.label = f"{self._repo}/{folder}".rstrip("/")
        found.__dict__.pop("_files", None)
        return found

    @cached_property
    def _files(self) -> dict[str, int]:
        start = len(self._prefix)
        return {
            path[start:]: entry.size
            for path, entry in self.listing.files.items()
            if path.startswith(self._prefix) and "/" not in path[start:]
        }

    def files(self) -> Mapping[str, int]:
        return self._files

    def digest(self, name: str) -> str | None:
        entry = self.listing.files.get(self._prefix + name)
        return entry.digest if entry else None

    def called(self, name: str) -> str:
        return f"{self.label}/{name}"

    def bases(self) -> Mapping[str, str]:
        return self.listing.bases

    def read(self, name: str, limit: int) -> bytes:
        """All of a file, held against its digest."""
        path = self._prefix + name
        entry = self._entry(path)
        if entry.size > limit:
            raise ReadError(
                f"{self._repo}/{path}: {entry.size:,} bytes is more than such a file can"
                f" sensibly have (limit {limit:,})"
            )
        with self._locked(path):
            if path not in self._wholes:
                self._wholes[path] = self._kept(path) or self._download(path)
            return self._wholes[path]

    def head(self, name: str, length: int) -> bytes:
        path = self._prefix + name
        entry = self._entry(path)
        want = min(length, entry.size)
        with self._locked(path):
            have = self._heads.get(path) or self._known(path)
            if len(have) < want:
                have = self._longer(path, have, want)
            self._heads[path] = have
            return have

    def read_range(self, name: str, start: int, length: int) -> bytes:
        path = self._prefix + name
        size = self._entry(path).size
        stop = min(start + length, size)
        if stop <= start:
            return b""
        known = self._heads.get(path) or self._known(path)
        if stop <= len(known) or start <= len(known) + NEAR:
            return self.head(name, stop)[start:stop]
        with self._locked(path):
            key = path, start
            have = self._spans.get(key) or self._known(path, start)
            if len(have) < stop - start:
                have = self._local(path, start, stop) or self._get(
                    path, ByteSpan(start, stop, size)
                )
                self._fresh.add(key)
            self._spans[key] = have
            return have[: stop - start]

    def expect(self, heads: Mapping[str, int]) -> None:
        """Read these first bytes at once, some in parallel."""
        todo = [
            (name, length)
            for name, length in heads.items()
            if name in self._files and self._lacks(name, length)
        ]
        if self._offline and todo:
            raise self._missing([self._prefix + name for name, _ in todo])
        if len(todo) < 2 or sys.platform == "emscripten":  # no threads in a browser
            for name, length in todo:
                self._first(name, length)
            return
        pool = ThreadPoolExecutor(WORKERS)
        jobs = [pool.submit(self._first, name, length) for name, length in todo]
        try:
            for job in jobs:
                job.result()
        except ReadError:
            self._web.stopped.set()
            try:
                pool.shutdown(cancel_futures=True)
            finally:
                self._web.stopped.clear()  # other models of this run are still to be read
            raise
        except BaseException:
            self._web.stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        pool.shutdown()

    def vouch(self, name: str) -> None:
        path = self._prefix + name
        for key in [key for key in self._fresh if key[0] == path]:
            self._fresh.discard(key)
            data = self._spans[key] if key[1] else self._heads[path]
            self._store.keep_head(self._web.endpoint, self._key(path), data, key[1])

    def probe(self) -> None:
        """See whether files may be read: lists of files are public, and caches know no gates."""
        first = min(self._files, key=lambda name: (name != "config.json", name), default=None)
        size = self._files[first] if first is not None else 0
        if first is not None and size and not self._offline:
            self._get(self._prefix + first, ByteSpan(0, 1, size))

    def offer(self, name: str, data: bytes) -> None:
        digest = self.digest(name)
        if digest and not self._kept_whole(name) and digest_of(data, digest) == digest:
            self._store.keep_blob(digest, data)

    def path(self, name: str) -> str | None:
        """The file in a cache, once it was read whole."""
        path = self._prefix + name
        found = self._store.place(self._key(path)) or self._cached_file(path)
        return str(found) if found else None

    def readable(self) -> HubSource:
        """The same, less the files that would take the network."""
        found = copy.copy(self)
        kept = {name: size for name, size in self._files.items() if self._kept_whole(name)}
        found.__dict__["_files"] = kept
        return found

    def _kept_whole(self, name: str) -> bool:
        """Whether reading the whole file takes no network."""
        path = self._prefix + name
        known = path in self._wholes or self._store.has_blob(self._key(path))
        return known or self._cached_file(path) is not None

    def forget(self) -> None:
        """Keep nothing in memory; what was worth keeping is in the cache."""
        for kept in (self._wholes, self._heads, self._spans):
            kept.clear()
        self._fresh.clear()

    def _first(self, name: str, length: int) -> None:
        size = self._files[name]
        if length >= size:
            self.read(name, size)
        else:
            self.head(name, length)

    def _lacks(self, name: str, length: int) -> bool:
        path = self._prefix + name
        if self._kept_whole(name):
            return False
        return len(self._heads.get(path) or self._known(path)) < min(length, self._files[name])

    def _entry(self, path: str) -> ListedFile:
        entry = self.listing.files.get(path)
        if entry is None:
            raise ReadError(f"{self._repo}: has no file {path[:120]!r}")
        return entry

    def _key(self, path: str) -> str:
        """What the content is kept under: its digest, or for want of one, its place."""
        listing = self.listing
        place = f"{self._web.endpoint}\0{listing.repo}\0{listing.commit}\0{path}"
        return self._entry(path).digest or "place-" + digest_of(place.encode(), "sha256:")

    def _known(self, path: str, start: int = 0) -> bytes:
        return self._store.head(self._web.endpoint, self._key(path), start)

    def _locked(self, path: str) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(path, threading.Lock())

    def _cached_file(self, path: str) -> Path | None:
        """The same content in the Hub's own cache."""
        entry = self._entry(path)
        if entry.digest is None:
            return None
        return huggingface_cache.blob(self.listing.repo, entry.digest, entry.size)

    def _local(self, path: str, start: int, stop: int) -> bytes:
        file = self._cached_file(path)
        if file is None:
            return b""
        try:
            with file.open("rb") as handle:
                handle.seek(start)
                return handle.read(stop - start)
        except OSError:
            return b""

    def _kept(self, path: str) -> bytes | None:
        """The whole file from a cache, if what is there has the right digest."""
        entry = self._entry(path)
        data = self._store.blob(self._key(path)) if entry.digest else None
        if data is None and entry.digest:
            data = self._local(path, 0, entry.size)
            if digest_of(data, entry.digest) != entry.digest:
                data = None
        return data if data is not None and len(data) == entry.size else None

    def _longer(self, path: str, have: bytes, want: int) -> bytes:
        data = self._wholes.get(path)
        if data is None and self._store.has_blob(self._key(path)):
            data = self._kept(path)
        data = data or self._local(path, 0, want)
        if len(data) >= want:
            return data
        size = self._entry(path).size
        more = have + self._get(path, ByteSpan(len(have), want, size))
        digest = self._entry(path).digest
        if want == size and digest and digest_of(more, digest) != digest:
            raise ReadError(f"{self._repo}/{path}: damaged on the way: its digest is another one")
        self._fresh.add((path, 0))
        return more

    def _download(self, path: str) -> bytes:
        """The whole file from the network; one that arrives damaged is asked for once more."""
        entry = self._entry(path)
        span = ByteSpan(0, entry.size, entry.size)
        for last in (False, True):
            data = self._get(path, span) if entry.size else b""
            if entry.digest is None:
                return data
            if digest_of(data, entry.digest) == entry.digest:
                self._store.keep_blob(entry.digest, data)
                return data
            self._links.pop(path, None)
            if not last:
                self._shortcut.failed()
        raise ReadError(f"{self._repo}/{path}: damaged on the way: its digest is another one")

    def _get(self, path: str, span: ByteSpan) -> bytes:
        """Bytes from the network, going on where a cut left off."""
        if self._offline:
            raise self._missing([path])
        sink = bytearray()
        self._web.retry(lambda: self._once(path, span, sink), lambda: len(sink))
        return bytes(sink)

    def _once(self, path: str, span: ByteSpan, sink: bytearray) -> None:
        what = f"{self._repo}/{path}"
        rest = ByteSpan(span.start + len(sink), span.stop, span.size)
        is_whole = rest.start == 0 and rest.stop == rest.size
        limit = rest.stop - rest.start
        oid = (self._entry(path).digest or "").partition("git-sha1:")[2]
        link = self._links.get(path)
        place = self._web.endpoint, self.listing.repo, self.listing.commit, path
        short = None
        if link is None and oid and is_whole:
            short = self._shortcut.url(*place, oid)
        answer = self._web.get(
            link or short or addresses.resolve(*place),
            sink,
            limit + 1 if is_whole else limit,
            what,
            span=None if is_whole else rest,
            allowed=lambda there: addresses.belongs(there, self.listing.repo),
        )
        if answer.status not in (200, 206):
            self._refused(path, answer, link, short)
        self._look(path, answer, oid, what)
        if len(sink) > span.stop - span.start:
            raise ReadError(f"{what}: more than the {span.size:,} bytes of the list of files")
        if len(sink) < span.stop - span.start:
            raise RetryableError(f"{what}: ended after {len(sink):,} bytes")

    def _refused(self, path: str, answer: HttpAnswer, link: str | None, short: str | None) -> None:
        if link is not None and answer.status in GONE:
            self._links.pop(path, None)  # it has expired: ask for another one, once
            raise RetryableError(f"{self._repo}/{path}: its link has expired", wait=0.0, tries=2)
        if short is not None and answer.status not in (429, 503):
            self._shortcut.failed()
            raise RetryableError(f"{self._repo}/{path}: {answer.status}", wait=0.0, tries=3)
        if not self._web.is_hub(answer.url) and answer.status in GONE:
            raise RetryableError(
                f"{self._repo}/{path}: the storage answered {answer.status} to a fresh link",
                wait=0.0,
                tries=2,
            )
        refuse(self._web, answer, self.listing.repo, path)

    def _look(self, path: str, answer: HttpAnswer, oid: str, what: str) -> None:
        """Is it the commit and the content that was asked for? And where was it?"""
        entry = self._entry(path)
        for headers in (*(hop.headers for hop in answer.hops), answer.headers):
            commit = headers.get("x-repo-commit", self.listing.commit)
            if commit != self.listing.commit:
                raise ReadError(f"{what}: sent from commit {commit[:12]!r}, not the one asked for")
            size = headers.get("x-linked-size", str(entry.size))
            if size != str(entry.size):
                raise ReadError(f"{what}: has {size[:20]} bytes, {entry.size:,} in the list")
        if "text/html" in answer.headers.get("content-type", "") and not path.endswith(".html"):
            raise RetryableError(
                f"{what}: a web page was sent instead (a proxy in between?)", tries=2
            )
        place = self._web.endpoint, self.listing.repo, self.listing.commit, path
        for hop in answer.hops:
            if oid and hop.status in (302, 307):
                self._shortcut.learn(hop.headers.get("location", ""), *place, oid)
        if answer.hops:
            self._links[path] = answer.url

    def _missing(self, paths: Sequence[str]) -> OfflineError:
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        commit = self.listing.commit[:12]
        return OfflineError(
            f"{self._repo} at {commit}: in no cache: {', '.join(paths[:3])}{more}",
            hint="Run it once without --offline (and without HF_HUB_OFFLINE) to fetch it.",
        )
