"""Where a request may go: what a token is bound to, and which redirects are followed."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from urllib.parse import urljoin, urlsplit

from draftcheck.errors import ReadError

USER = re.compile(r"[^/?#]*//[^/?#]*@")
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


def follow(url: str, location: str, what: str, home: Origin, allowed: Allowed | None) -> str:
    """Where a redirect leads, if that is a place to go to.

    home: the endpoint; allowed: which of its addresses may follow.
    """
    try:
        there = urljoin(url, location)
    except ValueError:
        there = ""
    refuse_user(there, what)
    scheme, host, _ = origin(there)
    if scheme not in ("http", "https") or not host:
        raise ReadError(f"{what}: redirected to {location[:120]!r}, which is no web address")
    if origin(there) == home:
        if allowed is not None and not allowed(there):
            raise ReadError(f"{what}: redirected to something else: {there[:200]!r}")
        return there
    if scheme == "http" and home[0] == "https":
        raise ReadError(f"{what}: redirected to an unencrypted address ({host})")
    if _inner(host) and not _inner(home[1]):
        raise ReadError(f"{what}: redirected to an address inside this network ({host})")
    if _link_local(host):
        raise ReadError(f"{what}: redirected to the link-local address {host}")
    return there


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


def _link_local(host: str) -> bool:
    address = _address(host)
    return address is not None and (address.is_link_local or address.is_multicast)
