"""Where the characters of a Python string stand: neighbouring literals, escapes, f-strings."""

from __future__ import annotations

import re
from collections.abc import Callable

from draftcheck.deploy.text import TextView, joined

_BETWEEN = re.compile(r"(?:\s|\\\r?\n|#[^\n]*|[()])*")
_OPENING = re.compile(r"([rRuUfFbB]{0,2})(\"\"\"|'''|\"|')")
_ESCAPE = re.compile(r"\\(?:\r?\n|.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}

Filler = Callable[[int], TextView | None]
"""The text of the n-th {…} of an f-string; None: unknown."""


def literal(view: TextView, start: int, end: int, fill: Filler | None = None) -> TextView | None:
    """The text of a string that stands in text[start:end]; None: too unusual to follow."""
    parts, at, holes = list[TextView](), start, 0
    while True:
        between = _BETWEEN.match(view.text, at, end)
        at = between.end() if between else at
        if at >= end:
            break
        opening = _OPENING.match(view.text, at, end)
        if not opening:
            return None
        prefix, quote = opening[1].lower(), opening[2]
        closing = _closing(view.text, opening.end(), end, quote)
        if closing < 0:
            return None
        inner = fill if "f" in prefix else None
        found = _content(view, opening.end(), closing, "r" in prefix, inner, holes)
        if found is None:
            return None
        parts.extend(found[0])
        holes = found[1]
        at = closing + len(quote)
    return joined(parts) if parts else view.slice(start, start)


def _closing(text: str, at: int, end: int, quote: str) -> int:
    while at < end:
        if text[at] == "\\":
            at += 2
        elif text.startswith(quote, at):
            return at
        else:
            at += 1
    return -1


def _content(
    view: TextView, at: int, end: int, raw: bool, fill: Filler | None, holes: int
) -> tuple[list[TextView], int] | None:
    text, parts, start = view.text, list[TextView](), at
    while at < end:
        if text[at] == "\\" and not raw:
            match = _ESCAPE.match(text, at, end)
            if not match:
                return None
            parts.append(view.slice(start, at))
            letter = _LETTERS.get(match[0][1:])
            if letter is None and match[0][1:] not in ("\n", "\r\n"):
                return None
            if letter is not None:
                parts.append(view.instead(letter, at, at + 1))
            at = start = match.end()
        elif fill is not None and text[at] in "{}":
            parts.append(view.slice(start, at))
            if text.startswith(text[at] * 2, at):
                parts.append(view.slice(at, at + 1))
                at += 2
            else:
                after = _braces(text, at, end)
                known = fill(holes)
                holes += 1
                parts.append(known if known is not None else view.hole(at, after))
                at = after
            start = at
        else:
            at += 1
    parts.append(view.slice(start, end))
    return parts, holes


def _braces(text: str, at: int, end: int) -> int:
    """Behind the } that closes this {."""
    depth = 0
    while at < end:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
        if depth <= 0:
            break
    return at
