"""The rulebook as a folder of Markdown pages: one per engine, one for what holds everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from draftcheck.errors import ReadError
from draftcheck.report import filerules
from draftcheck.report.rules import KNOWN_BY, window
from draftcheck.rulebook import book, file_rules
from draftcheck.rulebook.book import Engine, Method, RepairRow, Rule

MADE = "<!-- Made by `draftcheck rules --pages`; change rules/{file}.toml instead. -->"
TRUTH = "every-engine"
FILES = "deploy-files"


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
    engines = [book.load(name) for name in book.engine_files()]
    pages = {"README.md": _index(engines)}
    for engine in engines:
        pages[f"{engine.id}.md"] = _engine(engine, book.engine_files()[engine.id])
    pages[f"{TRUTH}.md"] = _truth()
    pages[f"{FILES}.md"] = _files()
    return pages


def _index(engines: Sequence[Engine]) -> str:
    lines = [
        MADE.format(file="*"), "# The rulebook", "",
        "What each engine does with a target and a draft, version by version.", "",
        "| engine | versions read | methods | rules |", "|---|---|---|---|",
    ]  # fmt: skip
    for engine in engines:
        methods = ", ".join(f"`{name}`" for name in dict.fromkeys(m.id for m in engine.methods))
        rules = len({rule.id for rule in engine.rules})
        span = f"{engine.oldest} to {engine.checked} ({engine.checked_on})"
        lines.append(f"| [{engine.name}]({engine.id}.md) | {span} | {methods} | {rules} |")
    rules = len({rule.id for rule in book.truth()})
    lines.append(f"| [every engine]({TRUTH}.md) | | | {rules} |")
    lines.append(f"| [deploy files]({FILES}.md) | | | {len(file_rules.every())} |")
    return _text(lines)


def _engine(engine: Engine, file: str) -> str:
    lines = [
        MADE.format(file=file), f"# {engine.name}", "",
        f"Read from {engine.oldest} to {engine.checked}, on {engine.checked_on}. Newer versions"
        " are judged by the newest rules and marked as not verified.", "",
        "| method | takes | versions | known by | |", "|---|---|---|---|---|",
        *(_method(method) for method in engine.methods), "",
    ]  # fmt: skip
    return _text([*lines, *_rules(engine.rules), *_repairs(engine.repairs)])


def _truth() -> str:
    lines = [MADE.format(file="truth"), "# Every engine", "", "What no engine can make work.", ""]
    return _text([*lines, *_rules(book.truth()), *_repairs(book.truth_repairs())])


def _files() -> str:
    lines = [
        MADE.format(file="files, rules/gate and rules/options/*"), "# Deploy files", "",
        "What `draftcheck gate` says about a file itself, whatever pair it names: options and keys"
        " that the engine's version does not have, ignores, or understands differently.", "",
    ]  # fmt: skip
    return _text([*lines, *filerules.page(md)])


def _method(method: Method) -> str:
    takes = {"none": "no draft", "itself": "the target's own MTP layers"}
    drafts = ", ".join(takes.get(kind, kind) for kind in method.drafts)
    return (
        f"| `{method.id}` | {drafts} | {md(window(method))} | {KNOWN_BY[method.basis]}"
        f" | {md(method.summary)} |"
    )


def _rules(rules: Iterable[Rule]) -> Iterator[str]:
    ordered = sorted(rules, key=lambda rule: rule.id)  # stable: windows stay in their order
    for _, group in groupby(ordered, key=lambda rule: rule.id):
        rows = list(group)
        yield from (f"## {rows[0].id} {rows[0].slug}", "", md(rows[0].title) + ".", "")
        for row in rows:
            yield from _row(row)


def _row(rule: Rule) -> Iterator[str]:
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


def md(text: str) -> str:
    """Words of the rulebook, which are ours: only what Markdown would swallow is escaped."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"
