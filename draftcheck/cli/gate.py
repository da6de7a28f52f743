"""draftcheck gate [FILES...]"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from draftcheck.cli.options import emit, report_options

if TYPE_CHECKING:
    from draftcheck.gate.run import GateRequest, GateRun

ROUNDS = 5
"""Fixes that overlap others are applied in the next round."""


@click.command("gate")
@click.argument("files", nargs=-1, type=click.Path())
@click.option("--diff-base", metavar="REV", help="Only files that changed since this revision.")
@click.option("--fix", is_flag=True, help="Apply the safe fixes, then check again.")
@click.option("--diff", is_flag=True, help="Show what --fix would change, and change nothing.")
@click.option(
    "--online/--offline",
    default=False,
    show_default=True,
    help="Whether models that the lock does not have are read from the Hub.",
)
@click.option(
    "--lock",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Another lock than draftcheck.lock at the root of the repository.",
)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="NAME@VERSION",
    help="The version to judge by where no file tells it (repeatable).",
)
@click.option("--strict", is_flag=True, help="Warnings count as failures.")
@click.option("--quiet", is_flag=True, help="Print nothing; the exit code is the answer.")
@click.option("--verbose", is_flag=True, help="Also list setups, remarks and ignored findings.")
@report_options("text", "json", "markdown", "sarif", "junit", "github")
def command(
    files: tuple[str, ...],
    diff_base: str | None,
    fix: bool,
    diff: bool,
    online: bool,
    lock: Path | None,
    engines: tuple[str, ...],
    strict: bool,
    quiet: bool,
    verbose: bool,
    form: str,
    output: Path | None,
) -> int:
    """Check the speculation setups in deploy FILES; without FILES, in all that git has here.

    Looks into shell scripts, Dockerfiles, compose and Kubernetes YAML, systemd units, Python
    calls, engines' own config files and draftcheck.toml. Uses no network: what is known of models
    comes from draftcheck.lock (see `draftcheck lock`) or from this disk.
    """
    from draftcheck.gate.run import GateRequest, run
    from draftcheck.report import exits
    from draftcheck.report.gate import FORMATS, NOTHING

    request = GateRequest(files, diff_base, online, lock, _versions(engines))
    ran = run(request)
    if diff:
        _show(ran)
        return exits.code(ran.report.verdict, strict=strict)
    if fix:
        ran = _mend(ran, request)
    report = ran.report
    if not quiet or output is not None:
        emit(FORMATS[form](report, verbose), output)
    if report.empty and (form != "text" or output is not None or quiet):
        click.echo(NOTHING, err=True)
    return exits.code(report.verdict, strict=strict)


def _versions(engines: tuple[str, ...]) -> Mapping[str, str]:
    from draftcheck.errors import UsageError
    from draftcheck.rulebook import book

    versions = {}
    for text in engines:
        name, _, version = text.partition("@")
        if not version:
            raise UsageError(f"--engine {text!r} names no version", hint=f"{name}@VERSION")
        versions[name] = book.load(name).version(version)
    return versions


def _show(ran: GateRun) -> None:
    from draftcheck.gate import fixing
    from draftcheck.report.safe import safe_block

    patch = fixing.patch(fixing.plan(ran.report.findings, ran.data))
    if patch:
        # Exact for a file or a pipe; a terminal gets nothing that it would obey.
        watched = sys.stdout.isatty()
        click.echo(safe_block(patch) + "\n" if watched else patch, nl=False)
    else:
        click.echo("nothing to fix", err=True)


def _mend(ran: GateRun, request: GateRequest) -> GateRun:
    """Apply, look again, until nothing is left to apply."""
    from draftcheck.gate import fixing
    from draftcheck.gate.run import run
    from draftcheck.report.safe import safe

    for _ in range(ROUNDS):
        changes = fixing.plan(ran.report.findings, ran.data)
        if not changes:
            break
        for change in changes:
            fixing.write(change)
            click.echo(f"fixed {safe(change.name)} ({change.applied})", err=True)
        ran = run(request)
    return ran
