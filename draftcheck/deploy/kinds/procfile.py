"""Procfiles: a name and a shell line each."""

from __future__ import annotations

import re

from draftcheck.deploy.contents import ContentsBuilder
from draftcheck.deploy.kinds import shell
from draftcheck.deploy.text import TextView

NAMES = re.compile(r"procfile(?:\..*)?")
_LINE = re.compile(r"[\w-]+:[ \t]*")


def claims(name: str, text: str) -> bool:
    """Whether this is a Procfile."""
    return True


def read(view: TextView, contents: ContentsBuilder) -> None:
    """Collect one command per line."""
    for start, end in view.lines():
        match = _LINE.match(view.text, start, end)
        if match:
            shell.inside(view.slice(match.end(), end), contents)
