"""Makefiles, justfiles, Procfiles: lines for a shell; variables with plain values are filled in."""

from __future__ import annotations

import re

from draftcheck.deploy.deployment import Contents
from draftcheck.deploy.kinds import shell
from draftcheck.deploy.syntax.variables import filled
from draftcheck.deploy.text import TextView, joined

_ASSIGNMENT = re.compile(r"(?:export\s+)?([\w.-]+)[ \t]*(\?|::?:?|\+|!)?=[ \t]*")
_REFERENCE = re.compile(r"\$\$|\$\(([\w.-]+)\)|\$\{([\w.-]+)\}")
_HOLE = re.compile(r"\{\{\s*([\w-]+)\s*\}\}")


def read_makefile(view: TextView, contents: Contents, just: bool = False) -> None:
    """The commands of all recipes; just: indented by blanks, and {{ name }} is a variable."""
    reference = _HOLE if just else _REFERENCE
    values = dict[str, TextView]()
    recipes = list[TextView]()
    for line in _logical(view):
        if line.text[:1] == "\t" or (just and line.text[:1] == " "):
            start = len(line.text) - len(line.text.lstrip(" \t@-+"))
            recipes.append(line.slice(start, len(line.text)))
            continue
        match = _ASSIGNMENT.match(line.text)
        if match and match[2] != "!":
            start, text = match.end(), line.text[match.end() :]
            comment = re.search(r"(?:^|\s)#", text)
            end = start + len((text[: comment.start()] if comment else text).rstrip())
            if just and end - start >= 2 and {line.text[start], line.text[end - 1]} <= set("'\""):
                start, end = start + 1, end - 1
            value = _filled(line.slice(start, end), values, reference)
            if match[2] == "+" and match[1] in values:
                value = joined([values[match[1]], line.blank(start - 1), value])
            values[match[1]] = value
    for recipe in recipes:
        shell.inside(_filled(recipe, values, reference), contents)


def read_justfile(view: TextView, contents: Contents) -> None:
    read_makefile(view, contents, just=True)


def _filled(view: TextView, values: dict[str, TextView], reference: re.Pattern[str]) -> TextView:
    def value(match: re.Match[str]) -> TextView | None:
        return values.get(next((group for group in match.groups() if group), ""))

    return filled(view, reference, value)


def _logical(view: TextView) -> list[TextView]:
    """Lines, continued ones with the next: a shell joins them itself."""
    found, first = list[TextView](), None
    for start, end in view.lines():
        first = start if first is None else first
        if view.text[start:end].endswith("\\"):
            continue
        found.append(view.slice(first, end))
        first = None
    if first is not None:
        found.append(view.slice(first, len(view.text)))
    return found


_LINE = re.compile(r"[\w-]+:[ \t]*")


def read_procfile(view: TextView, contents: Contents) -> None:
    """A name and a shell line each."""
    for start, end in view.lines():
        match = _LINE.match(view.text, start, end)
        if match:
            shell.inside(view.slice(match.end(), end), contents)
