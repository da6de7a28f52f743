"""Pairs from stored facts -> rows of verdicts. Pure: the same facts and rules, the same rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from draftcheck.errors import ReadError
from draftcheck.judge import questions
from draftcheck.judge.condensed import facts as condensed
from draftcheck.judge.condensed import pairs as condensed_pairs
from draftcheck.judge.decide import Question, judge
from draftcheck.memory import gpus
from draftcheck.scan.rows import ALONE, MOST, FactsRow, FailedRuleRow, MemoryRow, VerdictRow
from draftcheck.scan.store import stable_json
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.facts import ModelFacts
from draftcheck.values.memory import MemoryFit
from draftcheck.values.verdicts import EngineVerdict
from draftcheck.values.words import Outcome, Relation

KEPT = 64
"""Restored models that a worker remembers."""


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model of the store."""

    ref: str
    facts: FactsRow
    revision: str | None = None
    notes: Mapping[str, Any] | None = None
    """Of a draft: what only both vocabularies together tell."""


@dataclass(frozen=True, slots=True)
class JudgeTask:
    """A target and some of its drafts."""

    target: StoredModel
    drafts: tuple[StoredModel | None, ...]
    """None: the target by itself."""
    asked: tuple[str, ...]
    said: Mapping[str, Any]
    explicit: bool


def ask(engines: Sequence[str], said: Mapping[str, Any]) -> dict[str, Question]:
    """Make the questions, by their texts; auto is what is installed here, once and for all."""
    asked = questions.ask(engines, circumstances=_circumstances(stable_json(dict(said))))
    names = [text for text in engines if text != "auto"] or [q.engine for q in asked]
    if len(names) != len(asked):  # auto among others
        names = [f"{q.engine}@{q.version}" if q.version else q.engine for q in asked]
    return dict(zip(names, asked, strict=True))


@lru_cache(maxsize=4)
def _circumstances(said: str) -> Circumstances:
    return gpus.placed(Circumstances(**json.loads(said)))


def judge_pairs(task: JudgeTask) -> list[tuple[str, list[VerdictRow]]]:
    """Judge a target with some drafts; for every draft its rows, in order."""
    target = _restored(task.target)
    asked_for = ask(task.asked, task.said)
    results = []
    for draft in task.drafts:
        known, notes = (_restored(draft), draft.notes) if draft else (None, None)
        comparison = condensed_pairs.compare(target, known, notes)
        rows: list[VerdictRow] = []
        for asked, question in asked_for.items():
            verdict = judge(comparison, [question], explicit=task.explicit)
            relation = verdict.comparison.vocabulary.relation
            rows += [
                _row(asked, entry, relation, task.target.ref, draft) for entry in verdict.engines
            ]
        results.append((draft.ref if draft else ALONE, rows))
    return results


_models: dict[tuple[str, str], ModelFacts] = {}


def _restored(known: StoredModel) -> ModelFacts:
    """Restored once for all pairs of a batch that need it."""
    key = known.ref, known.facts.digest
    if key not in _models:
        if len(_models) >= KEPT:
            _models.pop(next(iter(_models)))
        try:
            facts = condensed.restore(known.facts.facts, known.ref)
        except ReadError as error:
            name = known.facts.digest[:60]
            raise ReadError(f"table facts, row {name!r}: damaged: {error.message}") from None
        download, downloaded = known.facts.download
        _models[key] = replace(
            facts, download=download, downloaded=downloaded, revision=known.revision
        )
    return _models[key]


def _row(
    asked: str, entry: EngineVerdict, relation: Relation, target: str, draft: StoredModel | None
) -> VerdictRow:
    failed = [f for f in entry.findings if f.outcome is not Outcome.OK]
    return VerdictRow(
        target=target,
        draft=draft.ref if draft else None,
        asked=asked,
        slot=(entry.method or "") if draft is None else "",
        engine=entry.engine,
        version=entry.version,
        version_checked=entry.version_checked,
        method=entry.method,
        reaction=entry.reaction,
        verdict=entry.verdict,
        decided_by=entry.decided_by,
        basis=entry.basis,
        relation=None if draft is None else relation,
        findings=tuple(
            FailedRuleRow(f.rule, f.outcome, f.severity, f.reaction, f.saw) for f in failed
        ),
        passed=len(entry.findings) - len(failed),
        setup=entry.setup,
        memory=None if entry.memory is None else _memory(entry.memory),
        notes=tuple(entry.notes),
    )


def _memory(fit: MemoryFit) -> MemoryRow:
    device = fit.fullest
    parts = device.parts if device else ()
    return MemoryRow(
        gpu=fit.machine,
        answer=str(fit.answer),
        required_bytes=_bounded(device.required) if device else None,
        available_bytes=_bounded(device.available) if device else None,
        max_context=None if fit.limits.context is None else _bounded(fit.limits.context),
        target_bytes=_bounded(sum(part.nbytes for part in parts if part.owner == "target")),
        draft_bytes=_bounded(sum(part.nbytes for part in parts if part.owner == "draft")),
        kv_per_token=tuple(map(_bounded, fit.per_token)),
    )


def _bounded(number: int) -> int:
    """As large as a row of the store may say."""
    return max(-MOST, min(number, MOST))
