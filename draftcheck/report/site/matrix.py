"""All pairs as one compact JSON value for the matrix: what repeats is said once and pointed to."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from draftcheck.report.json import dumps
from draftcheck.report.safe import safe
from draftcheck.report.site import words
from draftcheck.report.site.data import ORDER, SiteData, place
from draftcheck.report.site.words import SHORT, reaction
from draftcheck.scan.rows import FailedRuleRow, ModelRow, VerdictRow

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


def data(site: SiteData) -> dict[str, Any]:
    columns = {column.asked: at for at, column in enumerate(site.columns)}
    targets = {model.ref: at for at, model in enumerate(site.targets)}
    drafts = {model.ref: at for at, model in enumerate(site.drafts)}
    answers, sets, families, pairs = ValuePool(), ValuePool(), ValuePool(), []
    for target in site.targets:
        for rank, pair in enumerate(site.pairs.get(target.ref, ()), 1):
            one = tuple(
                answers.add(_key(answer), partial(_answer, answer, columns[answer.asked]))
                for answer in pair.answers
            )
            pairs.append(
                [
                    targets[pair.target],
                    drafts[pair.draft],
                    sets.add(one, partial(list, one)),
                    place(pair.verdict),
                    rank,
                    _rounded(pair.speedup),
                    _rounded(pair.break_even),
                    pair.memory.required_bytes if pair.memory else None,
                    int(pair.at_best),
                ]
            )
    return {
        "columns": [[column.asked, column.engine, column.version] for column in site.columns],
        "words": [str(verdict) for verdict in ORDER],
        "targets": [[*_model(m, families), words.target_page(m.ref)] for m in site.targets],
        "drafts": [[*_model(m, families), safe(m.draft_kind, SHORT)] for m in site.drafts],
        "answers": answers.values,
        "sets": sets.values,
        "pairs": pairs,
    }


def _model(model: ModelRow, families: ValuePool) -> list[Any]:
    family = families.add(model.family, str)
    return [safe(model.ref, SHORT), words.ref_digest(model.ref), model.parameters, family]


def script(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return (
        dumps(value, indent=None)
        .replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
    )


def _key(answer: VerdictRow) -> Hashable:
    seen = tuple((reason.rule, reason.outcome, reason.saw) for reason in answer.findings[:REASONS])
    return (
        answer.asked, answer.version, answer.verdict, answer.version_checked, answer.method,
        answer.reaction, seen,
    )  # fmt: skip


def _answer(answer: VerdictRow, column: int) -> list[Any]:
    return [
        column,
        place(answer.verdict),
        int(answer.version_checked),
        safe(answer.method or "", SHORT),
        reaction(answer.reaction),
        [_reason(reason) for reason in answer.findings[:REASONS]],
    ]


def _reason(reason: FailedRuleRow) -> list[str]:
    page = words.rule_pages().get(reason.rule)
    said = safe(reason.saw)
    return [
        safe(reason.rule, SHORT),
        f"{page}#{reason.rule}" if page else "",
        said if reason.outcome == "fail" else f"not checked: {said}",
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
