"""The scan's store -> the values that the site shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

from draftcheck import versions
from draftcheck.errors import ReadError
from draftcheck.report.site.data import (
    ORDER,
    EngineColumn,
    SiteAnswer,
    SiteChange,
    SiteData,
    SiteMemory,
    SiteModel,
    SitePair,
    SitePart,
    SitePin,
    SiteReason,
    SiteScan,
)
from draftcheck.report.site.order import StoreRanking
from draftcheck.rulebook import book as rulebook
from draftcheck.rulebook.book import Rule
from draftcheck.scan import rows
from draftcheck.scan.store import ScanStore
from draftcheck.settings import endpoint
from draftcheck.values.words import Severity, Verdict

REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
EARLIER = 14
"""Scans whose changes are still told."""
NOTHING = "Run draftcheck scan --store PATH first."


def load(path: Path, title: str) -> SiteData:
    """Everything that a store holds of its targets, as of one moment."""
    with ScanStore.open(path, readonly=True) as store:
        store.db.execute("BEGIN")  # one snapshot, while a scan may go on writing
        try:
            return _site(store, title)
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise ReadError(f"{path}: damaged: {str(error)[:120]}") from error


def _site(store: ScanStore, title: str) -> SiteData:
    latest = store.latest()
    if latest is None:
        raise ReadError(f"{store.path}: no scan is stored in it", hint=NOTHING)
    before = [s for s in store.scans() if s.number < latest.number and s.state != "running"]
    models = {model.ref: model for model in store.models()}
    listed = store.targets()
    ranking = StoreRanking(store, models)
    columns: dict[str, EngineColumn] = {}
    pairs: dict[str, Sequence[SitePair]] = {}
    alone: dict[str, Sequence[SiteAnswer]] = {}
    for target in listed:
        found = [_noted(row, columns) for row in store.verdicts(target=target.ref)]
        alone[target.ref] = _answers(row for row in found if row.draft is None)
        ranked = ranking.of(target.ref, _pairs(store, target.ref, found, models))
        pairs[target.ref] = _with_setups(ranked, found)
    drafts = sorted({pair.draft for found in pairs.values() for pair in found})
    return SiteData(
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
        pins=[SitePin(pin.target, pin.draft, pin.engines) for pin in store.pins()],
        unread=[_model(model.ref, models) for model in models.values() if model.status != "read"],
    )


def _earlier(
    store: ScanStore, scans: Sequence[rows.ScanRow]
) -> list[tuple[SiteScan, list[SiteChange]]]:
    found = [(_scan(scan), _changes(store, scan.number)) for scan in scans[: -EARLIER - 1 : -1]]
    return [(scan, changes) for scan, changes in found if changes]


def _changes(store: ScanStore, scan: int) -> list[SiteChange]:
    return [_change(entry) for entry in store.changes(scan)]


def _scan(scan: rows.ScanRow) -> SiteScan:
    complete = scan.state == "complete"
    counts = {name: count for name, count in scan.counts.items() if isinstance(count, int)}
    return SiteScan(scan.number, scan.started, scan.finished, scan.draftcheck, complete, counts)


def _change(entry: rows.ChangeRow) -> SiteChange:
    engine = f"{entry.engine} {entry.version}"
    method = None if entry.draft else entry.method
    return SiteChange(
        entry.kind, entry.target, entry.draft, f"{engine} {method}" if method else engine,
        entry.before, entry.after, entry.cause, entry.why, entry.pinned,
    )  # fmt: skip


def _model(ref: str, models: Mapping[str, rows.ModelRow], problem: str | None = None) -> SiteModel:
    known = models.get(ref)
    if known is None:
        return SiteModel(ref, unread=problem)
    at_hub = known.kind == "hub" and REPO.fullmatch(ref)
    return SiteModel(
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


def _noted(row: rows.VerdictRow, columns: dict[str, EngineColumn]) -> rows.VerdictRow:
    """The row; its question becomes a column, of the newest version that was judged."""
    column = columns.get(row.asked)
    if column is None or row.since > column.since:
        columns[row.asked] = EngineColumn(row.asked, row.engine, row.version, row.since)
    return row


def _place(asked: str, engine: str) -> tuple[int, str]:
    """Engines in the order of reports."""
    known = list(rulebook.engine_files())
    return known.index(engine) if engine in known else len(known), asked


def _with_setups(pairs: list[SitePair], found: Iterable[rows.VerdictRow]) -> list[SitePair]:
    """Only the best draft's setups are shown; a store has thousands."""
    if not pairs:
        return []
    setups = {(row.asked, row.method): row.setup for row in found if row.draft == pairs[0].draft}
    answers = (
        replace(answer, setup=setups[answer.asked, answer.method]) for answer in pairs[0].answers
    )
    return [replace(pairs[0], answers=tuple(answers)), *pairs[1:]]


def _pairs(
    store: ScanStore,
    target: str,
    verdicts: Iterable[rows.VerdictRow],
    models: Mapping[str, rows.ModelRow],
) -> Iterator[SitePair]:
    trials = _trials(store, target, models)
    for draft, group in groupby(verdicts, lambda row: row.draft):
        if draft is None:
            continue
        found = list(group)
        trial = trials.get(draft)
        yield SitePair(
            target=target,
            draft=draft,
            answers=_answers(found, once=True),
            relation=next((row.relation for row in found if row.relation), "unknown"),
            size_ratio=_ratio(models.get(target), models.get(draft)),
            trial=trial.body if trial and trial.state == "done" else None,
            problem=trial.problem if trial and trial.state != "done" else None,
        )


def _trials(
    store: ScanStore, target: str, models: Mapping[str, rows.ModelRow]
) -> dict[str, rows.TrialRow]:
    """The newest trial of each draft, where both models still are what was measured."""
    found = {}
    for row in store.trials(target=target):
        now = [models[ref].revision if ref in models else None for ref in (target, row.draft)]
        if now == [row.target_revision, row.draft_revision]:
            found[row.draft] = row
    return found


def _ratio(target: rows.ModelRow | None, draft: rows.ModelRow | None) -> float | None:
    if target is None or draft is None or not target.parameters or draft.parameters is None:
        return None
    return draft.parameters / target.parameters


def _answers(found: Iterable[rows.VerdictRow], *, once: bool = False) -> tuple[SiteAnswer, ...]:
    """In the order of the columns; once: of several methods of an engine the best."""
    answers = [_answer(row) for row in found]
    answers.sort(key=lambda a: (*_place(a.asked, a.engine), ORDER.index(a.verdict)))
    if once:
        answers = [next(group) for _, group in groupby(answers, lambda answer: answer.asked)]
    return tuple(answers)


def _answer(row: rows.VerdictRow) -> SiteAnswer:
    telling = [saw for saw in row.findings if saw.severity != Severity.NOTE]
    telling.sort(key=lambda saw: (saw.rule != row.decided_by, saw.outcome != "fail"))
    return SiteAnswer(
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


def _reason(saw: rows.FailedRuleRow, row: rows.VerdictRow) -> SiteReason:
    return _told(saw, row.engine, row.version, row.method)


@lru_cache(maxsize=65536)  # the same is seen in many pairs: one value stands for all
def _told(saw: rows.FailedRuleRow, engine: str, version: str, method: str | None) -> SiteReason:
    rule = _rule(saw.rule, engine, version, method)
    if rule is None:  # the rulebook no longer has it
        return SiteReason(saw.rule, "", "", saw.outcome, saw.saw)
    return SiteReason(saw.rule, rule.slug, rule.title, saw.outcome, saw.saw, rule.fix)


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


def _memory(body: Mapping[str, Any] | None) -> SiteMemory | None:
    if not body:
        return None
    sizes = (("target", body.get("target_bytes")), ("draft", body.get("draft_bytes")))
    parts = tuple(
        SitePart(owner, "with its cache", size) for owner, size in sizes if size is not None
    )
    return SiteMemory(
        gpu=str(body["gpu"]),
        answer=str(body["answer"]),
        required=body.get("required_bytes"),
        available=body.get("available_bytes"),
        max_context=body.get("max_context"),
        parts=parts,
    )
