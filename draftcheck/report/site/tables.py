"""The site's values for programs: everything as JSON, the pairs as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from draftcheck.report.json import HEAD, dumps, picked
from draftcheck.report.safe import safe
from draftcheck.report.site import words
from draftcheck.report.site.data import SiteData, SitePair
from draftcheck.report.site.matrix import ValuePool
from draftcheck.scan.rows import ModelRow, ScanRow, VerdictRow

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
            **HEAD,
            "title": site.title,
            "scan": _scan(site.scan),
            "previous": _scan(site.previous),
            "engines": [asdict(column) for column in site.columns],
            "targets": [_model(model) for model in site.targets],
            "drafts": [_model(model) for model in site.drafts],
            "answers": answers.values,
            "pairs": pairs,
            "alone": alone,
            "changes": [picked(change, *CHANGE) for change in site.changes],
            "pins": [asdict(pin) for pin in site.pins],
            "unread": [{"ref": model.ref, "why": model.unread} for model in site.unread],
        },
        indent=None,
    )


def _scan(scan: ScanRow | None) -> dict[str, Any] | None:
    keys = ("number", "started", "finished", "version=draftcheck", "complete", "counts")
    return None if scan is None else picked(scan, *keys)


def _model(model: ModelRow) -> dict[str, Any]:
    return {
        **picked(
            model, "ref", "revision", "kind=draft_kind", "family", "architecture", "parameters",
            "nbytes", "context",
        ),
        "rows": None,  # the store does not keep them
        **picked(model, "downloads", "unread"),
        "url": words.hub_url(model),
    }  # fmt: skip


def _pair(pair: SitePair) -> dict[str, Any]:
    trial = pair.trial
    return {
        **picked(
            pair, "target", "draft", "verdict", "relation", "speedup",
            "break_even_acceptance=break_even", "at_best", "size_ratio", "why",
        ),
        "memory": pair.memory
        and picked(
            pair.memory, "gpu", "answer", "required_bytes", "available_bytes", "max_context"
        ),
        "trial": None if trial is None else {name: _rounded(trial.get(name)) for name in TRIAL},
    }  # fmt: skip


CHANGE = (
    "kind", "target", "draft", "engine=where", "before", "after", "cause", "why", "pinned",
)  # fmt: skip


def _rounded(value: Any) -> Any:
    """Measured figures to four places: more were never known."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {name: _rounded(entry) for name, entry in value.items()}
    return [_rounded(entry) for entry in value] if isinstance(value, list | tuple) else value


def _place(pool: ValuePool, answer: VerdictRow) -> int:
    key = (answer.asked, answer.version, answer.method, answer.reaction, answer.verdict)
    return pool.add((*key, answer.version_checked, answer.findings), partial(_answer, answer))


def _answer(answer: VerdictRow) -> dict[str, Any]:
    return {
        **picked(
            answer, "asked", "engine", "version", "version_checked", "method", "reaction", "verdict"
        ),
        "findings": [picked(saw, "rule", "slug", "outcome", "saw") for saw in answer.findings],
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
    rules = {saw.rule for answer in pair.answers for saw in answer.findings}
    return {
        **picked(
            pair, "target", "draft", "verdict", "relation", "speedup",
            "break_even_acceptance=break_even", "size_ratio",
        ),
        "rank": rank,
        "gpu": memory.gpu if memory else None,
        "memory": memory.answer if memory else None,
        "required_bytes": memory.required_bytes if memory else None,
        "max_context": memory.max_context if memory else None,
        "because": " ".join(sorted(rules)),
        **{answer.asked: str(answer.verdict) for answer in pair.answers},
    }  # fmt: skip
