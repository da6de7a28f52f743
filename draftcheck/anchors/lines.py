"""A statement of code in any language: what stands for it, and where it is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

WHOLE = "*"
"""The symbol that stands for all of a file."""


@dataclass(frozen=True, slots=True)
class CodeLine:
    """One statement, without the statements inside it."""

    digest: str
    first: int
    """Lines of the file, from 1."""
    last: int


def digest(text: str) -> str:
    """Sixteen characters that stand for a text."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def whole(lines: Iterable[CodeLine]) -> str:
    """The digest of a place: of its statements in their order."""
    return digest("\n".join(line.digest for line in lines))
