"""draftcheck gate [FILES...]"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from draftcheck.cli.help import ENGINE, HelpCommand
from draftcheck.cli.options import emit, patience_option, report_options
from draftcheck.values.words import Severity, Verdict

if TYPE_CHECKING:
    from draftcheck.gate.fixing import FixPlan
    from draftcheck.gate.results import GateReport
    from draftcheck.gate.run import GateRequest, GateRun

POLLED = 1.0
"""Seconds between two looks at the files."""
ROUNDS = 20
"""Fixes that overlap others are applied in the next round."""
HOOK = "--pre-commit"
"""First argument of the hooks; behind their -- pre-commit adds the user's options, then files."""


class GateCommand(HelpCommand):
    """A command that tells options from files that are called like options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == [HOOK] and "--" in args:
            end = args.index("--")
            args = [*args[:end], *self._apart(ctx, args[end + 1 :])]
        return super().parse_args(ctx, args)

    def _apart(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The files are the last words: each exists, and none comes twice."""
        at, names = len(args), set[str]()
        while at and args[at - 1] not in names and os.path.lexists(args[at - 1]):
            at -= 1
            names.add(args[at])
        # What exists may still be the value of the user's last option: --lock other.lock.
        if at < len(args) and not self._whole(ctx, args[:at]) and self._whole(ctx, args[: at + 1]):
            at += 1
        options = args[:at]
        return [*(options[:-1] if options[-1:] == ["--"] else options), "--", *args[at:]]

    def _whole(self, ctx: click.Context, args: list[str]) -> bool:
        """Whether these are options, each with its value, and nothing else."""
        try:
            _, rest, _ = self.make_parser(ctx).parse_args(list(args))
        except click.UsageError:
            return False
        return not rest


@click.command("gate", cls=GateCommand)
@click.argument("files", nargs=-1, type=click.Path())
@click.option("--watch", is_flag=True, help="Check again whenever a file changes, until Ctrl-C.")
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
    type=ENGINE,
    multiple=True,
    metavar="NAME@VERSION",
    help="The version to judge by where no file tells it (repeatable).",
)
@patience_option
@click.option("--strict", is_flag=True, help="Warnings count as failures.")
@click.option(
    "--unresolved",
    type=click.Choice(["warn", "fail"]),
    help="Whether what could not be checked passes, or exits with 3 (default: fail; hook: warn).",
)
@click.option(HOOK, "hook", is_flag=True, hidden=True)
@click.option("--quiet", is_flag=True, help="Print nothing; the exit code is the answer.")
@click.option("--verbose", is_flag=True, help="Also list setups, remarks and ignored findings.")
@report_options("text", "concise", "json", "markdown", "sarif", "junit", "github")
def command(
    files: tuple[str, ...],
    watch: bool,
    diff_base: str | None,
    fix: bool,
    diff: bool,
    online: bool,
    lock: Path | None,
    engines: tuple[str, ...],
    strict: bool,
    unresolved: str | None,
    hook: bool,
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
    from draftcheck.report.gate import FORMATS, NOTHING

    request = GateRequest(files, diff_base, online, lock, _versions(engines))

    def check(form: str, quiet: bool) -> int:
        ran = run(request)
        wanted = unresolved or ran.survey.unresolved or ("warn" if hook else "fail")
        if diff:
            _show(ran)
            return _code(ran.report, wanted, strict)
        if fix:
            ran = _mend(ran, request)
        report, code = ran.report, _code(ran.report, wanted, strict)
        if hook and form == "text" and not code:
            # What passes is worth a line each, and nothing where there is nothing to say.
            said = report.unchecked or report.count(Severity.WARNING)
            form, quiet = "concise", quiet or not said
        if not quiet or output is not None:
            emit(FORMATS[form](report, verbose), output)
        if report.empty and not hook and (form != "text" or output is not None or quiet):
            click.echo(NOTHING, err=True)
        return code

    if watch:
        _watch(files, lambda: check(form, quiet))
        return 0
    return check(form, quiet)


def _watch(files: tuple[str, ...], check: Callable[[], int]) -> None:
    """Check whenever a file is another one than before, until somebody wants no more."""
    from draftcheck.errors import DraftcheckError
    from draftcheck.gate import survey
    from draftcheck.report.safe import safe

    try:
        check()  # a command line that makes no sense ends here
        before = survey.file_times(files)
        while True:
            time.sleep(POLLED)
            now = survey.file_times(files)
            changed = sorted({name for name, _ in before.items() ^ now.items()})
            if changed:
                more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
                click.echo(f"\n{safe(changed[0])}{more} changed", err=True)
                try:
                    check()
                except DraftcheckError as error:  # half-written, most likely
                    click.echo(f"error: {safe(error.message)}", err=True)
            before = now
    except KeyboardInterrupt:
        return


def _code(report: GateReport, unresolved: str, strict: bool) -> int:
    """The exit code; what could not be checked is passed over where that is wanted."""
    from draftcheck.report import exits

    verdict = report.verdict
    if verdict is Verdict.UNDECIDED and unresolved == "warn":
        warned = report.count(Severity.WARNING)
        verdict = Verdict.DEGRADED if warned else Verdict.COMPATIBLE
    return exits.code(verdict, strict=strict)


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

    plan = fixing.plan(ran.report.findings, ran.survey)
    patch = fixing.patch(plan.changes)
    if patch:
        # Exact for a file or a pipe; a terminal gets nothing that it would obey.
        watched = sys.stdout.isatty()
        shown = safe_block(patch.decode("utf-8", "replace")) + "\n" if watched else patch
        click.echo(shown, nl=False)
    else:
        click.echo("nothing to fix", err=True)
    _refused(plan)


def _mend(ran: GateRun, request: GateRequest) -> GateRun:
    """Apply, look again, until nothing is left to apply."""
    from draftcheck.gate import fixing
    from draftcheck.gate.run import run
    from draftcheck.report.safe import safe

    for _ in range(ROUNDS):
        plan = fixing.plan(ran.report.findings, ran.survey)
        if not plan.changes:
            _refused(plan)
            break
        for change in plan.changes:
            fixing.write(change)
            click.echo(f"fixed {safe(change.name)} ({change.applied})", err=True)
        ran = run(request)
    return ran


def _refused(plan: FixPlan) -> None:
    from draftcheck.report.safe import safe

    for line in plan.refused:
        click.echo(f"not fixed {safe(line)}", err=True)
