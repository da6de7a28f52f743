"""Workflow commands that GitHub shows as annotations of a pull request."""

from __future__ import annotations

from draftcheck.gate.results import GateReport
from draftcheck.report.gate import NOTHING, counts, remark, word_for
from draftcheck.report.safe import safe
from draftcheck.values.findings import Finding
from draftcheck.values.words import Outcome, Severity

LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(report: GateReport) -> str:
    # GitHub shows ten annotations of a kind: remarks about pairs that run stay out.
    lines = [_annotation(f) for f in report.findings if f.ignored is None and not remark(f)]
    if report.empty:
        lines.append(f"::notice title=draftcheck::{data(NOTHING)}")
    else:
        # The last line is for the log; :: at its start would make it a command.
        lines.append(f"draftcheck: {report.verdict}: {safe(counts(report))}")
    return "\n".join(lines)


def _annotation(finding: Finding) -> str:
    place = finding.place
    fields = {"file": place.file, "line": str(place.line)}
    last = place.end_line or place.line
    if last != place.line:
        fields["endLine"] = str(last)
    fields["col"] = str(place.column)
    if last == place.line and place.end_column is not None:
        fields["endColumn"] = str(place.end_column)
    unknown = finding.outcome is Outcome.UNKNOWN
    fields["title"] = f"{finding.rule} {finding.slug}" + (" (not checked)" if unknown else "")
    said = ",".join(f"{name}={field(safe(value))}" for name, value in fields.items())
    words = f"{safe(finding.title)}\nsaw: {safe(finding.saw, 1000)}\nfix: {safe(finding.fix, 1000)}"
    level = LEVELS[finding.severity]
    return f"::{level} {said}::{data(f'{word_for(finding)}: {words}')}"


def data(text: str) -> str:
    """The message of a command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def field(text: str) -> str:
    """The value of a property of a command."""
    return data(text).replace(":", "%3A").replace(",", "%2C")
