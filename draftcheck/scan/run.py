"""A whole night, and what changed since the last one.

    hub_list   list the Hub           one request a page; who is there, at which commit
    stages     screen                 by listing, by files, by the vocabulary's digest
               read                   headers of targets and of who is left -> condensed facts
    verdicts   pair up                members of a target's family, heads made for it, pins
               note                   vocabularies that differ, side by side, once for all pairs
               judge                  pairs whose facts, rules or settings changed
               measure                the best pairs of each target, if asked for
    writing    finish                 drop what is no pair any more; the scan is complete

Each step is a set of tasks (tasks.py, judging.py) that an executor runs anywhere; this process
alone writes to the store, result by result. So a night can be killed at any point: the next one
finds in the store what is done, and does the rest under the same number. What changed against the
last complete scan is noted with the verdicts, each change with its cause (changes.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from draftcheck.models.sources import progress
from draftcheck.scan import hub_list, stages, verdicts
from draftcheck.scan.changes import USABLE, WORSE
from draftcheck.scan.executors import LocalRunner, Runner
from draftcheck.scan.night import Say, ScanNight, StageClock, settings
from draftcheck.scan.plan import READABLE, repo_of
from draftcheck.scan.rows import (
    ChangeRow,
    ModelRow,
    PinRow,
    RepoRow,
    ScanRow,
    TargetRow,
    VerdictRow,
)
from draftcheck.scan.store import ScanStore
from draftcheck.scan.targets import ScanJob
from draftcheck.scan.tasks import session
from draftcheck.scan.writing import ScanWriter

PROBLEMS = 200
"""Unreadable models that a summary names."""


@dataclass(frozen=True, slots=True)
class PinnedPair:
    """How a pair that somebody relies on stands now."""

    pin: PinRow
    verdict: str
    """The best of the engines asked, or undecided where there is none."""
    why: str = ""
    worse: tuple[str, ...] = ()
    """Engines that took it at the scan before and take it less well, or not, now."""


@dataclass(frozen=True, slots=True)
class ScanSummary:
    """What a scan did and what it found to be different."""

    scan: ScanRow
    resumed: bool
    targets: tuple[TargetRow, ...]
    changes: tuple[ChangeRow, ...]
    pins: tuple[PinnedPair, ...]
    problems: tuple[ModelRow, ...]
    usable: Mapping[str, int]
    """Target -> drafts that at least one engine takes."""
    gated: frozenset[str] = frozenset()
    """Those of the models named here whose publisher decides who may have them."""


def scan(
    job: ScanJob,
    path: Path,
    *,
    runner: Runner | None = None,
    max_time: float | None = None,
    retry: bool = False,
    offline: bool = False,
    relist: bool = False,
    say: Say = lambda _: None,
) -> ScanSummary:
    """Bring the store up to date; it can be killed at any point and run again."""
    with ScanStore.open(path) as store:
        executor = runner or LocalRunner()
        try:
            writer, clock = ScanWriter(store, settings(job)), StageClock(max_time)
            night = ScanNight(
                job, store, writer, executor, session(), clock, say,
                retry=retry, offline=offline, relist=relist,
            )  # fmt: skip
            _run(night)
        finally:
            executor.close()
            session().opener.close()
        return summary(store, resumed=night.writer.resumed)


def _run(night: ScanNight) -> None:
    requests, nbytes = progress.NetworkTally.requests, progress.NetworkTally.nbytes
    if night.offline:
        stages.recall(night)
    else:
        hub_list.list_hub(night)
        stages.find_named(night)
        stages.find_missing(night)
        stages.read_targets(night)
        stages.screen(night)
    for repo, says in night.vanished.items():
        night.writer.mark_gone(repo, says)
    sides = stages.sides(night)
    pairs = verdicts.pair_up(night, sides)
    if not night.offline:
        verdicts.take_notes(night, pairs, sides)
    verdicts.judge_all(night, pairs, sides)
    verdicts.try_best(night, sides)
    night.counts["requests"] = progress.NetworkTally.requests - requests
    night.counts["bytes"] = progress.NetworkTally.nbytes - nbytes
    causes = _causes(night)
    night.writer.finish(None if night.clock.cut else pairs, causes, night.counts, night.clock.spent)


def _causes(night: ScanNight) -> dict[str, tuple[str, str]]:
    """Why models are no candidates any more: a word and a sentence."""
    causes = {name: ("vanished", says) for name, says in night.vanished.items()}
    for ref, problem in night.lost.items():
        causes[ref] = ("vanished" if problem.missing else "unreadable", problem.says)
    for model in night.store.models():
        if model.status not in READABLE:
            cause = "vanished" if model.status == "gone" else "unreadable"
            causes.setdefault(model.ref, (cause, model.problem or model.status))
        elif (repo := night.repo(repo_of(model.ref))) and repo.turned_away:
            moved = repo.sha != model.revision
            causes.setdefault(model.ref, ("draft-files" if moved else "left-list", repo.why or ""))
    return causes


def summary(store: ScanStore, *, resumed: bool = False) -> ScanSummary:
    latest = store.scans()[-1]
    targets = tuple(store.targets())
    found = store.query(
        "SELECT target, count(DISTINCT draft) FROM verdicts WHERE verdict IN"
        " ('compatible', 'degraded') AND draft <> '' GROUP BY target"
    )
    usable = {target.ref: 0 for target in targets} | {row[0]: row[1] for row in found}
    problems = [model for model in store.models() if model.status not in READABLE]
    changes = tuple(store.changes(latest.number))
    worse = [change for change in changes if change.pinned and change.kind in WORSE]
    pins = [_pinned(store, pin, worse) for pin in store.read(PinRow)]
    named = {target.ref for target in targets}
    named.update(ref for pin in pins for ref in (pin.pin.target, pin.pin.draft))
    named.update(ref for change in changes for ref in (change.target, change.draft) if ref)
    return ScanSummary(
        scan=latest,
        resumed=resumed,
        targets=targets,
        changes=changes,
        pins=tuple(sorted(pins, key=lambda pin: (not pin.worse, pin.verdict in USABLE))),
        problems=tuple(problems[:PROBLEMS]),
        usable=usable,
        gated=frozenset(ref for ref in named if _gated(store, ref)),
    )


def _gated(store: ScanStore, ref: str) -> bool:
    model, repo = store.model(ref), next(store.read(RepoRow, "name = ?", repo_of(ref)), None)
    return bool((model and model.status == "gated") or (repo and repo.gated))


RANK = ("compatible", "degraded", "undecided", "incompatible")


def _pinned(store: ScanStore, pin: PinRow, worse: Sequence[ChangeRow]) -> PinnedPair:
    """With engines named, the worst of them counts; without, the best."""
    named = {name.partition("@")[0] for name in pin.engines}
    engines = tuple(
        change.engine
        for change in worse
        if (change.target, change.draft) == (pin.target, pin.draft)
        and (not named or change.engine in named)
    )
    rows = [
        row
        for row in store.verdicts(target=pin.target, draft=pin.draft)
        if not pin.engines or row.asked in pin.engines
    ]
    missing = set(pin.engines) - {row.asked for row in rows}
    if not rows or missing:
        unread = (
            f"{ref}: {model.problem if model else 'not read'}"
            for ref, model in ((ref, store.model(ref)) for ref in (pin.target, pin.draft))
            if model is None or model.status not in READABLE
        )
        return PinnedPair(
            pin, "undecided", f"not judged: {next(unread, 'no verdict yet')}", engines
        )
    order = max if pin.engines else min
    chosen: VerdictRow = order(rows, key=lambda row: RANK.index(row.verdict))
    errors = [f"{row.rule}: {row.saw}" for row in chosen.findings if row.severity == "error"]
    why = f"{chosen.engine} {chosen.version}" + (f": {errors[0]}" if errors else "")
    return PinnedPair(pin, chosen.verdict, why, engines)
