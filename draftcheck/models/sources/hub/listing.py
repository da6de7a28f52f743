"""The lists of a Hub: the files of a repo at one commit, and the models that fit a question.

Files come with sizes and digests, in one request or from the cache; models page by page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import msgspec
from msgspec import Meta

from draftcheck.errors import ReadError
from draftcheck.models import bases
from draftcheck.models.sources.hub.addresses import origin, rebased
from draftcheck.models.sources.hub.cache import HubCache
from draftcheck.models.sources.hub.client import HttpAnswer, HubClient, refuse
from draftcheck.models.sources.hub.transport import RetryableError

MAX_BODY = 16 * 1024 * 1024
MAX_ITEMS = 1 << 20
MAX_FILES = 100_000
MAX_PAGES = 100
MAX_SIZE = 1 << 50
COMMIT = re.compile(r"[0-9a-f]{40}")
SHA256 = re.compile(r"[0-9a-f]{64}")
REPO = re.compile(r"[A-Za-z0-9_][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)
MAX_ROWS = 10_000_000
PAGE = 1000
"""Rows that a page of the public Hub has at most."""
MODELS = "the list of models"
UNSURE = "baseModels"
"""A field that lists have refused before, and that tags hold as well."""
NEXT = re.compile(r'<([^<>]{1,2000})>\s*;\s*rel="?next"?')


class OverlongError(ReadError):
    """An answer is longer than any that we would read: a smaller part may be asked for."""


class ListedFile(msgspec.Struct, frozen=True, array_like=True):
    size: Annotated[int, Meta(ge=0, lt=MAX_SIZE)]
    digest: Annotated[str, Meta(pattern=r"^(git-sha1:[0-9a-f]{40}|sha256:[0-9a-f]{64})\Z")] | None
    """git-sha1:… of a small file, sha256:… of a large one."""


class Listing(msgspec.Struct, frozen=True):
    repo: str
    """The name that the Hub uses now."""
    commit: str
    files: dict[str, ListedFile]
    bases: dict[str, str] = {}
    """What its publisher says it was made from -> how."""
    gated: bool = False
    """Its files are for those whom the publisher lets have them."""

    def dump(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


msgspec.json.Decoder(Listing)  # now: msgspec crashes where two threads meet a type first


def load(body: Any) -> Listing | None:
    """A listing as dump() wrote it; None for anything else."""
    try:
        return msgspec.convert(body, Listing)
    except (msgspec.ValidationError, RecursionError):
        return None


def fetch(web: HubClient, store: HubCache, repo: str, revision: str | None) -> Listing:
    """The files of the commit that the revision means now."""
    known = cached(web, store, repo, revision)
    fixed = revision and COMMIT.fullmatch(revision)
    if known and (fixed or _sha(_brief(web, repo, revision)) == known.commit):
        return known
    return _ask(web, repo, revision)


def keep(
    web: HubClient, store: HubCache, repo: str, revision: str | None, listing: Listing
) -> None:
    """Remember a listing under which a model was read: by then it has proved true."""
    if store.ref(web.endpoint, repo, revision) != listing.commit:
        store.keep_ref(web.endpoint, repo, revision, listing.commit)
    if cached(web, store, repo, listing.commit) is None:
        store.keep_listing(web.endpoint, repo, listing.commit, listing.dump())


def cached(web: HubClient, store: HubCache, repo: str, revision: str | None) -> Listing | None:
    """What the revision meant when it was last asked for."""
    commit = store.ref(web.endpoint, repo, revision)
    if commit is None and revision and COMMIT.fullmatch(revision):
        commit = revision
    found = load(store.listing(web.endpoint, repo, commit)) if commit else None
    return found if found and found.commit == commit else None


def commit_now(web: HubClient, repo: str, revision: str | None) -> tuple[str, str]:
    """The name that a repo has now, and the commit that a revision means."""
    body = _brief(web, repo, revision)
    name = body.get("id")
    if sha := _sha(body):
        return (name if isinstance(name, str) and REPO.fullmatch(name) else repo), sha
    found = _ask(web, repo, revision)
    return found.repo, found.commit


def _url(web: HubClient, repo: str, revision: str | None) -> str:
    url = f"{web.endpoint}/api/models/{quote(repo)}"
    return f"{url}/revision/{quote(revision, safe='')}" if revision else url


def _brief(web: HubClient, repo: str, revision: str | None) -> dict[str, Any]:
    """The commit alone, in a few hundred bytes; nothing when the server does not say it so."""
    url = f"{_url(web, repo, revision)}?expand=sha"
    _, body = get_json(web, url, repo, "the commit", revision, optional=True)
    return body if isinstance(body, dict) else {}


def _sha(body: dict[str, Any]) -> str | None:
    sha = body.get("sha")
    return sha if isinstance(sha, str) and COMMIT.fullmatch(sha) else None


def _ask(web: HubClient, repo: str, revision: str | None) -> Listing:
    what = "the list of files"
    _, body = get_json(web, f"{_url(web, repo, revision)}?blobs=true", repo, what, revision)
    if not isinstance(body, dict):
        raise ReadError(f"{repo}: {what} is not an object")
    sha, name = _sha(body), body.get("id") or body.get("modelId") or repo
    if sha is None:
        raise ReadError(f"{repo}: {what} names no commit")
    if revision and COMMIT.fullmatch(revision) and sha != revision:
        raise ReadError(f"{repo}: asked for commit {revision[:12]}, the server has {sha[:12]}")
    if not isinstance(name, str) or (name != repo and not REPO.fullmatch(name)):
        raise ReadError(f"{repo}: {what} is of a repo called {str(name)[:80]!r}")
    if body.get("disabled") is True:
        raise ReadError(
            f"{repo}: disabled by the Hub", hint="Nobody can read it. Look for another copy."
        )
    rows = body.get("siblings")
    if not isinstance(rows, list):
        raise ReadError(f"{repo}: {what} has no files in it")
    if len(rows) > MAX_FILES:
        raise ReadError(f"{repo}: {what} has {len(rows):,} files in it")
    files = dict(filter(None, map(sibling_entry, rows)))
    if any(entry is None for entry in files.values()):  # a server that knows no blobs=true
        files = _tree(web, name, sha)
    listed = {path: entry for path, entry in files.items() if entry}
    gated = body.get("gated") not in (None, False)
    return Listing(name, sha, listed, bases.from_tags(body.get("tags")), gated)


def _tree(web: HubClient, repo: str, sha: str) -> dict[str, ListedFile | None]:
    """The same from the tree, page by page; a next page must be of the same tree."""
    what = "the tree of files"
    base = f"{web.endpoint}/api/models/{quote(repo)}/tree/{sha}"
    url, found = f"{base}?recursive=true", dict[str, ListedFile | None]()
    seen = set()
    for _ in range(MAX_PAGES):
        seen.add(url)
        answer, body = get_json(web, url, repo, what, sha)
        for row in body if isinstance(body, list) else ():
            if isinstance(row, dict) and row.get("type") == "file":
                found.update(filter(None, [file_entry(row.get("path"), row, row.get("oid"))]))
        following = next_page(web, answer, base)
        if following is None or len(found) > MAX_FILES:
            return found
        url = following
        if not _same(url, base) or url in seen:
            raise ReadError(f"{repo}: {what} goes on elsewhere: {url[:120]!r}")
    raise ReadError(f"{repo}: {what} has more than {MAX_PAGES} pages")


def sibling_entry(row: Any) -> tuple[str, ListedFile | None] | None:
    return (
        file_entry(row.get("rfilename"), row, row.get("blobId")) if isinstance(row, dict) else None
    )


def file_entry(name: Any, row: dict[str, Any], oid: Any) -> tuple[str, ListedFile | None] | None:
    """A file's name and entry; None for a name that no file of a repo can have."""
    if not isinstance(name, str) or not plain(name):
        return None
    lfs = row.get("lfs")
    size = row.get("size")
    digest = f"git-sha1:{oid}" if isinstance(oid, str) and COMMIT.fullmatch(oid) else None
    if isinstance(lfs, dict):
        sha = str(lfs.get("sha256") or lfs.get("oid")).removeprefix("sha256:")
        size = lfs.get("size", size)
        digest = f"sha256:{sha}" if SHA256.fullmatch(sha) else None
    if type(size) is not int or not 0 <= size < MAX_SIZE:
        return name, None
    return name, ListedFile(size, digest)


def plain(name: str) -> bool:
    """Whether a path stays inside the repo, in every way of reading it."""
    if not 0 < len(name) <= 1000 or name.startswith("/") or "\\" in name or "\0" in name:
        return False
    return not any(part in ("", ".", "..") for part in name.split("/"))


def get_json(
    web: HubClient, url: str, repo: str, what: str, revision: str | None, *, optional: bool = False
) -> tuple[HttpAnswer, Any]:
    """The JSON at an address; optional: a server may not understand the question."""
    label = f"{repo}: {what}"

    def attempt() -> tuple[HttpAnswer, Any]:
        sink = bytearray()
        answer = web.get(url, sink, MAX_BODY + 1, label, same_host=True)
        if answer.status == 200:
            if len(sink) > MAX_BODY or max(sink.count(b","), sink.count(b"[")) > MAX_ITEMS:
                raise OverlongError(f"{label} is longer than any real one")
            try:
                return answer, json.loads(sink)
            except (ValueError, RecursionError, MemoryError):
                html = "html" in answer.headers.get("content-type", "")
                page = html or sink[:200].lstrip()[:1] == b"<"
                kind = "a web page (a proxy or a login in between?)" if page else "not JSON"
                raise RetryableError(f"{label}: the answer is {kind}", tries=2) from None
        if not optional or answer.status not in (400, 422):
            refuse(web, answer, repo, what, revision)
        return answer, None

    return web.retry(attempt, lambda: 0)


@dataclass(frozen=True, slots=True)
class HubQuery:
    """What is asked of the list; empty fields ask nothing."""

    filters: tuple[str, ...] = ()
    """Tags that a model must all have."""
    search: str = ""
    author: str = ""
    smallest: int | None = None
    """Parameters that a model must have at least."""
    largest: int | None = None
    sort: str = "downloads"
    fields: tuple[str, ...] = ()
    """Properties to bring along (expand=…)."""
    rows: int = PAGE
    """No more than these."""

    def address(self, base: str, unknown: Collection[str] = ()) -> str:
        """The question, less the words that a server does not know."""
        query = [("filter", tag) for tag in self.filters]
        sizes = (("min", self.smallest), ("max", self.largest))
        named = {
            "search": self.search,
            "author": self.author,
            "limit": str(min(self.rows, PAGE)),
            "sort": self.sort,
            "num_parameters": ",".join(f"{side}:{size}" for side, size in sizes if size),
        }
        query += [(name, value) for name, value in named.items() if value and name not in unknown]
        fields = [("expand", name) for name in self.fields if name not in unknown]
        # Words that every server of this kind understands.
        query += fields if "expand" not in unknown else [("full", "true"), ("config", "true")]
        return f"{base}?{urlencode(query)}"

    def shorter(self, reason: str, unknown: Collection[str]) -> list[set[str]]:
        """Words to leave out when a server does not know one of them: one at a time, then all.

        reason: the server's; the word that it names comes first.
        """
        fields = [name for name in self.fields if name not in unknown]
        words = [*fields, "num_parameters", "sort"]
        named = [name for name in words if re.search(rf"\b{re.escape(name)}\b", reason)]
        order = named if len(named) == 1 else []  # some name all that they do know
        order += [UNSURE] if UNSURE in fields else []
        order += ["expand"] if fields else []
        order += ["num_parameters"] if self.smallest or self.largest else []
        order += ["sort"] if self.sort else []
        alone = [{word} for word in dict.fromkeys(order) if word not in unknown]
        return [*alone, set().union(*alone)] if len(alone) > 1 else alone

    def fits(self, row: dict[str, Any]) -> bool:
        """Whether a row may be of the size asked for, where the server did not look."""
        counts = (row.get(form) for form in ("safetensors", "gguf"))
        totals = (form.get("total") for form in counts if isinstance(form, dict))
        total = next((number for number in totals if type(number) is int), None)
        return total is None or (self.smallest or 0) <= total <= (self.largest or total)


def pages(
    web: HubClient, question: HubQuery, start: str | None = None
) -> Iterator[tuple[str | None, list[dict[str, Any]]]]:
    """Pages of rows, each with the address of the next: there one can go on another time."""
    base = f"{web.endpoint}/api/models"
    if start is not None and not _same(start, base):
        raise ReadError(f"{MODELS} does not go on at {start[:120]!r}")
    unknown = set(web.habits.unknown_words)
    ways: list[set[str]] | None = None
    url: str | None = start or question.address(base, unknown)
    seen: set[str] = set()
    most = min(question.rows, MAX_ROWS)
    while url is not None and most > 0:
        if seen and (not _same(url, base) or url in seen):
            raise ReadError(f"{MODELS} goes on elsewhere: {url[:120]!r}")
        first = start is None and not seen
        try:
            answer, body = get_json(web, url, "the Hub", MODELS, None, optional=first)
        except OverlongError:
            if (smaller := _smaller(url)) is None:
                raise
            url = smaller
            continue
        if body is None and first:
            if ways is None:
                ways = question.shorter(answer.words, unknown)
            if not ways:
                refuse(web, answer, "the Hub", MODELS)
            unknown = web.habits.unknown_words | ways.pop(0)
            url = question.address(base, unknown)
            continue
        if not isinstance(body, list):
            raise ReadError(f"{MODELS} is not a list")
        web.habits.unknown_words.update(unknown)  # now that it was understood without them
        seen.add(url)
        sized = "num_parameters=" in url
        url = next_page(web, answer, base)
        rows = [row for row in body if isinstance(row, dict)]
        page = [row for row in rows if isinstance(row.get("id") or row.get("modelId"), str)]
        page = [row for row in page if sized or question.fits(row)][:most]
        most -= len(page)
        yield (url if most else None), page


def _smaller(url: str) -> str | None:
    """The same page with a quarter of the rows; None: there is no smaller one."""
    before = dict(parse_qsl(urlsplit(url).query)).get("limit", "")
    if not before.isdecimal() or int(before) < 2:
        return None
    return re.sub(r"(?<=[?&]limit=)\d+", str(max(int(before) // 4, 1)), url)


def next_page(web: HubClient, answer: HttpAnswer, base: str) -> str | None:
    match = NEXT.search(answer.headers.get("link", "")[:4000])
    return rebased(match[1], base, web.endpoint) if match else None


def _same(url: str, base: str) -> bool:
    return origin(url) == origin(base) and urlsplit(url).path.rstrip("/") == urlsplit(base).path
