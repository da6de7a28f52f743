"""The models that deploy files name: what a name means, and the facts that are known of the model.

The text of a file may be a path inside a container (the manifest says what that means here), a path
from the root, from the file or from the current folder, or a name of the Hub. A ModelReference has
the key under which reports and the lock know the model; it does not depend on the machine.

Facts come from the lock, this disk or, when asked for, the Hub. The lock comes first, unless a
model on this disk is no longer what was locked. Facts of the lock are condensed: a pair of them is
compared by the notes that the lock keeps of the pair. What is not known is a MissingModel: the rule
of the gate that says so, and why.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from draftcheck.deploy.text import Word
from draftcheck.errors import DraftcheckError, ReadError, UsageError
from draftcheck.gate.lock import format as locks
from draftcheck.gate.lock.format import GateLock
from draftcheck.models.refs import HUB, ModelRef, parse
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import ModelFacts

HEAD = 32 << 20
"""Bytes of a file that its digest is over: everything that facts are read from lies there."""
SPLIT = re.compile(r"(?P<stem>.+)-\d{5}-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ModelReference:
    """One model."""

    key: str
    """Its name in reports and in the lock."""
    ref: ModelRef | None = None
    """How to read it; None: nobody can tell what it is."""
    problem: str = ""
    also: tuple[str, ...] = ()
    """Other names that it may have in a lock made where its files are."""
    fallback: ModelRef | None = None
    """What is read where there is no file with the tag that an engine tries first."""

    @property
    def local(self) -> bool:
        return self.ref is not None and self.ref.kind in ("folder", "gguf", "facts")


def of_word(word: Word, root: Path, paths: Mapping[str, str]) -> ModelReference:
    found = resolve(word.text, word.place.file, root, paths)
    ref = found.ref
    if ref is None or ref.kind != "hub" or not ref.tag or word.raw is None:
        return found
    if f":{ref.tag}" in word.raw:
        return found
    # The tag is the engine's own first choice, not the file's: without it, any file will do.
    return replace(found, fallback=replace(ref, tag=None))


def resolve(text: str, file: str, root: Path, paths: Mapping[str, str]) -> ModelReference:
    """What a text in that file means; paths: what the manifest says about paths in containers."""
    text = _mapped(text.strip(), paths)
    path = text.startswith(("./", "../"))
    text = text.removeprefix("./") or text
    if not text or "\0" in text:
        return ModelReference(text, None, "no model is named")
    places = [base / text for base in (root, Path(file).parent.resolve(), Path.cwd())]
    for place in places:
        if os.path.exists(place):  # noqa: PTH110 (a name that is too long is no error)
            key = _key(place, root, text)
            try:
                # Facts name the model as the repository does, not as this machine does.
                return ModelReference(key, replace(parse(os.path.normpath(place)), text=key))
            except DraftcheckError as error:
                return ModelReference(key, None, error.message)
    also = tuple(dict.fromkeys(_key(place, root, text) for place in places))
    if path or (HUB.fullmatch(text) is None and not text.startswith("ollama:")):
        problem = f"{text} is neither on this disk nor a name of the Hub"
        return ModelReference(text, None, problem, also)
    try:
        return ModelReference(text, parse(text), also=also)
    except DraftcheckError as error:
        return ModelReference(text, None, error.message, also)


def _mapped(text: str, paths: Mapping[str, str]) -> str:
    """The longest path of the manifest that this one is, or lies below."""
    if text in paths:
        return paths[text]
    whole = PurePosixPath(text)
    for parent in whole.parents:
        for form in (str(parent), f"{parent}/"):
            if form in paths:
                return f"{paths[form].rstrip('/')}/{whole.relative_to(parent)}"
    return text


def _key(place: Path, root: Path, text: str) -> str:
    """Relative to the root, unless the file itself names a place elsewhere by its whole path."""
    plain = Path(os.path.normpath(place))
    if not plain.is_relative_to(root) and Path(text).is_absolute():
        return plain.as_posix()
    return Path(os.path.relpath(plain, root)).as_posix()


def read_reference(
    reference: ModelReference, facts: Callable[[ModelRef], ModelFacts]
) -> ModelFacts:
    """The facts of a model, by the function that reads them."""
    if reference.ref is None:
        raise ReadError(reference.problem)
    try:
        return facts(reference.ref)
    except UsageError:
        if reference.fallback is None:
            raise
        return facts(reference.fallback)


def content(ref: ModelRef) -> str | None:
    """A digest over the files of a local model: their names, sizes and heads."""
    files = [ref.path]
    if ref.path.is_dir():
        files = [f for f in ref.path.iterdir() if f.is_file() and not f.name.startswith(".")]
    elif match := SPLIT.fullmatch(ref.path.name):
        pattern = f"{glob.escape(match['stem'])}-*-of-{match['count']}.gguf"
        files = list(ref.path.parent.glob(pattern))
    if not files:
        return None
    whole = hashlib.sha256()
    for path in sorted(files):
        try:
            with path.open("rb") as file:
                head = hashlib.sha256(file.read(HEAD)).hexdigest()
                size = os.fstat(file.fileno()).st_size
        except OSError:
            return None
        whole.update(f"{path.name}\0{size}\0{head}\n".encode("utf-8", "surrogateescape"))
    return "sha256:" + whole.hexdigest()


@dataclass(frozen=True, slots=True)
class MissingModel:
    """Why a model or a pair is not known: a rule of the gate, and the evidence."""

    rule: str
    key: str
    saw: str


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model whose facts are at hand."""

    key: str
    facts: ModelFacts
    condensed: bool
    """The facts are those of the lock."""


class ModelReader:
    """Reads each model once."""

    def __init__(self, lock: GateLock | None, *, online: bool) -> None:
        self._lock = lock or GateLock()
        self._online = online
        self._known: dict[str, KnownModel | MissingModel] = {}
        self._compared: dict[tuple[str, str | None, str], Comparison | MissingModel] = {}

    def get(self, reference: ModelReference) -> KnownModel | MissingModel:
        found = self._known.get(reference.key)
        if found is None:
            found = self._known[reference.key] = self._get(reference)
        return found

    def _get(self, reference: ModelReference) -> KnownModel | MissingModel:
        for key in dict.fromkeys((reference.key, *reference.also)):
            if flaw := self._lock.flaw("models", key):
                return MissingModel(flaw.rule, key, f"{locks.NAME}: {flaw.saw}")
            if key in self._lock.models:
                return self._locked(reference, key)
        if reference.local or (self._online and reference.ref is not None):
            return self._direct(reference)
        if reference.ref is None:
            return MissingModel("GAT005", reference.key, reference.problem)
        others = [key for key in self._lock.models if key.partition("@")[0] == reference.ref.repo]
        has = f", which has {', '.join(sorted(others))}" if others else ""
        return MissingModel("GAT002", reference.key, f"{reference.key} is not in {locks.NAME}{has}")

    def _locked(self, reference: ModelReference, key: str) -> KnownModel | MissingModel:
        entry = self._lock.models[key]
        if reference.local and reference.ref is not None and reference.ref.kind != "facts":
            now = content(reference.ref)
            if now != (entry.content or None):
                return MissingModel(
                    "GAT003", key, f"{key} changed on this disk after it was locked"
                )
        # Imported here: a run without a lock does not need it.
        from draftcheck.judge.condensed import facts as condensed

        try:
            facts = condensed.restore(entry.facts, key)
        except DraftcheckError as error:
            return MissingModel("GAT003", key, f"{locks.NAME}: {error.message}")
        return KnownModel(key, replace(facts, revision=entry.revision), True)

    def _direct(self, reference: ModelReference) -> KnownModel | MissingModel:
        # Imported here: with a lock nothing is read.
        from draftcheck.models.read import read_all

        offline = not self._online
        try:
            facts = read_reference(reference, lambda ref: read_all(ref, offline=offline)[0])
        except DraftcheckError as error:
            return MissingModel("GAT005", reference.key, error.message)
        return KnownModel(reference.key, replace(facts, ref=reference.key), False)

    def compare(
        self, target: KnownModel, draft: KnownModel | None, engine: str
    ) -> Comparison | MissingModel:
        """The two side by side, for this engine."""
        key = (target.key, draft.key if draft is not None else None, engine)
        if key not in self._compared:
            self._compared[key] = self._compare(target, draft, engine)
        return self._compared[key]

    def _compare(
        self, target: KnownModel, draft: KnownModel | None, engine: str
    ) -> Comparison | MissingModel:
        from draftcheck.judge.compare import compare

        if draft is None:
            return compare(target.facts, None)
        if not target.condensed and not draft.condensed:
            return compare(target.facts, draft.facts)
        from draftcheck.judge.condensed import facts as condensed
        from draftcheck.judge.condensed import pairs as condensed_pairs

        ours, theirs = (  # both as the lock would have them
            side.facts
            if side.condensed
            else condensed.restore(condensed.condense(side.facts), side.key)
            for side in (target, draft)
        )
        notes = self._notes(target, draft, engine)
        if isinstance(notes, MissingModel):
            return notes
        same = condensed.fingerprint(ours)
        if notes is None and (same is None or same != condensed.fingerprint(theirs)):
            key = locks.pair_key(target.key, draft.key)
            return MissingModel("GAT002", key, f"{locks.NAME} has both models, but not this pair")
        return condensed_pairs.compare(ours, theirs, notes)

    def _notes(
        self, target: KnownModel, draft: KnownModel, engine: str
    ) -> Mapping[str, Any] | MissingModel | None:
        key = locks.pair_key(target.key, draft.key)
        if flaw := self._lock.flaw("pairs", key):
            return MissingModel(flaw.rule, key, f"{locks.NAME}: {flaw.saw}")
        entry = self._lock.pairs.get(key)
        if entry is None:
            return None
        models = [self._lock.models.get(side.key) for side in (target, draft)]
        if entry.of != [model.digest if model is not None else None for model in models]:
            saw = f"{locks.NAME}: what it says of {key} is about other contents of these models"
            return MissingModel("GAT003", key, saw)
        if not set(locks.text_checks([engine])) <= set(entry.checks):
            saw = f"{locks.NAME}: {key} was locked before this version's checks for {engine}"
            return MissingModel("GAT003", key, saw)
        return entry.notes
