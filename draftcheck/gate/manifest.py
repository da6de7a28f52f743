"""draftcheck.toml: pairs of our own, what paths mean, which files to look at."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from draftcheck.deploy.deployment import Deployment, Document, DocumentTree, FilePlace, Word
from draftcheck.gate import rows
from draftcheck.gate.minimums import TrialDemand
from draftcheck.gate.results import GateFinding

NAME = "draftcheck.toml"
TEXT, COUNT, INDEX, NUMBER, SHARE = "text", "count", "index", "number", "share"
TEXTS, TABLE = "texts", "table"
PAIR = {
    "name": TEXT, "target": TEXT, "draft": TEXT, "engine": TEXT, "version": TEXT, "method": TEXT,
    "gpu": TEXT, "context": COUNT, "sequences": COUNT, "dtype": TEXT, "kv_dtype": TEXT,
    "tensor_parallel": COUNT, "draft_tensor_parallel": COUNT, "pipeline_parallel": COUNT,
    "draft_tokens": COUNT,
    "memory_fraction": SHARE, "draft_gpu": INDEX, "min_acceptance": SHARE, "min_speedup": NUMBER,
    "trial": TEXT, "temperature": NUMBER, "backend": TEXT,
}  # fmt: skip
SAID = (
    "gpu", "context", "sequences", "dtype", "kv_dtype", "tensor_parallel", "draft_tensor_parallel",
    "pipeline_parallel", "draft_tokens", "memory_fraction", "draft_gpu",
)  # fmt: skip
GATE = {"include": TEXTS, "exclude": TEXTS, "versions": TABLE, "gpu": TEXT}
IGNORE = {"rule": TEXT, "file": TEXT, "reason": TEXT}
TOP = ("pair", "paths", "gate", "ignore")
KINDS = {
    TEXT: "a text",
    COUNT: "a whole number from 1 on",
    INDEX: "a whole number from 0 on",
    NUMBER: "a number that is not negative",
    SHARE: "a number from 0 to 1",
    TEXTS: "a list of texts",
    TABLE: "a table of texts",
}


@dataclass(frozen=True, slots=True)
class ManifestPair:
    """A pair of the manifest."""

    deployment: Deployment
    wanted: TrialDemand


@dataclass(frozen=True, slots=True)
class FileIgnore:
    """A finding that the manifest silences, for files that have no comments."""

    place: FilePlace
    rule: str
    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class GateManifest:
    pairs: tuple[ManifestPair, ...] = ()
    paths: Mapping[str, str] = field(default_factory=dict)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    gpu: str | None = None
    ignores: tuple[FileIgnore, ...] = ()
    findings: tuple[GateFinding, ...] = ()


def interpret(document: Document, engines: Sequence[str]) -> GateManifest:
    """What a manifest says; what it says wrongly becomes findings."""
    reader = _ManifestReader(engines)
    return reader.manifest(document.tree)


class _ManifestReader:
    def __init__(self, engines: Sequence[str]) -> None:
        self._engines = engines
        self._found: list[GateFinding] = []

    def manifest(self, tree: DocumentTree) -> GateManifest:
        parts: dict[str, DocumentTree] = {}
        for key, value in tree.entries or ():
            if key.text in TOP:
                parts[key.text] = value
            else:
                self._unknown(key, TOP, "")
        gate = self._table(parts.get("gate"), GATE, "gate")
        versions = gate.get("versions", {})
        written = parts["gate"].get("versions") if "gate" in parts else None
        for key, _ in (written.entries or ()) if written is not None else ():
            self._engine(key.text, key.place)
        names: dict[str, FilePlace] = {}
        return GateManifest(
            pairs=tuple(
                p for t in self._list(parts.get("pair"), "pair") for p in self._pair(t, names)
            ),
            paths=self._texts(parts.get("paths"), "paths"),
            include=tuple(gate.get("include", ())),
            exclude=tuple(gate.get("exclude", ())),
            versions=versions,
            gpu=gate.get("gpu"),
            ignores=tuple(
                i for t in self._list(parts.get("ignore"), "ignore") for i in self._ignore(t)
            ),
            findings=tuple(self._found),
        )

    def _pair(self, tree: DocumentTree, names: dict[str, FilePlace]) -> Iterator[ManifestPair]:
        values = self._table(tree, PAIR, "pair")
        words = {key.text: value.word for key, value in tree.entries or () if value.word}
        for needed in ("name", "target", "engine"):
            if needed not in values:
                self._say(tree.place, f"[[pair]] has no {needed!r}")
        if not {"name", "target", "engine"} <= set(values):
            return
        name = values["name"]
        if name in names:
            self._say(words["name"].place, f"a pair is called {name!r} in line {names[name].line}")
            return
        names[name] = words["name"].place
        engine, _, version = values["engine"].partition("@")
        if not self._engine(engine, words["engine"].place):
            return
        version = values.get("version", version)
        yield ManifestPair(
            Deployment(
                place=tree.place,
                engine=engine,
                version=version or None,
                version_from=NAME if version else "",
                target=words["target"],
                draft=words.get("draft"),
                method=values.get("method"),
                speculates=True,
                said={key: values[key] for key in SAID if key in values},
                name=name,
            ),
            TrialDemand(
                acceptance=values.get("min_acceptance"),
                speedup=values.get("min_speedup"),
                trial=values.get("trial"),
                draft_tokens=values.get("draft_tokens"),
                temperature=values.get("temperature"),
                backend=values.get("backend"),
            ),
        )

    def _ignore(self, tree: DocumentTree) -> Iterator[FileIgnore]:
        values = self._table(tree, IGNORE, "ignore")
        missing = [name for name in IGNORE if not str(values.get(name, "")).strip()]
        if missing:
            self._found.append(
                rows.finding("GAT012", tree.place, f"[[ignore]] has no {missing[0]!r}")
            )
        else:
            yield FileIgnore(tree.place, values["rule"].lower(), values["file"], values["reason"])

    def _engine(self, name: str, place: FilePlace) -> bool:
        if name not in self._engines:
            self._say(place, f"there is no engine {name!r}{_near(name, self._engines)}")
        return name in self._engines

    def _list(self, tree: DocumentTree | None, name: str) -> tuple[DocumentTree, ...]:
        if tree is None:
            return ()
        if tree.items is None or any(item.entries is None for item in tree.items):
            self._say(tree.place, f"{name} is written [[{name}]]")
            return ()
        return tree.items

    def _texts(self, tree: DocumentTree | None, name: str) -> dict[str, str]:
        if tree is None:
            return {}
        if tree.entries is None:
            self._say(tree.place, f"{name} is written [{name}]")
            return {}
        found = {}
        for key, value in tree.entries:
            if value.word is None or value.word.kind != "str":
                self._say(key.place, f"{name}: {key.text!r} must be {KINDS[TEXT]}")
            else:
                found[key.text] = value.word.text
        return found

    def _table(
        self, tree: DocumentTree | None, known: Mapping[str, str], name: str
    ) -> dict[str, Any]:
        if tree is None:
            return {}
        if tree.entries is None:
            self._say(tree.place, f"{name} is written [{name}]")
            return {}
        values = {}
        for key, value in tree.entries:
            if key.text not in known:
                self._unknown(key, tuple(known), f" in {name}")
                continue
            kind = known[key.text]
            if kind == TABLE:
                values[key.text] = self._texts(value, key.text)
                continue
            found = READ[kind](value)
            if found is None:
                self._say(key.place, f"{key.text!r} must be {KINDS[kind]}")
            else:
                values[key.text] = found
        return values

    def _unknown(self, key: Word, known: Sequence[str], where: str) -> None:
        self._say(key.place, f"there is no key {key.text!r}{where}{_near(key.text, known)}")

    def _say(self, place: FilePlace, saw: str) -> None:
        self._found.append(rows.finding("GAT014", place, saw))


def _near(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name.replace("-", "_"), known, 1, 0.6)
    near = near or difflib.get_close_matches(name, known, 1, 0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def _text(tree: DocumentTree) -> str | None:
    word = tree.word
    return word.text if word is not None and word.kind == "str" and word.text.strip() else None


def _number(tree: DocumentTree) -> float | None:
    if tree.word is None or tree.word.kind not in ("int", "float"):
        return None
    try:
        value = float(tree.word.text.replace("_", ""))
    except ValueError:
        return None
    if not 0 <= value < 2**40:
        return None
    return int(value) if tree.word.kind == "int" else value


def _count(tree: DocumentTree) -> int | None:
    value = _number(tree)
    return value if isinstance(value, int) and value >= 1 else None


def _index(tree: DocumentTree) -> int | None:
    value = _number(tree)
    return value if isinstance(value, int) else None


def _share(tree: DocumentTree) -> float | None:
    value = _number(tree)
    return value if value is not None and value <= 1 else None


def _list_of_texts(tree: DocumentTree) -> list[str] | None:
    texts = [_text(item) for item in tree.items] if tree.items is not None else [None]
    found = [text for text in texts if text is not None]
    return found if len(found) == len(texts) else None


READ: Mapping[str, Callable[[DocumentTree], Any]] = {
    TEXT: _text,
    COUNT: _count,
    INDEX: _index,
    NUMBER: _number,
    SHARE: _share,
    TEXTS: _list_of_texts,
}
