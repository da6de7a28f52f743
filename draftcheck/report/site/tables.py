"""The site's values for programs: all as JSON, pairs as CSV, and what the matrix page reads."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from draftcheck.report.json import HEAD, dumps, picked
from draftcheck.report.recommend import method_json
from draftcheck.report.safe import safe
from draftcheck.report.site import words
from draftcheck.report.site.data import ORDER, SiteData, SitePair, place, reasons
from draftcheck.report.site.words import SHORT, reaction
from draftcheck.scan.rows import FailedRuleRow, ModelRow, ScanRow, VerdictRow

CHANGE = ("kind", "target", "draft", "engine=where", "before", "after", "cause", "why", "pinned")
_FORMULA = re.compile(r"(^|[;,|\t])(?=[\"\s]*[=+\-@\uff1d\uff0b\uff0d\uff20])")
"""Where a spreadsheet would begin to calculate: at the start, or behind another separator."""
TRIAL = (
    "backend", "device", "dtype", "temperature", "prompts", "tokens", "acceptance_rate",
    "acceptance_by_position", "lengths", "best", "cost", "broken",
)  # fmt: skip
"""What is told of a trial; the rest of its figures stay in the store."""
REASONS = 2
"""Of a verdict that the matrix tells; the target's page has the others."""


class ValuePool:
    """Distinct values in the order in which they were met, each pointed to by its place."""

    def __init__(self) -> None:
        self.places: dict[Hashable, int] = {}
        self.values: list[Any] = []

    def add(self, key: Hashable, make: Callable[[], Any]) -> int:
        """The place of a value; it is made when its key is met for the first time."""
        if key not in self.places:
            self.places[key] = len(self.values)
            self.values.append(make())
        return self.places[key]


def as_json(site: SiteData) -> str:
    """Answers that several pairs share are listed once; a pair points to them by place."""
    answers = ValuePool()
    pairs = [
        {"rank": rank, **_pair(pair), "answers": [_place(answers, a) for a in pair.answers]}
        for target in site.targets
        for rank, pair in enumerate(site.pairs.get(target.ref, ()), 1)
    ]
    alone = {ref: [_place(answers, a) for a in found] for ref, found in site.alone.items()}
    body = {
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
        "unread": [picked(model, "ref", "why=unread") for model in site.unread],
    }
    return dumps(body, indent=None)


def target_json(site: SiteData, target: ModelRow) -> str:
    """One target with its drafts; a pair points to its answers by place, as in `as_json`."""
    answers = ValuePool()
    body = {
        **HEAD,
        "scan": _scan(site.scan),
        "target": _model(target),
        "methods": [
            method_json(row, rank) for rank, row in enumerate(site.methods.get(target.ref, ()), 1)
        ],
        "pairs": [
            {"rank": rank, **_pair(pair), "answers": [_place(answers, a) for a in pair.answers]}
            for rank, pair in enumerate(site.pairs.get(target.ref, ()), 1)
        ],
        "alone": [_place(answers, a) for a in site.alone.get(target.ref, ())],
        "answers": answers.values,
    }
    return dumps(body, indent=None) + "\n"


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


def _rounded(value: Any) -> Any:
    """Measured figures to four places: more were never known."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {name: _rounded(entry) for name, entry in value.items()}
    return [_rounded(entry) for entry in value] if isinstance(value, list | tuple) else value


def _place(pool: ValuePool, answer: VerdictRow) -> int:
    key = (answer.asked, answer.version, answer.method, answer.reaction, answer.verdict)
    told = ("asked", "engine", "version", "version_checked", "method", "reaction", "verdict")

    def make() -> dict[str, Any]:
        seen = [picked(saw, "rule", "slug", "outcome", "saw") for saw in answer.findings]
        return {**picked(answer, *told), "findings": seen}

    return pool.add((*key, answer.version_checked, answer.findings), make)


def as_csv(site: SiteData) -> str:
    """One line per pair, one column per engine."""
    fields = [*_FIELDS, *(column.asked for column in site.columns)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([cell(field) for field in fields])
    for target in site.targets:
        for rank, pair in enumerate(site.pairs.get(target.ref, ()), 1):
            row = _row(pair, rank)
            writer.writerow([cell(row.get(field)) for field in fields])
    return out.getvalue()


def cell(value: Any) -> Any:
    """Text that no spreadsheet takes for a formula; numbers stay numbers."""
    return _FORMULA.sub(r"\1'", safe(value, 1000)) if isinstance(value, str) else value


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


# ---- the matrix: what repeats is said once and pointed to ----


def matrix(site: SiteData) -> dict[str, Any]:
    columns = {column.asked: at for at, column in enumerate(site.columns)}
    targets = {model.ref: at for at, model in enumerate(site.targets)}
    drafts = {model.ref: at for at, model in enumerate(site.drafts)}
    answers, sets, families, pairs = ValuePool(), ValuePool(), ValuePool(), []
    for target in site.targets:
        for rank, pair in enumerate(site.pairs.get(target.ref, ()), 1):
            one = tuple(
                _matrix_place(answers, answer, columns[answer.asked]) for answer in pair.answers
            )
            pairs.append(
                [
                    targets[pair.target],
                    drafts[pair.draft],
                    sets.add(one, partial(list, one)),
                    place(pair.verdict),
                    rank,
                    _to_three_places(pair.speedup),
                    _to_three_places(pair.break_even),
                    pair.memory.required_bytes if pair.memory else None,
                    int(pair.at_best),
                ]
            )
    return {
        "columns": [[column.asked, column.engine, column.version] for column in site.columns],
        "words": [str(verdict) for verdict in ORDER],
        "targets": [[*_matrix_model(m, families), words.target_page(m.ref)] for m in site.targets],
        "drafts": [
            [
                *_matrix_model(model, families),
                safe(model.draft_kind, SHORT),
                words.hub_url(model),
                int(model.ref in site.gated),
            ]
            for model in site.drafts
        ],
        "answers": answers.values,
        "sets": sets.values,
        "pairs": pairs,
    }


def _matrix_model(model: ModelRow, families: ValuePool) -> list[Any]:
    family = families.add(model.family, str)
    return [safe(model.ref, SHORT), words.ref_digest(model.ref), model.parameters, family]


def script(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = dumps(value, indent=None)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _matrix_place(pool: ValuePool, answer: VerdictRow, column: int) -> int:
    told = reasons(answer)[:REASONS]
    seen = tuple((reason.rule, reason.outcome, reason.saw) for reason in told)
    key = (answer.asked, answer.version, answer.verdict, answer.version_checked, answer.method)

    def make() -> list[Any]:
        return [
            column,
            place(answer.verdict),
            int(answer.version_checked),
            safe(answer.method or "", SHORT),
            reaction(answer.reaction),
            [_reason(reason) for reason in told],
        ]

    return pool.add((*key, answer.reaction, seen), make)


def _reason(reason: FailedRuleRow) -> list[str]:
    page = words.rule_pages().get(reason.rule)
    said = safe(reason.saw)
    return [
        safe(reason.rule, SHORT),
        f"{page}#{reason.rule}" if page else "",
        said if reason.outcome == "fail" else f"not checked: {said}",
    ]


def _to_three_places(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
