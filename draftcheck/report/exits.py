"""The exit code of a verdict, and warnings beside a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from draftcheck.report.safe import safe
from draftcheck.values.words import Verdict

if TYPE_CHECKING:
    from draftcheck.trial.result import Trial

CODES = {Verdict.COMPATIBLE: 0, Verdict.DEGRADED: 0, Verdict.INCOMPATIBLE: 1, Verdict.UNDECIDED: 3}


def code(verdict: Verdict, *, strict: bool = False, trial: Trial | None = None) -> int:
    """The contract's exit code; a pair that a trial found broken is not compatible."""
    if trial is not None:
        from draftcheck.report import trial as measured

        if found := measured.code(trial):
            return found
    if strict and verdict is Verdict.DEGRADED:
        return 1
    return CODES[verdict]


def warn(message: str) -> None:
    """A line on standard error."""
    click.echo(f"warning: {safe(message)}", err=True)
