"""The walk along the Hub's list: page by page into the store, and on from there when it is killed.

A list of the most downloaded (limit = N) is walked whole every night, because its order changes.
A list of all that there is (limit = "all") is asked for by date, the last change first. It is
walked whole now and then; on the nights between, only as far as there is news. The rest stands as
it was: repos that were seen since the last whole walk (ScanNight.base) are there now.

Where a walk goes on is stored with each page, in one transaction. Dates are the Hub's own: they
are compared with each other, never with a clock of ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from itertools import chain, pairwise
from typing import Any

from draftcheck import settings
from draftcheck.errors import ReadError
from draftcheck.models.readers.tokenizer import files as tokenizer_files
from draftcheck.models.sources.hub.listing import MAX_ROWS, HubQuery
from draftcheck.models.sources.hub.repos import Hub
from draftcheck.models.sources.hub.transport import OfflineError, RetryableError
from draftcheck.recommend import screen as recommend_screen
from draftcheck.recommend import search as hub_search
from draftcheck.recommend.candidates import Candidate, Rejection
from draftcheck.recommend.search import DraftSearch
from draftcheck.scan.night import READING, ScanNight
from draftcheck.scan.rows import HubWalkRow, RepoRow
from draftcheck.scan.store import stable_json
from draftcheck.scan.targets import HubSearch

AGAIN = 7
"""Scans after which a list is walked whole again: who vanished, or came with an old date, shows
only there."""
OVERLAP = timedelta(hours=1)
"""So much of what is known is asked for again: a list may lag behind its dates."""
DATE = "lastModified"
Page = tuple[str | None, list[dict[str, Any]]]
"""Rows of the list, and the address of the next page."""


def list_hub(night: ScanNight) -> None:
    """Bring the list up to date, and find targets that were described rather than named."""
    searches = night.job.candidates
    questions = [_question(night, search) for search in searches]
    night.writer.forget_walks(questions)
    night.base = night.writer.number
    done = []
    for search, question in zip(searches, questions, strict=True):
        walk = _begin(night, question)
        if walk.until is not None:
            night.base = min(night.base, walk.whole or 0)
        walk = _walk(night, search, walk)
        if night.clock.cut:
            return
        done.append(walk.whole or 0)
    night.base = min(done, default=night.writer.number)
    night.writer.stand(replace(night.writer.standing, base=night.base))
    hub = night.session.opener.hub
    for search in night.job.searches:
        for _, page in hub.pages(_query(search, search.limit or MAX_ROWS)):
            repos = _repos(page)
            night.writer.page(repos)
            night.searched += [
                repo.name
                for repo in repos
                if repo.kind == "full" and repo.refused is None
                and (repo.parameters or 0) >= (search.min_parameters or 0)
            ]  # fmt: skip


def _question(night: ScanNight, search: HubSearch) -> str:
    """What is asked, of whom, and by which draftcheck: another may read a row otherwise.

    With all that the scan asks: repos do not say whose answer they are.
    """
    asked = [asdict(each) for each in night.job.candidates]
    return stable_json([settings.endpoint(), settings.__version__, asked, asdict(search)])


def _begin(night: ScanNight, question: str) -> HubWalkRow:
    """Where the walk for a question begins: where it stopped, at the news, or anew."""
    number = night.writer.number
    known = next(night.store.read(HubWalkRow, "question = ?", question), None)
    if known is None:
        return HubWalkRow(question, number, 0)
    brief = (
        all(search.limit is None for search in night.job.candidates)
        and not night.relist
        and known.whole is not None
        and number - known.whole < AGAIN
    )
    if known.scan == number and known.following and (known.until is None or brief):
        return known
    until = _before(known.known) if brief and known.known else None
    return replace(known, scan=number, listed=0, following=None, newest=None, until=until)


def _walk(night: ScanNight, search: HubSearch, walk: HubWalkRow) -> HubWalkRow:
    """Write page after page; the walk as it stands then."""
    walk, pages = _pages(night.session.opener.hub, search, walk)
    before, last = night.counts["listed"], None
    for following, page in pages:
        dates = [_date(row) for row in page]
        if not walk.listed:
            walk = replace(walk, newest=dates[0] if dates else None)
        sorted_so = _falling([last or walk.newest, *dates])
        if walk.until is not None and ((walk.newest or "") < walk.until or not sorted_so):
            walk = replace(walk, until=None)  # in another order there is no place to stop at
        last = dates[-1] if dates else last
        repos = _repos(page)
        old = walk.until is not None and last is not None and last < walk.until
        stop = old and not _news(night, repos)
        walk = replace(walk, listed=walk.listed + len(page), following=following)
        if stop or following is None:
            whole = walk.whole if stop else night.writer.number
            walk = replace(walk, following=None, known=walk.newest or walk.known, whole=whole)
        night.writer.page(repos, walk)
        night.counts["listed"] = before + walk.listed
        night.step("listing", night.counts["listed"], None)
        if walk.following is None:
            break
        if night.clock.over(READING):
            night.clock.cut = True
            break
    return walk


def _pages(hub: Hub, search: HubSearch, walk: HubWalkRow) -> tuple[HubWalkRow, Iterator[Page]]:
    """The pages from where the walk stopped; all of them where the Hub knows no such place."""
    rows = MAX_ROWS if search.limit is None else search.limit
    if walk.following is not None:
        pages = hub.pages(_query(search, rows - walk.listed), walk.following)
        try:
            return walk, chain([next(pages)], pages)
        except (RetryableError, OfflineError):
            raise
        except ReadError:
            walk = replace(walk, listed=0, following=None, newest=None, until=None)
    return walk, hub.pages(_query(search, rows))


def _query(search: HubSearch, rows: int) -> HubQuery:
    by_date = search.limit is None
    return HubQuery(
        filters=search.filters,
        search=search.search,
        author=search.author,
        smallest=search.min_parameters,
        largest=search.max_parameters,
        sort=DATE if by_date else "downloads",
        fields=(*hub_search.LIGHT, DATE) if by_date else hub_search.LIGHT,
        rows=rows,
    )


def _news(night: ScanNight, repos: Sequence[RepoRow]) -> bool:
    """Whether a page has a repo that is not known, or not at this commit."""
    names = stable_json([repo.name for repo in repos])
    found = night.store.query(
        "SELECT name, sha FROM repos WHERE name IN (SELECT value FROM json_each(?))", names
    )
    known = {row[0]: row[1] for row in found}
    return any(known.get(repo.name) != repo.sha for repo in repos)


def _date(row: dict[str, Any]) -> str | None:
    """When a row was changed, in a form whose order is that of time; None: it does not say."""
    text = row.get(DATE)
    try:
        return _written(datetime.fromisoformat(text)) if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None


def _written(date: datetime) -> str:
    utc = date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)
    return utc.isoformat(timespec="milliseconds")


def _before(date: str) -> str | None:
    try:
        return _written(datetime.fromisoformat(date) - OVERLAP)
    except (ValueError, OverflowError):
        return None


def _falling(dates: Sequence[str | None]) -> bool:
    return None not in dates and all(one >= two for one, two in pairwise(dates) if one and two)


def _repos(page: Sequence[dict[str, Any]]) -> list[RepoRow]:
    """The repos of a page; names that no repo can have are left out."""
    rows = (hub_search.candidate(row) for row in page)
    return [_repo(row) for row in rows if not isinstance(row, Rejection)]


def _repo(row: Candidate) -> RepoRow:
    # Heads mostly come without a vocabulary; whose they are, the targets tell.
    bare = row.files is not None and not set(row.files) & set(tokenizer_files.FILES)
    refused = None
    if row.revision is None:
        refused = "its listing names no commit"
    elif against := recommend_screen.by_listing(row, DraftSearch(gguf=row.kind == "gguf")):
        refused = against.saw
    return RepoRow(
        name=row.ref,
        sha=row.revision or "",
        kind="bare" if row.kind == "full" and bare else row.kind,
        parameters=row.parameters,
        packed=row.packed,
        gated=row.gated,
        bases=row.base_models,
        downloads=row.downloads,
        likes=row.likes,
        refused=refused,
    )
