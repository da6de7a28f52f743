"""Order of engine versions: llama.cpp's build numbers (b10586) and PEP 440."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import zip_longest
from typing import Any

from draftcheck.errors import UsageError

Key = Callable[[str], Any]
_BUILD = re.compile(r"b?(\d{1,9})")
LONGEST = 100
"""Characters of a version; thousands of digits are none, and Python refuses to read them."""


@lru_cache(maxsize=4096)
def build(text: str) -> int:
    """b10586, or 10586 -> 10586."""
    match = _BUILD.fullmatch(text)
    if match is None:
        raise UsageError(f"{text[:LONGEST]!r} is not a build such as b10586")
    return int(match[1])


@lru_cache(maxsize=4096)
def pep440(text: str) -> Any:
    """0.15.1, v0.15.1 -> a packaging Version."""
    from packaging.version import InvalidVersion, Version

    try:
        if len(text) > LONGEST:
            raise InvalidVersion
        return Version(text.removeprefix("v"))
    except InvalidVersion:
        raise UsageError(f"{text[:LONGEST]!r} is not a version such as 0.15.1") from None


ORDERS: Mapping[str, Key] = {"build": build, "pep440": pep440}


def covers(order: Key, version: str, since: str | None, until: str | None) -> bool:
    """Whether since <= version < until; an absent bound is open."""
    at = order(version)
    if since is not None and at < order(since.removeprefix("<=")):
        return False
    return until is None or at < order(until)


def in_window(order: Key, version: str, window: str) -> bool:
    """Whether a version lies in a window: "since", "since until", "since until since" …"""
    edges = window.split()
    windows = zip_longest(edges[::2], edges[1::2])
    return any(covers(order, version, *one) for one in windows)


def value_at(order: Key, version: str, entries: str) -> str | None:
    """The value that holds at a version, of "since:value since:value" with the oldest first."""
    found = None
    for entry in entries.split():
        since, _, value = entry.partition(":")
        if covers(order, version, since, None):
            found = value
    return found
