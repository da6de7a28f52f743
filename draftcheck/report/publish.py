"""A publisher's report: the answer, what to mend, and a block to paste into the card."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import click

from draftcheck.publish.run import PROFILE, EngineMinimum, PublishReport
from draftcheck.report.json import HEAD, dumps, picked
from draftcheck.report.layout import fenced, indented, plural, table_row, wrapped
from draftcheck.report.safe import md, safe
from draftcheck.report.text import SEVERITY_COLOURS
from draftcheck.rulebook import book

COMMANDS = 3
"""Engines whose command stands in the block."""


def answer(report: PublishReport) -> str:
    """The first line."""
    name, errors = report.draft.called, report.errors
    rest = len(report.findings) - errors
    if errors:
        told = f"{errors} {plural(errors, 'error')}"
        told += f" and {rest} {plural(rest, 'hint')}" if rest else ""
    else:
        told = f"no errors, {rest} {plural(rest, 'hint')}" if rest else "nothing to mend"
    runs = sum(one.since is not None for one in report.engines)
    where = f"; runs in {runs} of {len(report.engines)} engines" if report.engines else ""
    return safe(f"{name}: {told}{where}")


def _lines(report: PublishReport) -> Iterator[str]:
    yield click.style(answer(report), bold=True)
    if report.base:
        yield safe(f"  for {report.base}")
    if report.target_note:
        yield safe(f"  engines were not asked: {report.target_note}")
    for finding in report.findings:
        colour = SEVERITY_COLOURS[finding.severity]
        head = click.style(f"{finding.severity}[{finding.rule}]", fg=colour)
        yield ""
        yield f"{head} {finding.title}"
        yield wrapped("  saw  ", safe(finding.saw, 1000))
        yield wrapped("  fix  ", safe(finding.fix, 1000))
    yield ""
    yield "for the card:"
    yield indented(block(report))
    if (profile := report.profile_stub) is not None:
        yield ""
        yield f"for {PROFILE}, until `draftcheck trial TARGET DRAFT --profile {PROFILE}` fills it:"
        yield indented(dumps(profile))


def block(report: PublishReport) -> str:
    """Markdown for the card."""
    lines = ["## Speculative decoding", ""]
    draft = report.draft
    head = f"Head ({draft.role})" if draft.role not in (None, "full") else "Draft model"
    lines.append(
        "MTP layers of its own." if report.own else f"{head} for `{report.base or 'TARGET'}`."
    )
    known = [one for one in report.engines if one.since is not None]
    if known:
        lines += ["", "| engine | oldest version | method |", "|---|---|---|"]
        lines += [table_row(_row(one)) for one in known]
        for one in known[:COMMANDS]:
            lines += ["", f"{book.load(one.verdict.engine).name}:", "", "```bash"]
            lines += [one.verdict.setup or "", "```"]
    block_drafts = draft.head.block_drafts if draft.head is not None else None
    if block_drafts:
        lines += ["", f"It proposes {block_drafts} tokens a pass; ask for no more."]
    lines += ["", "Trained for: thinking on / off. Chat template: used / not used."]
    return "\n".join(lines)


def _row(one: EngineMinimum) -> tuple[str, ...]:
    return (
        md(book.load(one.verdict.engine).name),
        md(one.since or ""),
        md(one.verdict.method or ""),
    )


def _json(report: PublishReport) -> str:
    body = {
        **HEAD,
        "draft": report.draft.called,
        "target": report.base,
        "target_note": report.target_note or None,
        "errors": report.errors,
        "findings": [
            picked(finding, "rule", "slug", "title", "severity", "saw", "why", "fix")
            for finding in report.findings
        ],
        "engines": [
            {
                **picked(one.verdict, "engine", "version", "method", "reaction", "verdict"),
                "since": one.since,
            }
            for one in report.engines
        ],
        "card_block": block(report),
        "profile_stub": report.profile_stub,
    }
    return dumps(body)


def _markdown(report: PublishReport) -> str:
    lines = [f"### {md(answer(report))}", ""]
    lines += [f"- **{f.rule}** {md(f.title)}: {md(f.saw)}. {md(f.fix)}" for f in report.findings]
    lines += ["", block(report)]
    if (profile := report.profile_stub) is not None:
        lines += ["", f"`{PROFILE}`:", "", fenced(dumps(profile))]
    return "\n".join(lines)


FORMATS: Mapping[str, Callable[[PublishReport], str]] = {
    "text": lambda report: "\n".join(_lines(report)),
    "json": _json,
    "markdown": _markdown,
}
