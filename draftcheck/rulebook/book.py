"""rules/engines/*.toml and rules/truth.toml -> Engine, Method and Rule objects.

An engine's file has one [engine] table, [[method]] rows (how the engine speculates and how that
is spelled), [[rule]] rows (what it does with which pair) and [[repair]] rows (ways out). What
several methods share, such as the options of one command, stands once in a [shared.NAME] table
that the rows name: `shared = ["serve"]`. Every error names the file, the row and the field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from itertools import combinations
from typing import Any, Literal

from msgspec import structs

from draftcheck import versions
from draftcheck.errors import DraftcheckError, RuleError, UsageError, did_you_mean
from draftcheck.rulebook import files as rulefiles
from draftcheck.rulebook import tables
from draftcheck.rulebook.file_rules import RuleWords
from draftcheck.rulebook.files import Names, RuleRow, Text
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.words import Reaction
from draftcheck.versions import Key

TRUTH = "truth"
Basis = Literal["run", "read", "documented"]
VocabularyUse = Literal["shared", "translated", "by-size", "head", "none", "any"]
DraftKind = Literal[
    "full", "eagle", "eagle3", "peagle", "mtp", "medusa", "mlp_speculator", "dflash", "dflash2",
    "dspark",
    "holds-mtp",  # a whole model in a GGUF file that has MTP layers too
    "holds-dspark",  # a whole model in a folder that has DSpark stages too
    "itself",  # the target's own MTP layers
    "unstated-itself",  # the same, in tensors that no key of the GGUF file counts
    "none",  # n-grams and the like: no model at all
]  # fmt: skip
HEAD = re.compile(r'^\[engine\]\s*id = "([^"]+)"', re.MULTILINE)
PLACE = re.compile(r"^place = (\d+)", re.MULTILINE)
CIRCUMSTANCES = tuple(Circumstances.__dataclass_fields__)


class Rule(RuleWords, frozen=True):
    """One line of engine knowledge."""

    check: Text
    reaction: Reaction
    source: Text
    basis: Basis
    methods: Names = ()
    """Methods it holds for; empty: all of the engine's."""
    vocabulary: VocabularyUse = "any"
    """Only for methods whose vocabularies are shared (or translated)."""
    drafts: tuple[DraftKind, ...] = ()
    """Only for methods that take one of these kinds of draft; empty: any."""
    params: Mapping[str, Any] = {}
    since: str | None = None
    until: str | None = None
    engine_says: str | None = None
    stops: bool = False
    """Where it fails, the engine stops or takes another method: later rows are not met."""
    unread_behind: bool = False
    """Where it is unknown, later rows about the target alone (without methods) are not met."""

    @property
    def unread(self) -> bool:
        """It says that what the engine does was not found out."""
        return self.check.endswith("_not_read")


class SaidRow(RuleRow, frozen=True, kw_only=True):
    """How a row writes what the user says about the deployment."""

    flags: Mapping[str, str] = {}
    """Circumstance -> what its {flags} in the setup says when the user gave it."""
    keys: Mapping[str, str] = {}
    """The same for {keys}, inside a JSON object."""

    def __post_init__(self) -> None:
        for name in (*self.flags, *self.keys):
            if name not in CIRCUMSTANCES:
                raise ValueError(f"flag {name!r} is not one of {', '.join(CIRCUMSTANCES)}")


class Method(SaidRow, frozen=True):
    """One way of speculating: how the engine spells it, and what it takes."""

    id: Text
    setup: Text
    summary: str = ""
    drafts: tuple[DraftKind, ...] = ("full",)
    formats: Names = ("folder",)
    vocabulary: VocabularyUse = "shared"
    since: str | None = None
    until: str | None = None
    convert: str = ""
    """Command that turns a checkpoint folder {model} into the {file} that the engine loads."""
    convert_draft: str = ""
    """The same for a draft that needs another one; {target_model} is the target's own folder."""
    automatic: bool = True
    """Whether it is chosen without being asked for."""
    runs_as: Mapping[str, str] = {}
    """Draft's model_type -> "method since": run so by the engine, though this one is asked for.

    "*word*": by its name, where it is a whole model with DSpark stages.
    """
    named_only: str = ""
    """Versions that go another way, which was not read, where a setup does not name the method."""
    basis: Basis = "read"
    """How well the method itself is known."""


class SharedFields(SaidRow, frozen=True):
    """Fields that several methods of a file have in common."""

    formats: Names | None = None
    convert: str | None = None
    convert_draft: str | None = None


class MethodRow(Method, frozen=True):
    """A method as its file writes it; what it shares with others is only named."""

    shared: Names = ()

    def whole(self, shared: Mapping[str, SharedFields], where: str) -> Method:
        """The method with the shared fields filled in; what the row itself says goes first."""
        values = {name: getattr(self, name) for name in Method.__struct_fields__}
        for name in self.shared:
            if name not in shared:
                raise RuleError(f"{where}: there is no table [shared.{name}]")
        parts = [shared[name] for name in self.shared]
        for field in ("flags", "keys"):
            said = [getattr(part, field) for part in (*parts, self)]
            values[field] = {name: text for part in said for name, text in part.items()}
        for part in parts:
            for name in ("formats", "convert", "convert_draft"):
                text = getattr(part, name)
                if text is not None and values[name] == _METHOD_DEFAULTS[name]:
                    values[name] = text
        return Method(**values)


_METHOD_DEFAULTS = {
    field.name: field.default for field in structs.fields(Method) if not field.required
}


class RepairRow(RuleRow, frozen=True):
    """What to do when one of these rules failed, where its check comes out ok."""

    id: Text
    rules: Names
    title: Text
    source: Text
    text: str = ""
    check: str | None = None
    params: Mapping[str, Any] = {}
    methods: Names = ()
    since: str | None = None
    until: str | None = None
    resizes: bool = False
    """The draft gets as many rows as the target has: no way out where other rules then speak."""


class EngineIdentity(RuleRow, frozen=True):
    """Who the engine is, and which of its versions were read."""

    id: Text
    name: Text
    versions: Literal["build", "pep440"]
    oldest: Text
    checked: Text
    checked_on: Text
    aliases: Mapping[str, str] = {}
    complete: bool = False
    """The methods are all it has: what none of them takes, it cannot use."""
    untyped: Mapping[str, str] = {}
    """Attention-only classes published without a model_type -> what it takes, "since:type …"."""
    unsized: Mapping[str, str] = {}
    """Types published without a vocab_size -> the one of their class, "since:size …"."""
    contexts: Mapping[str, str] = {}
    """The same for max_position_embeddings."""
    quant_file: str = ""
    """The versions that read hf_quant_config.json where config.json states no quantisation."""


class EngineHead(EngineIdentity, frozen=True):
    """[engine]: the same, its place in reports, and the tables of rules/tables that it needs."""

    tables: tuple[tables.TableName, ...] = ()
    place: int | None = None


class EngineFile(RuleRow, frozen=True):
    """rules/engines/*.toml."""

    engine: EngineHead
    shared: Mapping[str, SharedFields] = {}
    method: tuple[MethodRow, ...] = ()
    rule: tuple[Rule, ...] = ()
    repair: tuple[RepairRow, ...] = ()


class TruthFile(RuleRow, frozen=True):
    """rules/truth.toml: what holds for every engine."""

    rule: tuple[Rule, ...]
    repair: tuple[RepairRow, ...]


class Engine(EngineIdentity, frozen=True, kw_only=True):
    """Everything that is known about one engine."""

    methods: tuple[Method, ...]
    rules: tuple[Rule, ...]
    tables: Mapping[str, Any] = {}
    """The tables of rules/tables that its checks ask, by file name."""
    repairs: tuple[RepairRow, ...] = ()

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
        # As its makers write it: b9109, 0.15.1.
        return f"b{self.order(text)}" if self.versions == "build" else text.removeprefix("v")


@cache
def engine_files() -> dict[str, str]:
    """Engine id -> rule file name, in the order of reports; told by the files' heads alone."""
    found = []
    for name in rulefiles.names("engines"):
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
        raise UsageError(f"unknown engine {engine!r}", hint=did_you_mean(engine, files))
    name = files[engine]
    return engine_of(rulefiles.read(name, EngineFile), f"{name}.toml")


@cache
def truth() -> tuple[Rule, ...]:
    """The rules that hold for every engine."""
    rules = rulefiles.read(TRUTH, TruthFile).rule
    _no_overlaps(rules, f"{TRUTH}.toml", versions.pep440)
    return rules


def truth_repairs() -> tuple[RepairRow, ...]:
    """Repairs that help whatever the engine is."""
    return rulefiles.read(TRUTH, TruthFile).repair


def engine_of(file: EngineFile, name: str) -> Engine:
    """The engine of a file whose rows fit together."""
    head = file.engine
    order = versions.ORDERS[head.versions]
    _window(order, head.oldest, head.checked, f"{name} [engine]")
    known = [method.id for method in file.method]
    for table, rows in (("method", file.method), ("rule", file.rule), ("repair", file.repair)):
        for row in rows:
            where = f"{name} [[{table}]] {row.id}"
            _window(order, row.since, row.until, where)
            for method in () if isinstance(row, Method) else row.methods:
                if method not in known:
                    choices = ", ".join(dict.fromkeys(known))
                    raise RuleError(f"{where}: method {method!r} is not one of {choices}")
    _no_overlaps(file.rule, name, order)
    return Engine(
        **{field: getattr(head, field) for field in EngineIdentity.__struct_fields__},
        methods=tuple(row.whole(file.shared, f"{name} [[method]] {row.id}") for row in file.method),
        rules=file.rule,
        tables={table: tables.load(table) for table in head.tables},
        repairs=file.repair,
    )


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
        for one, other in combinations(rows, 2):
            where = f"{file} [[rule]] {one.id}"
            if one.slug != other.slug:
                raise RuleError(f"{where}: two slugs, {one.slug}, {other.slug}")
            apart = one.methods and other.methods and not set(one.methods) & set(other.methods)
            if not apart and _starts(one, other, order) and _starts(other, one, order):
                raise RuleError(f"{where}: two windows overlap")


def _starts(one: Rule, other: Rule, order: Key) -> bool:
    """Whether one window begins before the other ends."""
    since, until = one.since, other.until
    return since is None or until is None or order(since.removeprefix("<=")) < order(until)


def uses_own_layers(engine: str, method: str | None) -> bool:
    """Whether a method that needs no draft uses layers of the target itself."""
    rows = load(engine).methods if engine in engine_files() else ()
    return any(row.id == method and "itself" in row.drafts for row in rows)
