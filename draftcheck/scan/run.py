"""A whole night: list, screen, read, pair, judge, try; and what changed since the last one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from draftcheck.scan import stages, trials, verdicts
from draftcheck.scan.executors import Local, Runner
from draftcheck.scan.night import Clock, Night, Say, settings
from draftcheck.scan.plan import repo_of
from draftcheck.scan.rows import Change, Model, Pin, Scan, Target, Verdict
from draftcheck.scan.store import Store
from draftcheck.scan.targets import Job
from draftcheck.scan.tasks import session
from draftcheck.scan.writing import Writer
from draftcheck.sources import progress

PROBLEMS = 200
"""Unreadable models that a summary names."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """How a pair that somebody relies on stands now."""

    pin: Pin
    verdict: str
    """The best of the engines asked, or undecided where there is none."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a scan did and what it found to be different."""

    scan: Scan
    resumed: bool
    targets: tuple[Target, ...]
    changes: tuple[Change, ...]
    pins: tuple[Pinned, ...]
    problems: tuple[Model, ...]
    usable: Mapping[str, int]
    """Target -> drafts that at least one engine takes."""


def scan(
    job: Job,
    path: Path,
    *,
    runner: Runner | None = None,
    max_time: float | None = None,
    retry: bool = False,
    offline: bool = False,
    say: Say = lambda _: None,
) -> Summary:
    """Bring the store up to date; it can be killed at any point and run again."""
    with Store.open(path) as store:
        made = runner or Local()
        try:
            night = Night(
                job, store, Writer(store, settings(job)), made, session(), Clock(max_time), say,
                retry=retry, offline=offline,
            )  # fmt: skip
            _run(night)
        finally:
            made.close()
            session().opener.close()
        return summary(store, resumed=night.writer.resumed)


def _run(night: Night) -> None:
    asked = progress.Tally.requests, progress.Tally.nbytes
    if night.offline:
        stages.recall(night)
    else:
        stages.list_hub(night)
        stages.find_named(night)
        stages.find_missing(night)
        stages.read_targets(night)
        stages.screen(night)
    for repo, says in night.vanished.items():
        night.writer.gone(repo, says)
    sides = stages.sides(night)
    pairs = verdicts.pair_up(night, sides)
    if not night.offline:
        verdicts.take_notes(night, pairs, sides)
    verdicts.judge_all(night, pairs, sides)
    trials.try_best(night, sides)
    night.counts["requests"] = progress.Tally.requests - asked[0]
    night.counts["bytes"] = progress.Tally.nbytes - asked[1]
    causes = _causes(night)
    night.writer.finish(None if night.clock.cut else pairs, causes, night.counts, night.clock.spent)


def _causes(night: Night) -> dict[str, tuple[str, str]]:
    """Why models are no candidates any more: a word and a sentence."""
    found = {name: ("vanished", says) for name, says in night.vanished.items()}
    for ref, problem in night.lost.items():
        found[ref] = ("vanished" if problem.missing else "unreadable", problem.says)
    commits = {repo.name: repo.sha for repo in stages.repos(night)}
    for model in night.store.models():
        if model.status in ("unreadable", "gone"):
            cause = "vanished" if model.status == "gone" else "unreadable"
            found.setdefault(model.ref, (cause, model.problem or model.status))
        elif why := night.turned_away.get(repo_of(model.ref)):
            moved = commits.get(repo_of(model.ref)) != model.revision
            found.setdefault(model.ref, ("draft-files" if moved else "left-list", why))
    return found


def summary(store: Store, *, resumed: bool = False) -> Summary:
    """The latest scan in a few lines."""
    latest = store.scans()[-1]
    pins = store.pins()
    usable: dict[str, set[str]] = {target.ref: set() for target in store.targets()}
    for row in store.rows(
        "SELECT DISTINCT target, draft FROM verdicts WHERE verdict IN ('compatible', 'degraded')"
        " AND draft <> ''"
    ):
        usable.setdefault(row[0], set()).add(row[1])
    problems = [m for m in store.models() if m.status in ("unreadable", "gone")]
    return Summary(
        scan=latest,
        resumed=resumed,
        targets=tuple(store.targets()),
        changes=tuple(store.changes(latest.number)),
        pins=tuple(_pinned(store, pin) for pin in pins),
        problems=tuple(problems[:PROBLEMS]),
        usable={target: len(drafts) for target, drafts in usable.items()},
    )


RANK = ("compatible", "degraded", "undecided", "incompatible")


def _pinned(store: Store, pin: Pin) -> Pinned:
    """With engines named, the worst of them counts; without, the best."""
    rows = [
        row
        for row in store.verdicts(target=pin.target, draft=pin.draft)
        if not pin.engines or row.asked in pin.engines
    ]
    missing = set(pin.engines) - {row.asked for row in rows}
    if not rows or missing:
        return Pinned(pin, "undecided", "not judged: " + (_unread(store, pin) or "no verdict yet"))
    order = max if pin.engines else min
    chosen: Verdict = order(rows, key=lambda row: RANK.index(row.verdict))
    seen = [f"{saw.rule}: {saw.saw}" for saw in chosen.findings if saw.severity == "error"]
    why = f"{chosen.engine} {chosen.version}" + (f": {seen[0]}" if seen else "")
    return Pinned(pin, chosen.verdict, why)


def _unread(store: Store, pin: Pin) -> str:
    for ref in (pin.target, pin.draft):
        model = store.model(ref)
        if model is None or model.status not in ("read", "gated"):
            return f"{ref}: {model.problem if model else 'not read'}"
    return ""
