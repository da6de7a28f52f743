"""rules/files.toml -> findings about a deploy file itself."""

from __future__ import annotations

from dataclasses import replace

from draftcheck.rulebook import file_rules
from draftcheck.values.findings import FilePlace, Finding, Fix
from draftcheck.values.words import Outcome, Severity

LONGEST = 300
"""Characters of what a finding quotes from a file."""


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
) -> Finding:
    """A rule seen at a place; what is not said comes from the rule."""
    row = file_rules.load(file_rules.FILES)[rule]
    shown = saw if len(saw) <= LONGEST else saw[: LONGEST - 1] + "…"
    finding = Finding.of(row, Outcome.FAIL, shown, source=source, place=place, changes=changes)
    return replace(
        finding,
        why=why or row.why,
        fix=fix or row.fix,
        severity=Severity(severity) if severity else row.severity,
    )
