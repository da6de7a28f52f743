"""How much a server still lets us ask, and how long we wait for it; shared by many readers.

Hubs say on every answer how many requests are left in this window (RateLimit: "api";r=12;t=40).
Whoever stops at the last of them is never told 429.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from draftcheck.errors import ReadError

MAX_WAIT = 60.0
"""Seconds that a server may ask us to wait at once."""
MAX_WAITED = 150.0
"""Seconds of waiting in one run, all together."""
LIMIT = re.compile(r'"?([\w .-]{0,60})"?\s*;\s*r=(\d{1,9})\s*;\s*t=(\d{1,9})')
QUOTA = re.compile(r";\s*q=(\d{1,9})")
SAME_WINDOW = 1.5
"""Seconds by which two answers may differ about when a window ends."""
MARGIN = 1.0
"""Seconds are said whole: the window may end so much later."""
STEP = 0.5


@dataclass(slots=True)
class QuotaWindow:
    """What is left of one allowance."""

    left: int
    ends: float
    quota: int
    flying: int = 0
    """Requests sent and not answered yet."""


class RequestBudget:
    """The allowances of one server; one for all threads that ask it."""

    def __init__(
        self,
        *,
        longest: float = MAX_WAIT,
        altogether: float = MAX_WAITED,
        connections: int | None = None,
    ) -> None:
        self.longest = longest
        self.altogether = altogether
        self.stopped = threading.Event()
        self.requests = 0
        self._connections = connections
        self._slots: dict[str, threading.BoundedSemaphore] = {}
        self._windows: dict[str, QuotaWindow] = {}
        self._names: dict[str, str] = {}
        self._until = 0.0
        self._waited = 0.0
        self._lock = threading.Lock()

    @contextmanager
    def slot(self, host: str) -> Iterator[None]:
        """One of the connections to a host."""
        with self._lock:
            self.requests += 1
            if self._connections is not None and host not in self._slots:
                self._slots[host] = threading.BoundedSemaphore(self._connections)
            slot = self._slots.get(host)
        if slot is None:
            yield
            return
        while not slot.acquire(timeout=STEP):
            self.check()
        try:
            yield
        finally:
            slot.release()

    def check(self) -> None:
        if self.stopped.is_set():
            raise ReadError("stopped")

    def ahead(self, url: str, *, home: bool) -> float:
        """Take one request from the allowance; or seconds until there is one.

        home: the address is the server's own, so its allowance counts.
        """
        with self._lock:
            now = time.monotonic()
            window = self._windows.get(self._names.get(kind(url), "")) if home else None
            wait = self._until - now
            if window is not None and wait <= 0:
                if now >= window.ends + MARGIN:
                    window.left, window.ends = window.quota - window.flying, float("inf")
                if window.left <= 0 and window.ends - now <= self.longest:
                    wait = min(window.ends, now + self.longest) + MARGIN - now
                else:  # a longer wait than we would bear: let the server say so
                    window.left -= 1
            return max(wait, 0.0)

    def sent(self, url: str) -> None:
        with self._lock:
            if window := self._windows.get(self._names.get(kind(url), "")):
                window.flying += 1

    def note_answer(self, url: str, headers: Mapping[str, str] | None) -> None:
        """An answer (None: there was none) says how much is left."""
        match = LIMIT.search((headers or {}).get("ratelimit", "")[:400])
        with self._lock:
            window = self._windows.get(self._names.get(kind(url), ""))
            if window is not None and window.flying:
                window.flying -= 1
            if match is None:
                return
            name, left, ends = match[1], int(match[2]), time.monotonic() + int(match[3])
            policy = QUOTA.search((headers or {}).get("ratelimit-policy", "")[:400])
            self._names[kind(url)] = name
            window = self._windows.get(name)
            if window is None:
                window = self._windows[name] = QuotaWindow(left, ends, left + 1)
            window.quota = int(policy[1]) if policy else max(window.quota, left + 1)
            left -= window.flying
            if abs(window.ends - ends) <= SAME_WINDOW:  # answers may overtake each other
                left = min(left, window.left)
            window.left, window.ends = left, ends

    def wait(self, seconds: float, *, everyone: bool) -> bool:
        """Ask for a pause; False: that is more than we are ready to wait."""
        with self._lock:
            now = time.monotonic()
            # Threads wait together: what counts is by how much they make it longer.
            self._waited += max(0.0, now + seconds - max(now, self._until))
            if seconds > self.longest or self._waited > self.altogether:
                return False
            if everyone:
                self._until = max(self._until, now + seconds)
            return True


def kind(url: str) -> str:
    """Hubs count questions, files and pages apart."""
    path = urlsplit(url).path
    if path.startswith("/api/") and not path.startswith("/api/resolve-cache/"):
        return "api"
    return "file" if "/resolve" in path else "page"
