"""The Hub's list of models: a question, and the rows of its answer, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from draftcheck.errors import ReadError
from draftcheck.models.sources.hub.client import HubClient
from draftcheck.models.sources.hub.listing import NEXT, get_json
from draftcheck.models.sources.hub.origins import origin

MAX_ROWS = 1_000_000
PAGE = 1000
"""Rows that a page of the public Hub has at most."""
WHAT = "the list of models"


@dataclass(frozen=True, slots=True)
class HubQuery:
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

    def addresses(self, base: str) -> list[str]:
        """The question in full, and in words that every server of this kind understands."""
        query = [("filter", tag) for tag in self.filters]
        named = {"search": self.search, "author": self.author}
        query += [(name, value) for name, value in named.items() if value]
        query.append(("limit", str(min(self.rows, PAGE))))
        more = {"sort": self.sort, "num_parameters": self.parameters}
        rest = [(name, value) for name, value in more.items() if value]
        rich = query + rest + [("expand", name) for name in self.fields]
        plain = [*query, ("full", "true"), ("config", "true")]
        return [f"{base}?{urlencode(pairs)}" for pairs in (rich, plain)]


def rows(web: HubClient, question: HubQuery, start: str | None = None) -> Iterator[dict[str, Any]]:
    """Rows that have a name, whatever it is, in the server's order; start: a page's address."""
    for _, page in pages(web, question, start):
        yield from page


def pages(
    web: HubClient, question: HubQuery, start: str | None = None
) -> Iterator[tuple[str | None, list[dict[str, Any]]]]:
    """Pages of rows, each with the address of the next: there one can go on another time."""
    base = f"{web.endpoint}/api/models"
    if start is not None and not _same(start, base):
        raise ReadError(f"{WHAT} does not go on at {start[:120]!r}")
    ways = [start] if start is not None else question.addresses(base)
    url: str | None = ways.pop(0)
    seen: set[str] = set()
    most = min(question.rows, MAX_ROWS)
    while url is not None and most > 0:
        if seen and (not _same(url, base) or url in seen):
            raise ReadError(f"{WHAT} goes on elsewhere: {url[:120]!r}")
        answer, body = get_json(web, url, "the Hub", WHAT, None, optional=bool(ways))
        if body is None and ways:  # it does not know these words
            url = ways.pop(0)
            continue
        ways = []
        seen.add(url)
        if not isinstance(body, list):
            raise ReadError(f"{WHAT} is not a list")
        match = NEXT.search(answer.headers.get("link", "")[:4000])
        url = match[1] if match else None
        page = [row for row in body if _named(row)][:most]
        most -= len(page)
        yield (url if most else None), page


def _same(url: str, base: str) -> bool:
    return origin(url) == origin(base) and urlsplit(url).path.rstrip("/") == urlsplit(base).path


def _named(row: Any) -> bool:
    return isinstance(row, dict) and isinstance(row.get("id") or row.get("modelId"), str)
