"""What the reports share: wrapped fields, columns, plurals, versions in words."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Sequence

from draftcheck.report.safe import safe_block

WIDEST, NARROWEST = 100, 60
KNOWN_BY = {
    "run": "running it",
    "read": "reading its source",
    "documented": "its documentation or a report",
}
"""How a rule or a message is known."""


def _width() -> int:
    """Of a terminal, within reason; what is piped is as wide as a wide one."""
    columns = shutil.get_terminal_size((WIDEST, 24)).columns
    return min(WIDEST, max(NARROWEST, columns))


def wrapped(head: str, text: str, *, hang: int = 0, break_words: bool = False) -> str:
    """A text behind its head, as wide as a terminal; further lines stand below its start.

    Long words and hyphens stay whole, so that paths, options and names can be copied.
    """
    return textwrap.fill(
        text,
        _width(),
        initial_indent=head,
        subsequent_indent=" " * (len(head) + hang),
        break_long_words=break_words,
        break_on_hyphens=break_words,
    )


def padded(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The cells, each as wide as the widest of its column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]


def narrowed(rows: Sequence[Sequence[str]], spare: Sequence[int]) -> list[list[str]]:
    """The cells padded, less what does not fit the terminal: the first to spare goes first."""
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
    kept = list(range(len(widths)))
    for at in spare:
        if sum(widths[i] for i in kept) > _width():
            kept.remove(at)
    return padded([[row[i] for i in kept] for row in rows])


def plural(number: int, word: str) -> str:
    return word if number == 1 else f"{word}s"


def version_window(since: str | None, until: str | None) -> str | None:
    """The versions from one up to another, in words; None: all."""
    if since and until:
        return f"{since} up to, not including, {until}"
    if since:
        return f"{since} and newer"
    return f"before {until}" if until else None


def indented(text: str) -> str:
    """A text of several lines to paste, made harmless and moved to the right."""
    return "\n".join(f"  {line}" for line in safe_block(text).splitlines())


def fenced(text: str) -> str:
    """The same as a block of code in Markdown, which the text cannot end."""
    body = safe_block(text).replace("```", "` ` `")
    return f"```\n{body}\n```"


def figure(value: int | None) -> str:
    """A number, or that it was not read."""
    return "not read" if value is None else f"{value:,}"


def table_row(cells: Iterable[str]) -> str:
    """A row of a Markdown table; an empty cell takes one blank."""
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"
