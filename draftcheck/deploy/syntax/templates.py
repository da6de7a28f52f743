"""Templates ({{ … }}, {% … %}) inside other texts: holes of the same length, shown as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator

HOLE = "\ue000"
CUT = "\ue001"
"""A hole where a text is known, but too long to be kept."""
TOO_LONG = "too long a text"
"""What is unknown about a word with such a hole."""
_OPENING = re.compile(r"\$?\{\{(?!\s*\\?[\"'][\w-]+\\?[\"']\s*:)|\{%")
"""JSON in a text that a program formats has doubled braces too, and a key behind them."""
_STEERS = re.compile(
    r"\{%|(?<!\$)\{\{-?\s*(?:if|else|end|range|with|include|define|template|toYaml)\b"
)
_ALONE = re.compile(r"(?m)^[ \t]*(?:__\w+__|@@?\w+@@?|%%?\w+%%?|\$\{?[A-Z_]+\}?|<[A-Z_]+>)[ \t]*$")
"""A line that a script fills in: __ARGS__, @ARGS@, ${ARGS}."""
_HOLES = re.compile(HOLE + "+")


def present(text: str) -> bool:
    return "{{" in text or "{%" in text


def fills_lines(text: str) -> bool:
    """Whether something is put in the place of whole lines, maybe."""
    return present(text) or _ALONE.search(text) is not None


def steers(text: str) -> bool:
    """Whether templates do more than fill in: {% if … %}, {{- range … }}; ${{ … }} never does."""
    return _STEERS.search(text) is not None


def spans(text: str) -> Iterator[tuple[int, int]]:
    """Where they stand; one that is never closed is none."""
    at = 0
    while match := _OPENING.search(text, at):
        end = text.find("}}" if match[0][-1] == "{" else "%}", match.end())
        if end < 0:
            break
        at = end + 2
        yield match.start(), at


def hidden(text: str) -> str:
    """The text with a hole for each template; every other character keeps its position."""
    if not present(text):
        return text
    parts, at = list[str](), 0
    for start, end in spans(text):
        parts += [text[at:start], HOLE * (end - start)]
        at = end
    return "".join([*parts, text[at:]])


def hidden_lines(text: str) -> str:
    """The same, and lines that are nothing but templates become blank."""
    lines = _ALONE.sub(lambda line: " " * len(line[0]), hidden(text)).split("\n")
    return "\n".join(line if line.replace(HOLE, "").strip() else " " * len(line) for line in lines)


def holes(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in _HOLES.finditer(text)] if HOLE in text else []
