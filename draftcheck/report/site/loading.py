"""The scan's store -> the values that the site shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

from draftcheck import rulebook, versions
from draftcheck.errors import ReadError
from draftcheck.report.site.data import (
    ORDER,
    Answer,
    Change,
    Column,
    Memory,
    Model,
    Pair,
    Part,
    Pin,
    Reason,
    Scan,
    Site,
)
from draftcheck.report.site.order import Ranking
from draftcheck.rulebook import Rule
from draftcheck.scan import rows
from draftcheck.scan.store import Store
from draftcheck.sources.settings import endpoint
from draftcheck.words import Severity, Verdict

REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
EARLIER = 14
"""Scans whose changes are still told."""
NOTHING = "Run draftcheck scan --store PATH first."


def load(path: Path, title: str) -> Site:
    """Everything that a store holds of its targets, as of one moment."""
    with Store.open(path, readonly=True) as store:
        store.db.execute("BEGIN")  # one snapshot, while a scan may go on writing
        try:
            return _site(store, title)
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise ReadError(f"{path}: damaged: {str(error)[:120]}") from error


def _site(store: Store, title: str) -> Site:
    latest = store.latest()
    if latest is None:
        raise ReadError(f"{store.path}: no scan is stored in it", hint=NOTHING)
    before = [s for s in store.scans() if s.number < latest.number and s.state != "running"]
    models = {model.ref: model for model in store.models()}
    listed = store.targets()
    ranking = Ranking(store, models)
    columns: dict[str, Column] = {}
    pairs: dict[str, Sequence[Pair]] = {}
    alone: dict[str, Sequence[Answer]] = {}
    for target in listed:
        found = [_noted(row, columns) for row in store.verdicts(target=target.ref)]
        alone[target.ref] = _answers(row for row in found if row.draft is None)
        ranked = ranking.of(target.ref, _pairs(store, target.ref, found, models))
        pairs[target.ref] = _with_setups(ranked, found)
    drafts = sorted({pair.draft for found in pairs.values() for pair in found})
    return Site(
        title=title,
        targets=[_model(target.ref, models, target.problem) for target in listed],
        drafts=[_model(ref, models) for ref in drafts],
        columns=sorted(columns.values(), key=lambda column: _place(column.asked, column.engine)),
        pairs=pairs,
        alone={ref: answers for ref, answers in alone.items() if answers},
        scan=_scan(latest),
        previous=_scan(before[-1]) if before else None,
        changes=_changes(store, latest.number),
        earlier=_earlier(store, before),
        pins=[Pin(pin.target, pin.draft, pin.engines) for pin in store.pins()],
        unread=[_model(model.ref, models) for model in models.values() if model.status != "read"],
    )


def _earlier(store: Store, scans: Sequence[rows.Scan]) -> list[tuple[Scan, list[Change]]]:
    found = [(_scan(scan), _changes(store, scan.number)) for scan in scans[: -EARLIER - 1 : -1]]
    return [(scan, changes) for scan, changes in found if changes]


def _changes(store: Store, scan: int) -> list[Change]:
    return [_change(entry) for entry in store.changes(scan)]


def _scan(scan: rows.Scan) -> Scan:
    complete = scan.state == "complete"
    counts = {name: count for name, count in scan.counts.items() if isinstance(count, int)}
    return Scan(scan.number, scan.started, scan.finished, scan.draftcheck, complete, counts)


def _change(entry: rows.Change) -> Change:
    engine = f"{entry.engine} {entry.version}"
    method = None if entry.draft else entry.method
    return Change(
        entry.kind, entry.target, entry.draft, f"{engine} {method}" if method else engine,
        entry.before, entry.after, entry.cause, entry.why, entry.pinned,
    )  # fmt: skip


def _model(ref: str, models: Mapping[str, rows.Model], problem: str | None = None) -> Model:
    known = models.get(ref)
    if known is None:
        return Model(ref, unread=problem)
    at_hub = known.kind == "hub" and REPO.fullmatch(ref)
    return Model(
        ref=ref,
        revision=known.revision,
        kind=known.role or "full",
        family=known.family,
        architecture=known.architecture,
        parameters=known.parameters,
        nbytes=known.nbytes,
        context=known.context,
        downloads=known.downloads,
        unread=problem or (known.problem if known.status != "read" else None),
        url=f"{endpoint()}/{ref}" if at_hub else None,
    )


def _noted(row: rows.Verdict, columns: dict[str, Column]) -> rows.Verdict:
    """The row; its question becomes a column, of the newest version that was judged."""
    column = columns.get(row.asked)
    if column is None or row.since > column.since:
        columns[row.asked] = Column(row.asked, row.engine, row.version, row.since)
    return row


def _place(asked: str, engine: str) -> tuple[int, str]:
    """Engines in the order of reports."""
    known = list(rulebook.engine_files())
    return known.index(engine) if engine in known else len(known), asked


def _with_setups(pairs: list[Pair], found: Iterable[rows.Verdict]) -> list[Pair]:
    """Only the best draft's setups are shown; a store has thousands."""
    if not pairs:
        return []
    setups = {(row.asked, row.method): row.setup for row in found if row.draft == pairs[0].draft}
    answers = (
        replace(answer, setup=setups[answer.asked, answer.method]) for answer in pairs[0].answers
    )
    return [replace(pairs[0], answers=tuple(answers)), *pairs[1:]]


def _pairs(
    store: Store,
    target: str,
    verdicts: Iterable[rows.Verdict],
    models: Mapping[str, rows.Model],
) -> Iterator[Pair]:
    trials = _trials(store, target, models)
    for draft, group in groupby(verdicts, lambda row: row.draft):
        if draft is None:
            continue
        found = list(group)
        trial = trials.get(draft)
        yield Pair(
            target=target,
            draft=draft,
            answers=_answers(found, once=True),
            relation=next((row.relation for row in found if row.relation), "unknown"),
            size_ratio=_ratio(models.get(target), models.get(draft)),
            trial=trial.body if trial and trial.state == "done" else None,
            problem=trial.problem if trial and trial.state != "done" else None,
        )


def _trials(
    store: Store, target: str, models: Mapping[str, rows.Model]
) -> dict[str, rows.TrialRow]:
    """The newest trial of each draft, where both models still are what was measured."""
    found = {}
    for row in store.trials(target=target):
        now = [models[ref].revision if ref in models else None for ref in (target, row.draft)]
        if now == [row.target_revision, row.draft_revision]:
            found[row.draft] = row
    return found


def _ratio(target: rows.Model | None, draft: rows.Model | None) -> float | None:
    if target is None or draft is None or not target.parameters or draft.parameters is None:
        return None
    return draft.parameters / target.parameters


def _answers(found: Iterable[rows.Verdict], *, once: bool = False) -> tuple[Answer, ...]:
    """In the order of the columns; once: of several methods of an engine the best."""
    answers = [_answer(row) for row in found]
    answers.sort(key=lambda a: (*_place(a.asked, a.engine), ORDER.index(a.verdict)))
    if once:
        answers = [next(group) for _, group in groupby(answers, lambda answer: answer.asked)]
    return tuple(answers)


def _answer(row: rows.Verdict) -> Answer:
    telling = [saw for saw in row.findings if saw.severity != Severity.NOTE]
    telling.sort(key=lambda saw: (saw.rule != row.decided_by, saw.outcome != "fail"))
    return Answer(
        asked=row.asked,
        engine=row.engine,
        version=row.version,
        verdict=Verdict(row.verdict),
        reaction=row.reaction,
        method=row.method,
        checked=row.version_checked,
        reasons=tuple(_reason(saw, row) for saw in telling),
        memory=_memory(row.memory),
    )


def _reason(saw: rows.Saw, row: rows.Verdict) -> Reason:
    return _told(saw, row.engine, row.version, row.method)


@lru_cache(maxsize=65536)  # the same is seen in many pairs: one value stands for all
def _told(saw: rows.Saw, engine: str, version: str, method: str | None) -> Reason:
    rule = _rule(saw.rule, engine, version, method)
    if rule is None:  # the rulebook no longer has it
        return Reason(saw.rule, "", "", saw.outcome, saw.saw)
    return Reason(saw.rule, rule.slug, rule.title, saw.outcome, saw.saw, rule.fix)


@cache
def _rule(rule_id: str, engine: str, version: str, method: str | None) -> Rule | None:
    """The row whose window and method this is; another of the same id for want of it."""
    if engine not in rulebook.engine_files():
        return None
    book = rulebook.load(engine)
    found = [rule for rule in (*book.rules, *rulebook.truth()) if rule.id == rule_id]
    for rule in found:
        if rule.methods and method not in rule.methods:
            continue
        if rule not in book.rules or versions.covers(book.order, version, rule.since, rule.until):
            return rule
    return found[0] if found else None


def _memory(body: Mapping[str, Any] | None) -> Memory | None:
    if not body:
        return None
    sizes = (("target", body.get("target_bytes")), ("draft", body.get("draft_bytes")))
    parts = tuple(Part(owner, "with its cache", size) for owner, size in sizes if size is not None)
    return Memory(
        gpu=str(body["gpu"]),
        answer=str(body["answer"]),
        required=body.get("required_bytes"),
        available=body.get("available_bytes"),
        max_context=body.get("max_context"),
        parts=parts,
    )
