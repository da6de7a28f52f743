"""Distinct values, each kept once and pointed to by its place."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any


class Pool:
    """Values in the order in which they were met."""

    def __init__(self) -> None:
        self.places: dict[Hashable, int] = {}
        self.values: list[Any] = []

    def add(self, key: Hashable, value: Any) -> int:
        if key not in self.places:
            self.places[key] = len(self.values)
            self.values.append(value)
        return self.places[key]
