"""draftcheck scan [FILE]"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from draftcheck.cli.help import ENGINE, HelpCommand, WholeNumber
from draftcheck.cli.options import (
    FiniteRange,
    ReportOptions,
    circumstances_options,
    emit,
    parsed_into,
    patience_option,
    report_options,
)
from draftcheck.cli.progress import scan_progress
from draftcheck.errors import UsageError
from draftcheck.values.circumstances import Circumstances

if TYPE_CHECKING:
    from draftcheck.scan.executors import Runner
    from draftcheck.scan.targets import HubSearch, ScanJob

STORE = "draftcheck-scan.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSearchOptions:
    """Which part of the Hub's list drafts are looked for in."""

    author: str | None
    filters: tuple[str, ...]
    search: str | None
    max_size: str | None
    limit: int | None

    @property
    def anything(self) -> bool:
        return bool(self.author or self.search or self.filters or self.max_size or self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """What `draftcheck scan` is asked."""

    file: Path | None
    store: Path
    targets: tuple[str, ...]
    pins: tuple[tuple[str, str], ...]
    candidates: tuple[str, ...]
    engines: tuple[str, ...]
    hub: HubSearchOptions
    circumstances: Circumstances
    max_time: float | None
    trials: int | None
    retry: bool
    executor: str
    workers: int | None
    connections: int
    strict: bool
    offline: bool
    quiet: bool
    report: ReportOptions


@click.command("scan", cls=HelpCommand)
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--store",
    type=click.Path(dir_okay=False, path_type=Path),
    default=STORE,
    show_default=True,
    help="The SQLite file that is brought up to date.",
)
@click.option("--target", "targets", multiple=True, metavar="REF", help="A target (repeatable).")
@click.option(
    "--pin",
    "pins",
    nargs=2,
    multiple=True,
    metavar="TARGET DRAFT",
    help="A pair that must keep working (repeatable): exit code 1 when it does not.",
)
@click.option(
    "--candidate", "candidates", multiple=True, metavar="REF", help="A draft (repeatable)."
)
@click.option(
    "--engine",
    "engines",
    type=ENGINE,
    multiple=True,
    metavar="NAME[@VERSION]",
    help="Engine to ask (repeatable). Default: every engine of the rulebook.",
)
@click.option("--author", help="Look for drafts among this author's models only.")
@click.option("--filter", "filters", multiple=True, metavar="TAG", help="Only models so tagged.")
@click.option("--search", metavar="TEXT", help="Only models with this in their names.")
@click.option("--max-size", metavar="N", help="Only drafts of at most so many parameters: 8B.")
@click.option(
    "--limit", type=WholeNumber(1, 2**40), metavar="N", help="Rows of the Hub's list to look at."
)
@circumstances_options
@click.option(
    "--max-time",
    type=FiniteRange(0, min_open=True),
    metavar="SECONDS",
    help="Stop in good order after this long; the next run goes on.",
)
@click.option(
    "--trials",
    type=WholeNumber(0, 2**40),
    metavar="N",
    help="Measure the best N drafts of each target.",
)
@click.option("--retry", is_flag=True, help="Read again what could not be read before.")
@click.option("--executor", default="local", show_default=True, metavar="local|ray[:ADDRESS]")
@click.option("--workers", type=WholeNumber(1, 4096), metavar="N", help="Processes that judge.")
@click.option(
    "--connections",
    type=WholeNumber(1, 64),
    default=8,
    show_default=True,
    metavar="N",
    help="Connections to one host at a time.",
)
@click.option("--strict", is_flag=True, help="A pinned pair that is degraded counts as broken.")
@click.option("--offline", is_flag=True, help="Use no network: judge again what was read before.")
@patience_option
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
@report_options("text", "json", "markdown")
@parsed_into(ScanRequest)
def command(request: ScanRequest) -> int:
    """Keep a store of verdicts fresh: targets x drafts x engines, night after night.

    FILE is a TOML list of targets and filters (docs/scan.md); options add to it. A scan that was
    killed or ran out of time goes on where it stopped. `draftcheck report` makes pages of the
    store.
    """
    from draftcheck.report import scan as report
    from draftcheck.scan import judging
    from draftcheck.scan.run import scan

    with scan_progress(request.quiet) as say:
        # Everything is checked before the store is touched.
        job = _job(request)
        judging.ask(job.engines, job.said)  # says what is wrong with engines and circumstances
        summary = scan(
            job,
            request.store,
            runner=_runner(request),
            max_time=request.max_time,
            retry=request.retry,
            offline=request.offline,
            say=say,
        )
    emit(report.FORMATS[request.report.form](summary), request.report.output)
    return report.code(summary, strict=request.strict)


def _job(request: ScanRequest) -> ScanJob:
    """The list of the file, and what the options add to it."""
    from draftcheck.scan.rows import PinRow
    from draftcheck.scan.targets import SAID, ScanJob, load, merge

    job = load(request.file) if request.file else ScanJob()
    trials = request.trials
    return merge(
        job,
        targets=request.targets,
        named=request.candidates,
        pins=tuple(PinRow(target, draft) for target, draft in request.pins),
        engines=request.engines,
        candidates=(_hub_search(request.hub),) if request.hub.anything else None,
        trials=None if trials is None else replace(job.trials, per_target=trials),
        said={name: getattr(request.circumstances, name) for name in SAID},
    )


def _hub_search(options: HubSearchOptions) -> HubSearch:
    from draftcheck.scan.targets import LIMIT, HubSearch, count

    return HubSearch(
        options.filters,
        options.search or "",
        options.author or "",
        max_parameters=count(options.max_size, "--max-size") if options.max_size else None,
        limit=options.limit or LIMIT,
    )


def _runner(request: ScanRequest) -> Runner:
    name, _, address = request.executor.partition(":")
    if name == "local" and not address:
        from draftcheck.scan.executors import LocalRunner

        return LocalRunner(request.workers, request.connections)
    if name != "ray":
        raise UsageError(f"no executor {request.executor!r}", hint="local, ray or ray:ADDRESS.")
    from draftcheck.scan.ray import open_cluster

    return open_cluster(address or None, request.connections, request.workers)
