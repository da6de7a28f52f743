"""The rulebook as pages: one per engine, one for what holds everywhere, one for deploy files.

`engine_page` and `index` say what stands on a page. The templates of the site lay it out as HTML;
`render` writes it as the Markdown of docs/rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from draftcheck.errors import ReadError
from draftcheck.report.layout import KNOWN_BY, table_row
from draftcheck.report.rules import DEPLOY_FILES, case_window, cases, window
from draftcheck.rulebook import book, file_rules
from draftcheck.rulebook.book import Method, RepairRow, Rule

MADE = "<!-- Made by `draftcheck rules --pages`; change rules/{file}.toml instead. -->"
TRUTH = "every-engine"
FILES = "deploy-files"
TAKES = {"none": "no draft", "itself": "the target's own MTP layers"}


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
    """The pages about pairs, in the order of reports."""
    return [engine_page(name) for name in (*book.engine_files(), None)]


def engine_page(name: str | None) -> RulePage:
    """One engine's page; None: what holds for every engine."""
    if name is None:
        rules, repairs = _grouped(book.truth()), book.truth_repairs()
        return RulePage(TRUTH, "Every engine", "What no engine can make work.", rules, repairs)
    engine = book.load(name)
    return RulePage(
        engine.id,
        engine.name,
        f"Read from {engine.oldest} to {engine.checked}, on {engine.checked_on}. Newer versions"
        " are judged by the newest rules and marked as not verified.",
        _grouped(engine.rules),
        engine.repairs,
        engine.methods,
        f"{engine.oldest} to {engine.checked} ({engine.checked_on})",
    )


def _grouped(rules: Sequence[Rule]) -> list[list[Rule]]:
    ordered = sorted(rules, key=lambda rule: rule.id)  # stable: windows stay in their order
    return [list(group) for _, group in groupby(ordered, key=lambda rule: rule.id)]


def takes(method: Method) -> str:
    """The kinds of draft that a method takes, in words."""
    return ", ".join(TAKES.get(kind, kind) for kind in method.drafts)


# ---- Markdown ----


def write(folder: Path) -> list[str]:
    """Write all pages; returns their names."""
    pages = render()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ReadError(f"{error.filename}: cannot be written: {error.strerror}") from error
    return list(pages)


def render() -> dict[str, str]:
    """File name -> text."""
    pages = index()
    made = {"README.md": _index(pages)}
    made |= {f"{page.id}.md": _markdown(page) for page in pages}
    made[f"{FILES}.md"] = _files()
    return {name: "\n".join(lines).rstrip() + "\n" for name, lines in made.items()}


def _index(pages: Iterable[RulePage]) -> Iterator[str]:
    yield from (MADE.format(file="*"), "# The rulebook", "")
    yield from ("What each engine does with a target and a draft, version by version.", "")
    yield from ("| engine | versions read | methods | rules |", "|---|---|---|---|")
    for page in pages:
        methods = ", ".join(f"`{name}`" for name in page.method_ids)
        name = page.name if page.methods else page.name.lower()
        yield table_row([f"[{name}]({page.id}.md)", page.span, methods, str(len(page.rules))])
    yield table_row([f"[{DEPLOY_FILES}]({FILES}.md)", "", "", str(len(file_rules.every()))])


def _markdown(page: RulePage) -> Iterator[str]:
    file = book.engine_files().get(page.id, book.TRUTH)
    yield from (MADE.format(file=file), f"# {page.name}", "", page.lead, "")
    if page.methods:
        yield from ("| method | takes | versions | known by | |", "|---|---|---|---|---|")
        for method in page.methods:
            cells = takes(method), md(window(method)), KNOWN_BY[method.basis], md(method.summary)
            yield f"| `{method.id}` | {' | '.join(cells)} |"
        yield ""
    for rows in page.rules:
        yield from (f"## {rows[0].id} {rows[0].slug}", "", md(rows[0].title) + ".", "")
        for rule in rows:
            yield from _rule(rule)
    yield from _repairs(page.repairs)


def _rule(rule: Rule) -> Iterator[str]:
    methods = ", ".join(f"`{name}`" for name in rule.methods)
    yield f"- **{md(window(rule))}**{': ' + methods if methods else ''}"
    yield f"  - {rule.severity}, reaction `{rule.reaction}`"
    if rule.engine_says:
        yield f"  - it says: {md(rule.engine_says)}"
    yield f"  - why: {md(rule.why)}"
    yield f"  - fix: {md(rule.fix)}"
    yield f"  - known by {KNOWN_BY[rule.basis]}: {md(rule.source)}"
    yield ""


def _repairs(rows: Sequence[RepairRow]) -> Iterator[str]:
    if rows:
        yield from ("## Ways out", "")
    for row in rows:
        yield f"- after {', '.join(row.rules)}: {md(row.title)} ({md(row.source)})"
        if row.text:
            yield from ("", "  ```", *(f"  {line}" for line in row.text.strip().splitlines()))
            yield from ("  ```", "")


def _files() -> Iterator[str]:
    yield from (MADE.format(file="files, rules/gate and rules/options/*"), "# Deploy files", "")
    yield (
        "What `draftcheck gate` says about a file itself, whatever pair it names: options and keys"
        " that the engine's version does not have, ignores, or understands differently."
    )
    yield ""
    for row in file_rules.every():
        yield from (f"## {row.id} {row.slug}", "")
        yield from (md(f"{row.title} ({row.severity}). {row.why} {row.fix}"), "")
        for case in cases(row.id):
            yield f"- **{case['engine']}**, {case_window(case)}: `{case['what']}`"
            advice = f"{case['why']} {case['fix']}".strip()
            yield f"  - {md(advice)}"
            yield f"  - source: {md(case['source'])}"
        yield ""


def md(text: str) -> str:
    """Words of the rulebook, which are ours: only what Markdown would swallow is escaped."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
