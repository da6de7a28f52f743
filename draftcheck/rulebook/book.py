"""rules/*.toml -> Engine, Method and Rule objects; refuses anything it does not understand.

Every error names the file and the rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from draftcheck import versions
from draftcheck.errors import DraftcheckError, RuleError, UsageError
from draftcheck.rulebook import files as rulefiles
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.findings import RuleText
from draftcheck.values.words import Reaction, Severity
from draftcheck.versions import Key

TRUTH = "truth"
BASES = ("run", "read", "documented")
VOCABULARIES = ("shared", "translated", "by-size", "head", "none", "any")
DRAFTS = (
    "full", "eagle", "eagle3", "peagle", "mtp", "medusa", "mlp_speculator", "dflash", "dflash2",
    "dspark",
    "itself",  # the target's own MTP layers
    "none",  # n-grams and the like: no model at all
)  # fmt: skip
HEAD = re.compile(r'^\[engine\]\s*id = "([^"]+)"', re.MULTILINE)
PLACE = re.compile(r"^place = (\d+)", re.MULTILINE)
CIRCUMSTANCES = tuple(Circumstances.__dataclass_fields__)
ID = re.compile(r"[A-Z]{3}\d{3}")
SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class Rule(RuleText):
    """One line of engine knowledge."""

    check: str
    reaction: Reaction
    source: str
    basis: str
    methods: tuple[str, ...] = ()
    """Methods it holds for; empty: all of the engine's."""
    vocabulary: str = "any"
    """Only for methods whose vocabularies are shared (or translated)."""
    drafts: tuple[str, ...] = ()
    """Only for methods that take one of these kinds of draft; empty: any."""
    params: Mapping[str, Any] = field(default_factory=dict)
    since: str | None = None
    until: str | None = None
    engine_says: str | None = None


@dataclass(frozen=True, slots=True)
class Method:
    """One way of speculating: how the engine spells it, and what it takes."""

    id: str
    setup: str
    summary: str = ""
    drafts: tuple[str, ...] = ("full",)
    formats: tuple[str, ...] = ("folder",)
    vocabulary: str = "shared"
    since: str | None = None
    until: str | None = None
    convert: str = ""
    """Command that turns a checkpoint folder {model} into the {file} that the engine loads."""
    convert_draft: str = ""
    """The same for a draft that needs another one; {target_model} is the target's own folder."""
    automatic: bool = True
    """Whether it is chosen without being asked for."""
    basis: str = "read"
    """How well the method itself is known."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Circumstance -> what its {flags} in the setup says when the user gave it."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """The same for {keys}, inside a JSON object."""


@dataclass(frozen=True, slots=True)
class RepairRow:
    """What to do when one of these rules failed, where its check comes out ok."""

    id: str
    rules: tuple[str, ...]
    title: str
    source: str
    text: str = ""
    check: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    methods: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    id: str
    name: str
    versions: str
    oldest: str
    checked: str
    checked_on: str
    methods: tuple[Method, ...]
    rules: tuple[Rule, ...]
    tables: Mapping[str, Any] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    repairs: tuple[RepairRow, ...] = ()
    complete: bool = False
    """The methods are all it has: what none of them takes, it cannot use."""

    @property
    def order(self) -> Key:
        return versions.ORDERS[self.versions]

    def version(self, text: str | None) -> str:
        """A version text, checked and with aliases resolved; None is the newest one read."""
        if text is None:
            return self.checked
        text = self.aliases.get(text, text)
        try:
            self.order(text)
        except UsageError as error:
            raise UsageError(
                f"{self.id}@{text}: {error.message}",
                hint=f"{self.name} was read from {self.oldest} to {self.checked}"
                f" ({self.checked_on}); {self.id} alone means {self.checked}.",
            ) from None
        return text


@cache
def engine_files() -> dict[str, str]:
    """Engine id -> rule file name, in the order of reports; told by the files' heads alone."""
    found = []
    for name in rulefiles.names():
        head = rulefiles.head(name)
        if match := HEAD.search(head):
            place = PLACE.search(head)
            found.append((int(place[1]) if place else len(head), match[1], name))
    return {engine: name for _, engine, name in sorted(found)}


@cache
def load(engine: str) -> Engine:
    """One engine's rules."""
    files = engine_files()
    if engine not in files:
        raise UsageError(f"unknown engine {engine!r}", hint=f"Known: {', '.join(files)}.")
    return parse(rulefiles.load(files[engine]), f"{files[engine]}.toml")


@cache
def truth() -> tuple[Rule, ...]:
    """The rules that hold for every engine."""
    data = rulefiles.load(TRUTH)
    return _rules(data.get("rule", []), f"{TRUTH}.toml", versions.pep440, ())


@cache
def truth_repairs() -> tuple[RepairRow, ...]:
    """Repairs that help whatever the engine is."""
    data = rulefiles.load(TRUTH)
    return _repairs(data.get("repair", []), f"{TRUTH}.toml", versions.pep440, ())


def parse_file(path: Path) -> Engine:
    """An engine from a file of its own; for tests and for people who write rules."""
    return parse(rulefiles.parse(path), path.name)


def parse(data: Mapping[str, Any], file: str) -> Engine:
    head = _fields(
        data.get("engine", {}),
        {"id", "name", "versions", "oldest", "checked", "checked_on"},
        {"tables", "aliases", "place", "complete"},
        f"{file} [engine]",
    )
    if extra := set(data) - {"engine", "method", "rule", "repair"}:
        raise RuleError(f"{file}: unknown table {sorted(extra)[0]!r}")
    if head["versions"] not in versions.ORDERS:
        raise RuleError(f"{file} [engine]: versions must be one of {', '.join(versions.ORDERS)}")
    order = versions.ORDERS[head["versions"]]
    _window(order, head["oldest"], head["checked"], f"{file} [engine]")
    methods = tuple(
        _method(row, f"{file} method {row.get('id', '?')}", order) for row in data.get("method", [])
    )
    names = tuple(method.id for method in methods)
    return Engine(
        id=head["id"],
        name=head["name"],
        versions=head["versions"],
        oldest=head["oldest"],
        checked=head["checked"],
        checked_on=str(head["checked_on"]),
        methods=methods,
        rules=_rules(data.get("rule", []), file, order, names),
        tables={name: rulefiles.load(name) for name in head.get("tables", ())},
        aliases=head.get("aliases", {}),
        repairs=_repairs(data.get("repair", []), file, order, names),
        complete=head.get("complete", False),
    )


def _fields(
    row: Mapping[str, Any], required: set[str], optional: set[str], where: str
) -> Mapping[str, Any]:
    if missing := sorted(required - set(row)):
        raise RuleError(f"{where}: {missing[0]!r} is missing")
    if unknown := sorted(set(row) - required - optional):
        raise RuleError(f"{where}: unknown field {unknown[0]!r}")
    for name in required:
        if isinstance(row[name], str) and not row[name].strip():
            raise RuleError(f"{where}: {name!r} is empty")
    return row


def _method(row: Mapping[str, Any], where: str, order: Key) -> Method:
    fields = _fields(
        row,
        {"id", "setup"},
        {"summary", "drafts", "formats", "vocabulary", "since", "until", "convert", "automatic"}
        | {"basis", "flags", "keys", "convert_draft"},
        where,
    )
    for kind in fields.get("drafts", ()):
        _one_of(kind, DRAFTS, f"{where}: draft")
    for name in (*fields.get("flags", {}), *fields.get("keys", {})):
        _one_of(name, CIRCUMSTANCES, f"{where}: flag")
    _one_of(fields.get("basis", "read"), BASES, f"{where}: basis")
    _window(order, fields.get("since"), fields.get("until"), where)
    _one_of(fields.get("vocabulary", "shared"), VOCABULARIES, f"{where}: vocabulary")
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
    return Method(**values)


def _repairs(
    rows: Iterable[Mapping[str, Any]], file: str, order: Key, methods: tuple[str, ...]
) -> tuple[RepairRow, ...]:
    found = []
    for row in rows:
        where = f"{file} repair {row.get('id', '?')}"
        optional = {"text", "check", "params", "methods", "since", "until"}
        fields = _fields(row, {"id", "rules", "title", "source"}, optional, where)
        for method in fields.get("methods", ()):
            _one_of(method, methods, f"{where}: method")
        _window(order, fields.get("since"), fields.get("until"), where)
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()
        }
        found.append(RepairRow(**values))
    return tuple(found)


def _rules(
    rows: Iterable[Mapping[str, Any]], file: str, order: Key, methods: tuple[str, ...]
) -> tuple[Rule, ...]:
    rules = tuple(_rule(row, file, order, methods) for row in rows)
    _no_overlaps(rules, file, order)
    return rules


def _rule(row: Mapping[str, Any], file: str, order: Key, methods: tuple[str, ...]) -> Rule:
    where = f"{file} rule {row.get('id', '?')}"
    fields = _fields(
        row,
        {"id", "slug", "title", "check", "reaction", "severity", "why", "fix", "source", "basis"},
        {"methods", "vocabulary", "drafts", "params", "since", "until", "engine_says"},
        where,
    )
    if not ID.fullmatch(fields["id"]):
        raise RuleError(f"{where}: an id is three capitals and three digits")
    if not SLUG.fullmatch(fields["slug"]):
        raise RuleError(f"{where}: {fields['slug']!r} is not a slug")
    _one_of(fields["reaction"], [str(r) for r in Reaction], f"{where}: reaction")
    _one_of(fields["severity"], [str(s) for s in Severity], f"{where}: severity")
    _one_of(fields["basis"], BASES, f"{where}: basis")
    _one_of(fields.get("vocabulary", "any"), VOCABULARIES, f"{where}: vocabulary")
    for method in fields.get("methods", ()):
        _one_of(method, methods, f"{where}: method")
    _window(order, fields.get("since"), fields.get("until"), where)
    values: dict[str, Any] = {
        k: tuple(v) if k in ("methods", "drafts") else v for k, v in fields.items()
    }
    values["reaction"] = Reaction(fields["reaction"])
    values["severity"] = Severity(fields["severity"])
    return Rule(**values)


def _one_of(value: Any, allowed: Iterable[str], where: str) -> None:
    if value not in (choices := tuple(allowed)):
        raise RuleError(f"{where} {value!r} is not one of {', '.join(choices)}")


def _window(order: Key, since: str | None, until: str | None, where: str) -> None:
    try:
        low = order(since.removeprefix("<=")) if since is not None else None
        high = order(until) if until is not None else None
    except DraftcheckError as error:
        raise RuleError(f"{where}: {error.message}") from None
    if low is not None and high is not None and low >= high:
        raise RuleError(f"{where}: the window from {since} to {until} is empty")


def _no_overlaps(rules: tuple[Rule, ...], file: str, order: Key) -> None:
    """Rows of one id are one rule in several windows: they must not overlap or rename it."""
    by_id: dict[str, list[Rule]] = {}
    for rule in rules:
        by_id.setdefault(rule.id, []).append(rule)
    for rows in by_id.values():
        for i, one in enumerate(rows):
            for other in rows[i + 1 :]:
                if one.slug != other.slug:
                    raise RuleError(f"{file} rule {one.id}: two slugs, {one.slug}, {other.slug}")
                shared = (
                    not one.methods or not other.methods or set(one.methods) & set(other.methods)
                )
                if shared and _overlap(one, other, order):
                    raise RuleError(f"{file} rule {one.id}: two windows overlap")


def _overlap(one: Rule, other: Rule, order: Key) -> bool:
    def starts_before_end(a: Rule, b: Rule) -> bool:
        return (
            a.since is None or b.until is None or order(a.since.removeprefix("<=")) < order(b.until)
        )

    return starts_before_end(one, other) and starts_before_end(other, one)
