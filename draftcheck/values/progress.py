"""Words about work that goes on: how long it takes, and how far it is."""

from __future__ import annotations


class FleetingText(str):
    """How far some work is: the next one takes its place, so nobody needs to read them all."""

    __slots__ = ()


def time_span(seconds: float) -> str:
    """Seconds, minutes or hours, as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
