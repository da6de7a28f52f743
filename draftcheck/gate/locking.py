"""`draftcheck lock`: read the models that deploy files name, and keep what the gate needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from draftcheck.errors import DraftcheckError
from draftcheck.gate import lock as locks
from draftcheck.gate import model_references
from draftcheck.gate.lock import GateLock
from draftcheck.gate.model_references import ModelReference
from draftcheck.judge.compare import compare
from draftcheck.judge.condensed import facts as condensed
from draftcheck.judge.condensed import pairs as condensed_pairs
from draftcheck.models.refs import ModelRef
from draftcheck.rulebook import book
from draftcheck.settings import __version__
from draftcheck.values.facts import ModelFacts

Pair = tuple[ModelReference, ModelReference | None]
Read = Callable[[ModelRef], ModelFacts]


@dataclass(slots=True)
class LockResult:
    """What locking did."""

    lock: GateLock
    added: list[str] = field(default_factory=list)
    refreshed: list[str] = field(default_factory=list)
    """Read again, and other than before."""
    kept: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Model -> why it could not be read."""


def build(
    old: GateLock,
    pairs: Sequence[Pair],
    trials: Mapping[str, Mapping[str, Any]],
    update: Callable[[str], bool],
    *,
    offline: bool,
    partial: bool = False,
) -> LockResult:
    """A new lock for these pairs.

    update: which models are read again though the old lock has them.
    partial: only some files were looked at, so that nothing is dropped.
    """
    work = _Work(old, update, offline)
    for target, draft in _ordered(pairs):
        work.pair(target, draft)
    done = work.done
    if partial:
        for kind in locks.KINDS:
            for key, entry in getattr(old, kind).items():
                getattr(done.lock, kind).setdefault(key, entry)
    for name, trial in trials.items():
        done.lock.trials[name] = locks.sign("trials", name, trial)
    done.dropped = sorted(set(old.models) - set(done.lock.models) - set(done.failed))
    return done


def _ordered(pairs: Sequence[Pair]) -> list[Pair]:
    """Pairs of one target together, so that whole vocabularies need not be kept for long."""
    unique = {(t.key, d.key if d else ""): (t, d) for t, d in pairs}
    return [unique[key] for key in sorted(unique)]


class _Work:
    def __init__(self, old: GateLock, update: Callable[[str], bool], offline: bool) -> None:
        self._old, self._update, self._offline = old, update, offline
        self._facts: dict[str, ModelFacts] = {}
        self.done = LockResult(GateLock())

    def pair(self, target: ModelReference, draft: ModelReference | None) -> None:
        sides = [target] if draft is None else [target, draft]
        there = [self._model(side) for side in sides]
        if draft is None or not all(there):
            return
        key = locks.pair_key(target.key, draft.key)
        models = self.done.lock.models
        of = [models[side.key]["digest"] for side in sides]
        checks = locks.text_checks(book.engine_files())
        before = self._old.pairs.get(key)
        if before is not None and before.get("of") == of and before.get("checks") == checks:
            self.done.lock.pairs[key] = before
            return
        try:
            facts = [self._read(side) for side in sides]
        except DraftcheckError as error:
            self.done.failed[key] = error.message
            return
        notes = condensed_pairs.pair_notes(compare(*facts))
        entry = {"of": of, "checks": checks, "notes": notes}
        self.done.lock.pairs[key] = locks.sign("pairs", key, entry)

    def _model(self, reference: ModelReference) -> bool:
        """Whether the new lock has this model."""
        key, done = reference.key, self.done
        if key in done.lock.models or key in done.failed:
            return key in done.lock.models
        before = self._old.models.get(key)
        if before is not None and not self._update(key) and self._holds(reference, before):
            done.lock.models[key] = before
            done.kept.append(key)
            return True
        try:
            facts = self._read(reference, fresh=True)
        except DraftcheckError as error:
            done.failed[key] = error.message
            if before is not None and self._holds(reference, before):
                done.lock.models[key] = before  # better than nothing, and still true
            return key in done.lock.models
        entry = locks.sign("models", key, _entry(reference, facts))
        done.lock.models[key] = entry
        if before is None:
            done.added.append(key)
        else:
            (done.kept if before == entry else done.refreshed).append(key)
        return True

    def _holds(self, reference: ModelReference, entry: Mapping[str, Any]) -> bool:
        """Whether what the old lock says is still so."""
        if not isinstance(entry.get("facts"), dict):
            return False
        if entry["facts"].get("condensed") != condensed.FORMAT:
            return False
        if reference.local and reference.ref is not None:
            return model_references.content(reference.ref) == entry.get("content")
        return True

    def _read(self, reference: ModelReference, *, fresh: bool = False) -> ModelFacts:
        """Whole facts; at the commit of the lock, unless it is to be refreshed."""
        if reference.key in self._facts:
            return self._facts[reference.key]
        from draftcheck.models.read import read

        commit = None if fresh else self.done.lock.models.get(reference.key, {}).get("revision")

        def at(ref: ModelRef) -> ModelFacts:
            here = replace(ref, revision=commit) if commit and ref.kind == "hub" else ref
            return read(here, offline=self._offline)

        facts = replace(model_references.read(reference, at), ref=reference.key, name=None)
        if len(self._facts) >= 4:  # the oldest; drafts of one target come together
            del self._facts[next(iter(self._facts))]
        self._facts[reference.key] = facts
        return facts


def _entry(reference: ModelReference, facts: ModelFacts) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "kind": facts.kind,
        "revision": facts.revision,
        "draftcheck": __version__,
        "facts": condensed.condense(facts),
    }
    if reference.local and reference.ref is not None and reference.ref.kind != "facts":
        entry["content"] = model_references.content(reference.ref)
    return entry
