"""The rulebook for people and programs: a list, single rules in full, or pages.

A row is whose rule it is and the rule. Rules of engines say what happens to a pair and have a
window of versions, so one id may have several rows; rules about deploy files have one row, and
their cases stand in the option tables of the engines.

`index` says what stands on the pages about pairs. The templates of the site lay them out as HTML;
`render_pages` writes them, and one about deploy files, as the Markdown of docs/rules.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from draftcheck import atomic
from draftcheck.deploy.options import tables as options
from draftcheck.deploy.options.checks import RULES
from draftcheck.deploy.options.tables import OptionChange, OptionRule, OptionTable
from draftcheck.errors import ReadError, UsageError
from draftcheck.judge.checks import CHECKS
from draftcheck.report.json import HEAD, dumps, picked
from draftcheck.report.layout import KNOWN_BY, padded, plural, table_row, version_window
from draftcheck.report.safe import md
from draftcheck.rulebook import book, file_rules, files
from draftcheck.rulebook.book import Method, RepairRow, Rule
from draftcheck.rulebook.file_rules import FileRule

Row = tuple[str, Rule | FileRule]
EVERYONE = "every engine"
DEPLOY_FILES = "deploy files"
MADE = "<!-- Made by `draftcheck rules --pages`; change rules/{file}.toml instead. -->"
TRUTH = "every-engine"
FILES = "deploy-files"
COLUMNS = ("id", "rule", "", "severity", "reaction", "versions")
SUBJECTS = {
    "vocabulary": "vocabularies",
    "model": "models and their weights",
    "heads": "heads",
    "listed": "classes, types and schemes that a version knows",
    "llama": "what the loader takes and compares",
    "hardware": "GPUs, types and memory",
}
"""Module of checks -> what its rules look at."""
TAKES = {
    "none": "no draft",
    "itself": "the target's own MTP layers",
    "unstated-itself": "tensors mtp.* in the target's GGUF file",
    "holds-mtp": "a whole GGUF file that has MTP layers",
    "holds-dspark": "a whole model that has DSpark stages",
}


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
                gone = f" (gone in {change.gone})" if change.gone else ""
                yield _case_object(table, change, f"{', '.join(change.names)}{gone}")
        for check in table.file.check:
            if check.rule == rule:
                yield _case_object(table, check, re.sub(r"\{(\w+)\}", "…", check.saw))


def _case_object(table: OptionTable, row: OptionChange | OptionRule, what: str) -> dict[str, str]:
    becomes = row.becomes if isinstance(row, OptionChange) else ""
    return {
        "engine": table.head.engine,
        "what": what,
        **picked(row, "since", "until", "why"),
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
    lines = []
    for owner, rule in rows:
        if whole:
            lines.append(click.style(f"{rule.id} {rule.slug}", bold=True) + f": {rule.title}")
            lines += [f"  {name.ljust(9)} {value}" for name, value in _fields(owner, rule).items()]
            lines += [*(f"  {_case(case)}" for case in cases(rule.id)), ""]
        else:
            name, slug, _, severity, reaction, versions = _cells(owner, rule)
            head = f"{name}  {slug.ljust(24)} {owner.ljust(13)} {severity.ljust(8)}"
            lines.append(f"{head} {reaction.ljust(13)} {versions}".rstrip())
    return "\n".join(lines[:-1] if whole else lines)


def grouped(rows: Sequence[Row]) -> Iterator[str]:
    """The list for somebody who reads it: by engine, then by what the rules look at."""
    subjects = [*SUBJECTS.values(), ""]
    ordered = sorted(rows, key=lambda row: subjects.index(_subject(row[1])))
    for owner in dict.fromkeys(owner for owner, _ in rows):
        mine = [rule for whose, rule in ordered if whose == owner]
        count = len({rule.id for rule in mine})
        read = ""
        if owner in book.engine_files():
            read = f", read from {book.load(owner).oldest} to {book.load(owner).checked}"
        yield click.style(f"{owner}: {count} {plural(count, 'rule')}{read}", bold=True) + "\n"
        table = padded([COLUMNS, *(_cells("", rule) for rule in mine)])
        for cells in table:
            del cells[2]  # the engine stands above
        yield "  " + "  ".join(table[0]).rstrip() + "\n"
        last = ""
        for rule, cells in zip(mine, table[1:], strict=True):
            if (subject := _subject(rule)) != last:
                last = subject
                yield click.style(f"  {subject}", underline=True) + "\n"
            yield "  " + "  ".join(cells).rstrip() + "\n"
        yield "\n"


def _subject(rule: Rule | FileRule) -> str:
    if not isinstance(rule, Rule):
        return ""
    return SUBJECTS[CHECKS[rule.check].__module__.rpartition(".")[2]]


def _markdown(rows: Sequence[Row], whole: bool) -> str:
    if not whole:
        head = [
            "| id | rule | engine | severity | reaction | versions |",
            "|---|---|---|---|---|---|",
        ]
        return "\n".join([*head, *(table_row(map(md, _cells(*row))) for row in rows)])
    lines = []
    for owner, rule in rows:
        lines += [f"## {rule.id} {rule.slug}: {md(rule.title)}", ""]
        lines += [f"- **{name}**: {md(value)}" for name, value in _fields(owner, rule).items()]
        lines += [*(f"- {md(_case(case))}" for case in cases(rule.id)), ""]
    return "\n".join(lines[:-1])


def _json(rows: Sequence[Row], whole: bool) -> str:
    body: dict[str, Any] = {**HEAD}
    if whole:
        return dumps({**body, "rules": [_object(*row, whole=True) for row in rows]})
    owners = dict.fromkeys(owner for owner, _ in rows if owner not in (EVERYONE, DEPLOY_FILES))
    keys = ("method=id", "drafts", "formats", "since", "until", "basis", "summary")
    body["engines"] = [
        {
            **picked(engine, "engine=id", "name", "oldest", "checked", "checked_on"),
            "methods": [picked(method, *keys) for method in engine.methods],
        }
        for engine in map(book.load, owners)
    ]
    if about_files := [row for row in rows if row[0] == DEPLOY_FILES]:
        body["file_rules"] = [_object(*row) for row in about_files]
    about_pairs = [row for row in rows if row[0] != DEPLOY_FILES]
    return dumps({**body, "rules": [_object(*row) for row in about_pairs]})


def _object(owner: str, rule: Rule | FileRule, *, whole: bool = False) -> dict[str, Any]:
    if not isinstance(rule, Rule):
        body = picked(rule, "id", "slug", "title", "severity", "why", "fix")
        return {**body, "cases": list(cases(rule.id))} if whole else body
    return {
        **picked(rule, "id", "slug"),
        "engine": None if owner == EVERYONE else owner,
        **picked(
            rule, "title", "methods", "since", "until", "reaction", "severity", "check", "params",
            "engine_says", "why", "fix", "source", "basis",
        ),
    }  # fmt: skip


FORMATS: Mapping[str, Callable[[Sequence[Row], bool], str]] = {
    "text": _text,
    "json": _json,
    "markdown": _markdown,
}
"""Form -> rows as text; the second argument asks for each rule in full."""


# ---- pages: one per engine, one for what holds everywhere, one for deploy files ----


@dataclass(frozen=True, slots=True)
class RulePage:
    """What stands on the page of an engine."""

    id: str
    """Of the engine, or every-engine."""
    name: str
    lead: str
    rules: Sequence[Sequence[Rule]]
    """Rows of one id together: one rule in several windows."""
    repairs: Sequence[RepairRow]
    methods: Sequence[Method] = ()
    span: str = ""
    """The versions whose source was read."""

    @property
    def method_ids(self) -> list[str]:
        return list(dict.fromkeys(method.id for method in self.methods))


def index() -> list[RulePage]:
    """The pages about pairs, in the order of reports; the last is what holds for every engine."""
    pages = [
        RulePage(
            engine.id,
            engine.name,
            f"Read from {engine.oldest} to {engine.checked}, on {engine.checked_on}. Newer versions"
            " are judged by the newest rules and marked as not verified.",
            _grouped(engine.rules),
            engine.repairs,
            engine.methods,
            f"{engine.oldest} to {engine.checked} ({engine.checked_on})",
        )
        for engine in map(book.load, book.engine_files())
    ]
    rules, repairs = _grouped(book.truth()), book.truth_repairs()
    lead = "What no engine can make work."
    return [*pages, RulePage(TRUTH, "Every engine", lead, rules, repairs)]


def _grouped(rules: Sequence[Rule]) -> list[list[Rule]]:
    ordered = sorted(rules, key=lambda rule: rule.id)  # stable: windows stay in their order
    return [list(group) for _, group in groupby(ordered, key=lambda rule: rule.id)]


def takes(method: Method) -> str:
    return ", ".join(TAKES.get(kind, kind) for kind in method.drafts)


def write_pages(folder: Path) -> list[str]:
    """Write all pages; returns their names."""
    pages = render_pages()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():
            atomic.write(folder / name, text.encode())
    except OSError as error:
        raise ReadError(f"{error.filename}: cannot be written: {error.strerror}") from error
    return list(pages)


def render_pages() -> dict[str, str]:
    pages = index()
    made = {"README.md": _pages_index(pages)}
    made |= {f"{page.id}.md": _page(page) for page in pages}
    made[f"{FILES}.md"] = _page_of_files()
    return {name: "\n".join(lines).rstrip() + "\n" for name, lines in made.items()}


def _pages_index(pages: Iterable[RulePage]) -> Iterator[str]:
    yield from (MADE.format(file="*"), "# The rulebook", "")
    yield from ("What each engine does with a target and a draft, version by version.", "")
    yield from ("| engine | versions read | methods | rules |", "|---|---|---|---|")
    for page in pages:
        methods = ", ".join(f"`{name}`" for name in page.method_ids)
        name = page.name if page.methods else page.name.lower()
        yield table_row([f"[{name}]({page.id}.md)", page.span, methods, str(len(page.rules))])
    yield table_row([f"[{DEPLOY_FILES}]({FILES}.md)", "", "", str(len(file_rules.every()))])


def _page(page: RulePage) -> Iterator[str]:
    file = book.engine_files().get(page.id, book.TRUTH)
    yield from (MADE.format(file=file), f"# {page.name}", "", page.lead, "")
    if page.methods:
        yield from ("| method | takes | versions | known by | |", "|---|---|---|---|---|")
        for method in page.methods:
            versions, known_by = ours(window(method)), KNOWN_BY[method.basis]
            cells = (takes(method), versions, known_by, ours(method.summary))
            yield f"| `{method.id}` | {' | '.join(cells)} |"
        yield ""
    for rows in page.rules:
        yield from (f"## {rows[0].id} {rows[0].slug}", "", ours(rows[0].title) + ".", "")
        for rule in rows:
            methods = ", ".join(f"`{name}`" for name in rule.methods)
            yield f"- **{ours(window(rule))}**{': ' + methods if methods else ''}"
            yield f"  - {rule.severity}, reaction `{rule.reaction}`"
            if rule.engine_says:
                yield f"  - it says: {ours(rule.engine_says)}"
            yield f"  - why: {ours(rule.why)}"
            yield f"  - fix: {ours(rule.fix)}"
            yield f"  - known by {KNOWN_BY[rule.basis]}: {ours(rule.source)}"
            yield ""
    if page.repairs:
        yield from ("## Ways out", "")
    for row in page.repairs:
        yield f"- after {', '.join(row.rules)}: {ours(row.title)} ({ours(row.source)})"
        if row.text:
            yield from ("", "  ```", *(f"  {line}" for line in row.text.strip().splitlines()))
            yield from ("  ```", "")


def _page_of_files() -> Iterator[str]:
    yield from (MADE.format(file="files, rules/gate and rules/options/*"), "# Deploy files", "")
    yield (
        "What `draftcheck gate` says about a file itself, whatever pair it names: options and keys"
        " that the engine's version does not have, ignores, or understands differently."
    )
    yield ""
    for row in file_rules.every():
        yield from (f"## {row.id} {row.slug}", "")
        yield from (ours(f"{row.title} ({row.severity}). {row.why} {row.fix}"), "")
        for case in cases(row.id):
            yield f"- **{case['engine']}**, {case_window(case)}: `{case['what']}`"
            advice = f"{case['why']} {case['fix']}".strip()
            yield f"  - {ours(advice)}"
            yield f"  - source: {ours(case['source'])}"
        yield ""


def ours(text: str) -> str:
    """Words of the rulebook, which are ours: only what Markdown would swallow is escaped."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
