"""The gate's report for terminals, programs and job summaries; SARIF and the like stand beside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from draftcheck.gate.results import CheckedDeployment, GateReport
from draftcheck.report.json import HEAD, picked
from draftcheck.report.layout import plural, wrapped
from draftcheck.report.safe import markdown as md
from draftcheck.report.safe import safe
from draftcheck.report.text import COLOURS, SEVERITY_COLOURS
from draftcheck.values.findings import FilePlace, Finding
from draftcheck.values.words import Outcome, Severity, Verdict

ANSWERS = {
    Verdict.COMPATIBLE: "no finding stands against these setups",
    Verdict.DEGRADED: "these setups run, with losses",
    Verdict.INCOMPATIBLE: "a setup is broken",
    Verdict.UNDECIDED: "not everything could be checked",
}
NOTHING = "nothing to check: no file here starts an engine with speculative decoding"
MISSING = ("GAT002", "GAT005")
"""Told in short: the list of missing models says the rest."""


def text(report: GateReport, *, verbose: bool = False) -> str:
    """Findings by place, the worst words in colour, and a last line that counts."""
    shown = [f for f in report.findings if verbose or (f.ignored is None and not remark(f))]
    blocks = [_finding(finding, report) for finding in shown]
    if verbose:
        blocks += [_setup(setup) for setup in report.setups]
    if report.missing:
        blocks.append("\n".join(_missing(report)))
    return "\n\n".join([*blocks, _last(report)])


def remark(finding: Finding) -> bool:
    """Remarks about a pair that simply runs."""
    return finding.severity is Severity.NOTE and finding.rule != "GAT015"


def _finding(finding: Finding, report: GateReport) -> str:
    colour = "magenta" if finding.outcome is Outcome.UNKNOWN else SEVERITY_COLOURS[finding.severity]
    word = word_for(finding)
    head = click.style(f"{word}[{finding.rule} {finding.slug}]", fg=colour, bold=True)
    lines = [f"{where(finding.place)}: {head} {safe(finding.title)}"]
    if finding.ignored is not None:
        lines.append(_field("ignored", finding.ignored))
    lines.append(_field("saw", finding.saw))
    if finding.rule not in MISSING:
        if finding.setup is not None:
            lines.append(_field("setup", setup_words(report.setups[finding.setup])))
        if finding.severity is not Severity.NOTE:
            lines += [_field("why", finding.why), _field("fix", finding.fix)]
    if finding.fixable:
        lines.append(_field("", "--fix does it"))
    return "\n".join(lines)


def word_for(finding: Finding) -> str:
    """How sure and how bad, in a word."""
    if finding.ignored is not None:
        return "ignored"
    return "not checked" if finding.outcome is Outcome.UNKNOWN else str(finding.severity)


def where(place: FilePlace) -> str:
    return f"{safe(place.file)}:{place.line}:{place.column}"


def setup_words(setup: CheckedDeployment) -> str:
    """One setup in a line."""
    name = f"{setup.name}: " if setup.name else ""
    version = setup.version or "?"
    method = f", {setup.method}" if setup.method else ""
    models = setup.target or "?"
    if setup.draft:
        models += f" with {setup.draft}"
    return f"{name}{models} on {setup.engine} {version}{method}"


def _field(name: str, value: str) -> str:
    return wrapped(f"  {name.ljust(7)} ", safe(value, 1000))


def _setup(setup: CheckedDeployment) -> str:
    word = click.style(str(setup.verdict), fg=COLOURS[setup.verdict])
    return f"{where(setup.place)}: {word}: {safe(setup_words(setup), 1000)}"


def _missing(report: GateReport) -> Iterator[str]:
    """Models that are not known, once each, and what to do about it."""
    yield click.style("not known:", fg="magenta", bold=True)
    yield from (f"  {safe(key)}" for key in report.missing)
    fixes = {f.rule: f.fix for f in report.findings if f.rule in MISSING and f.ignored is None}
    yield from (_field("fix", fixes[rule]) for rule in sorted(fixes))


def _last(report: GateReport) -> str:
    if report.empty:
        return f"{NOTHING} ({_count(report.looked_at, 'file')} looked at)"
    word = click.style(str(report.verdict), fg=COLOURS[report.verdict], bold=True)
    return f"{word}: {counts(report)}"


def counts(report: GateReport) -> str:
    """Everything that was looked at and found, in a sentence."""
    parts = [
        _count(report.count(Severity.ERROR), "error"),
        _count(report.count(Severity.WARNING), "warning"),
    ]
    if report.unchecked:
        parts.append(f"{report.unchecked} not checked")
    if ignored := sum(f.ignored is not None for f in report.findings):
        parts.append(f"{ignored} ignored")
    setups = _count(len(report.setups), "setup")
    idle = f", {report.idle} without speculation" if report.idle else ""
    fixable = sum(f.fixable and f.ignored is None for f in report.findings)
    hint = f"; --fix mends {fixable}" if fixable else ""
    files = _count(report.looked_at, "file")
    return f"{', '.join(parts)} in {setups}{idle} ({files} looked at){hint}"


def _count(number: int, word: str) -> str:
    return f"{number:,} {plural(number, word)}"


def body(report: GateReport) -> dict[str, Any]:
    """The contract's JSON."""
    return {
        **HEAD,
        **picked(
            report, "verdict", "nothing_to_check=empty", "files_looked_at=looked_at",
            "setups_without_speculation=idle", "lock", "missing",
        ),
        "setups": [_setup_object(setup) for setup in report.setups],
        "findings": [_finding_object(finding) for finding in report.findings],
    }  # fmt: skip


def _setup_object(setup: CheckedDeployment) -> dict[str, Any]:
    return {
        **place_object(setup.place),
        "name": setup.name or None,
        "engine": setup.engine,
        "version": setup.version,
        "version_from": setup.version_from or None,
        **picked(setup, "method", "target", "draft", "reaction", "verdict", "trial"),
    }


def place_object(place: FilePlace) -> dict[str, Any]:
    return picked(place, "file", "line", "column", "end_line", "end_column")


def _finding_object(finding: Finding) -> dict[str, Any]:
    return {
        **picked(finding, "rule", "slug", "severity", "outcome"),
        **place_object(finding.place),
        **picked(finding, "setup", "title", "saw", "why", "fix", "source", "fixable"),
        "changes": [
            {**place_object(change.place), **picked(change, "text", "safe")}
            for change in finding.changes
        ],
        "ignored": finding.ignored,
    }


def markdown(report: GateReport) -> Iterator[str]:
    """A job summary."""
    yield f"### draftcheck gate: {'nothing to check' if report.empty else report.verdict}"
    yield ""
    yield (NOTHING if report.empty else counts(report)) + "."
    shown = [f for f in report.findings if f.ignored is None and not remark(f)]
    if shown:
        yield from ("", "| place | finding | saw | fix |", "|---|---|---|---|")
    for finding in shown:
        place = md(f"{finding.place.file}:{finding.place.line}")
        head = f"**{word_for(finding)}** {md(finding.rule)} {md(finding.title)}"
        yield f"| {place} | {head} | {md(finding.saw)} | {md(finding.fix)} |"
    if report.setups:
        yield from ("", "| setup | engine | models | verdict |", "|---|---|---|---|")
    for setup in report.setups:
        place = md(f"{setup.place.file}:{setup.place.line}")
        engine = md(f"{setup.engine} {setup.version or '?'}")
        models = " with ".join(md(name) for name in (setup.target or "?", setup.draft) if name)
        yield f"| {place} | {engine} | {models} | {setup.verdict} |"
    ignored = [f for f in report.findings if f.ignored is not None]
    if ignored:
        yield ""
    for finding in ignored:
        place = md(f"{finding.place.file}:{finding.place.line}")
        yield f"- ignored {md(finding.rule)} at {place}: {md(finding.ignored or '')}"
