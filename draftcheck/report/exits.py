"""Which renderer, and which exit code: the two ends of every verdict."""

from __future__ import annotations

from collections.abc import Mapping

import click

from draftcheck.report.safe import safe
from draftcheck.types import ModelFacts, PairVerdict, Verdict

CODES = {
    Verdict.COMPATIBLE: 0,
    Verdict.DEGRADED: 0,
    Verdict.INCOMPATIBLE: 1,
    Verdict.UNDECIDED: 3,
}


def code(verdict: Verdict, *, strict: bool = False) -> int:
    """The contract's exit code."""
    if strict and verdict is Verdict.DEGRADED:
        return 1
    return CODES[verdict]


def render_pair(verdict: PairVerdict, form: str, *, verbose: bool, explicit: bool) -> str:
    if form == "json":
        from draftcheck.report import json

        return json.pair(verdict)
    if form == "markdown":
        from draftcheck.report import markdown

        return markdown.pair(verdict)
    from draftcheck.report import text

    return text.pair(verdict, verbose=verbose, explicit=explicit)


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
