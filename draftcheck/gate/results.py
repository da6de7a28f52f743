"""What a run of the gate comes to: setups, findings, and the verdict over all of them. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from draftcheck.rulebook import file_rules
from draftcheck.values.findings import FilePlace, Finding
from draftcheck.values.results import PublicResult
from draftcheck.values.words import Outcome, Severity, Verdict


@dataclass(frozen=True, slots=True)
class CheckedDeployment:
    """One deployment that a file sets up, and what came of it."""

    place: FilePlace
    engine: str
    verdict: Verdict
    version: str | None = None
    """The version it was judged for."""
    version_from: str = ""
    """Where the version stands; empty: nowhere, so it is the newest known."""
    method: str | None = None
    reaction: str | None = None
    target: str | None = None
    draft: str | None = None
    name: str = ""
    """Of a pair of the manifest."""
    fork: str = ""
    """The engine's fork that is started; it has no known version."""
    trial: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class GateReport(PublicResult):
    """What the gate looked at and found."""

    looked_at: int
    """Files."""
    setups: tuple[CheckedDeployment, ...] = ()
    findings: tuple[Finding, ...] = ()
    idle: int = 0
    """Engines that are started without speculation."""
    recipes: int = 0
    """Setups that Markdown shows."""
    lock: str | None = None
    """The lock that was read; None: there is none."""
    missing: tuple[str, ...] = ()
    """Models that neither the lock nor this disk has."""
    notes: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        return (
            f"<GateReport {self.verdict}: {self.looked_at} files, {len(self.setups)} setups,"
            f" {self.count(Severity.ERROR)} errors, {self.count(Severity.WARNING)} warnings,"
            f" {self.unchecked} not checked>"
        )

    @property
    def verdict(self) -> Verdict:
        counted = {(f.severity, f.outcome) for f in self.findings if f.counts}
        if (Severity.ERROR, Outcome.FAIL) in counted:
            return Verdict.INCOMPATIBLE
        if any(outcome is Outcome.UNKNOWN for _, outcome in counted):
            return Verdict.UNDECIDED
        return Verdict.DEGRADED if counted else Verdict.COMPATIBLE

    @property
    def empty(self) -> bool:
        return not (self.setups or self.idle or self.findings or self.recipes)

    def count(self, severity: Severity) -> int:
        """Findings of that severity, ignored and unchecked ones left out."""
        return sum(
            f.counts and f.outcome is Outcome.FAIL and f.severity is severity for f in self.findings
        )

    @property
    def unchecked(self) -> int:
        return sum(f.counts and f.outcome is Outcome.UNKNOWN for f in self.findings)


def gate_finding(
    rule: str, place: FilePlace, saw: str, *, fix: str | None = None, setup: int | None = None
) -> Finding:
    """A row of the gate's own, seen at a place."""
    row = file_rules.load(file_rules.GATE)[rule]
    outcome = Outcome.UNKNOWN if row.unknown else Outcome.FAIL
    made = Finding.of(row, outcome, saw, source="docs/gate.md", place=place, setup=setup)
    return replace(made, fix=fix) if fix else made
