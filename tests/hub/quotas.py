"""Quotas in fixed windows, said on every answer, enforced when set."""

from __future__ import annotations

import threading
import time

POLICY = {"api": 500, "resolvers": 3000, "pages": 100}
"""What an unknown caller has in five minutes."""


class Quotas:
    def __init__(self) -> None:
        self.window = 300.0
        self.limits = {name: float(count) for name, count in POLICY.items()}
        self.enforced = False
        self._used: dict[str, int] = {}
        self._since = time.monotonic()
        self._lock = threading.Lock()

    def set(self, window: float, **limits: int) -> None:
        """Enforce so many requests of a kind (api, resolvers, pages) in so many seconds."""
        with self._lock:
            self.window, self.enforced = window, True
            self.limits.update({name: float(count) for name, count in limits.items()})
            self._used.clear()
            self._since = time.monotonic()

    def take(self, kind: str) -> tuple[bool, dict[str, str]]:
        """Count a request; whether it is within the quota, and the headers that say so."""
        with self._lock:
            now = time.monotonic()
            if now - self._since >= self.window:
                self._used.clear()
                self._since = now
            self._used[kind] = self._used.get(kind, 0) + 1
            limit = int(self.limits[kind])
            rest = max(0, limit - self._used[kind])
            good = not self.enforced or self._used[kind] <= limit
            reset = max(0, int(self._since + self.window - now + 0.999))
        headers = {
            "RateLimit": f'"{kind}";r={rest};t={reset}',
            "RateLimit-Policy": f'"fixed window";"{kind}";q={limit};w={int(self.window)}',
        }
        return good, headers


def kind_of(path: str) -> str:
    """path: as it came; a quoted slash makes a page of a file."""
    if "/resolve/" in path and "%2f" in path.lower():
        return "pages"
    if path.startswith("/api/"):
        return "resolvers" if path.startswith("/api/resolve-cache/") else "api"
    return "resolvers" if "/resolve/" in path else "pages"
