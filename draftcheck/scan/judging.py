"""Pairs from stored facts -> rows of verdicts. Pure: the same facts and rules, the same rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from draftcheck.judge import questions
from draftcheck.judge.condensed import pairs as condensed_pairs
from draftcheck.judge.decide import Question, judge
from draftcheck.memory import gpu_specs
from draftcheck.scan.rows import ALONE
from draftcheck.scan.store import stable_json
from draftcheck.scan.tasks import restored
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.facts import ModelFacts
from draftcheck.values.memory import MemoryFit
from draftcheck.values.verdicts import EngineVerdict
from draftcheck.values.words import Outcome

KEPT = 64
"""Restored models that a worker remembers."""


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model of the store."""

    ref: str
    digest: str
    body: Mapping[str, Any]
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class StoredDraft:
    """One side of a pair, and what only both vocabularies together tell."""

    known: StoredModel | None
    """None: the target by itself."""
    notes: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class JudgeTask:
    """A target and some of its drafts."""

    target: StoredModel
    drafts: tuple[StoredDraft, ...]
    asked: tuple[str, ...]
    said: Mapping[str, Any]
    explicit: bool


VerdictColumns = dict[str, Any]
"""Columns of the store's verdicts."""


def ask(engines: Sequence[str], said: Mapping[str, Any]) -> dict[str, Question]:
    """Make the questions, by their texts; auto is what is installed here, once and for all."""
    asked = questions.ask(engines, circumstances=_circumstances(stable_json(dict(said))))
    names = [text for text in engines if text != "auto"] or [q.engine for q in asked]
    if len(names) != len(asked):  # auto among others
        names = [f"{q.engine}@{q.version}" if q.version else q.engine for q in asked]
    return dict(zip(names, asked, strict=True))


@lru_cache(maxsize=4)
def _circumstances(said: str) -> Circumstances:
    return gpu_specs.placed(Circumstances(**json.loads(said)))


def judge_pairs(task: JudgeTask) -> list[tuple[str, list[VerdictColumns]]]:
    """Judge a target with some drafts; for every draft its rows, in order."""
    target = _restored(task.target)
    asked_for = ask(task.asked, task.said)
    results = []
    for draft in task.drafts:
        if draft.known is None:
            comparison = condensed_pairs.compare(target, None)
        else:
            comparison = condensed_pairs.compare(target, _restored(draft.known), draft.notes)
        rows: list[VerdictColumns] = []
        for asked, question in asked_for.items():
            verdict = judge(comparison, [question], explicit=task.explicit)
            relation = str(verdict.comparison.vocabulary.relation)
            rows += [_row(asked, entry, relation, draft) for entry in verdict.engines]
        results.append((draft.known.ref if draft.known else ALONE, rows))
    return results


_models: dict[tuple[str, str], ModelFacts] = {}


def _restored(known: StoredModel) -> ModelFacts:
    """Restored once for all pairs of a batch that need it."""
    key = known.ref, known.digest
    if key not in _models:
        if len(_models) >= KEPT:
            _models.pop(next(iter(_models)))
        _models[key] = restored(known.ref, known.body, known.revision)
    return _models[key]


def _row(asked: str, entry: EngineVerdict, relation: str, draft: StoredDraft) -> VerdictColumns:
    failed = [f for f in entry.findings if f.outcome is not Outcome.OK]
    return {
        "asked": asked,
        "slot": (entry.method or "") if draft.known is None else "",
        "engine": entry.engine,
        "version": entry.version,
        "version_checked": int(entry.version_checked),
        "method": entry.method,
        "reaction": str(entry.reaction),
        "verdict": str(entry.verdict),
        "decided_by": entry.decided_by,
        "basis": entry.basis,
        "relation": None if draft.known is None else relation,
        "findings": stable_json(
            [[f.rule, str(f.outcome), str(f.severity), str(f.reaction), f.saw] for f in failed]
        ),
        "passed": len(entry.findings) - len(failed),
        "setup": entry.setup,
        "memory": None if entry.memory is None else stable_json(_memory(entry.memory)),
        "notes": stable_json(list(entry.notes)),
    }


def _memory(fit: MemoryFit) -> dict[str, Any]:
    device = fit.fullest
    parts = device.parts if device else ()
    return {
        "gpu": fit.machine,
        "answer": str(fit.answer),
        "required_bytes": device.required if device else None,
        "available_bytes": device.available if device else None,
        "max_context": fit.limits.context,
        "target_bytes": sum(part.nbytes for part in parts if part.owner == "target"),
        "draft_bytes": sum(part.nbytes for part in parts if part.owner == "draft"),
        "kv_per_token": list(fit.per_token),
    }
