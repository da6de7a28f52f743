"""Whether a published name means the model that is asked for."""

from __future__ import annotations

from typing import Literal

from draftcheck.evidence import published
from draftcheck.models import names

Match = Literal["same", "packing"]
"""The same id; the same model under another id: quantised, converted, copied."""


def match(asked: str, row: str) -> Match | None:
    """asked: an id, a file or a folder."""
    if asked.lower() == published.repo(row).lower():
        return "same"
    mine, theirs = (names.short(name).lower() for name in (asked, published.repo(row)))
    return "packing" if len(mine) >= names.SHORTEST and mine == theirs else None
