"""How much has been asked and read so far; who wants to show it puts a listener here."""

from __future__ import annotations

import threading
from collections.abc import Callable

Listener = Callable[[str, int, float], None]
"""Called from any thread: a file, how many more bytes of it came, seconds to wait for the next."""

_listener: list[Listener] = []
_lock = threading.Lock()


class NetworkTally:
    """What this process has asked for over the network."""

    requests = 0
    nbytes = 0


def listen(listener: Listener | None) -> None:
    """Show progress with this from now on; None: show none."""
    _listener[:] = [] if listener is None else [listener]


def asked() -> None:
    with _lock:
        NetworkTally.requests += 1


def came(name: str, count: int, wait: float = 0.0) -> None:
    if count:
        with _lock:
            NetworkTally.nbytes += count
    for listener in _listener:
        listener(name, count, wait)
