"""draftcheck doctor"""

from __future__ import annotations

from dataclasses import dataclass

import click

from draftcheck.cli.help import HelpCommand
from draftcheck.cli.options import (
    ReportOptions,
    emit,
    parsed_into,
    patience_option,
    report_options,
)
from draftcheck.cli.progress import progress


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorRequest:
    """What `draftcheck doctor` is asked."""

    model: str | None
    quiet: bool
    report: ReportOptions


@click.command("doctor", cls=HelpCommand)
@click.option(
    "--model",
    metavar="REPO",
    help="A public model with a config.json and a large file. Default: openai-community/gpt2.",
)
@patience_option
@click.option("--quiet", is_flag=True, help="Print nothing; the exit code is the answer.")
@report_options("text", "json")
@parsed_into(DoctorRequest)
def command(request: DoctorRequest) -> int:
    """Ask the Hub a few harmless questions: does it answer as draftcheck expects?

    The endpoint (HF_ENDPOINT, or the public Hub) is asked for a model, some of its files, parts of
    files, things that are missing, and lists; a few kilobytes, nothing is written. Its report is
    the first thing to paste into an issue about the Hub or a mirror. Exit codes: 0 draftcheck can
    work with it, 1 an assumption does not hold, 2 usage, 3 not everything could be asked.
    """
    from draftcheck.doctor.run import examine
    from draftcheck.report import doctor as report

    with progress(request.quiet):
        found = examine(request.model)
    if not request.quiet or request.report.output is not None:
        emit(report.FORMATS[request.report.form](found), request.report.output)
    return report.code(found)
