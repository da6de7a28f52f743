"""The site's values for programs: everything as JSON, the pairs as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from draftcheck.report.json import SCHEMA_VERSION, dumps
from draftcheck.report.safe import safe
from draftcheck.report.site.data import SiteAnswer, SiteData, SiteMemory, SitePair
from draftcheck.report.site.pool import ValuePool
from draftcheck.settings import __version__

_FORMULA = re.compile(r"(^|[;,|\t])(?=[\"\s]*[=+\-@\uff1d\uff0b\uff0d\uff20])")
"""Where a spreadsheet would begin to calculate: at the start, or behind another separator."""
TRIAL = (
    "backend", "device", "dtype", "temperature", "prompts", "tokens", "acceptance_rate",
    "acceptance_by_position", "lengths", "best", "cost", "broken",
)  # fmt: skip
"""What is told of a trial; the rest of its figures stay in the store."""


def as_json(site: SiteData) -> str:
    """Answers that several pairs share are listed once; a pair points to them by place."""
    answers = ValuePool()
    pairs = [
        {"rank": rank, **_pair(pair), "answers": [_place(answers, a) for a in pair.answers]}
        for target in site.targets
        for rank, pair in enumerate(site.pairs.get(target.ref, ()), 1)
    ]
    alone = {ref: [_place(answers, a) for a in found] for ref, found in site.alone.items()}
    return dumps(
        {
            "schema_version": SCHEMA_VERSION,
            "draftcheck_version": __version__,
            "title": site.title,
            "scan": asdict(site.scan) if site.scan else None,
            "previous": asdict(site.previous) if site.previous else None,
            "engines": [asdict(column) for column in site.columns],
            "targets": [asdict(model) for model in site.targets],
            "drafts": [asdict(model) for model in site.drafts],
            "answers": answers.values,
            "pairs": pairs,
            "alone": alone,
            "changes": [asdict(change) for change in site.changes],
            "pins": [asdict(pin) for pin in site.pins],
            "unread": [{"ref": model.ref, "why": model.unread} for model in site.unread],
        },
        indent=None,
    )


def _pair(pair: SitePair) -> dict[str, Any]:
    trial = pair.trial
    return {
        "target": pair.target,
        "draft": pair.draft,
        "verdict": str(pair.verdict),
        "relation": pair.relation,
        "speedup": pair.speedup,
        "break_even_acceptance": pair.break_even,
        "at_best": pair.at_best,
        "size_ratio": pair.size_ratio,
        "why": pair.why,
        "memory": _memory(pair.memory) if pair.memory else None,
        "trial": None if trial is None else {name: _rounded(trial.get(name)) for name in TRIAL},
    }


def _memory(memory: SiteMemory) -> dict[str, Any]:
    return {
        "gpu": memory.gpu,
        "answer": memory.answer,
        "required_bytes": memory.required,
        "available_bytes": memory.available,
        "max_context": memory.max_context,
    }


def _rounded(value: Any) -> Any:
    """Measured figures to four places: more were never known."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {name: _rounded(entry) for name, entry in value.items()}
    return [_rounded(entry) for entry in value] if isinstance(value, list | tuple) else value


def _place(pool: ValuePool, answer: SiteAnswer) -> int:
    key = (answer.asked, answer.version, answer.method, answer.reaction, answer.verdict)
    return pool.add((*key, answer.checked, answer.reasons), partial(_answer, answer))


def _answer(answer: SiteAnswer) -> dict[str, Any]:
    return {
        "asked": answer.asked,
        "engine": answer.engine,
        "version": answer.version,
        "version_checked": answer.checked,
        "method": answer.method,
        "reaction": answer.reaction,
        "verdict": str(answer.verdict),
        "findings": [
            {"rule": reason.rule, "slug": reason.slug, "outcome": reason.outcome, "saw": reason.saw}
            for reason in answer.reasons
        ],
    }


def as_csv(site: SiteData) -> str:
    """One line per pair, one column per engine."""
    rows = [
        _row(pair, rank)
        for target in site.targets
        for rank, pair in enumerate(site.pairs.get(target.ref, ()), 1)
    ]
    fields = [*_FIELDS, *(column.asked for column in site.columns)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([cell(field) for field in fields])
    writer.writerows([cell(row.get(field)) for field in fields] for row in rows)
    return out.getvalue()


def cell(value: Any) -> Any:
    """Text that no spreadsheet takes for a formula; numbers stay numbers."""
    if not isinstance(value, str):
        return value
    return _FORMULA.sub(r"\1'", safe(value, 1000))


_FIELDS = (
    "target", "draft", "rank", "verdict", "relation", "speedup", "break_even_acceptance",
    "size_ratio", "gpu", "memory", "required_bytes", "max_context", "because",
)  # fmt: skip


def _row(pair: SitePair, rank: int) -> Mapping[str, Any]:
    memory = pair.memory
    rules = {reason.rule for answer in pair.answers for reason in answer.reasons}
    return {
        "target": pair.target,
        "draft": pair.draft,
        "rank": rank,
        "verdict": str(pair.verdict),
        "relation": pair.relation,
        "speedup": pair.speedup,
        "break_even_acceptance": pair.break_even,
        "size_ratio": pair.size_ratio,
        "gpu": memory.gpu if memory else None,
        "memory": memory.answer if memory else None,
        "required_bytes": memory.required if memory else None,
        "max_context": memory.max_context if memory else None,
        "because": " ".join(sorted(rules)),
        **{answer.asked: str(answer.verdict) for answer in pair.answers},
    }
