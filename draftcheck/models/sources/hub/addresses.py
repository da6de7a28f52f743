"""Where a request may go: what a token is bound to, which redirects are followed, where a file of
a repo is read from, and the shorter ways that answers showed."""

from __future__ import annotations

import ipaddress
import re
import threading
from collections.abc import Callable, Collection
from urllib.parse import quote, unquote, urljoin, urlsplit

from draftcheck.errors import ReadError

USER = re.compile(r"[^/?#]*//[^/?#]*@")
CACHED = "/api/resolve-cache/"
MARKS = {"path": "\0p", "oid": "\0o", "commit": "\0c", "repo": "\0r", "quoted": "\0q"}
Origin = tuple[str, str, int]
Allowed = Callable[[str], bool]


def origin(url: str) -> Origin:
    """Scheme, host and port: what a token is bound to."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return "", "", 0
    return parts.scheme, (parts.hostname or "").lower(), port


def follow(
    url: str,
    location: str,
    what: str,
    home: Origin,
    hubs: Collection[Origin],
    allowed: Allowed | None,
) -> str:
    """Where a redirect leads, if that is a place to go to.

    home: the endpoint; hubs: it and what it mirrors; allowed: which of their addresses may follow.
    """
    try:
        there = urljoin(url, location)
    except ValueError:
        there = ""
    refuse_user(there, what)
    scheme, host, _ = origin(there)
    if scheme not in ("http", "https") or not host:
        raise ReadError(f"{what}: redirected to {location[:120]!r}, which is no web address")
    if origin(there) in hubs:
        if allowed is not None and not allowed(there):
            raise ReadError(f"{what}: redirected to something else: {there[:200]!r}")
        return there
    if scheme == "http" and home[0] == "https":
        raise ReadError(f"{what}: redirected to an unencrypted address ({host})")
    if _inner(host) and not _inner(home[1]):
        raise ReadError(f"{what}: redirected to an address inside this network ({host})")
    address = _address(host)
    if address is not None and (address.is_link_local or address.is_multicast):
        raise ReadError(f"{what}: redirected to the link-local address {host}")
    return there


def same_place(url: str, there: str, endpoint: str) -> bool:
    """Whether an address is the same one on another host: a mirror that leads to its Hub."""
    before, after = urlsplit(url), urlsplit(there)
    path = before.path.removeprefix(urlsplit(endpoint).path)
    return (path, before.query) == (after.path, after.query)


def rebased(link: str, base: str, endpoint: str) -> str:
    """The next page of a list, asked of the endpoint: mirrors pass on the Hub's own addresses."""
    refuse_user(link, "the next page")
    try:
        parts = urlsplit(link)
    except ValueError:
        return link
    known = {urlsplit(base).path, base.removeprefix(endpoint)}
    if not {unquote(path) for path in known} & {unquote(parts.path).rstrip("/")}:
        return link
    return f"{base}?{parts.query}"


def refuse_user(url: str, what: str) -> None:
    """No address that a server names may hold a user or a password: they would be sent."""
    if USER.match(url):
        raise ReadError(f"{what}: sent to an address with a user or a password in it")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _inner(host: str) -> bool:
    """An address of this machine or network, given as such."""
    address = _address(host)
    return host == "localhost" or (address is not None and not address.is_global)


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
        self, location: str, endpoint: str, repo: str, commit: str, path: str, oid: str
    ) -> None:
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
