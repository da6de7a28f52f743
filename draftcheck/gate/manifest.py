"""draftcheck.toml: pairs of our own, what paths mean, which files to look at.

deploy/kinds/toml_files.py has turned the file into a tree that knows the place of every key.
Here each table of it is held against a class: a key that the class does not have, or a value that
msgspec refuses for it, becomes a finding at that key; what is right counts all the same.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

from draftcheck.deploy.deployment import Contents, Deployment, DocumentTree, plain
from draftcheck.deploy.text import Word
from draftcheck.gate.minimums import MOST, Count, Share, Text, TrialDemand
from draftcheck.gate.results import gate_finding
from draftcheck.rulebook import book
from draftcheck.values.circumstances import CircumstanceWords
from draftcheck.values.findings import FilePlace, Finding

NAME = "draftcheck.toml"
Texts = Annotated[list[Text], Meta(description="a list of texts")]
Devices = Annotated[int, Meta(ge=1, le=2**16, description="a whole number from 1 to 65,536")]
Unresolved = Annotated[
    Annotated[str, Meta(pattern="^(?:warn|fail)$")], Meta(description='"warn" or "fail"')
]
Index = Annotated[int, Meta(ge=0, le=MOST, description="a whole number from 0 on")]


class PairTable(TrialDemand, kw_only=True, frozen=True):
    """[[pair]]: two models, the engine that serves them, and what a trial of them must reach."""

    name: Text
    target: Text
    engine: Text
    draft: Text | None = None
    version: Text | None = None
    method: Text | None = None
    gpu: Text | None = None
    context: Count | None = None
    sequences: Count | None = None
    dtype: Text | None = None
    kv_dtype: Text | None = None
    tensor_parallel: Devices | None = None
    draft_tensor_parallel: Devices | None = None
    pipeline_parallel: Devices | None = None
    memory_fraction: Share | None = None
    draft_gpu: Index | None = None


class GateTable(msgspec.Struct, frozen=True):
    """[gate]: which files are looked at, and what holds where they say nothing."""

    include: Texts = msgspec.field(default_factory=list)
    exclude: Texts = msgspec.field(default_factory=list)
    gpu: Text | None = None
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    unresolved: Unresolved | None = None
    """Whether what could not be checked fails the gate, or is only said."""
    markdown: bool | None = None
    """Whether the commands of Markdown count like those of other files; None: for notes only."""


class DefaultsTable(msgspec.Struct, frozen=True):
    """[defaults]: what the command line means where it names none; the gate does not ask."""

    engine: Text | None = None
    gpu: Text | None = None


class IgnoreTable(msgspec.Struct, frozen=True):
    """[[ignore]]: a finding that is accepted."""

    rule: Text
    file: Text
    reason: Text


TOP = ("pair", "paths", "gate", "ignore", "defaults")


@dataclass(frozen=True, slots=True)
class GateManifest:
    pairs: tuple[tuple[Deployment, PairTable], ...] = ()
    paths: Mapping[str, str] = field(default_factory=dict)
    gate: GateTable = field(default_factory=GateTable)
    defaults: DefaultsTable = field(default_factory=DefaultsTable)
    ignores: tuple[tuple[FilePlace, IgnoreTable], ...] = ()
    """Findings that it silences, for files that have no comments."""
    findings: tuple[Finding, ...] = ()


def interpret(contents: Contents | None) -> GateManifest:
    """What a manifest says; what it says wrongly, or is not to be read, becomes findings."""
    for document in contents.documents if contents is not None else ():
        if document.kind == "manifest":
            return _ManifestReader(tuple(book.engine_files())).manifest(document.tree)
    troubles = contents.troubles if contents is not None else ()
    found = (gate_finding("GAT001", trouble.place, trouble.text) for trouble in troubles)
    return GateManifest(findings=tuple(found))


class _ManifestReader:
    def __init__(self, engines: Sequence[str]) -> None:
        self._engines = engines
        self._findings: list[Finding] = []

    def manifest(self, tree: DocumentTree) -> GateManifest:
        parts: dict[str, DocumentTree] = {}
        for key, value in tree.entries or ():
            if key.text in TOP:
                parts[key.text] = value
            else:
                self._unknown(key, TOP, "")
        gate = GateTable()
        if "gate" in parts:
            gate = GateTable(**self._table(parts["gate"], GateTable, "gate"))
            for key, _ in parts["gate"].pairs("versions"):
                self._engine(key.text, key.place)
        defaults = DefaultsTable()
        if "defaults" in parts:
            defaults = DefaultsTable(**self._table(parts["defaults"], DefaultsTable, "defaults"))
            engine = (defaults.engine or "").partition("@")[0]
            if engine and not self._engine(engine, parts["defaults"].place):
                defaults = DefaultsTable(gpu=defaults.gpu)
        names: dict[str, FilePlace] = {}
        return GateManifest(
            pairs=tuple(p for t in self._list(parts, "pair") for p in self._pair(t, names)),
            paths=self._texts(parts["paths"], "paths") if "paths" in parts else {},
            gate=gate,
            defaults=defaults,
            ignores=tuple(i for t in self._list(parts, "ignore") for i in self._ignore(t)),
            findings=tuple(self._findings),
        )

    def _pair(
        self, tree: DocumentTree, names: dict[str, FilePlace]
    ) -> Iterator[tuple[Deployment, PairTable]]:
        values = self._table(tree, PairTable, "pair")
        missing = _missing(PairTable, values)
        for name in missing:
            self._say(tree.place, f"[[pair]] has no {name!r}")
        if missing:
            return
        pair = PairTable(**values)
        words = {key.text: value.word for key, value in tree.entries or () if value.word}
        if pair.name in names:
            before = names[pair.name].line
            self._say(words["name"].place, f"a pair is called {pair.name!r} in line {before}")
            return
        names[pair.name] = words["name"].place
        engine, _, version = pair.engine.partition("@")
        if not self._engine(engine, words["engine"].place):
            return
        version = pair.version or version
        yield (
            Deployment(
                place=tree.place,
                engine=engine,
                version=version or None,
                version_from=NAME if version else "",
                target=words["target"],
                draft=words["draft"] if pair.draft else None,
                method=pair.method,
                speculates=True,
                circumstances={
                    key: values[key] for key in CircumstanceWords.__annotations__ if key in values
                },
                name=pair.name,
            ),
            pair,
        )

    def _ignore(self, tree: DocumentTree) -> Iterator[tuple[FilePlace, IgnoreTable]]:
        values = self._table(tree, IgnoreTable, "ignore")
        missing = _missing(IgnoreTable, values)
        if missing:
            saw = f"[[ignore]] has no {missing[0]!r}"
            self._findings.append(gate_finding("GAT012", tree.place, saw))
        else:
            yield tree.place, IgnoreTable(**values)

    def _engine(self, name: str, place: FilePlace) -> bool:
        if name not in self._engines:
            self._say(place, f"there is no engine {name!r}{_near(name, self._engines)}")
        return name in self._engines

    def _list(self, parts: Mapping[str, DocumentTree], name: str) -> tuple[DocumentTree, ...]:
        """The tables that are written [[name]]."""
        if name not in parts:
            return ()
        items = parts[name].items
        if items is None or any(item.entries is None for item in items):
            self._say(parts[name].place, f"{name} is written [[{name}]]")
            return ()
        return items

    def _entries(self, tree: DocumentTree, name: str) -> Iterable[tuple[Word, DocumentTree]]:
        if tree.entries is None:
            self._say(tree.place, f"{name} is written [{name}]")
        return tree.entries or ()

    def _texts(self, tree: DocumentTree, name: str) -> dict[str, str]:
        """A table whose keys are free and whose values are texts."""
        texts = {}
        for key, value in self._entries(tree, name):
            if value.word is None or value.word.kind != "str":
                self._say(key.place, f"{name}: {key.text!r} must be a text")
            else:
                texts[key.text] = value.word.text
        return texts

    def _table(self, tree: DocumentTree, table: type[msgspec.Struct], name: str) -> dict[str, Any]:
        """The values that a table's class takes, by key."""
        types = {entry.name: entry.type for entry in msgspec.structs.fields(table)}
        values = {}
        for key, value in self._entries(tree, name):
            if key.text not in types:
                self._unknown(key, tuple(types), f" in {name}")
            elif types[key.text] == dict[str, str]:
                values[key.text] = self._texts(value, key.text)
            else:
                try:
                    values[key.text] = msgspec.convert(plain(value, []), types[key.text])
                except msgspec.ValidationError:
                    self._say(key.place, f"{key.text!r} must be {_described(types[key.text])}")
        return values

    def _unknown(self, key: Word, known: Sequence[str], where: str) -> None:
        self._say(key.place, f"there is no key {key.text!r}{where}{_near(key.text, known)}")

    def _say(self, place: FilePlace, saw: str) -> None:
        self._findings.append(gate_finding("GAT014", place, saw))


def _missing(table: type[msgspec.Struct], values: Mapping[str, Any]) -> list[str]:
    fields = msgspec.structs.fields(table)
    return [entry.name for entry in fields if entry.required and entry.name not in values]


def _described(form: Any) -> str:
    """What a value of this type is called."""
    names = [meta.description for meta in getattr(form, "__metadata__", ()) if meta.description]
    return names[0] if names else _described(get_args(form)[0])


def _near(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name.replace("-", "_"), known, 1, 0.6)
    near = near or difflib.get_close_matches(name, known, 1, 0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
