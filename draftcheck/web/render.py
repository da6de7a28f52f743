"""The JSON that a command printed -> the part of the page that shows it.

The page is made from the contract alone, so whatever it shows is in the JSON that it offers for
download. Text of models is made visible, then escaped by the templates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from draftcheck.report import badge, text
from draftcheck.report.layout import version_window
from draftcheck.report.memory import LETTERS
from draftcheck.report.safe import safe, safe_block
from draftcheck.values.sizes import byte_size, short_count
from draftcheck.values.words import Outcome, Reaction, Relation, Severity, Verdict

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parent / "templates"
WIDE = 1000
"""Units of the memory bar."""
PREFIXES = ("error: ", "hint: ", "warning: ")
HERE = {
    "log in (hf auth login) or set HF_TOKEN": "put a token into the field Gated or private models",
    "Log in again (hf auth login), or correct or unset HF_TOKEN": "Correct the token, or empty it",
    " (there is no such local path either)": "",
}
"""What a command line can do -> what a page can."""
FAILED = "draftcheck itself failed: this is a bug."


def answer(kind: str, out: str, code: int, lines: Sequence[str]) -> dict[str, Any]:
    """The part of the page, its first line as plain text, and perhaps a badge."""
    said = [_split(line) for line in lines]
    if not out.strip():
        first = next((words for word, words in said if word == "error"), FAILED)
        bug = "\n".join(lines) if code == 70 else ""
        return {"html": template("error").render(said=said, first=first, bug=bug), "first": first}
    found: Any = json.loads(out, object_hook=lambda entry: SimpleNamespace(**entry))
    values = VALUES[kind](found)
    html = template(kind).render(found=found, said=said, **values)
    return {"html": html, "first": values["first"], "badge": values.get("badge")}


def _split(line: str) -> tuple[str, str]:
    """error: what -> the word and the rest; other lines go on from the one before."""
    for there, here in HERE.items():
        line = line.replace(there, here)
    for prefix in PREFIXES:
        if line.startswith(prefix):
            return prefix[:-2], line.removeprefix(prefix)
    return "", line


def _pair(found: Any) -> dict[str, Any]:
    verdict, draft = Verdict(found.verdict), found.draft
    said = text.ANSWERS if draft is not None else text.ALONE
    names = {"target": safe(found.target.ref), "draft": safe(draft.ref) if draft else ""}
    shown = text.group(found.engines)
    unread: dict[str, list[str]] = {}
    for finding, _ in shown:
        if finding.outcome == Outcome.UNKNOWN and finding.severity != Severity.NOTE:
            unread.setdefault(finding.saw, []).append(finding.rule)
    fits = [entry.memory for entry in found.engines if entry.memory is not None]
    return {
        "first": f"{verdict}: {said[verdict].format(**names)}",
        "sentence": said[verdict].format(**names),
        "relation": text.RELATIONS[Relation(found.vocabulary.relation)],
        "failed": [row for row in shown if row[0].outcome == Outcome.FAIL],
        "passed": [row for row in shown if row[0].outcome == Outcome.OK],
        "unread": unread,
        "repairs": text.ways_out(found.engines),
        "ready": [entry for entry in found.engines if entry.setup],
        "fits": sorted(fits, key=lambda fit: fit.fits is None),
        "notes": [(entry.engine, note) for entry in found.engines for note in entry.notes],
        "badge": badge.svg(
            names["target"],
            names["draft"] or None,
            verdict,
            [(e.engine, e.version) for e in found.engines if e.verdict == verdict],
        ),
    }


def bar(device: Any) -> list[tuple[str, float, float, str]]:
    """The parts of a GPU's memory, in order: a letter for the colour, start, width and words."""
    scale = WIDE / max(device.available_bytes, device.required_bytes, 1)
    found, start = [], 0.0
    for part in sorted(device.parts, key=lambda p: LETTERS.get((p.owner, p.name), "e") == "e"):
        letter = LETTERS.get((part.owner, part.name), "e")
        wide = part.bytes * scale
        name = part.name if part.owner == "engine" else f"{part.owner} {part.name}"
        found.append((letter, start, wide, f"{name} {byte_size(part.bytes)}"))
        start += wide
    return found


def _why(found: Any) -> dict[str, Any]:
    count = len(found.messages)
    first = f"{count} message{'s' * (count != 1)} explained" if count else "nothing was recognised"
    return {"first": first}


def _gate(found: Any) -> dict[str, Any]:
    order = list(Severity)
    ordered = sorted(
        (entry for entry in found.findings if not entry.ignored),
        key=lambda entry: (entry.outcome != Outcome.FAIL, order.index(entry.severity)),
    )
    count = len(ordered)
    first = f"{found.verdict}: {count} finding{'s' * (count != 1)}"
    if found.nothing_to_check:
        first = "nothing that speculates was found in this text"
    return {"first": first, "ordered": ordered}


VALUES: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "pair": _pair,
    "why": _why,
    "gate": _gate,
    "known": lambda found: {"first": found.answer},
    "rule": lambda found: {"first": found.rules[0].title if found.rules else "no such rule"},
}


@cache
def environment() -> Environment:
    # Imported here: the command line has no use for it.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        text=lambda value: safe(str(value), 1000),
        block=safe_block,
        size=byte_size,
        count=short_count,
        num=lambda value: "not read" if value is None else f"{value:,}",
        reaction=lambda word: text.REACTIONS[Reaction(word)],
        words=lambda word: word.replace("-", " "),
        bar=bar,
        window=lambda rule: version_window(rule.since, rule.until) or "all versions",
    )
    return made


def template(name: str) -> Any:
    return environment().get_template(f"{name}.html")
