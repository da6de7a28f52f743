"""draftcheck watch ENGINE [VERSION]"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from draftcheck.cli.help import HelpCommand
from draftcheck.cli.options import ReportOptions, emit, parsed_into, report_options


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRequest:
    """What `draftcheck watch` is asked."""

    engine: str
    version: str | None
    wheel: Path | None
    source: Path | None
    installed: bool
    update: bool
    report: ReportOptions


@click.command("watch", cls=HelpCommand)
@click.argument("engine")
@click.argument("version", required=False)
@click.option("--wheel", type=click.Path(path_type=Path), help="Read this wheel.")
@click.option("--source", type=click.Path(path_type=Path), help="Read this checkout or folder.")
@click.option("--installed", is_flag=True, help="Read the engine that is installed here.")
@click.option(
    "--update",
    is_flag=True,
    help="Where no rule is to be read again: write the version into the rulebook of this checkout"
    " as read, with its options and lists.",
)
@report_options("text", "json")
@parsed_into(WatchRequest)
def command(request: WatchRequest) -> int:
    """Say which rules a release of ENGINE confirms, and which rest on changed code.

    Without --wheel, --source or --installed the release VERSION (or the newest) is downloaded with
    pip. It is read as text; nothing of it is imported or run. Exit codes: 0 nothing to do,
    1 something changed, 2 usage, 3 could not be read.
    """
    from draftcheck.errors import UsageError
    from draftcheck.report import watch as report
    from draftcheck.watch import release, update
    from draftcheck.watch.run import anchored, watch

    given = [request.wheel is not None, request.source is not None, request.installed]
    if sum(given) > 1:
        raise UsageError("--wheel, --source and --installed exclude each other")
    places = anchored(request.engine)
    with release.opened(
        places,
        version=request.version,
        wheel=request.wheel,
        source=request.source,
        here=request.installed,
    ) as tree:
        seen = watch(places, tree)
        emit(report.FORMATS[request.report.form](seen), request.report.output)
        if request.update:
            for line in update.write(places, tree, seen, request.version):
                click.echo(line, err=True)
    return 1 if seen.anything else 0
