"""Facts of the models that deploy files name: from the lock, this disk or, when asked for, the Hub.

The lock comes first, unless a model on this disk is no longer what was locked. Facts of the lock
are condensed: a pair of them is compared by the notes that the lock keeps of the pair. What is not
known is a MissingModel: the rule of the gate that says so, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from draftcheck.errors import DraftcheckError
from draftcheck.gate import model_references
from draftcheck.gate.lock import format as locks
from draftcheck.gate.lock.format import GateLock
from draftcheck.gate.model_references import ModelReference
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import ModelFacts


@dataclass(frozen=True, slots=True)
class MissingModel:
    """Why a model or a pair is not known: a rule of the gate, and the evidence."""

    rule: str
    key: str
    saw: str
    fix: str | None = None


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
        self._read: dict[str, ModelFacts | MissingModel] = {}
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
            read = self._direct(reference)
            return (
                read if isinstance(read, MissingModel) else KnownModel(reference.key, read, False)
            )
        if reference.ref is None:
            return MissingModel("GAT005", reference.key, reference.problem)
        return MissingModel("GAT002", reference.key, self._not_locked(reference))

    def _locked(self, reference: ModelReference, key: str) -> KnownModel | MissingModel:
        entry = self._lock.models[key]
        if reference.local and reference.ref is not None and reference.ref.kind != "facts":
            now = model_references.content(reference.ref)
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

    def _direct(self, reference: ModelReference) -> ModelFacts | MissingModel:
        if reference.key not in self._read:
            # Imported here: with a lock nothing is read.
            from draftcheck.models.read import read_all

            offline = not self._online
            try:
                facts = model_references.read(
                    reference, lambda ref: read_all(ref, offline=offline)[0]
                )
                self._read[reference.key] = replace(facts, ref=reference.key)
            except DraftcheckError as error:
                self._read[reference.key] = MissingModel("GAT005", reference.key, error.message)
        return self._read[reference.key]

    def _not_locked(self, reference: ModelReference) -> str:
        ref = reference.ref
        assert ref is not None
        others = [key for key in self._lock.models if key.partition("@")[0] == ref.repo]
        if others:
            return f"{reference.key} is not in {locks.NAME}, which has {', '.join(sorted(others))}"
        return f"{reference.key} is not in {locks.NAME}"

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

        ours, theirs = (_small(side) for side in (target, draft))
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


def _small(side: KnownModel) -> ModelFacts:
    """Facts as the lock would have them."""
    if side.condensed:
        return side.facts
    from draftcheck.judge.condensed import facts as condensed

    return condensed.restore(condensed.condense(side.facts), side.key)
