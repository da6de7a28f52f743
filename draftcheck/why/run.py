"""An engine's log -> what its messages mean, and what to do next.

source.py reads a log in blocks, messages.py holds what engines say (as patterns.py matches it),
scan.py finds it in the log, explain.py puts it in order.
"""

from __future__ import annotations

from draftcheck.errors import UsageError
from draftcheck.rulebook import book as rulebook
from draftcheck.why import explain, messages, scan, source
from draftcheck.why.explain import Explanation, LoggedRun

__all__ = ["Explanation", "read"]


def read(name: str | None, engine: str | None = None) -> Explanation:
    """Explain one log (a file, or - for standard input); engine narrows what is looked for."""
    book = messages.load()
    asked = _asked(book, engine)
    wanted = [
        message
        for message in book.messages
        if not asked.engine or not message.engines or asked.engine in message.engines
    ]
    log = source.named(name)
    scanned = scan.scan(log.blocks(), wanted)
    scanned.complete = not log.cut
    return explain.explain(log.name, scanned, book, wanted, asked)


def _asked(book: messages.MessageBook, text: str | None) -> LoggedRun:
    if text is None:
        return LoggedRun()
    name, _, version = text.partition("@")
    if name not in book.names:
        known = ", ".join(sorted(book.names))
        raise UsageError(f"unknown engine {name!r}", hint=f"Known: {known}.")
    if "@" not in text:
        return LoggedRun(name)
    if name not in rulebook.engine_files():
        raise UsageError(f"no versions of {name} are known", hint=f"Use --engine {name}.")
    return LoggedRun(name, rulebook.load(name).version(version))
