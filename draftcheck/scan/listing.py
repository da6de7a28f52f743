"""Rows of the Hub's list -> repos, each with what the list alone speaks against."""

from __future__ import annotations

from collections.abc import Iterator

from draftcheck.models.readers.tokenizer import files as tokenizer
from draftcheck.models.sources.hub.listing import HubQuery
from draftcheck.models.sources.hub.repos import Hub
from draftcheck.recommend import screen
from draftcheck.recommend import search as hub
from draftcheck.recommend.candidates import Candidate, Rejection
from draftcheck.recommend.search import DraftSearch
from draftcheck.scan.rows import RepoRow
from draftcheck.scan.targets import HubSearch


def pages(source: Hub, search: HubSearch) -> Iterator[list[RepoRow]]:
    """Ask for one part of the list, page by page; names that no repo can have are left out."""
    for page in source.pages(_question(search)):
        rows = (hub.candidate(row) for row in page)
        yield [_repo(row) for row in rows if not isinstance(row, Rejection)]


def _question(search: HubSearch) -> HubQuery:
    sizes = (("min", search.min_parameters), ("max", search.max_parameters))
    return HubQuery(
        filters=search.filters,
        search=search.search,
        author=search.author,
        parameters=",".join(f"{side}:{size / 1e6:.6g}M" for side, size in sizes if size),
        fields=hub.LIGHT,
        rows=search.limit,
    )


def _repo(row: Candidate) -> RepoRow:
    return RepoRow(
        name=row.ref,
        sha=row.revision or "",
        kind=_kind(row),
        parameters=row.parameters,
        packed=row.packed,
        gated=row.gated,
        bases=row.base_models,
        downloads=row.downloads,
        likes=row.likes,
        refused=_refused(row),
    )


def _refused(row: Candidate) -> str | None:
    """What the listing speaks against, whatever the target is."""
    if row.revision is None:
        return "its listing names no commit"
    rejection = screen.by_listing(row, DraftSearch(gguf=row.kind == "gguf"))
    return rejection.saw if rejection is not None else None


def _kind(row: Candidate) -> str:
    """Heads mostly come without a vocabulary; whose they are, the targets tell."""
    bare = row.files is not None and not set(row.files) & set(tokenizer.FILES)
    return "bare" if row.kind == "full" and bare else row.kind
