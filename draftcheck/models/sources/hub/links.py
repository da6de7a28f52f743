"""Where a file of a repo is read from: its address, and the shorter ways that answers showed."""

from __future__ import annotations

import threading
from urllib.parse import quote, unquote, urlsplit

from draftcheck.models.sources.hub.client import HttpHop
from draftcheck.models.sources.hub.origins import origin

CACHED = "/api/resolve-cache/"
MARKS = {"path": "\0p", "oid": "\0o", "commit": "\0c", "repo": "\0r", "quoted": "\0q"}


def resolve(endpoint: str, repo: str, commit: str, path: str) -> str:
    return f"{endpoint}/{quote(repo)}/resolve/{commit}/{quote(path)}"


def belongs(url: str, repo: str) -> bool:
    """Whether an address on the endpoint itself is still one of this repo."""
    return f"/{repo.lower()}/" in unquote(urlsplit(url).path).lower()


class Shortcut:
    """Small files are answered by a redirect on the same origin: after the first, go there.

    The content is held against its digest, so a server that means something else by such an
    address costs one request, never a wrong file.
    """

    def __init__(self) -> None:
        self._template: str | None = None
        self._useless = False
        self._lock = threading.Lock()

    def learn(
        self, endpoint: str, hop: HttpHop, repo: str, commit: str, path: str, oid: str
    ) -> None:
        location = hop.headers.get("location", "")
        parts = urlsplit(location)
        if parts.scheme and origin(location) != origin(endpoint):
            return
        rest = parts.path + (f"?{parts.query}" if parts.query else "")
        if not rest.startswith(CACHED) or "\0" in rest or "/" in path:
            return
        for name, text in _values(repo, commit, path, oid).items():
            rest = rest.replace(text, MARKS[name])
        with self._lock:
            if not self._useless and MARKS["path"] in rest and MARKS["commit"] in rest:
                self._template = rest

    def url(self, endpoint: str, repo: str, commit: str, path: str, oid: str) -> str | None:
        template = self._template
        if template is None or "/" in path:
            return None
        for name, text in _values(repo, commit, path, oid).items():
            template = template.replace(MARKS[name], text)
        parts = urlsplit(endpoint)
        return f"{parts.scheme}://{parts.netloc}{template}"

    def failed(self) -> None:
        with self._lock:
            self._template, self._useless = None, True


def _values(repo: str, commit: str, path: str, oid: str) -> dict[str, str]:
    return {
        "commit": commit,
        "oid": oid,
        "quoted": quote(repo, safe=""),
        "repo": quote(repo),
        "path": quote(path),
    }
