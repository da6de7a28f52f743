"""`draftcheck lock`: the models that deploy files name are read, and what the gate needs is kept.

1. The survey finds the deployments that speculate; each names a target and perhaps a draft.
2. A model that the old lock has, and that is still what it was (same files on this disk, same
   format of facts), is taken over as it is. The others are read, at the commit of the lock unless
   they are to be refreshed.
3. A pair is compared with whole vocabularies, unless its entry is about the same two models and
   answers all of today's checks.
4. Figures of trials come from the files that the manifest names.
Nothing is written before the caller asks for it; a model that cannot be read keeps its old entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import UNSET

from draftcheck.deploy.discover import shown
from draftcheck.errors import DraftcheckError, UsageError
from draftcheck.gate import fixing, known_models, minimums, survey
from draftcheck.gate.known_models import ModelReference
from draftcheck.gate.lock import format as locks
from draftcheck.gate.lock.format import GateLock, LockedModel, LockedPair
from draftcheck.gate.survey import SurveyedDeployment
from draftcheck.judge.compare import compare
from draftcheck.judge.condensed import facts as condensed
from draftcheck.judge.condensed import pairs as condensed_pairs
from draftcheck.models.refs import ModelRef
from draftcheck.rulebook import book
from draftcheck.settings import __version__
from draftcheck.values.facts import ModelFacts

Pair = tuple[ModelReference, ModelReference | None]
WHOLE_FACTS = 4
"""Models whose whole vocabularies are held at a time; drafts of one target come together."""


@dataclass(frozen=True, slots=True)
class LockRequest:
    """What `draftcheck lock` is asked for."""

    files: tuple[str, ...] = ()
    """Deploy files to look at; none: all, and what none of them names is dropped."""
    path: Path | None = None
    """Another file than draftcheck.lock at the root."""
    update: bool = False
    """Read models again that the lock has."""
    models: tuple[str, ...] = ()
    """Only these, where any are named."""
    offline: bool = False


@dataclass(slots=True)
class LockRefresh:
    """The new lock, and how it differs from the one that is there."""

    path: Path
    lock: GateLock
    before: str | None = None
    """The text that is there now; None: no lock."""
    text: str = ""
    """The text that is to be there."""
    setups: int = 0
    unclear: int = 0
    """Setups whose models are not known from the file."""
    distrusted: tuple[str, ...] = ()
    """What was wrong with the old lock."""
    added: list[str] = field(default_factory=list)
    refreshed: list[str] = field(default_factory=list)
    """Read again, and other than before."""
    dropped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Model or pair -> why it could not be read."""

    @property
    def changed(self) -> bool:
        """Whether there is something to write."""
        return self.text != self.before and bool(self.before is not None or self.lock.models)

    def write(self) -> None:
        fixing.put(self.path, self.text.encode("ascii"), shown(self.path))


def refresh(request: LockRequest) -> LockRefresh:
    """Read what is missing; writes nothing."""
    surveyed = survey.take(request.files, None)
    path = request.path or surveyed.root / locks.NAME
    loaded = locks.load(path)
    old = loaded or GateLock()
    all_setups = (setup for file in surveyed.files for setup in file.setups)
    # A fork's setups are not judged, so nothing need be known of their models.
    setups = [s for s in all_setups if s.deployment.speculates and not s.deployment.fork]
    pairs = [pair for setup in setups if (pair := _pair(setup, surveyed.root)) is not None]
    keys = {side.key for pair in pairs for side in pair if side is not None}
    if unknown := sorted(set(request.models) - keys):
        hint = f"Named: {', '.join(sorted(keys)[:12])}." if keys else None
        raise UsageError(f"no deploy file names the model {unknown[0]!r}", hint=hint)
    trials = {
        name: locks.sign("trials", name, trial)
        for setup in setups
        if (name := setup.deployment.name)
        and (trial := minimums.recorded(setup.wanted, surveyed.root)) is not None
    }
    done = LockRefresh(path, GateLock(), setups=len(setups), unclear=len(setups) - len(pairs))
    work, lock = _Refreshing(old, request, done), done.lock
    # Pairs of one target together, so that whole vocabularies need not be kept for long.
    unique = {(t.key, d.key if d else ""): (t, d) for t, d in pairs}
    for key in sorted(unique):
        work.pair(*unique[key])
    lock.trials = trials
    if request.files:  # other files may name what these do not
        lock.models = {**old.models, **lock.models}
        lock.pairs = {**old.pairs, **lock.pairs}
        lock.trials = {**old.trials, **lock.trials}
    done.dropped = sorted(set(old.models) - set(lock.models) - set(done.failed))
    done.distrusted = tuple(flaw.saw for flaw in old.flaws.values())
    if loaded is not None:
        done.before = path.read_text(encoding="utf-8", errors="replace")
    done.text = locks.dumps(lock)
    return done


def _pair(setup: SurveyedDeployment, root: Path) -> Pair | None:
    """The models of a setup; None when the file does not tell them."""
    deployment = setup.deployment
    words = [word for word in (deployment.target, deployment.draft) if word is not None]
    if deployment.unknown or deployment.target is None or any(word.unknown for word in words):
        return None
    sides = [known_models.of_word(word, root, setup.paths) for word in words]
    return sides[0], sides[1] if len(sides) > 1 else None


class _Refreshing:
    """Fills the new lock, pair by pair."""

    def __init__(self, old: GateLock, request: LockRequest, done: LockRefresh) -> None:
        self._old, self._request, self._done = old, request, done
        self._facts: dict[str, ModelFacts] = {}

    def pair(self, target: ModelReference, draft: ModelReference | None) -> None:
        sides = [target] if draft is None else [target, draft]
        known = [self._model(side) for side in sides]
        if draft is None or not all(known):
            return
        lock, key = self._done.lock, locks.pair_key(target.key, draft.key)
        of = [lock.models[side.key].digest for side in sides]
        checks = locks.text_checks(book.engine_files())
        before = self._old.pairs.get(key)
        if before is not None and before.of == of and before.checks == checks:
            lock.pairs[key] = before
            return
        try:
            facts = [self._read(side) for side in sides]
        except DraftcheckError as error:
            self._done.failed[key] = error.message
            return
        notes = condensed_pairs.pair_notes(compare(*facts))
        lock.pairs[key] = locks.sign("pairs", key, LockedPair(of=of, checks=checks, notes=notes))

    def _model(self, reference: ModelReference) -> bool:
        """Whether the new lock has this model."""
        key, done, models = reference.key, self._done, self._done.lock.models
        if key in models or key in done.failed:
            return key in models
        before, asked = self._old.models.get(key), self._request
        again = asked.update and (not asked.models or key in asked.models)
        if before is not None and not again and self._holds(reference, before):
            models[key] = before
            return True
        try:
            facts = self._read(reference, fresh=True)
        except DraftcheckError as error:
            done.failed[key] = error.message
            if before is not None and self._holds(reference, before):
                models[key] = before  # better than nothing, and still true
            return key in models
        ref = reference.ref
        files = reference.local and ref is not None and ref.kind != "facts"
        entry = LockedModel(
            kind=facts.kind,
            revision=facts.revision,
            draftcheck=__version__,
            facts=condensed.condense(facts),
            content=known_models.content(ref) if files and ref is not None else UNSET,
        )
        models[key] = locks.sign("models", key, entry)
        if before is None:
            done.added.append(key)
        elif before != models[key]:
            done.refreshed.append(key)
        return True

    def _holds(self, reference: ModelReference, entry: LockedModel) -> bool:
        """Whether what the old lock says is still so."""
        if entry.facts.get("condensed") != condensed.FORMAT:
            return False
        if reference.local and reference.ref is not None:
            return known_models.content(reference.ref) == (entry.content or None)
        return True

    def _read(self, reference: ModelReference, *, fresh: bool = False) -> ModelFacts:
        """Whole facts; at the commit of the lock, unless it is to be refreshed."""
        if reference.key in self._facts:
            return self._facts[reference.key]
        # Imported here: with a lock that holds nothing is read.
        from draftcheck.models.read import read

        locked = None if fresh else self._done.lock.models.get(reference.key)
        commit = locked.revision if locked is not None else None

        def at(ref: ModelRef) -> ModelFacts:
            pinned = replace(ref, revision=commit) if commit and ref.kind == "hub" else ref
            return read(pinned, offline=self._request.offline)

        facts = replace(known_models.read_reference(reference, at), ref=reference.key, name=None)
        if len(self._facts) >= WHOLE_FACTS:
            del self._facts[next(iter(self._facts))]
        self._facts[reference.key] = facts
        return facts


def summary(done: LockRefresh, *, written: bool) -> Iterator[str]:
    """What was done, a line each."""
    for verb in ("added", "refreshed", "dropped"):
        for key in getattr(done, verb):
            entry = done.lock.models.get(key)
            at = f" at {entry.revision[:12]}" if entry is not None and entry.revision else ""
            yield f"{verb} {key}{at}"
    if not done.lock.models and done.before is None:
        why = f"{_count(len(done.failed), 'model')} could not be read" if done.failed else ""
        what = f"nothing locked: {why}" if why else "nothing to lock"
        yield f"{what} ({_count(done.setups, 'setup')} found)"
        return
    state = "written" if written else "unchanged" if done.text == done.before else "not written"
    models, pairs = len(done.lock.models), len(done.lock.pairs)
    yield (
        f"{shown(done.path)} {state}: {_count(models, 'model')}, {_count(pairs, 'pair')}"
        f" from {_count(done.setups, 'setup')}"
        + (f"; {len(done.failed)} could not be read" if done.failed else "")
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def complaints(done: LockRefresh) -> Iterator[str]:
    """What went wrong, a line each."""
    for saw in done.distrusted:
        yield f"warning: {shown(done.path)}: {saw}; it was not believed"
    for key, reason in done.failed.items():
        yield f"error: {reason}" if reason.startswith(key) else f"error: {key}: {reason}"
    if any("on this disk" in reason for reason in done.failed.values()) or any(
        key.startswith(("/", "./", "../", "~")) for key in done.failed
    ):
        yield "hint: [paths] in draftcheck.toml says which model of the Hub a path holds"
    if done.unclear:
        what = "setup names" if done.unclear == 1 else "setups name"
        yield f"warning: {done.unclear} {what} models by variables that nothing defines"
