"""draftcheck why [LOGFILE|-]"""

from __future__ import annotations

from pathlib import Path

import click

from draftcheck.cli.options import emit, report_options


@click.command("why")
@click.argument("log", metavar="[LOGFILE|-]", required=False)
@click.option(
    "--engine",
    metavar="NAME[@VERSION]",
    help="Whose log it is, as vllm or llama.cpp@b9109. Default: all engines are looked for.",
)
@report_options("text", "json", "markdown")
def command(log: str | None, engine: str | None, form: str, output: Path | None) -> int:
    """Explain an engine's log or error text: what it means, likely causes, what to do next.

    LOGFILE is a file or a pipe; - (or nothing) reads standard input. Exit codes: 0 explained,
    2 usage, 3 nothing recognised or not readable.
    """
    from draftcheck.report import why as report
    from draftcheck.why import run

    explanation = run.read(log, engine)
    emit(report.FORMATS[form](explanation), output)
    return 0 if explanation.items else 3
