"""The rules that are about no pair: deploy files, the gate, what publishers upload.

rules/files.toml, rules/gate.toml, rules/publish.toml.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated

from msgspec import Meta

from draftcheck.rulebook import files
from draftcheck.rulebook.files import Names, RuleRow, Text
from draftcheck.values.words import Severity

FILES, GATE, PUBLISH = "files", "gate", "publish"


class RuleWords(RuleRow, frozen=True):
    """The words that every rule has, as its file writes them (values.findings.RuleText)."""

    id: Annotated[str, Meta(pattern=r"^[A-Z]{3}\d{3}$")]
    slug: Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
    title: Text
    severity: Severity
    why: Text
    fix: Text


class FileRule(RuleWords, frozen=True):
    """One row of one of the files."""

    unknown: bool = False
    """Seen, it means that something could not be checked."""


class FoundWords(RuleRow, frozen=True):
    """Words by which the gate knows that a text is about speculation."""

    speculation: Names


class FileRules(RuleRow, frozen=True):
    """rules/files.toml, rules/publish.toml."""

    rule: tuple[FileRule, ...]


class GateRules(FileRules, frozen=True):
    """rules/gate.toml."""

    words: FoundWords


@cache
def load(name: str) -> Mapping[str, FileRule]:
    """The rows of one of the files, by id."""
    file = files.read(name, GateRules if name == GATE else FileRules)
    return {row.id: row for row in file.rule}


def speculation_words() -> Names:
    """Words of rules/gate.toml without which a file is not about speculation."""
    return files.read(GATE, GateRules).words.speculation


def every() -> list[FileRule]:
    """The rows of all files, in the order of reports."""
    return [row for name in (FILES, GATE, PUBLISH) for row in load(name).values()]
