"""Templates ({{ … }}, {% … %}) inside other texts: holes of the same length, shown as they are."""

from __future__ import annotations

import re

HOLE = "\ue000"
_TEMPLATE = re.compile(r"\$?\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_HOLES = re.compile(HOLE + "+")


def present(text: str) -> bool:
    """Whether a template stands in it."""
    return "{{" in text or "{%" in text


def first(text: str) -> tuple[int, int]:
    """Where the first one stands."""
    found = _TEMPLATE.search(text)
    return found.span() if found else (0, 0)


def hidden(text: str) -> str:
    """The text with a hole for each template; every other character keeps its position."""
    if not present(text):
        return text
    return _TEMPLATE.sub(lambda match: HOLE * len(match[0]), text)


def hidden_lines(text: str) -> str:
    """The same, and lines that are nothing but templates become blank."""
    found, at = list[str](), 0
    flat = hidden(text)
    while at < len(flat):
        end = flat.find("\n", at)
        end = len(flat) if end < 0 else end
        line = flat[at:end]
        found.append(line if line.replace(HOLE, "").strip() else " " * len(line))
        found.append(flat[end : end + 1])
        at = end + 1
    return "".join(found)


def holes(text: str) -> list[tuple[int, int]]:
    """Where the holes are."""
    return [match.span() for match in _HOLES.finditer(text)] if HOLE in text else []
