"""What the results of the Python API share: one line in a console, and the contract's JSON."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class PublicResult:
    """A result that a user of the Python API holds in the hand."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON that the command prints for this result (the contract's schema)."""
        # Reports stand above the values, so they are found by name, when one is asked for.
        written: dict[str, Any] = import_module("draftcheck.report.json").as_dict(self)
        return written

    def _repr_html_(self) -> str:
        """What a notebook shows: the report that the command prints."""
        shown: str = import_module("draftcheck.report.json").as_html(self)
        return shown
