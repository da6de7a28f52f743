"""The whole of `draftcheck lock`: files -> models -> lock text, and what was done in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from draftcheck.deploy.discover import shown
from draftcheck.errors import UsageError
from draftcheck.gate import lock as locks
from draftcheck.gate import locking, minimums, model_references, survey, writing
from draftcheck.gate.locking import LockResult
from draftcheck.gate.model_references import ModelReference
from draftcheck.gate.survey import SurveyedDeployment


@dataclass(frozen=True, slots=True)
class RelockResult:
    path: Path
    locked: LockResult
    before: str | None
    """The text that is there now; None: no lock."""
    text: str
    setups: int
    unclear: int
    """Setups whose models are not known from the file."""
    distrusted: tuple[str, ...] = ()


def run(
    files: Sequence[str], update: bool, models: Sequence[str], path: Path | None, *, offline: bool
) -> RelockResult:
    """Read what is missing; writes nothing."""
    found = survey.take(files, None)
    path = path or found.root / locks.NAME
    old = locks.load(path)
    setups = [s for file in found.seen for s in file.setups if s.deployment.speculates]
    pairs = [pair for setup in setups if (pair := _pair(setup, found.root)) is not None]
    keys = {side.key for pair in pairs for side in pair if side is not None}
    if unknown := sorted(set(models) - keys):
        hint = f"Named: {', '.join(sorted(keys)[:12])}." if keys else None
        raise UsageError(f"no deploy file names the model {unknown[0]!r}", hint=hint)
    done = locking.build(
        old or locks.GateLock(),
        pairs,
        dict(minimums.recorded(setups, found.root)),
        lambda key: update and (not models or key in models),
        offline=offline,
        partial=bool(files),
    )
    before = path.read_text(encoding="utf-8", errors="replace") if old is not None else None
    return RelockResult(
        path,
        done,
        before,
        locks.dumps(done.lock),
        len(setups),
        len(setups) - len(pairs),
        tuple(flaw.saw for flaw in old.flaws.values()) if old else (),
    )


def _pair(
    setup: SurveyedDeployment, root: Path
) -> tuple[ModelReference, ModelReference | None] | None:
    """The models of a setup; None when the file does not tell them."""
    deployment = setup.deployment
    words = [word for word in (deployment.target, deployment.draft) if word is not None]
    if deployment.unknown or deployment.target is None or any(word.unknown for word in words):
        return None
    sides = [model_references.of_word(word, root, setup.paths) for word in words]
    return sides[0], sides[1] if len(sides) > 1 else None


def write(done: RelockResult) -> None:
    writing.write(done.path, done.text.encode("ascii"), shown(done.path))


def words(done: RelockResult, *, written: bool) -> Iterator[str]:
    """What was done, a line each."""
    lock = done.locked
    for word, keys in (
        ("added", lock.added),
        ("refreshed", lock.refreshed),
        ("dropped", lock.dropped),
    ):
        for key in keys:
            entry = lock.lock.models.get(key, {})
            revision = entry.get("revision")
            yield f"{word} {key}" + (f" at {revision[:12]}" if revision else "")
    count = len(lock.lock.models)
    if not count and done.before is None:
        yield f"nothing to lock ({done.setups} setup{'' if done.setups == 1 else 's'} found)"
        return
    state = "written" if written else "unchanged" if done.text == done.before else "not written"
    pairs = len(lock.lock.pairs)
    yield (
        f"{shown(done.path)} {state}: {count} model{'' if count == 1 else 's'},"
        f" {pairs} pair{'' if pairs == 1 else 's'}"
        f" from {done.setups} setup{'' if done.setups == 1 else 's'}"
    )


def complaints(done: RelockResult) -> Iterator[str]:
    for saw in done.distrusted:
        yield f"warning: {shown(done.path)}: {saw}; it was not believed"
    for key, reason in done.locked.failed.items():
        yield f"error: {key}: {reason}"
    if done.unclear:
        what = "setup names" if done.unclear == 1 else "setups name"
        yield f"warning: {done.unclear} {what} models by variables that nothing defines"
