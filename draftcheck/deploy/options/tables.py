"""rules/options/*.toml -> what an option of an engine means, and in which versions it exists.

Knows no engine and reads no deploy file: options are looked up by name and version.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

import msgspec

from draftcheck import versions
from draftcheck.errors import UsageError
from draftcheck.rulebook import files
from draftcheck.rulebook.files import Names, RuleRow, Text
from draftcheck.versions import Key


class VersionWindow(RuleRow, frozen=True, array_like=True):
    """Where some names exist: since <= version < until; an empty bound is open.

    In options/*-names.toml a row of six columns.
    """

    kind: Literal["option", "env", "key", "value", "removed"]
    takes: Literal["0", "1", "2", "?", "n"]
    """How many words follow it; ?: one or none, n: any number."""
    programs: str
    """Letters of the programs that have it; empty: all."""
    since: str
    until: str
    names: str
    """Separated by blanks."""


class EngineOption(RuleRow, frozen=True):
    """What some names mean."""

    names: Names
    env: Names = ()
    means: str = ""
    form: Literal["", "path", "hub", "url", "folder", "ollama", "served"] = ""
    """How its value names a model: path, hub, url, folder, ollama, served."""
    folder: str = ""
    method: str = ""
    """The method that giving it asks for."""
    turns: Mapping[str, str] = {}
    """What the named method becomes when this switch is on."""
    object: bool = False
    """Its value is a JSON object whose keys are options of their own."""
    number: Literal["", "int", "int>0", "float"] = ""
    """What kind of number its value is; >0: above zero."""
    choices: Names = ()
    also: str = ""
    """A pattern of values that are fine besides the choices."""
    exact: bool = False
    checked_since: str = ""
    split: str = ""
    off: Names = ()
    on: Names = ()
    """Values with which a switch is on; empty: all but those that say no."""
    default_tag: str = ""
    not_a_model: Names = ()


class OptionChange(RuleRow, frozen=True):
    """What became of some names, and what takes their place."""

    names: Names
    effect: Literal[
        "gone", "too-new", "never", "ignored", "deprecated", "old-layout", "means-other"
    ]
    why: Text
    source: Text
    fix: str = ""
    becomes: str = ""
    safe: bool = False
    since: str = ""
    until: str = ""
    gone: str = ""
    """Of a deprecated name: the first version that no longer takes it."""
    severity: Literal["", "error", "warning", "note"] = ""
    given: Names = ()


class ValueChange(RuleRow, frozen=True):
    """A value that this window does not take, or takes under another name."""

    option: Text
    source: Text
    value: str = ""
    pattern: str = ""
    becomes: str = ""
    safe: bool = False
    deprecated: bool = False
    fix: str = ""
    since: str = ""
    until: str = ""


class OptionRule(RuleRow, frozen=True):
    """Options that must, or must not, be given together."""

    rule: Text
    given: Names
    at: Text
    saw: Text
    why: Text
    fix: Text
    source: Text
    missing: Names = ()
    where: Mapping[str, Names] = {}
    unless: Mapping[str, Names] = {}
    whole: bool = False
    """All values of a list must be among `where`, not one of them."""
    if_draft: str = ""
    draft_told: bool = False
    """Only where the draft's name stands in the file: it may tell the method."""
    unless_draft: str = ""
    insert: str = ""
    insert_key: str = ""
    safe: bool = False
    severity: Literal["", "error", "warning", "note"] = ""
    since: str = ""
    until: str = ""


class ValuesOfOption(RuleRow, frozen=True):
    """Values that an option takes in a window."""

    option: Text
    values: Names
    since: str = ""
    until: str = ""


class OptionHead(RuleRow, frozen=True):
    """Whose options these are, and how its command line is read."""

    engine: Text
    versions: Literal["build", "pep440"]
    oldest: Text
    checked: Text
    style: Literal["argparse", "plain", "keys"]
    ids: Names
    """The rulebook's methods that a file can ask for."""
    names: str | None = None
    """The file that lists every name with its versions."""
    complete: bool = False
    """Whether a name that is not listed does not exist."""
    refuses: str | None = None
    """What the engine says about an unknown option; None: it goes on in silence."""
    env: str = ""
    """What the variables that are options begin with."""
    objects: Names = ()
    """Options whose value is a JSON object."""
    sections: Names = ()
    plugins: Names = ()
    """Methods of plug-ins, which have keys of their own."""
    same_dashes: bool = False
    """--a_b is --a-b."""
    upper: bool = False
    """Values are compared in capitals."""
    shared_context: bool = False
    """The context is for all sequences together."""
    switch: str = ""


class OptionFile(RuleRow, frozen=True):
    """rules/options/ENGINE.toml."""

    table: OptionHead
    option: tuple[EngineOption, ...]
    change: tuple[OptionChange, ...] = ()
    value: tuple[ValueChange, ...] = ()
    values: tuple[ValuesOfOption, ...] = ()
    check: tuple[OptionRule, ...] = ()
    keys: Mapping[str, Names] = {}
    methods: Mapping[str, str] = {}
    alone: Mapping[str, str] = {}
    programs: Mapping[str, str] = {}


class NamesFile(RuleRow, frozen=True):
    """rules/options/ENGINE-names.toml."""

    names: tuple[VersionWindow, ...]


@dataclass(frozen=True, slots=True)
class OptionTable:
    """Everything that rules/options says about one engine, ready to be looked up."""

    name: str
    head: OptionHead
    file: OptionFile
    order: Key
    spans: Mapping[str, tuple[VersionWindow, ...]]
    options: Mapping[str, EngineOption]

    def covers(self, version: str, since: str, until: str) -> bool:
        return versions.covers(self.order, version, since or None, until or None)


@cache
def load(name: str) -> OptionTable:
    file = files.read(f"options/{name}", OptionFile)
    order = lru_cache(maxsize=4096)(versions.ORDERS[file.table.versions])
    options = {name: option for option in file.option for name in (*option.names, *option.env)}
    return OptionTable(name, file.table, file, order, _spans(file), options)


def _spans(file: OptionFile) -> dict[str, tuple[VersionWindow, ...]]:
    found: dict[str, list[VersionWindow]] = {}
    listed = file.table.names
    for span in files.read(f"options/{listed}", NamesFile).names if listed else ():
        for name in span.names.split():
            # --spec-type=none is a value that exists, and no option of that name.
            key = f"={name}" if span.kind == "value" else name
            found.setdefault(key, []).append(span)
    for group in file.values:
        span = VersionWindow("value", "1", "", group.since, group.until, "")
        for value in group.values:
            found.setdefault(f"={group.option}={value}", []).append(span)
    for part, keys in file.keys.items():
        for key in keys:
            span = VersionWindow("key", "1", "", "", "", "")
            found.setdefault(f"{part}.{key}" if part else key, []).append(span)
    return {name: tuple(spans) for name, spans in found.items()}


@dataclass(frozen=True, slots=True)
class OptionsAtVersion:
    """A table as one version, and one program of the engine, has it."""

    table: OptionTable
    version: str
    letter: str = ""
    sure: bool = True
    """Whether the version is known, and one that was read."""
    told: bool = True
    """Whether the version is known; if not, this is the newest that was read."""

    @property
    def title(self) -> str:
        """The engine and the version that a finding speaks of."""
        text = f"{self.table.head.engine} {self.version}"
        return text if self.sure else f"{text}, the newest that was read"

    def window(self, name: str) -> tuple[str, str]:
        """The first version that has a name, and the one that no longer has it; empty: open."""
        spans = [span for span in self.table.spans.get(name, ()) if span.kind != "removed"]
        if not spans:
            return "", ""
        order = self.table.order
        since = "" if any(not s.since for s in spans) else min((s.since for s in spans), key=order)
        until = "" if any(not s.until for s in spans) else max((s.until for s in spans), key=order)
        return since, until

    @property
    def source(self) -> str:
        return f"rules/options/{self.table.head.names or self.table.name}.toml"

    def now(self, name: str) -> VersionWindow | None:
        """Where this version has it; None: it does not."""
        for span in self.table.spans.get(name, ()):
            there = span.kind != "removed" and self._fits(span)
            if there and self.table.covers(self.version, span.since, span.until):
                return span
        return None

    def ever(self, name: str) -> VersionWindow | None:
        """Where any version, or another program, has it."""
        spans = [s for s in self.table.spans.get(name, ()) if s.kind != "removed"]
        fitting = [s for s in spans if self._fits(s)] or spans
        return fitting[-1] if fitting else None

    def _fits(self, span: VersionWindow) -> bool:
        return not self.letter or not span.programs or self.letter in span.programs

    def holds(self, row: OptionChange | ValueChange | OptionRule) -> bool:
        return self.table.covers(self.version, row.since, row.until)

    def option(self, name: str) -> EngineOption | None:
        return self.table.options.get(name)

    def names(self, kind: str) -> list[str]:
        """Everything of a kind that this version has."""
        return list(_listed(self.table.name, self.version, self.letter, kind))

    def beginning_with(self, name: str) -> set[str]:
        """The options that argparse takes a beginning of a name for; it wants exactly one."""
        if self.table.head.style != "argparse":
            return set()
        return {other for other in self.names("option") if other.startswith(name)}

    def choices(self, name: str) -> list[str]:
        """The values that this version takes; empty: any."""
        option = self.option(name)
        if option is None:
            return []
        known = [
            listed.removeprefix(f"={other}=")
            for other in option.names
            for listed in self.names("value")
            if listed.startswith(f"={other}=")
        ]
        return known or list(option.choices)

    def meant(self, name: str) -> EngineOption | None:
        """What a name means, or what has taken the place of a name that is gone or never was."""
        option = self.option(name)
        change = self.change(name) if option is None else None
        if change is None or not change.becomes:
            return option
        part, dot, _ = name.rpartition(".")
        return self.option(f"{part}.{change.becomes}" if dot else change.becomes)

    def change(self, name: str) -> OptionChange | None:
        """What became of this name, in this version."""
        rows = (c for c in self.table.file.change if name in c.names and self.holds(c))
        row = next(rows, None)
        if row is None or not row.gone or not self.table.covers(self.version, row.gone, ""):
            return row
        why = f"Deprecated since {row.since}, gone since {row.gone}: the engine stops."
        return msgspec.structs.replace(row, effect="gone", since=row.gone, why=why)


@cache
def _listed(table: str, version: str, letter: str, kind: str) -> tuple[str, ...]:
    view = OptionsAtVersion(load(table), version, letter)
    return tuple(
        name for name in view.table.spans if (span := view.now(name)) and span.kind == kind
    )


def view(table: OptionTable, version: str | None, letter: str = "") -> OptionsAtVersion:
    """A table at a version; without one, at the newest that was read."""
    newest = table.head.checked
    with contextlib.suppress(UsageError):
        if version is not None and table.order(version) <= table.order(newest):
            return OptionsAtVersion(table, version, letter)
    return OptionsAtVersion(table, newest, letter, sure=False, told=version is not None)


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern of a rule file is found in a text of a deploy file."""
    return re.search(pattern, text[:1000]) is not None


def near(name: str, names: Iterable[str], likeness: float = 0.8) -> str | None:
    """The name that was probably meant."""
    import difflib

    found = difflib.get_close_matches(name, list(names), n=1, cutoff=likeness)
    return found[0] if found else None
