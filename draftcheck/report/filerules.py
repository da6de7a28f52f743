"""The rules about deploy files: listed, one in full, and as a page with every engine's options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import click

from draftcheck.deploy.options import tables as options
from draftcheck.deploy.options.checks import RULES
from draftcheck.deploy.options.tables import OptionChange, OptionRule, OptionTable
from draftcheck.report.json import SCHEMA_VERSION, dumps
from draftcheck.report.safe import markdown as md
from draftcheck.rulebook import files
from draftcheck.rulebook.file_rules import FileRule, every

OWNER = "deploy files"


def tables() -> list[OptionTable]:
    """The option tables of all engines."""
    found = (files.folder() / "options").glob("*.toml")
    return [options.load(p.stem) for p in sorted(found) if not p.stem.endswith("-names")]


def one(rule_id: str) -> FileRule | None:
    """The rule with this id or slug."""
    return next((row for row in every() if rule_id.upper() == row.id or rule_id == row.slug), None)


def objects() -> list[dict[str, Any]]:
    return [
        {"id": row.id, "slug": row.slug, "title": row.title, "severity": str(row.severity),
         "why": row.why, "fix": row.fix}
        for row in every()
    ]  # fmt: skip


def listing(form: str) -> str:
    """The rules about files behind those about pairs."""
    if form == "markdown":
        return "\n".join(
            f"| {row.id} | {row.slug} | {OWNER} | {row.severity} | | |" for row in every()
        )
    return "\n".join(f"{r.id}  {r.slug.ljust(24)} {OWNER.ljust(13)} {r.severity}" for r in every())


def render(row: FileRule, form: str) -> str:
    """One rule in full, with the options that it speaks of."""
    cases = list(_cases(row.id))
    if form == "json":
        body = next(entry for entry in objects() if entry["id"] == row.id)
        return dumps({"schema_version": SCHEMA_VERSION, "rules": [{**body, "cases": cases}]})
    fields = {"severity": str(row.severity), "why": row.why, "fix": row.fix}
    if form == "markdown":
        lines = [f"## {row.id} {row.slug}: {md(row.title)}", ""]
        lines += [f"- **{name}**: {md(value)}" for name, value in fields.items()]
        return "\n".join([*lines, *(f"- {md(_case(case))}" for case in cases)])
    head = click.style(f"{row.id} {row.slug}", bold=True) + f": {row.title}"
    lines = [f"  {name.ljust(9)} {value}" for name, value in fields.items()]
    return "\n".join([head, *lines, *(f"  {_case(case)}" for case in cases)])


def _cases(rule: str) -> Iterator[dict[str, str]]:
    """The rows of the option tables that are reported under a rule."""
    for table in tables():
        for change in table.changes:
            if RULES[change.effect] == rule:
                yield _object(table, change, ", ".join(change.names))
        for check in table.checks:
            if check.rule == rule:
                yield _object(table, check, re.sub(r"\{(\w+)\}", "…", check.saw))


def _object(table: OptionTable, row: OptionChange | OptionRule, what: str) -> dict[str, str]:
    fix = row.fix or (
        f"Use {row.becomes}." if isinstance(row, OptionChange) and row.becomes else ""
    )
    return {"engine": table.engine, "what": what, "since": row.since, "until": row.until,
            "why": row.why, "fix": fix, "source": row.source}  # fmt: skip


def _window(case: dict[str, str]) -> str:
    words = [f"from {case['since']}" if case["since"] else "",
             f"before {case['until']}" if case["until"] else ""]  # fmt: skip
    return " ".join(filter(None, words)) or "all versions"


def _case(case: dict[str, str]) -> str:
    return f"{case['engine']}, {_window(case)}: {case['what']}. {case['why']} {case['fix']}".strip()


def page(plain: Callable[[str], str]) -> Iterator[str]:
    """The lines of docs/rules/deploy-files.md below its head; plain escapes for Markdown."""
    for row in every():
        yield from (f"## {row.id} {row.slug}", "")
        yield from (plain(f"{row.title} ({row.severity}). {row.why} {row.fix}"), "")
        for case in _cases(row.id):
            fix = f" {case['fix']}" if case["fix"] else ""
            yield f"- **{case['engine']}**, {_window(case)}: `{case['what']}`"
            yield f"  - {plain(case['why'] + fix)}"
            yield f"  - source: {plain(case['source'])}"
        yield ""
