"""Models of a Hub: one commit each, read as little as possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from draftcheck import settings
from draftcheck.errors import ReadError
from draftcheck.models.sources.folder import FolderSource
from draftcheck.models.sources.hub import huggingface_cache, listing, search
from draftcheck.models.sources.hub.budget import RequestBudget
from draftcheck.models.sources.hub.cache import HubCache
from draftcheck.models.sources.hub.client import HubClient, OfflineError, RetryableError, open_web
from draftcheck.models.sources.hub.links import Shortcut
from draftcheck.models.sources.hub.listing import Listing
from draftcheck.models.sources.hub.reader import HubReader
from draftcheck.models.sources.hub.search import HubQuery
from draftcheck.models.sources.source import ModelSource

MAX_FILES = 100_000
PAGE_TRIES = 4
LONG = 60.0
"""Seconds for a page of the list of all models: the server sorts them all."""


class HubSource:
    """The files directly in one folder of a repo."""

    def __init__(self, reader: HubReader, folder: str = "") -> None:
        self._reader = reader
        self._prefix = f"{folder}/" if folder else ""
        self.label = f"{reader.label}/{folder}".rstrip("/")
        self.revision: str | None = reader.listing.commit

    @cached_property
    def _files(self) -> dict[str, int]:
        start = len(self._prefix)
        return {
            path[start:]: entry.size
            for path, entry in self._reader.listing.files.items()
            if path.startswith(self._prefix) and "/" not in path[start:]
        }

    def files(self) -> Mapping[str, int]:
        return self._files

    def digest(self, name: str) -> str | None:
        entry = self._reader.listing.files.get(self._prefix + name)
        return entry.digest if entry else None

    def read(self, name: str, limit: int) -> bytes:
        return self._reader.whole(self._prefix + name, limit)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        return self._reader.span(self._prefix + name, start, length)

    def head(self, name: str, length: int) -> bytes:
        return self._reader.head(self._prefix + name, length)

    def path(self, name: str) -> str | None:
        """The file in a cache, once it was read whole."""
        found = self._reader.place(self._prefix + name)
        return str(found) if found else None

    def called(self, name: str) -> str:
        return f"{self.label}/{name}"

    def expect(self, heads: Mapping[str, int]) -> None:
        known = {name: length for name, length in heads.items() if name in self._files}
        self._reader.expect({self._prefix + name: length for name, length in known.items()})

    def vouch(self, name: str) -> None:
        self._reader.vouch(self._prefix + name)

    def offer(self, name: str, data: bytes) -> None:
        self._reader.offer(self._prefix + name, data)

    def probe(self) -> None:
        """See whether files may be read: lists of files are public, and caches know no gates."""
        first = min(self._files, key=lambda name: (name != "config.json", name), default=None)
        if first is not None:
            self._reader.probe(self._prefix + first)

    def readable(self) -> HubSource:
        """The same, less the files that would take the network."""
        found = HubSource(self._reader, self._prefix.rstrip("/"))
        kept = {name: size for name, size in self._files.items() if self.kept(name)}
        found.__dict__["_files"] = kept
        return found

    def kept(self, name: str) -> bool:
        """Whether reading the whole file takes no network."""
        return self._reader.kept(self._prefix + name)


class HubRepo:
    """A repo at one commit, from the network or from a cache."""

    def __init__(
        self,
        name: str,
        revision: str,
        paths: Iterable[str],
        reader: HubReader | None = None,
        settle: Callable[[ReadError | None], None] | None = None,
    ) -> None:
        """reader: None for a snapshot of the Hub's cache."""
        self.name = name
        self.revision = revision
        self.paths = tuple(paths)
        self._reader = reader
        self._settle = settle

    def settle(self, error: ReadError | None) -> None:
        """Say how reading the model went: after a success its listing is worth keeping."""
        if self._settle is not None:
            self._settle(error)

    def forget(self) -> None:
        """Its files were read: nothing of them is needed any more."""
        if self._reader is not None:
            self._reader.forget()

    def folder(self, path: str = "") -> ModelSource:
        """Its files in one folder."""
        if self._reader is not None:
            return HubSource(self._reader, path)
        found = huggingface_cache.snapshot(self.name, self.revision, path)
        if found is None:
            raise OfflineError(f"{self.name}: {path} is not in the Hub's cache")
        found.revision = self.revision
        return found


class Hub:
    """What the models of one run share: connections, waiting, cache."""

    def __init__(self, *, offline: bool = False, budget: RequestBudget | None = None) -> None:
        """budget: how much may be asked, and how long waited; shared by many readers."""
        self.offline = offline or settings.offline()
        self._budget = budget
        self._store = HubCache(settings.cache(), settings.cache_limit())
        self._shortcut = Shortcut()
        self._branches: list[HubClient] = []

    @cached_property
    def _web(self) -> HubClient:
        if self.offline:  # not even huggingface_hub is needed then
            return HubClient(settings.endpoint(), None, 1.0)
        return open_web(self._budget)

    def search(self, question: HubQuery) -> Iterator[dict[str, Any]]:
        """Rows of the list of models that fit, page by page as they are taken."""
        if self.offline:
            raise OfflineError(
                "the Hub cannot be searched without the network",
                hint="--local looks at the models on this disk; --candidate names drafts.",
            )
        return search.rows(self._web, question)

    def known(self) -> dict[str, str]:
        """Repos that were read before and the commit to take: what main meant, else any."""
        endpoint, found = settings.endpoint(), dict[str, str]()
        for body in self._store.listings():
            repo, commit = body.get("asked"), body.get("commit")
            if body.get("endpoint") == endpoint and isinstance(repo, str):
                found[repo] = self._store.ref(endpoint, repo, None) or str(commit)
        return found

    def prepare(self) -> None:
        """Make what models share, before several threads want it."""
        _ = self._web

    def stop(self) -> None:
        """Nobody needs what is still being read."""
        for web in (self._web, *self._branches):
            web.stopped.set()

    def listing(self, repo: str, revision: str) -> Listing:
        """The files of a repo at a commit, kept for whoever reads it next."""
        found = listing.fetch(self._web, self._store, repo, revision)
        listing.keep(self._web, self._store, repo, revision, found)
        return found

    def commit(self, repo: str, revision: str | None) -> tuple[str, str]:
        """The name that a repo has now, and the commit that a revision means."""
        return listing.commit_now(self._web, repo, revision)

    def pages(self, question: HubQuery) -> Iterator[list[dict[str, Any]]]:
        """The list of models, page by page."""
        if self.offline:
            raise OfflineError("the Hub cannot be listed without the network")
        web = self._web.branch(timeout=LONG)
        place: str | None = None
        failures = 0
        while True:  # a long list is worth more patience than a single answer
            try:
                for following, page in search.pages(web, question, place):
                    place, failures = following, 0
                    question = replace(question, rows=question.rows - len(page))
                    yield page
                    if place is None:
                        return
                return
            except RetryableError:
                failures += 1
                if failures == PAGE_TRIES or web.budget.stopped.wait(2.0**failures):
                    raise

    def open(self, repo: str, revision: str | None, *, known: Listing | None = None) -> HubRepo:
        """The repo at the commit that the revision means now; it stays that one.

        known: its files, when somebody asked before.
        """
        if known is not None:
            found = known
        elif not self.offline:
            found = listing.fetch(self._web, self._store, repo, revision)
        else:
            known = listing.cached(self._web, self._store, repo, revision)
            if known is None:
                return self._snapshot(repo, revision)
            found = known
        web = self._web.branch()
        self._branches.append(web)
        reader = HubReader(web, self._store, self._shortcut, found, repo, offline=self.offline)

        def settle(error: ReadError | None) -> None:
            if error is None:
                listing.keep(self._web, self._store, repo, revision, found)
            elif type(error) is ReadError and not self.offline:
                # Neither the network nor access: perhaps the listing lied. It is asked for anew.
                self._store.drop_listing(self._web.endpoint, repo, found.commit)

        return HubRepo(found.repo, found.commit, found.files, reader, settle)

    def _snapshot(self, repo: str, revision: str | None) -> HubRepo:
        """What huggingface_hub has downloaded of it."""
        sha = huggingface_cache.commit(repo, revision)
        source = huggingface_cache.snapshot(repo, sha, "") if sha else None
        if sha is None or source is None:
            at = f" at {revision}" if revision else ""
            raise OfflineError(
                f"{repo}{at}: in no cache (looked in {self._store.folder}"
                f" and {settings.hub_cache()})",
                hint="Run it once without --offline (and without HF_HUB_OFFLINE) to fetch it.",
            )
        return HubRepo(repo, sha, _walk(source))

    def close(self) -> None:
        """Make room in the cache, if this run has written to it."""
        self._store.trim()


def _walk(source: FolderSource) -> list[str]:
    found: list[str] = []
    for path in source.root.rglob("*"):
        if len(found) >= MAX_FILES:
            break
        if not path.is_dir():
            found.append(path.relative_to(source.root).as_posix())
    return sorted(found)
