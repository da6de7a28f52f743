"""Models of a Hub: one commit each, read as little as possible."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from draftcheck import settings
from draftcheck.errors import ReadError
from draftcheck.models.sources.hub import huggingface_cache, listing
from draftcheck.models.sources.hub.addresses import Shortcut
from draftcheck.models.sources.hub.budget import RequestBudget
from draftcheck.models.sources.hub.cache import HubCache
from draftcheck.models.sources.hub.client import HubClient
from draftcheck.models.sources.hub.listing import HubQuery, Listing
from draftcheck.models.sources.hub.reader import HubSource
from draftcheck.models.sources.hub.transport import OfflineError, RetryableError
from draftcheck.models.sources.source import ModelSource

MAIN = "main"
MAX_FILES = 100_000
PAGE_TRIES = 4
LONG = 60.0
"""Seconds for a page of the list of all models: the server sorts them all."""


@dataclass(frozen=True, slots=True)
class HubRepo:
    """A repo at one commit, from the network or from a cache."""

    name: str
    revision: str
    paths: Collection[str]
    source: HubSource | None = None
    """None for a snapshot of the Hub's cache."""
    settle: Callable[[ReadError | None], None] = lambda _: None
    """Say how reading the model went: after a success its listing is worth keeping."""
    note: str | None = None
    """What the user should know of the commit."""

    def forget(self) -> None:
        """Its files were read: nothing of them is needed any more."""
        if self.source is not None:
            self.source.forget()

    def folder(self, path: str = "") -> ModelSource:
        if self.source is not None:
            return self.source.inside(path)
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
        self._branches = weakref.WeakSet[HubClient]()
        """Those still in use: a scan opens a million repos, one by one."""
        self._branching = threading.Lock()

    @cached_property
    def _web(self) -> HubClient:
        if self.offline:  # not even huggingface_hub is needed then
            return HubClient(settings.endpoint(), None, 1.0)
        return HubClient(settings.endpoint(), settings.token(), settings.timeout(), self._budget)

    def search(self, question: HubQuery) -> Iterator[dict[str, Any]]:
        """Rows of the list of models that fit, page by page as they are taken."""
        if self.offline:
            raise OfflineError(
                "the Hub cannot be searched without the network",
                hint="--local looks at the models on this disk; --candidate names drafts.",
            )
        return itertools.chain.from_iterable(page for _, page in listing.pages(self._web, question))

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
        with self._branching:
            for web in (self._web, *self._branches):
                web.stopped.set()

    def listing(self, repo: str, revision: str) -> Listing:
        """The files of a repo at a commit; the caller keeps them, most are never read."""
        return listing.fetch(self._web, self._store, repo, revision)

    def commit(self, repo: str, revision: str | None) -> tuple[str, str]:
        """The name that a repo has now, and the commit that a revision means."""
        return listing.commit_now(self._web, repo, revision)

    def pages(
        self, question: HubQuery, start: str | None = None
    ) -> Iterator[tuple[str | None, list[dict[str, Any]]]]:
        """Pages of the list of models, each with the address where one can go on later."""
        if self.offline:
            raise OfflineError("the Hub cannot be listed without the network")
        web = self._web.branch(timeout=LONG)
        place = start
        failures = 0
        while True:  # a long list is worth more patience than a single answer
            try:
                for following, page in listing.pages(web, question, place):
                    place, failures = following, 0
                    question = replace(question, rows=question.rows - len(page))
                    yield place, page
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
        note = None
        if known is not None:
            found = known
        elif not self.offline:
            found = listing.fetch(self._web, self._store, repo, revision)
        else:
            known = listing.cached(self._web, self._store, repo, revision)
            if known is None and (snapshot := self._snapshot(repo, revision)):
                return snapshot
            found = known or self._newest(repo, revision)
            if known is None:
                note = f"{repo}: offline, so commit {found.commit[:12]} stands for {MAIN}:"
                note += " the newest that was read before"
        web = self._web.branch()
        with self._branching:
            self._branches.add(web)
        source = HubSource(web, self._store, self._shortcut, found, repo, offline=self.offline)

        def settle(error: ReadError | None) -> None:
            if error is None:
                listing.keep(self._web, self._store, repo, revision, found)
            elif type(error) is ReadError and not self.offline:
                # Neither the network nor access: perhaps the listing lied. It is asked for anew.
                self._store.drop_listing(self._web.endpoint, repo, found.commit)

        return HubRepo(found.repo, found.commit, found.files, source, settle, note)

    def _newest(self, repo: str, revision: str | None) -> Listing:
        """The files of the last commit that was read, where no other is asked for."""
        bodies = [
            body
            for body in (self._store.listings() if revision in (None, MAIN) else ())
            if (body.get("endpoint"), body.get("asked")) == (self._web.endpoint, repo)
        ]
        bodies.sort(key=lambda body: str(body.get("kept", "")))
        found = listing.load(bodies[-1]) if bodies else None
        if found is None:
            at = f" at {revision}" if revision else ""
            raise OfflineError(
                f"{repo}{at}: in no cache (looked in {self._store.folder}"
                f" and {settings.hub_cache()})",
                hint="Run it once without --offline (and without HF_HUB_OFFLINE) to fetch it.",
            )
        return found

    def _snapshot(self, repo: str, revision: str | None) -> HubRepo | None:
        """What huggingface_hub has downloaded of it."""
        sha = huggingface_cache.commit(repo, revision)
        source = huggingface_cache.snapshot(repo, sha, "") if sha else None
        if sha is None or source is None:
            return None
        files = (path for path in source.root.rglob("*") if not path.is_dir())
        paths = (path.relative_to(source.root) for path in itertools.islice(files, MAX_FILES))
        return HubRepo(repo, sha, sorted(path.as_posix() for path in paths))

    def close(self) -> None:
        """Make room in the cache, if this run has written to it."""
        self._store.trim()
