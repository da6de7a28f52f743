"""draftcheck recommend TARGET"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from draftcheck.cli.options import circumstances_options, emit, offline_option, report_options
from draftcheck.cli.progress import progress

if TYPE_CHECKING:
    from draftcheck.recommend.run import Recommendation, RecommendRequest

SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*([KMBT]?)", re.IGNORECASE)
UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


def _size(ctx: click.Context, option: click.Parameter, text: str | None) -> int | None:
    """1.7B, 600M: a number of parameters."""
    if text is None:
        return None
    match = SIZE.fullmatch(text.strip())
    number = int(float(match[1]) * UNITS[match[2].upper()]) if match else 0
    if number <= 0:
        raise click.BadParameter(f"{text[:40]!r} is no number of parameters; 1.7B or 600M is one")
    return number


@click.command("recommend")
@click.argument("target", required=False)
@click.argument("folders", nargs=-1, metavar="[FOLDER]...")
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="NAME[@VERSION]",
    help="Engine that has to run it, as vllm or llama.cpp@b9109 (repeatable); auto: what is"
    " installed here. Default: any engine of the rulebook.",
)
@click.option("--method", metavar="NAME", help="The engine's own word for the way of speculating.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
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
    "named",
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
@click.option("--quiet", is_flag=True, help="Print nothing; the exit code is the answer.")
@click.option("--verbose", is_flag=True, help="List all that was turned away, and what it cost.")
@report_options("text", "json", "markdown")
def command(
    target: str | None,
    folders: tuple[str, ...],
    local: bool,
    measure: bool,
    strict: bool,
    quiet: bool,
    verbose: bool,
    form: str,
    output: Path | None,
    **said: Any,
) -> int:
    """Name the best drafts for TARGET: from the Hub, or from the models on this disk.

    Ranked by what is known: a measured speed-up, else the verdict, the acceptance from which a
    draft pays, its cache per token, its vocabulary; popularity breaks ties.
    """
    from draftcheck.recommend.run import everything, exit_code, measured, recommend
    from draftcheck.report import recommend as report

    target, places = _places(target, folders, local)
    plan = _plan(local or bool(places), places, **said)
    with progress(quiet) as say:
        answers = everything(plan, say) if target is None else [recommend(target, plan, say)]
        if measure:
            answers = [measured(answer, say) for answer in answers]
    if not quiet or output is not None:
        emit(report.FORMATS[form](answers, target is None, verbose), output)
    _remarks(answers, quiet, verbose)
    return exit_code(answers, strict=strict)


def _places(
    target: str | None, folders: tuple[str, ...], local: bool
) -> tuple[str | None, tuple[Path, ...]]:
    """TARGET may be left out with --local: a folder of models is no target."""
    from draftcheck.errors import UsageError
    from draftcheck.recommend.local import is_model

    places = tuple(Path(text).expanduser() for text in folders)
    if target is None and not local:
        raise UsageError(
            "which TARGET?", hint="--local alone says which models on this disk go together."
        )
    if places and not local:
        raise UsageError(
            f"{folders[0]}: one TARGET is enough", hint="Folders of models go with --local."
        )
    if target is not None and local:
        first = Path(target).expanduser()
        if first.is_dir() and not is_model(first):
            return None, (first, *places)
    return target, places


def _plan(
    local: bool,
    folders: tuple[Path, ...],
    *,
    engines: tuple[str, ...],
    method: str | None,
    limit: int,
    max_size: int | None,
    tags: tuple[str, ...],
    named: tuple[str, ...],
    records: tuple[Path, ...],
    offline: bool,
    **said: Any,
) -> RecommendRequest:
    from draftcheck import settings
    from draftcheck.recommend.records import load
    from draftcheck.recommend.run import RecommendRequest
    from draftcheck.values.circumstances import Circumstances

    return RecommendRequest(
        engines=engines,
        method=method,
        circumstances=Circumstances(**said),
        limit=limit,
        largest=max_size,
        tags=tags,
        named=named,
        local=local,
        folders=folders,
        offline=offline or settings.offline(),
        records=load(records),
    )


def _remarks(answers: list[Recommendation], quiet: bool, verbose: bool) -> None:
    from draftcheck.models.sources.progress import NetworkTally
    from draftcheck.report.exits import warn

    if quiet:
        return
    for answer in answers:
        for note in answer.notes:
            warn(note)
    if verbose:
        click.echo(
            f"{NetworkTally.requests:,} requests, {NetworkTally.nbytes / 1e6:,.1f} MB read",
            err=True,
        )
