"""draftcheck inspect MODEL"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from draftcheck.cli.help import HelpCommand, cached_models
from draftcheck.cli.options import (
    ReportOptions,
    deep_option,
    emit,
    offline_option,
    parsed_into,
    patience_option,
)
from draftcheck.cli.progress import progress

MOST_FAULTS = 20
"""Lines about broken weights; the report itself counts all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectRequest:
    """What `draftcheck inspect` is asked."""

    model: str
    report: ReportOptions
    """Its output is a facts file, beside the report."""
    deep: bool
    offline: bool


@click.command("inspect", cls=HelpCommand)
@click.argument("model", shell_complete=cached_models)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="Form of the report.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Save all facts here (NAME.facts.json); the file then stands for the model.",
)
@deep_option
@offline_option
@patience_option
@parsed_into(InspectRequest)
def command(request: InspectRequest) -> int:
    """Show what the files of MODEL say, without opinion."""
    from draftcheck.errors import ReadError, UsageError
    from draftcheck.models import stored
    from draftcheck.models.read import read
    from draftcheck.models.refs import FACTS_SUFFIX, parse
    from draftcheck.report import exits
    from draftcheck.report.pair import INSPECT

    output = request.report.output
    if output is not None and not output.name.endswith(FACTS_SUFFIX):
        raise UsageError(f"{output}: a facts file must be called NAME{FACTS_SUFFIX}")
    with progress(quiet=False):
        ref = parse(request.model)
        facts = read(ref, offline=request.offline, deep=request.deep)
    emit(INSPECT[request.report.form](facts), None)
    if output is not None:
        try:
            stored.save(facts, output)
        except OSError as error:
            raise ReadError(f"{output}: cannot be written: {error.strerror}") from error
    for note in (*facts.notes, *map(str, (facts.weights.faults or ())[:MOST_FAULTS])):
        exits.warn(note)
    return 3 if facts.refused and ref.kind != "facts" else 0
