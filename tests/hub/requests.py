"""A request as handlers see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from tests.hub.log import Entry
    from tests.hub.repos import Token


@dataclass
class Request:
    entry: Entry
    raw_path: str
    """As it came, percent signs and all: a quoted slash in a revision is no separator."""
    token: Token | None

    @property
    def method(self) -> str:
        return self.entry.method

    @property
    def segments(self) -> list[str]:
        return [unquote(part) for part in self.raw_path.split("/")[1:]]

    def argument(self, name: str, default: str = "") -> str:
        return self.entry.arguments.get(name, [default])[-1]

    def switched_on(self, name: str) -> bool:
        return self.argument(name).lower() in ("1", "true")
