"""Rows of the Hub's list -> repos, each with what the list alone speaks against."""

from __future__ import annotations

from collections.abc import Iterator

from draftcheck.candidates import Candidate, Rejection, hub, screen
from draftcheck.candidates.hub import Wanted
from draftcheck.facts import tokenizer
from draftcheck.scan.rows import Repo
from draftcheck.scan.targets import Search
from draftcheck.sources.hub import Hub
from draftcheck.sources.search import Question


def pages(source: Hub, search: Search) -> Iterator[list[Repo]]:
    """One part of the list, page by page; names that no repo can have are left out."""
    for page in source.pages(_question(search)):
        found = (hub.candidate(row) for row in page)
        yield [_repo(row) for row in found if not isinstance(row, Rejection)]


def _question(search: Search) -> Question:
    sizes = (("min", search.min_parameters), ("max", search.max_parameters))
    return Question(
        filters=search.filters,
        search=search.search,
        author=search.author,
        parameters=",".join(f"{side}:{size / 1e6:.6g}M" for side, size in sizes if size),
        fields=hub.LIGHT,
        rows=search.limit,
    )


def _repo(row: Candidate) -> Repo:
    return Repo(
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
    """Whatever the target is."""
    if row.revision is None:
        return "its listing names no commit"
    spoken = screen.by_listing(row, Wanted(gguf=row.kind == "gguf"))
    if spoken is not None:
        return spoken.saw
    return None


def _kind(row: Candidate) -> str:
    """Heads mostly come without a vocabulary; whose they are, the targets tell."""
    bare = row.files is not None and not set(row.files) & set(tokenizer.FILES)
    return "bare" if row.kind == "full" and bare else row.kind
