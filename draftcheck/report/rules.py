"""The rulebook for people and programs: a list, or single rules in full."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import click

from draftcheck.errors import UsageError
from draftcheck.report import filerules
from draftcheck.report.json import SCHEMA_VERSION, dumps
from draftcheck.report.safe import markdown as md
from draftcheck.rulebook import book
from draftcheck.rulebook.book import Engine, Method, Rule

Row = tuple[str, Rule]
"""Whose rule it is, and the rule; one id may have several rows, one per window."""
EVERYONE = "every engine"
KNOWN_BY = {
    "run": "running it",
    "read": "reading its source",
    "documented": "its documentation or a report",
}


def select(rule_id: str | None, engine: str | None) -> list[Row]:
    """The rows asked for."""
    names = [engine] if engine else list(book.engine_files())
    rows = [(name, rule) for name in names for rule in book.load(name).rules]
    if engine is None:
        rows += [(EVERYONE, rule) for rule in book.truth()]
    if rule_id is None:
        return rows
    found = [row for row in rows if rule_id.upper() == row[1].id or rule_id == row[1].slug]
    if not found:
        near = difflib.get_close_matches(rule_id.upper(), {rule.id for _, rule in rows}, 3)
        hint = f"Did you mean {', '.join(near)}?" if near else "`draftcheck rules` lists them."
        raise UsageError(f"there is no rule {rule_id!r}", hint=hint)
    return found


def render(rows: Sequence[Row], form: str, *, whole: bool) -> str:
    if form == "json":
        body: dict[str, Any] = {"schema_version": SCHEMA_VERSION}
        if not whole:
            owners = dict.fromkeys(owner for owner, _ in rows if owner != EVERYONE)
            body["engines"] = [_engine(book.load(name)) for name in owners]
        if not whole and any(owner == EVERYONE for owner, _ in rows):
            body["file_rules"] = filerules.objects()
        return dumps({**body, "rules": [_object(*row) for row in rows]})
    if form == "markdown":
        return "\n\n".join(_page(*row) for row in rows) if whole else _table(rows)
    return "\n\n".join(_text(*row) for row in rows) if whole else _list(rows)


def _with_files(rows: Sequence[Row], form: str, lines: list[str]) -> str:
    """The list, with the rules about deploy files where no engine was named."""
    everyone = any(owner == EVERYONE for owner, _ in rows)
    return "\n".join([*lines, filerules.listing(form)] if everyone else lines)


def window(rule: Rule | Method) -> str:
    """The versions a row holds for, in words."""
    if rule.since and rule.until:
        return f"{rule.since} up to, not including, {rule.until}"
    if rule.since:
        return f"{rule.since} and newer"
    return f"before {rule.until}" if rule.until else "all versions"


def _engine(engine: Engine) -> dict[str, Any]:
    return {
        "engine": engine.id,
        "name": engine.name,
        "oldest": engine.oldest,
        "checked": engine.checked,
        "checked_on": engine.checked_on,
        "methods": [
            {
                "method": method.id,
                "drafts": list(method.drafts),
                "formats": list(method.formats),
                "since": method.since,
                "until": method.until,
                "basis": method.basis,
                "summary": method.summary,
            }
            for method in engine.methods
        ],
    }


def _object(owner: str, rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "slug": rule.slug,
        "engine": None if owner == EVERYONE else owner,
        "title": rule.title,
        "methods": list(rule.methods),
        "since": rule.since,
        "until": rule.until,
        "reaction": str(rule.reaction),
        "severity": str(rule.severity),
        "check": rule.check,
        "params": dict(rule.params),
        "engine_says": rule.engine_says,
        "why": rule.why,
        "fix": rule.fix,
        "source": rule.source,
        "basis": rule.basis,
    }


def _list(rows: Sequence[Row]) -> str:
    lines = []
    for owner, rule in rows:
        head = f"{rule.id}  {rule.slug.ljust(24)} {owner.ljust(13)} {rule.severity.ljust(8)}"
        lines.append(f"{head} {rule.reaction.ljust(13)} {window(rule)}")
    return _with_files(rows, "text", lines)


def _fields(owner: str, rule: Rule) -> dict[str, str]:
    fields = {
        "engine": owner,
        "versions": window(rule),
        "methods": ", ".join(rule.methods) or "all",
        "reaction": str(rule.reaction),
        "severity": str(rule.severity),
    }
    if rule.engine_says:
        fields["it says"] = rule.engine_says
    return {
        **fields,
        "why": rule.why,
        "fix": rule.fix,
        "source": rule.source,
        "known by": KNOWN_BY[rule.basis],
    }


def _text(owner: str, rule: Rule) -> str:
    head = click.style(f"{rule.id} {rule.slug}", bold=True) + f": {rule.title}"
    rows = [f"  {name.ljust(9)} {value}" for name, value in _fields(owner, rule).items()]
    return "\n".join([head, *rows])


def _page(owner: str, rule: Rule) -> str:
    rows = [f"- **{name}**: {md(value)}" for name, value in _fields(owner, rule).items()]
    return "\n".join([f"## {rule.id} {rule.slug}: {md(rule.title)}", "", *rows])


def _table(rows: Sequence[Row]) -> str:
    lines = ["| id | rule | engine | severity | reaction | versions |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {rule.id} | {rule.slug} | {md(owner)} | {rule.severity} | {rule.reaction}"
        f" | {md(window(rule))} |"
        for owner, rule in rows
    ]
    return _with_files(rows, "markdown", lines)
