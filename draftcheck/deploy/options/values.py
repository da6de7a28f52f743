"""Values that are given, held against what the engine's version takes."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator

from draftcheck.deploy.options import edits
from draftcheck.deploy.options.findings import found
from draftcheck.deploy.options.given import GivenOption, parts
from draftcheck.deploy.options.tables import OptionsAtVersion, ValueChange, matches, near
from draftcheck.values.findings import Finding, Fix

NUMBERS = {"int": re.compile(r"[+-]?\d+"), "float": re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")}


def fits(text: str, values: Iterable[str]) -> bool:
    """Whether a value is one that a check names: ">3" (a number above), a glob, or plain text."""
    for value in values:
        if value.startswith(">"):
            number = NUMBERS["float"].match(text)
            if number is not None and float(number[0]) > float(value[1:]):
                return True
        elif value == text or fnmatch.fnmatchcase(text, value.replace("[", "[[]")):
            return True
    return False


def check(view: OptionsAtVersion, entry: GivenOption) -> Iterator[Finding]:
    """What is wrong with the value of one option."""
    option, value = entry.option, entry.value
    if option is None or value is None or value.unknown or entry.unset:
        return
    if option.number:
        yield from _number(entry, option.number)
    for part in parts(entry):
        row = _renamed(view, entry, part)
        if row is not None:
            yield _other_value(view, entry, part, row)
        else:
            yield from _choice(view, entry, part)


def _number(entry: GivenOption, kind: str) -> Iterator[Finding]:
    name, above, _ = kind.partition(">")
    whole = NUMBERS[name].match(entry.text.strip())
    if whole is None or (above and float(whole[0]) <= 0):
        wanted = {"int": "a whole number", "float": "a number"}[name]
        yield found(
            "FIL006", entry.at, f"{entry.word.text} {entry.text}",
            why="The engine stops when it reads the value.",
            fix=f"Give {wanted}{' above 0' if above else ''}.",
        )  # fmt: skip


def _renamed(view: OptionsAtVersion, entry: GivenOption, part: str) -> ValueChange | None:
    names = entry.option.names if entry.option else ()
    text = part.upper() if view.table.head.upper else part
    for row in view.table.values:
        hit = row.value == text or (row.pattern and re.fullmatch(row.pattern, text))
        if hit and row.option in names and view.holds(row):
            return row
    return None


def _other_value(
    view: OptionsAtVersion, entry: GivenOption, part: str, row: ValueChange
) -> Finding:
    fix = row.fix or f"Write {row.becomes}."
    changes: tuple[Fix, ...] = ()
    if row.becomes and entry.value is not None:
        changes = edits.swap(entry.value, part, row.becomes, safe=row.safe)
    why = f"{view.title} does not take {part}."
    if row.deprecated:
        why = f"The engine takes it as {row.becomes} and logs that it is deprecated."
    return found(
        "FIL005" if row.deprecated else "FIL006", entry.at, f"{entry.word.text} {entry.text}",
        why=why, fix=fix, source=row.source, changes=changes,
    )  # fmt: skip


def _choice(view: OptionsAtVersion, entry: GivenOption, part: str) -> Iterator[Finding]:
    option = entry.option
    choices = view.choices(entry.name)
    if option is None or not choices or (option.also and matches(option.also, part)):
        return
    if option.checked_since and not view.table.covers(view.version, option.checked_since, ""):
        return
    text, known = part.strip(), choices
    if not option.exact:
        text, known = text.lower(), [choice.lower() for choice in choices]
    if text in known:
        return
    when = _when(view, option.names, part)
    meant = near(text, known)
    shown = choices[known.index(meant)] if meant else None
    changes: tuple[Fix, ...] = ()
    if shown and entry.value is not None:
        changes = edits.swap(entry.value, part, shown, safe=False)
    listed = ", ".join(choices[:14]) + (" …" if len(choices) > 14 else "")
    yield found(
        "FIL006", entry.at, f"{entry.word.text} {entry.text} in {view.title}",
        why=when or f"The engine stops: it knows {listed}.",
        fix=f"Did you mean {shown}?" if shown else f"Give one of {listed}.",
        changes=changes, source=view.source,
    )  # fmt: skip


def _when(view: OptionsAtVersion, names: tuple[str, ...], part: str) -> str:
    """Which versions take a value that this one does not."""
    for name in names:
        span = view.ever(f"={name}={part}")
        if span is not None and span.until and view.now(f"={name}={part}") is None:
            return f"{part} is a value from {span.since} until {span.until}."
        if span is not None and span.since:
            return f"{part} is a value from {span.since} on."
    return ""
