"""rules/gate.toml -> findings of the gate itself."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from draftcheck.rulebook import file_rules
from draftcheck.values.findings import FilePlace, Finding
from draftcheck.values.words import Outcome

SOURCE = "docs/gate.md"


@cache
def speculation_words() -> tuple[bytes, ...]:
    """Words without which a file has nothing to do with speculation."""
    return tuple(word.encode() for word in file_rules.speculation_words())


def finding(
    rule: str, place: FilePlace, saw: str, *, fix: str | None = None, setup: int | None = None
) -> Finding:
    """A row of the gate's own, seen at a place."""
    row = file_rules.load(file_rules.GATE)[rule]
    outcome = Outcome.UNKNOWN if row.unknown else Outcome.FAIL
    made = Finding.of(row, outcome, saw, source=SOURCE, place=place, setup=setup)
    return replace(made, fix=fix) if fix else made
