"""What a release means for the rulebook, as text and JSON; code of the engine is escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from draftcheck.anchors.compare import PlaceState
from draftcheck.report.json import HEAD, dumps, picked
from draftcheck.report.layout import plural, wrapped
from draftcheck.report.safe import safe
from draftcheck.rulebook import book
from draftcheck.watch.run import CodeChange, WatchReport

MOST = 12
"""Statements shown of one place; the JSON has all."""
NAMES = 40


def answer(report: WatchReport) -> str:
    """The first line."""
    name = book.load(report.engine).name
    version = f" {report.version}" if report.version else ""
    again = len(report.read_again)
    if not report.anything:
        told = f"nothing to do, all {len(report.confirmed)} rules are confirmed"
    elif again:
        told = f"{again} {plural(again, 'rule')} to read again, {len(report.confirmed)} confirmed"
    else:
        told = f"all {len(report.confirmed)} rules are confirmed, but names or messages changed"
    return safe(f"{name}{version}: {told}")


def _text(report: WatchReport) -> str:
    return "\n".join(_lines(report))


def _lines(report: WatchReport) -> Iterator[str]:
    yield click.style(answer(report), bold=True)
    yield safe(
        f"  {report.unchanged} of {report.places} places are the code that was read in"
        f" {report.read}; source: {report.source}"
    )
    if report.read_again:
        yield wrapped("  read again: ", ", ".join(report.read_again))
    if report.elsewhere:
        yield wrapped("  no code of the engine to hold against: ", ", ".join(report.elsewhere))
    yield from (f"  {safe(note)}" for note in report.unread)
    for change in report.changes:
        yield ""
        yield from _change(change)
    for entry in report.names:
        yield ""
        for word, names in (("new", entry.new), ("gone", entry.gone)):
            if names:
                shown = [
                    *names[:NAMES],
                    *([f"and {len(names) - NAMES} more"] * (len(names) > NAMES)),
                ]
                yield wrapped(f"{word} {entry.what}: ", safe(", ".join(shown), 4000), hang=-4)
    if report.messages or report.messages_gone:
        yield ""
        yield f"error messages: {len(report.messages)} new, {report.messages_gone} gone"
    for path, number, words in report.messages:
        yield wrapped(f"  {safe(path)}:{number} ", safe(words, 300), hang=-6)


def _change(change: CodeChange) -> Iterator[str]:
    told = {
        PlaceState.GONE: "is gone",
        PlaceState.UNREAD: "could not be parsed",
    }.get(change.state, f"changed: {len(change.new)} new, {change.gone} gone")
    if change.moved_to:
        told = f"moved to {change.moved_to}, the same code"
    elif change.place.startswith("names "):
        told = "changed, see below"
    yield safe(f"{change.place} {told}")
    if change.rules:
        yield wrapped("  rules: ", ", ".join(change.rules))
    for number, text in change.new[:MOST]:
        yield f"  + {number}: {safe(text, 160)}"
    if len(change.new) > MOST:
        yield f"  + and {len(change.new) - MOST} more"


def _json(report: WatchReport) -> str:
    body: dict[str, Any] = {
        **HEAD,
        **picked(report, "engine", "version", "source", "read", "places", "unchanged"),
        "nothing_to_do": not report.anything,
        **picked(report, "confirmed", "read_again", "elsewhere"),
        "changes": [
            {
                **picked(change, "place", "state", "rules", "gone", "moved_to"),
                "new": [{"line": number, "text": text} for number, text in change.new],
            }
            for change in report.changes
        ],
        "names": [picked(entry, "what", "new", "gone") for entry in report.names],
        "messages": {
            "new": [{"file": f, "line": n, "text": text} for f, n, text in report.messages],
            "gone": report.messages_gone,
        },
        **picked(report, "unread"),
    }
    return dumps(body)


FORMATS: Mapping[str, Callable[[WatchReport], str]] = {"text": _text, "json": _json}
