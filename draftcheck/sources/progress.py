"""How much has been read so far; who wants to show it puts a listener here."""

from __future__ import annotations

from collections.abc import Callable

Listener = Callable[[str, int, float], None]
"""Called from any thread: a file, how many more bytes of it came, seconds to wait for the next."""

_listener: list[Listener] = []


def listen(listener: Listener | None) -> None:
    """Show progress with this from now on; None: show none."""
    _listener[:] = [] if listener is None else [listener]


def came(name: str, count: int, wait: float = 0.0) -> None:
    for listener in _listener:
        listener(name, count, wait)
