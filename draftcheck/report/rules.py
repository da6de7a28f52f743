"""The rulebook for people and programs: a list, or single rules in full.

A row is whose rule it is and the rule. Rules of engines say what happens to a pair and have a
window of versions, so one id may have several rows; rules about deploy files have one row, and
their cases stand in the option tables of the engines.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click

from draftcheck.deploy.options import tables as options
from draftcheck.deploy.options.checks import RULES
from draftcheck.deploy.options.tables import OptionChange, OptionRule, OptionTable
from draftcheck.errors import UsageError
from draftcheck.report.json import SCHEMA_VERSION, dumps
from draftcheck.report.layout import KNOWN_BY, table_row, version_window
from draftcheck.report.safe import markdown as md
from draftcheck.rulebook import book, file_rules, files
from draftcheck.rulebook.book import Engine, Method, Rule
from draftcheck.rulebook.file_rules import FileRule

Row = tuple[str, Rule | FileRule]
EVERYONE = "every engine"
DEPLOY_FILES = "deploy files"


def select(rule_id: str | None, engine: str | None) -> list[Row]:
    """The rows asked for; a rule about files is found whatever engine is named."""
    about_files: list[Row] = [(DEPLOY_FILES, row) for row in file_rules.every()]
    if rule_id is not None and (asked := _named(rule_id, about_files)):
        return asked
    names = [engine] if engine else list(book.engine_files())
    rows: list[Row] = [(name, rule) for name in names for rule in book.load(name).rules]
    if engine is None:
        rows += [(EVERYONE, rule) for rule in book.truth()]
    if rule_id is None:
        return rows if engine else rows + about_files
    if asked := _named(rule_id, rows):
        return asked
    near = difflib.get_close_matches(rule_id.upper(), {rule.id for _, rule in rows}, 3)
    hint = f"Did you mean {', '.join(near)}?" if near else "`draftcheck rules` lists them."
    raise UsageError(f"there is no rule {rule_id!r}", hint=hint)


def _named(rule_id: str, rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if rule_id.upper() == row[1].id or rule_id == row[1].slug]


def window(row: Rule | Method) -> str:
    """The versions a row holds for, in words."""
    return version_window(row.since, row.until) or "all versions"


def _cells(owner: str, rule: Rule | FileRule) -> tuple[str, ...]:
    """What a list tells of a rule."""
    reaction, versions = (rule.reaction, window(rule)) if isinstance(rule, Rule) else ("", "")
    return rule.id, rule.slug, owner, rule.severity, reaction, versions


def _fields(owner: str, rule: Rule | FileRule) -> dict[str, str]:
    """What is told of one rule in full."""
    if not isinstance(rule, Rule):
        return {"severity": rule.severity, "why": rule.why, "fix": rule.fix}
    fields = {
        "engine": owner,
        "versions": window(rule),
        "methods": ", ".join(rule.methods) or "all",
        "reaction": rule.reaction,
        "severity": rule.severity,
        "it says": rule.engine_says or "",
        "why": rule.why,
        "fix": rule.fix,
        "source": rule.source,
        "known by": KNOWN_BY[rule.basis],
    }
    return {name: value for name, value in fields.items() if value}


# ---- cases of the rules about files ----


def cases(rule: str) -> Iterator[dict[str, str]]:
    """The rows of the engines' option tables that are reported under a rule."""
    found = sorted((files.folder() / "options").glob("*.toml"))
    for table in (options.load(path.stem) for path in found if not path.stem.endswith("-names")):
        for change in table.file.change:
            if RULES[change.effect] == rule:
                yield _case_object(table, change, ", ".join(change.names))
        for check in table.file.check:
            if check.rule == rule:
                yield _case_object(table, check, re.sub(r"\{(\w+)\}", "…", check.saw))


def _case_object(table: OptionTable, row: OptionChange | OptionRule, what: str) -> dict[str, str]:
    becomes = row.becomes if isinstance(row, OptionChange) else ""
    return {
        "engine": table.head.engine,
        "what": what,
        "since": row.since,
        "until": row.until,
        "why": row.why,
        "fix": row.fix or (f"Use {becomes}." if becomes else ""),
        "source": row.source,
    }


def case_window(case: Mapping[str, str]) -> str:
    since = f"from {case['since']}" if case["since"] else ""
    until = f"before {case['until']}" if case["until"] else ""
    return f"{since} {until}".strip() or "all versions"


def _case(case: Mapping[str, str]) -> str:
    when = case_window(case)
    return f"{case['engine']}, {when}: {case['what']}. {case['why']} {case['fix']}".strip()


# ---- forms: many rules as a list, single ones in full ----


def _text(rows: Sequence[Row], whole: bool) -> str:
    if whole:
        return "\n\n".join(_text_of(*row) for row in rows)
    lines = []
    for row in rows:
        name, slug, owner, severity, reaction, versions = _cells(*row)
        head = f"{name}  {slug.ljust(24)} {owner.ljust(13)} {severity.ljust(8)}"
        lines.append(f"{head} {reaction.ljust(13)} {versions}".rstrip())
    return "\n".join(lines)


def _text_of(owner: str, rule: Rule | FileRule) -> str:
    lines = [click.style(f"{rule.id} {rule.slug}", bold=True) + f": {rule.title}"]
    lines += [f"  {name.ljust(9)} {value}" for name, value in _fields(owner, rule).items()]
    return "\n".join([*lines, *(f"  {_case(case)}" for case in cases(rule.id))])


def _markdown(rows: Sequence[Row], whole: bool) -> str:
    if whole:
        return "\n\n".join(_markdown_of(*row) for row in rows)
    lines = ["| id | rule | engine | severity | reaction | versions |", "|---|---|---|---|---|---|"]
    for row in rows:
        lines.append(table_row(map(md, _cells(*row))))
    return "\n".join(lines)


def _markdown_of(owner: str, rule: Rule | FileRule) -> str:
    lines = [f"## {rule.id} {rule.slug}: {md(rule.title)}", ""]
    lines += [f"- **{name}**: {md(value)}" for name, value in _fields(owner, rule).items()]
    return "\n".join([*lines, *(f"- {md(_case(case))}" for case in cases(rule.id))])


def _json(rows: Sequence[Row], whole: bool) -> str:
    body: dict[str, Any] = {"schema_version": SCHEMA_VERSION}
    if whole:
        return dumps({**body, "rules": [_object(*row, whole=True) for row in rows]})
    owners = dict.fromkeys(owner for owner, _ in rows if owner not in (EVERYONE, DEPLOY_FILES))
    body["engines"] = [_engine(book.load(name)) for name in owners]
    if about_files := [row for row in rows if row[0] == DEPLOY_FILES]:
        body["file_rules"] = [_object(*row) for row in about_files]
    about_pairs = [row for row in rows if row[0] != DEPLOY_FILES]
    return dumps({**body, "rules": [_object(*row) for row in about_pairs]})


def _object(owner: str, rule: Rule | FileRule, *, whole: bool = False) -> dict[str, Any]:
    if not isinstance(rule, Rule):
        body: dict[str, Any] = {
            "id": rule.id,
            "slug": rule.slug,
            "title": rule.title,
            "severity": str(rule.severity),
            "why": rule.why,
            "fix": rule.fix,
        }
        return {**body, "cases": list(cases(rule.id))} if whole else body
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


FORMATS: Mapping[str, Callable[[Sequence[Row], bool], str]] = {
    "text": _text,
    "json": _json,
    "markdown": _markdown,
}
"""Form -> rows as text; the second argument asks for each rule in full."""
