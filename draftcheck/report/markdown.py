"""Markdown for a pull request or a job summary; all model text is escaped."""

from __future__ import annotations

from draftcheck.report import memory
from draftcheck.report.layout import fenced, figure
from draftcheck.report.safe import markdown as md
from draftcheck.report.text import REACTIONS, answer, group, ways_out
from draftcheck.values.facts import ModelFacts
from draftcheck.values.verdicts import PairVerdict
from draftcheck.values.words import Outcome, Severity


def pair(verdict: PairVerdict) -> str:
    comparison = verdict.comparison
    vocabulary = comparison.vocabulary
    lines = [
        f"### draftcheck: {verdict.verdict}",
        "",
        answer(verdict, md) + ".",
        "",
        f"Vocabulary: {vocabulary.relation}, rows {figure(vocabulary.target_size)} and"
        f" {figure(vocabulary.draft_size)}, differing ids {figure(vocabulary.differing_ids)}.",
        "",
        "| engine | version | method | reaction | verdict |",
        "|---|---|---|---|---|",
    ]
    for entry in verdict.engines:
        checked = "" if entry.version_checked else " (not verified)"
        lines.append(
            f"| {md(entry.engine)} | {md(entry.version)}{checked} | {md(entry.method or '-')}"
            f" | {REACTIONS[entry.reaction]} | {entry.verdict} |"
        )
    lines += ["", *_findings(verdict), *_repairs(verdict)]
    lines += [*memory.markdown(verdict.engines), *_setup(verdict)]
    return "\n".join(lines).rstrip()


def _findings(verdict: PairVerdict) -> list[str]:
    lines = []
    for item in group(verdict.engines):
        finding = item.finding
        where = md(", ".join(item.engines))
        if finding.outcome is Outcome.FAIL:
            lines += [
                f"- **{finding.severity} {finding.rule} {finding.slug}** ({where}):"
                f" {md(finding.title)}",
                f"  - saw: {md(finding.saw)}",
                f"  - why: {md(finding.why)}",
                f"  - fix: {md(finding.fix)}",
            ]
        elif finding.outcome is Outcome.UNKNOWN and finding.severity is not Severity.NOTE:
            lines.append(
                f"- not checked {finding.rule} {finding.slug} ({where}): {md(finding.saw)}"
            )
    return [*lines, ""] if lines else []


def _repairs(verdict: PairVerdict) -> list[str]:
    lines = []
    for item, names in ways_out(verdict.engines):
        lines.append(f"- way out ({md(', '.join(names))}): {md(item.title)}")
        if item.text:
            lines += ["", fenced(item.text), ""]
    return [*lines, ""] if lines else []


def _setup(verdict: PairVerdict) -> list[str]:
    ready = [entry for entry in verdict.engines if entry.setup]
    if not ready:
        return []
    entry = ready[0]
    where = f"{md(entry.engine)} {md(entry.version)}"
    return [f"To switch it on ({where}):", "", fenced(entry.setup or "")]


def inspect(facts: ModelFacts) -> str:
    """Facts as a table."""
    from draftcheck.report.json import facts_object

    lines = [f"### {md(facts.ref)}", "", "| fact | value |", "|---|---|"]
    for group_name, value in facts_object(facts).items():
        entries = value.items() if isinstance(value, dict) else [("", value)]
        for key, entry in entries:
            if key not in ("origin", "keys", "files"):
                lines.append(f"| {md(f'{group_name} {key}'.strip())} | {md(str(entry))} |")
    return "\n".join(lines)
