"""What the server saw and sent, request by request."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import parse_qs


@dataclass
class Entry:
    """One request, and what became of it; filled in while it is answered."""

    method: str
    path: str
    """Decoded, without the query."""
    query: str
    origin: str
    """api, cdn or elsewhere."""
    headers: dict[str, str]
    """Names in lower case."""
    file: str | None = None
    """org/name/path when a file of a repo was asked for, on either origin."""
    status: int = 0
    body: int = 0
    """Bytes of the body that went out."""
    wire: int = 0
    """Bytes that went out, status line and headers included."""
    faults: list[str] = field(default_factory=list)
    posted: bytes = b""

    @property
    def range(self) -> str | None:
        return self.headers.get("range")

    @property
    def authorization(self) -> str | None:
        return self.headers.get("authorization")

    @property
    def had_token(self) -> bool:
        return self.authorization is not None

    @cached_property
    def arguments(self) -> dict[str, list[str]]:
        return parse_qs(self.query, keep_blank_values=True)

    def __str__(self) -> str:
        parts = [f"{self.origin:4} {self.method:4} {self.status} {self.path}"]
        if self.file and self.origin == "cdn":
            parts.append(f"({self.file})")
        if self.query and self.origin == "api":
            parts.append(f"?{self.query}")
        if self.range:
            parts.append(self.range)
        parts.append(f"{self.body:,} B")
        parts += [f"[{name}]" for name in self.faults]
        parts += ["TOKEN"] if self.had_token else []
        return " ".join(parts)


class Log:
    """Entries in the order in which requests came; knows which are still being answered."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._open: list[Entry] = []
        self._changed = threading.Condition()

    def begin(self, entry: Entry) -> None:
        with self._changed:
            self.entries.append(entry)
            self._open.append(entry)

    def end(self, entry: Entry) -> None:
        with self._changed:
            self._open = [other for other in self._open if other is not entry]
            self._changed.notify_all()

    def settle(self, seconds: float = 5.0) -> None:
        """Wait until the last byte that is under way is counted; where it hangs, none will come."""
        with self._changed:
            self._changed.wait_for(
                lambda: all("hang" in entry.faults for entry in self._open), seconds
            )

    def clear(self) -> None:
        self.settle()
        with self._changed:
            self.entries.clear()
