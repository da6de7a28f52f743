"""rules/files.toml -> findings about a deploy file itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from draftcheck.deploy.deployment import FileFinding, FilePlace, Fix
from draftcheck.errors import RuleError
from draftcheck.rulebook import files
from draftcheck.values.words import Severity

FILE = "files"
LONGEST = 300
"""Characters of what a finding quotes from a file."""


@dataclass(frozen=True, slots=True)
class FileRule:
    id: str
    slug: str
    title: str
    severity: Severity
    why: str
    fix: str


@cache
def rows() -> Mapping[str, FileRule]:
    """The rules about files, by id."""
    found = {}
    for raw in files.load(FILE)["rule"]:
        try:
            found[raw["id"]] = FileRule(**{**raw, "severity": Severity(raw["severity"])})
        except (TypeError, ValueError, KeyError) as error:
            raise RuleError(f"{FILE}.toml rule {raw.get('id', '?')}: {error}") from None
    return found


def found(
    rule: str,
    place: FilePlace,
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
