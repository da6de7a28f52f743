"""Which renderer, and which exit code: the two ends of every verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from draftcheck.report.safe import safe
from draftcheck.values.facts import ModelFacts
from draftcheck.values.verdicts import PairVerdict
from draftcheck.values.words import Verdict

if TYPE_CHECKING:
    from draftcheck.trial.result import Trial

CODES = {
    Verdict.COMPATIBLE: 0,
    Verdict.DEGRADED: 0,
    Verdict.INCOMPATIBLE: 1,
    Verdict.UNDECIDED: 3,
}


def code(verdict: Verdict, *, strict: bool = False, trial: Trial | None = None) -> int:
    """The contract's exit code; a pair that a trial found broken is not compatible."""
    if trial is not None:
        from draftcheck.report import trial as measured

        if found := measured.code(trial):
            return found
    if strict and verdict is Verdict.DEGRADED:
        return 1
    return CODES[verdict]


def render_pair(
    verdict: PairVerdict, form: str, *, verbose: bool, explicit: bool, trial: Trial | None = None
) -> str:
    if form == "json":
        from draftcheck.report import json

        return json.pair(verdict, trial)
    if form == "markdown":
        from draftcheck.report import markdown

        return _with(markdown.pair(verdict), trial, form)
    from draftcheck.report import text

    return _with(text.pair(verdict, verbose=verbose, explicit=explicit), trial, form)


def _with(report: str, trial: Trial | None, form: str) -> str:
    """The report, and the trial below it."""
    if trial is None:
        return report
    from draftcheck.report import trial as measured

    below = measured.short(trial) if form == "text" else measured.render(trial, form)
    return f"{report}\n\n{below}"


def render_inspect(facts: ModelFacts, loaded: Mapping[str, object] | None, form: str) -> str:
    if form == "json":
        from draftcheck.report import json

        return json.inspect(facts, loaded)
    if form == "markdown":
        from draftcheck.report import markdown

        return markdown.inspect(facts)
    from draftcheck.report import text

    return text.inspect(facts, loaded)


def warn(message: str) -> None:
    """A line on standard error."""
    click.echo(f"warning: {safe(message)}", err=True)
