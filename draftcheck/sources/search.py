"""The Hub's list of models: a question, and the rows of its answer, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from draftcheck.errors import ReadError
from draftcheck.sources.listing import NEXT, get_json
from draftcheck.sources.origins import origin
from draftcheck.sources.web import Web

MAX_ROWS = 1_000_000
PAGE = 1000
"""Rows that a page of the public Hub has at most."""
WHAT = "the list of models"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the list; empty fields ask nothing."""

    filters: tuple[str, ...] = ()
    """Tags that a model must all have."""
    search: str = ""
    author: str = ""
    parameters: str = ""
    """As the Hub writes it: min:1B,max:6B."""
    sort: str = "downloads"
    fields: tuple[str, ...] = ()
    """Properties to bring along (expand=…)."""
    rows: int = PAGE
    """No more than these."""

    def parameters_of(self, *, expand: bool) -> list[tuple[str, str]]:
        """The query; without expand, a server sends its usual fields."""
        query = [("filter", tag) for tag in self.filters]
        for name, value in (
            ("search", self.search),
            ("author", self.author),
            ("num_parameters", self.parameters),
            ("sort", self.sort),
        ):
            query += [(name, value)] if value else []
        query.append(("limit", str(min(self.rows, PAGE))))
        if expand:
            return query + [("expand", name) for name in self.fields]
        return [*query, ("full", "true"), ("config", "true")]


def rows(web: Web, question: Question, start: str | None = None) -> Iterator[dict[str, Any]]:
    """Rows that have a name, whatever it is, in the server's order; start: a page's address."""
    for _, page in pages(web, question, start):
        yield from page


def pages(
    web: Web, question: Question, start: str | None = None
) -> Iterator[tuple[str | None, list[dict[str, Any]]]]:
    """Pages of rows, each with the address of the next: there one can go on another time."""
    base = f"{web.endpoint}/api/models"
    if start is not None and not _same(start, base):
        raise ReadError(f"{WHAT} does not go on at {start[:120]!r}")
    url: str | None = start or f"{base}?{urlencode(question.parameters_of(expand=True))}"
    seen: set[str] = set()
    count = 0
    while url is not None:
        seen.add(url)
        answer, body = get_json(web, url, "the Hub", WHAT, None, optional=len(seen) == 1)
        if body is None and start is None:  # it knows no expand=…
            start = url = f"{base}?{urlencode(question.parameters_of(expand=False))}"
            continue
        if not isinstance(body, list):
            raise ReadError(f"{WHAT} is not a list")
        match = NEXT.search(answer.headers.get("link", "")[:4000])
        url = match[1] if match else None
        if url is not None and (not _same(url, base) or url in seen):
            raise ReadError(f"{WHAT} goes on elsewhere: {url[:120]!r}")
        page = [row for row in body if _named(row)][: min(question.rows, MAX_ROWS) - count]
        count += len(page)
        full = count >= min(question.rows, MAX_ROWS)
        yield (None if full else url), page
        if full:
            return


def _same(url: str, base: str) -> bool:
    return origin(url) == origin(base) and urlsplit(url).path.rstrip("/") == urlsplit(base).path


def _named(row: Any) -> bool:
    return isinstance(row, dict) and isinstance(row.get("id"), str)
