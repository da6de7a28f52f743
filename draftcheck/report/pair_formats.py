"""The formats that a report about a pair, or about one model, comes in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from draftcheck.report import json, markdown, text
from draftcheck.values.facts import ModelFacts
from draftcheck.values.verdicts import PairVerdict

if TYPE_CHECKING:
    from draftcheck.trial.result import Trial


def _text(verdict: PairVerdict, trial: Trial | None, verbose: bool, explicit: bool) -> str:
    report = text.pair(verdict, verbose=verbose, explicit=explicit)
    if trial is None:
        return report
    from draftcheck.report import trial as measured  # numpy comes with it

    return f"{report}\n\n{measured.short(trial)}"


def _markdown(verdict: PairVerdict, trial: Trial | None, verbose: bool, explicit: bool) -> str:
    report = markdown.pair(verdict)
    if trial is None:
        return report
    from draftcheck.report import trial as measured

    return f"{report}\n\n{measured.FORMATS['markdown'](trial)}"


def _json(verdict: PairVerdict, trial: Trial | None, verbose: bool, explicit: bool) -> str:
    return json.pair(verdict, trial)


PAIR: Mapping[str, Callable[[PairVerdict, Trial | None, bool, bool], str]] = {
    "text": _text,
    "json": _json,
    "markdown": _markdown,
}
"""Form -> a verdict with its trial; verbose, and explicit: the user named the engines."""
INSPECT: Mapping[str, Callable[[ModelFacts, Mapping[str, object] | None], str]] = {
    "text": text.inspect,
    "json": json.inspect,
    "markdown": lambda facts, _: markdown.inspect(facts),
}
"""Form -> the facts of one model, and what llama.cpp holds of it."""
