"""draftcheck why [LOGFILE|-]"""

from __future__ import annotations

from dataclasses import dataclass

import click

from draftcheck.cli.help import ENGINE, HelpCommand
from draftcheck.cli.options import ReportOptions, emit, parsed_into, report_options


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyRequest:
    """What `draftcheck why` is asked."""

    log: str | None
    engine: str | None
    report: ReportOptions


@click.command("why", cls=HelpCommand)
@click.argument("log", metavar="[LOGFILE|TEXT|-]", required=False)
@click.option(
    "--engine",
    type=ENGINE,
    metavar="NAME[@VERSION]",
    help="Whose log it is, as vllm or llama.cpp@b9109. Default: all engines are looked for.",
)
@report_options("text", "json", "markdown")
@parsed_into(WhyRequest)
def command(request: WhyRequest) -> int:
    """Explain an engine's log or error text: what it means, likely causes, what to do next.

    LOGFILE is a file or a pipe, TEXT an error message in quotes; - (or nothing) reads standard
    input. Exit codes: 0 explained,
    2 usage, 3 nothing recognised or not readable.
    """
    from draftcheck.report import why as report
    from draftcheck.why.explain import read

    explanation = read(request.log, request.engine)
    emit(report.FORMATS[request.report.form](explanation), request.report.output)
    return 0 if explanation.items else 3
