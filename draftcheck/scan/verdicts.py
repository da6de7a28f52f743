"""The second half of a night: pairs, their notes, their verdicts, and trials of the best."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from draftcheck.errors import ReadError
from draftcheck.scan import judging, plan, stages, tasks
from draftcheck.scan.judging import JudgeTask, StoredDraft, StoredModel
from draftcheck.scan.night import ScanNight
from draftcheck.scan.plan import CardedModel, PlannedPairs
from draftcheck.scan.rows import ALONE, ModelRow
from draftcheck.scan.rules_digest import rules_digest
from draftcheck.scan.store import text
from draftcheck.scan.writing import Again, VerdictInputs

BATCH = 24
"""Drafts of one target that are judged together."""
Notes = dict[tuple[str, str], str]


def pair_up(night: ScanNight, sides: Mapping[str, CardedModel]) -> PlannedPairs:
    """Who is held against whom; everybody else keeps a reason."""
    found = plan.pairs([target.ref for target in night.targets], sides, night.job.pins)
    night.writer.rejected((plan.repo_of(ref), "header", why) for ref, why in found.rejected.items())
    night.counts["pairs"] = len(found)
    return found


def take_notes(night: ScanNight, pairs: PlannedPairs, sides: Mapping[str, CardedModel]) -> None:
    """Vocabularies that differ are held side by side, once for all who have them."""
    known = set(_notes(night))
    todo: dict[tuple[str, str], tuple[str, str]] = {}
    for target, draft in pairs:
        key = _key(sides, target, draft)
        if key is not None and key not in known:
            todo.setdefault(key, (target, draft))
    work = (
        tasks.PairNotesTask(
            key, _model(night, sides[pair[0]].model), _model(night, sides[pair[1]].model)
        )
        for key, pair in todo.items()
    )
    for task, done in night.run("notes", tasks.notes, work, len(todo), kind="cpu"):
        if isinstance(done, tasks.TaskProblem):
            night.count("unnoted", 1)
        else:
            night.writer.notes(task.key, done)


def _key(sides: Mapping[str, CardedModel], target: str, draft: str) -> tuple[str, str] | None:
    """The two vocabularies, where only their texts side by side tell how they differ."""
    if draft == ALONE:
        return None
    ours, theirs = sides[target].model, sides[draft].model
    if ours.fingerprint is None or theirs.fingerprint is None or ours.voice == theirs.voice:
        return None
    return ours.voice or "", theirs.voice or ""


def _notes(night: ScanNight) -> Notes:
    return {(row[0], row[1]): row[2] for row in night.store.rows("SELECT * FROM notes")}


def _model(night: ScanNight, model: ModelRow) -> tasks.ModelTask:
    return stages.model_task(night, stages.ref_at(night, model))


def judge_all(night: ScanNight, pairs: PlannedPairs, sides: Mapping[str, CardedModel]) -> None:
    """Every pair whose facts, rules or settings are not those of its verdicts."""
    job = night.job
    questions = judging.ask(job.engines, job.said)
    asked = tuple(questions)
    rules = {name: rules_digest(q.engine) for name, q in questions.items()}
    given = _digest([dict(job.said), list(asked), bool(job.engines)])
    notes = _notes(night)
    bases = {
        (row[0], row[1]): row[2]
        for row in night.store.rows("SELECT target, draft, basis FROM pairs")
    }
    todo: dict[str, list[str]] = {}
    fresh: dict[tuple[str, str], tuple[str, tuple[str, str, str]]] = {}
    for target, draft in pairs:
        made = (_facts(sides, target), _facts(sides, draft), given)
        key = _key(sides, target, draft)
        basis = _digest([*made, rules, None if key is None else notes.get(key)])
        if bases.get((target, draft)) != basis:
            todo.setdefault(target, []).append(draft)
            fresh[target, draft] = basis, made

    def work() -> Iterator[JudgeTask]:
        for target, drafts in todo.items():
            known = _known(night, sides[target].model)
            for some in plan.batches(drafts, BATCH):
                sent = tuple(_draft(night, sides, target, draft, notes) for draft in some)
                yield JudgeTask(known, sent, asked, dict(job.said), bool(job.engines))

    total = sum(-(-len(drafts) // BATCH) for drafts in todo.values())
    for task, results in night.run(
        "verdicts", judging.judge_pairs, work(), total, kind="cpu", share=1.0
    ):
        for draft, rows in results:
            target = task.target.ref
            whole = [{**row, "rules": rules[row["asked"]]} for row in rows]
            gated = any(
                sides[ref].model.status == "gated" for ref in (target, draft) if ref != ALONE
            )
            basis, made = fresh[target, draft]
            source = VerdictInputs(made, gated, _again(night, task, draft))
            night.writer.judged(target, draft, basis, source, whole)
            night.count("verdicts", len(rows))


def _again(night: ScanNight, task: JudgeTask, draft: str) -> Again:
    """The same pair with the files that it had before; their facts stay until a scan ends."""

    def judge(target_facts: str, draft_facts: str) -> dict[tuple[str, str], str]:
        try:
            target = replace(task.target, digest=target_facts, body=night.store.body(target_facts))
            known = None
            if draft != ALONE:
                known = StoredModel(draft, draft_facts, night.store.body(draft_facts))
            old = replace(task, target=target, drafts=(StoredDraft(known),))
            [(_, rows)] = judging.judge_pairs(old)
        except ReadError:
            return {}
        return {(row["asked"], row["slot"]): row["verdict"] for row in rows}

    return judge


def _facts(sides: Mapping[str, CardedModel], ref: str) -> str:
    return "" if ref == ALONE else sides[ref].model.facts or ""


def _known(night: ScanNight, model: ModelRow) -> StoredModel:
    digest = model.facts or ""
    return StoredModel(model.ref, digest, night.store.body(digest), model.revision)


def _draft(
    night: ScanNight, sides: Mapping[str, CardedModel], target: str, draft: str, notes: Notes
) -> StoredDraft:
    if draft == ALONE:
        return StoredDraft(None)
    key = _key(sides, target, draft)
    body = notes.get(key) if key is not None else None
    return StoredDraft(_known(night, sides[draft].model), json.loads(body) if body else None)


def _digest(value: Any) -> str:
    return hashlib.sha256(text(value).encode()).hexdigest()[:40]
