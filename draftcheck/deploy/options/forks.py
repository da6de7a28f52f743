"""rules/forks.toml: engines that grew out of another one, which is no judge of them.

A fork is told by the name of the program, by a word of its path or image, by the folder that a
script goes into before it, or by the repository that the file, a Dockerfile beside it or a flake
above it takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache

from draftcheck.deploy.options.tables import matches
from draftcheck.rulebook import files
from draftcheck.rulebook.files import Names, RuleRow, Text

CLONED = re.compile(
    r"(?:\bclone\b[^\n;&|]*?|git\+|remote add[^\n;&|]*?"
    r"|(?<![A-Za-z_])[A-Za-z_]*REPO\w*[ \t]*[:=][ \t]*"
    r"|\burl[ \t]*=[ \t]*)[\"']?(?:(?:git\+)?(?:https?://|ssh://)?(?:[\w.-]+@)?github\.com[/:]|github:)"
    r"(?P<owner>[\w-]+)/(?P<name>[\w.-]+)",
    re.IGNORECASE,
)


class ForkRow(RuleRow, frozen=True):
    """One fork."""

    name: Text
    table: Text
    """The parent's file in rules/options."""
    match: Text
    source: Text
    programs: Names = ()
    letter: str = ""


class HomeRow(RuleRow, frozen=True):
    """Where an engine itself lives."""

    table: Text
    repos: Names
    tree: Names = ()
    """Files at the root of its sources."""
    sources: str = ""
    """A pattern of the paths of its own programs."""


class ForkFile(RuleRow, frozen=True):
    """rules/forks.toml."""

    fork: tuple[ForkRow, ...]
    home: tuple[HomeRow, ...]


@cache
def table() -> ForkFile:
    return files.read("forks", ForkFile)


def by_program(name: str) -> ForkRow | None:
    """The fork that has a program of this name."""
    return next((row for row in table().fork if name in row.programs), None)


def by_image(image: str) -> ForkRow | None:
    """The fork that an image holds, to go by its name."""
    return next((row for row in table().fork if matches(row.match, image)), None)


def named_in(parent: str, texts: Iterable[str]) -> tuple[str, str] | None:
    """The fork that a path or an image names, and the text that does."""
    for text in texts:
        for row in table().fork:
            if row.table == parent and matches(row.match, text):
                return row.name, text[:100]
    return None


@lru_cache(maxsize=4)  # a file is asked for each of its commands
def cloned(parent: str, text: str) -> tuple[str, str] | None:
    """The fork that is cloned, where the engine itself is not cloned too."""
    home = next((row.repos for row in table().home if row.table == parent), ())
    repos = list(_repos(text))
    if any(repo.lower() in (own.lower() for own in home) for repo in repos):
        return None
    bases = {own.partition("/")[2].lower() for own in home}
    for repo in repos:
        if known := named_in(parent, [repo]):
            return known
        if repo.partition("/")[2].lower() in bases:
            return repo, f"github.com/{repo}"
    return None


def built_here(parent: str, beside: Iterable[str]) -> tuple[str, str] | None:
    """Whether the repository of a file holds the engine's own sources, changed or not."""
    tree = next((row.tree for row in table().home if row.table == parent), ())
    if tree and set(tree) <= set(beside):
        return "a build of this repository", f"{tree[0]} in it"
    return None


def is_source(path: str) -> bool:
    """Whether a program of this path is a part of an engine, kept beside what starts it."""
    return any(row.sources and matches(row.sources, path) for row in table().home)


def _repos(text: str) -> Iterator[str]:
    for found in CLONED.finditer(text):
        yield f"{found['owner']}/{found['name'].removesuffix('.git')}"
