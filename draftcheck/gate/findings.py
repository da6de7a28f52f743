"""rules/files.toml -> findings about a deploy file itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from draftcheck import rulefiles
from draftcheck.errors import RuleError
from draftcheck.gate.model import FileFinding, Fix, Place
from draftcheck.words import Severity

FILE = "files"
LONGEST = 300
"""Characters of what a finding quotes from a file."""


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    slug: str
    title: str
    severity: Severity
    why: str
    fix: str


@cache
def rows() -> Mapping[str, Row]:
    """The rules about files, by id."""
    found = {}
    for raw in rulefiles.load(FILE)["rule"]:
        try:
            found[raw["id"]] = Row(**{**raw, "severity": Severity(raw["severity"])})
        except (TypeError, ValueError, KeyError) as error:
            raise RuleError(f"{FILE}.toml rule {raw.get('id', '?')}: {error}") from None
    return found


def found(
    rule: str,
    place: Place,
    saw: str,
    *,
    why: str = "",
    fix: str = "",
    source: str = "",
    severity: str = "",
    changes: tuple[Fix, ...] = (),
) -> FileFinding:
    """A rule seen at a place; what is not said comes from the rule."""
    row = rows()[rule]
    return FileFinding(
        rule=row.id,
        slug=row.slug,
        severity=Severity(severity) if severity else row.severity,
        place=place,
        title=row.title,
        saw=saw if len(saw) <= LONGEST else saw[: LONGEST - 1] + "…",
        why=why or row.why,
        fix=fix or row.fix,
        source=source,
        changes=changes,
    )
