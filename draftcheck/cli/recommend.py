"""draftcheck recommend TARGET"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from draftcheck.cli.help import ENGINE, HelpCommand, WholeNumber, cached_models
from draftcheck.cli.options import (
    ReportOptions,
    circumstances_options,
    emit,
    offline_option,
    parsed_into,
    patience_option,
    report_options,
)
from draftcheck.cli.progress import progress
from draftcheck.values.circumstances import Circumstances

if TYPE_CHECKING:
    from draftcheck.recommend.run import Recommendation, RecommendRequest

SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*([KMBT]?)", re.IGNORECASE)
UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendCommand:
    """What `draftcheck recommend` is asked."""

    target: str | None
    folders: tuple[str, ...]
    engines: tuple[str, ...]
    method: str | None
    limit: int
    max_size: int | None
    tags: tuple[str, ...]
    candidates: tuple[str, ...]
    local: bool
    records: tuple[Path, ...]
    """Reports of trials to rank by."""
    measure: bool
    """Whether the first drafts are measured."""
    circumstances: Circumstances
    strict: bool
    offline: bool
    quiet: bool
    verbose: bool
    report: ReportOptions


def _size(ctx: click.Context, option: click.Parameter, text: str | None) -> int | None:
    """1.7B, 600M: a number of parameters."""
    if text is None:
        return None
    match = SIZE.fullmatch(text.strip())
    number = int(float(match[1]) * UNITS[match[2].upper()]) if match else 0
    if number <= 0:
        raise click.BadParameter(f"{text[:40]!r} is no number of parameters; 1.7B or 600M is one")
    return number


@click.command("recommend", cls=HelpCommand)
@click.argument("target", required=False, shell_complete=cached_models)
@click.argument("folders", nargs=-1, metavar="[FOLDER]...")
@click.option(
    "--engine",
    "engines",
    type=ENGINE,
    multiple=True,
    metavar="NAME[@VERSION]",
    help="Engine that has to run it, as vllm or llama.cpp@b9109 (repeatable); auto: what is"
    " installed here. Default: [defaults] of draftcheck.toml, else any engine.",
)
@click.option("--method", metavar="NAME", help="The engine's own word for the way of speculating.")
@click.option(
    "--limit",
    type=WholeNumber(1, 1000),
    default=10,
    show_default=True,
    metavar="N",
    help="Show so many drafts.",
)
@click.option(
    "--max-size", callback=_size, metavar="SIZE", help="Parameters of a draft, as 2B or 600M."
)
@click.option("--tag", "tags", multiple=True, help="Also look at models with this tag of the Hub.")
@click.option(
    "--candidate",
    "candidates",
    multiple=True,
    metavar="REF",
    help="Look at this model (repeatable), and search nowhere.",
)
@click.option(
    "--local",
    is_flag=True,
    help="Look at the models on this disk: those of the FOLDERs, else the Hub's cache, LM Studio,"
    " llama.cpp and Ollama. Without TARGET: which of them can draft for which.",
)
@click.option(
    "--trials",
    "records",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Reports of `draftcheck trial --format json`, or folders of them, to rank by.",
)
@click.option("--trial", "measure", is_flag=True, help="Measure the first three (downloads them).")
@circumstances_options
@click.option("--strict", is_flag=True, help="Count degraded as incompatible.")
@offline_option
@patience_option
@click.option("--quiet", is_flag=True, help="Print nothing; the exit code is the answer.")
@click.option("--verbose", is_flag=True, help="List all that was turned away, and what it cost.")
@report_options("text", "json", "markdown")
@parsed_into(RecommendCommand)
def command(request: RecommendCommand) -> int:
    """Name the best method and drafts for TARGET: from the Hub, or from this disk.

    Ranked by what is known: a measured speed-up, then what is published of the pair, else the
    verdict, the acceptance from which a draft pays, its cache per token, its vocabulary; popularity
    breaks ties.
    """
    from draftcheck.recommend.run import everything, exit_code, measured, recommend
    from draftcheck.report import recommend as report

    target, places = _places(request)
    plan = _plan(request, places)
    with progress(request.quiet) as say:
        answers = everything(plan, say) if target is None else [recommend(target, plan, say)]
        if request.measure:
            answers = [measured(answer, say) for answer in answers]
    form, output = request.report.form, request.report.output
    if not request.quiet or output is not None:
        emit(report.FORMATS[form](answers, target is None, request.verbose), output)
    _remarks(answers, request)
    return exit_code(answers, strict=request.strict)


def _places(request: RecommendCommand) -> tuple[str | None, tuple[Path, ...]]:
    """TARGET may be left out with --local: a folder of models is no target."""
    from draftcheck.errors import UsageError
    from draftcheck.recommend.local import is_model

    target, local = request.target, request.local
    places = tuple(Path(text).expanduser() for text in request.folders)
    if target is None and not local:
        raise UsageError(
            "which TARGET?", hint="--local alone says which models on this disk go together."
        )
    if places and not local:
        raise UsageError(
            f"{request.folders[0]}: one TARGET is enough",
            hint="Folders of models go with --local.",
        )
    if target is not None and local:
        first = Path(target).expanduser()
        if first.is_dir() and not is_model(first):
            return None, (first, *places)
    return target, places


def _plan(request: RecommendCommand, places: tuple[Path, ...]) -> RecommendRequest:
    from draftcheck import settings
    from draftcheck.recommend.records import load
    from draftcheck.recommend.run import RecommendRequest

    return RecommendRequest(
        engines=request.engines,
        method=request.method,
        circumstances=request.circumstances,
        limit=request.limit,
        largest=request.max_size,
        tags=request.tags,
        named=request.candidates,
        local=request.local or bool(places),
        folders=places,
        offline=request.offline or settings.offline(),
        records=load(request.records),
    )


def _remarks(answers: list[Recommendation], request: RecommendCommand) -> None:
    from draftcheck.models.sources.progress import NetworkTally
    from draftcheck.report.exits import warn

    if request.quiet:
        return
    for answer in answers:
        for note in answer.notes:
            warn(note)
    if request.verbose:
        click.echo(
            f"{NetworkTally.requests:,} requests, {NetworkTally.nbytes / 1e6:,.1f} MB read",
            err=True,
        )
