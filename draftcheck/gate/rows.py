"""rules/gate.toml -> findings of the gate itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from draftcheck.deploy.deployment import FileFinding, FilePlace
from draftcheck.deploy.options.findings import FileRule
from draftcheck.errors import RuleError
from draftcheck.gate.results import GateFinding
from draftcheck.rulebook import files
from draftcheck.values.words import Outcome, Severity

SOURCE = "docs/gate.md"


@dataclass(frozen=True, slots=True)
class OwnRow(FileRule):
    unknown: bool = False
    """Seen, it means that something could not be checked."""


@cache
def load() -> Mapping[str, OwnRow]:
    """The rows by id."""
    rows = {}
    for raw in files.load("gate")["rule"]:
        try:
            row = OwnRow(**{**raw, "severity": Severity(raw["severity"])})
        except (TypeError, ValueError, KeyError) as error:
            raise RuleError(f"gate.toml rule {raw.get('id', '?')}: {error}") from None
        rows[row.id] = row
    return rows


@cache
def speculation_words() -> tuple[bytes, ...]:
    """Words without which a file has nothing to do with speculation."""
    return tuple(word.encode() for word in files.load("gate")["words"]["speculation"])


def finding(
    rule: str, place: FilePlace, saw: str, *, fix: str | None = None, setup: int | None = None
) -> GateFinding:
    """A row of the gate's own, seen at a place."""
    row = load()[rule]
    return GateFinding(
        rule=row.id,
        slug=row.slug,
        severity=row.severity,
        outcome=Outcome.UNKNOWN if row.unknown else Outcome.FAIL,
        place=place,
        title=row.title,
        saw=saw,
        why=row.why,
        fix=fix or row.fix,
        source=SOURCE,
        setup=setup,
    )


def of_file(found: FileFinding, setup: int | None) -> GateFinding:
    """What was found about the file itself."""
    return GateFinding(
        rule=found.rule,
        slug=found.slug,
        severity=found.severity,
        outcome=Outcome.FAIL,
        place=found.place,
        title=found.title,
        saw=found.saw,
        why=found.why,
        fix=found.fix,
        source=found.source,
        changes=found.changes,
        setup=setup,
    )
