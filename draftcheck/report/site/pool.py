"""Distinct values, each kept once and pointed to by its place."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any


class ValuePool:
    """Values in the order in which they were met."""

    def __init__(self) -> None:
        self.places: dict[Hashable, int] = {}
        self.values: list[Any] = []

    def add(self, key: Hashable, make: Callable[[], Any]) -> int:
        """The place of a value; it is made when its key is met for the first time."""
        if key not in self.places:
            self.places[key] = len(self.values)
            self.values.append(make())
        return self.places[key]
