"""draftcheck probe URL"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

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
from draftcheck.errors import UsageError

if TYPE_CHECKING:
    from draftcheck.probe.run import ProbeRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeCommand:
    """What `draftcheck probe` is asked."""

    url: str
    interval: float | None
    watch: float | None
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
    "--watch",
    type=FiniteRange(0.1, 86400),
    is_flag=False,
    flag_value=10.0,
    metavar="[SECONDS]",
    help="Read again every so many seconds (10), a line each, until Ctrl-C; with --format json an"
    " object each.",
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
    from draftcheck.probe.client import key_exposed, read_key
    from draftcheck.probe.run import ProbeRequest, probe
    from draftcheck.report import exits
    from draftcheck.report import probe as report

    _consistent(request)
    key = read_key(request.api_key_file) if request.api_key_file is not None else None
    if warning := key_exposed(request.url, key):
        exits.warn(warning)
    asked = ProbeRequest(
        url=request.url,
        key=key,
        model=request.model,
        prompt=request.prompt,
        interval=request.interval,
        seconds=request.timeout,
    )
    if request.watch is not None:
        _watch(asked, request.watch, as_json=request.report.form == "json")
        return 0
    answer = replace(probe(asked), expected=request.expect)
    if not request.quiet or request.report.output is not None:
        emit(report.FORMATS[request.report.form](answer), request.report.output)
    if request.profile is not None:
        from draftcheck.probe.profile import profile

        profile(answer).write(request.profile)
    return report.code(answer)


def _consistent(request: ProbeCommand) -> None:
    if request.interval is not None and request.prompt is not None:
        raise UsageError("--interval and --prompt exclude each other")
    others = {
        "--interval": request.interval,
        "--prompt": request.prompt,
        "--expect": request.expect,
        "--profile": request.profile,
        "--output": request.report.output,
        "--quiet": request.quiet or None,
        "--format markdown": request.report.form == "markdown" or None,
    }
    for name, value in others.items():
        if request.watch is not None and value is not None:
            raise UsageError(f"--watch and {name} exclude each other")


def _watch(asked: ProbeRequest, interval: float, *, as_json: bool) -> None:
    """The answer, then a line for every interval, until somebody wants no more."""
    from draftcheck.probe.run import watch
    from draftcheck.report import probe as report

    try:
        for number, answer in enumerate(watch(asked, interval)):
            if as_json:
                emit(report.json_line(answer, time.strftime("%Y-%m-%dT%H:%M:%S%z")), None)
            else:
                at = time.strftime("%H:%M:%S")
                emit(report.line(answer, at) if number else report.first_line(answer), None)
            sys.stdout.flush()
    except KeyboardInterrupt:
        return
