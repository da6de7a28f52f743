"""How much a server still lets us ask, and how long we wait for it; shared by many readers.

Hubs say on every answer how many requests are left in this window (RateLimit: "api";r=12;t=40).
Whoever stops at the last of them is never told 429. What an edge kept says it, too, but of whoever
asked first: that is not believed.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from draftcheck import settings
from draftcheck.errors import ReadError

WINDOW = 300.0
"""Seconds in which Hubs count requests."""
MAX_WAIT = 60.0
"""Seconds that a server may ask us to wait at once, unless the user has more patience."""
ALTOGETHER = 2.5
"""Waits of that length that one run bears, all together."""
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
        longest: float | None = None,
        altogether: float | None = None,
        connections: int | None = None,
    ) -> None:
        if longest is None:
            patience = settings.patience()
            longest = MAX_WAIT if patience is None else patience
        self.longest = longest
        self.altogether = ALTOGETHER * max(longest, MAX_WAIT) if altogether is None else altogether
        self.stopped = threading.Event()
        self.requests = 0
        self._connections = connections
        self._slots: dict[str, threading.BoundedSemaphore] = {}
        self._windows: dict[str, QuotaWindow] = {}
        self._names: dict[str, str] = {}
        self._until = 0.0
        self._waited, self._waited_until = 0.0, 0.0
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
                until = window.ends + MARGIN
                if window.left <= 0 and window.ends - now <= self.longest and self._bear(until):
                    wait = until - now
                else:  # a longer wait than we would bear: let the server say so
                    window.left -= 1
            return max(wait, 0.0)

    def sent(self, url: str) -> None:
        with self._lock:
            if window := self._windows.get(self._names.get(kind(url), "")):
                window.flying += 1

    def note_answer(self, url: str, headers: Mapping[str, str] | None) -> None:
        """An answer (None: there was none) says how much is left."""
        match = limits(headers or {})
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

    def wait(self, seconds: float, *, asked: bool) -> bool:
        """Ask for a pause; False: that is more than we are ready to wait.

        asked: the server wants it, so everyone waits.
        """
        with self._lock:
            until = time.monotonic() + seconds
            if (asked and seconds > self.longest) or not self._bear(until):
                return False
            if asked:
                self._until = max(self._until, until)
            return True

    def _bear(self, until: float) -> bool:
        """Count a wait; False: all of them together would be too long."""
        # Threads wait together: what counts is by how much they make it longer.
        more = max(0.0, until - max(time.monotonic(), self._waited_until))
        if self._waited + more > self.altogether:
            return False
        self._waited += more
        self._waited_until = max(self._waited_until, until)
        return True


def limits(headers: Mapping[str, str]) -> re.Match[str] | None:
    """What an answer says of our allowance; nothing when it is a copy that an edge kept."""
    old = headers.get("age", "0").strip() not in ("", "0")
    if old or "hit" in headers.get("x-cache", "").lower():
        return None
    return LIMIT.search(headers.get("ratelimit", "")[:400])


def kind(url: str) -> str:
    """Hubs count questions, files and pages apart."""
    path = urlsplit(url).path
    if path.startswith("/api/") and not path.startswith("/api/resolve-cache/"):
        return "api"
    return "file" if "/resolve" in path else "page"
