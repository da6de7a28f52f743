"""draftcheck probe URL"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import click

from draftcheck.cli.help import HelpCommand
from draftcheck.cli.options import (
    FILE,
    FiniteRange,
    ReportOptions,
    emit,
    parsed_into,
    report_options,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeCommand:
    """What `draftcheck probe` is asked."""

    url: str
    interval: float | None
    prompt: str | None
    model: str | None
    api_key_file: Path | None
    timeout: float
    expect: tuple[str, str] | None
    profile: Path | None
    quiet: bool
    report: ReportOptions


@click.command("probe", cls=HelpCommand)
@click.argument("url")
@click.option(
    "--interval",
    type=FiniteRange(0.1, 86400),
    metavar="SECONDS",
    help="Read twice, this far apart, and judge what happened in between.",
)
@click.option(
    "--prompt", metavar="TEXT", help="Send this for one short completion (otherwise none is sent)."
)
@click.option("--model", metavar="NAME", help="Which model, where the server has several.")
@click.option(
    "--api-key-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File whose one line is the server's key.",
)
@click.option(
    "--timeout",
    type=FiniteRange(0.1, 600),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Limit for each question, connection and answer together.",
)
@click.option(
    "--expect",
    nargs=2,
    metavar="TARGET DRAFT",
    help="Say whether it accepts what was published of this pair (DRAFT own: the target's layers).",
)
@click.option("--profile", type=FILE, help="Write a speculation_profile.json here.")
@click.option("--quiet", is_flag=True, help="Print nothing; the exit code is the answer.")
@report_options("text", "json", "markdown")
@parsed_into(ProbeCommand)
def command(request: ProbeCommand) -> int:
    """Ask the running server at URL whether it is speculating now, and how well.

    URL is the server's address, as http://127.0.0.1:8080. Exit codes: 0 speculating,
    1 not speculating or nothing accepted, 2 usage, 3 cannot tell.
    """
    from draftcheck.errors import UsageError
    from draftcheck.probe.client import key_exposed, read_key
    from draftcheck.probe.run import ProbeRequest, probe
    from draftcheck.report import exits
    from draftcheck.report import probe as report

    if request.interval is not None and request.prompt is not None:
        raise UsageError("--interval and --prompt exclude each other")
    key = read_key(request.api_key_file) if request.api_key_file is not None else None
    if warning := key_exposed(request.url, key):
        exits.warn(warning)
    answer = probe(
        ProbeRequest(
            url=request.url,
            key=key,
            model=request.model,
            prompt=request.prompt,
            interval=request.interval,
            seconds=request.timeout,
        )
    )
    answer = replace(answer, expected=request.expect)
    if not request.quiet or request.report.output is not None:
        emit(report.FORMATS[request.report.form](answer), request.report.output)
    if request.profile is not None:
        from draftcheck.probe.profile import profile

        profile(answer).write(request.profile)
    return report.code(answer)
