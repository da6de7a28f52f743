"""Whether a published name means the model that is asked for."""

from __future__ import annotations

from typing import Literal

from draftcheck.evidence import published
from draftcheck.models import names

Match = Literal["same", "packing"]
"""The same id; the same model under another id: quantised, converted, copied."""


def stem(asked: str) -> str:
    """What every row that matches has somewhere in it; \n, which no row has, for no name."""
    found = names.short(asked).lower()
    return found if len(found) >= names.SHORTEST else "\n"


def match(asked: str, row: str) -> Match | None:
    """asked: an id, a file or a folder."""
    if asked.lower() == published.repo(row).lower():
        return "same"
    return "packing" if stem(asked) == names.short(published.repo(row)).lower() else None
