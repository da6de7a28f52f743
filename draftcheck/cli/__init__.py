"""The command line: parse, call, print, exit. Each command is a module, imported on use."""

from __future__ import annotations

import errno
import importlib
import io
import os
import re
import shutil
import sys
from collections.abc import Sequence

import click

from draftcheck.errors import did_you_mean
from draftcheck.settings import __version__

COMMANDS = {
    "cache": "Look at what draftcheck keeps of models on the Hub, or clear it.",
    "doctor": "Ask the Hub a few harmless questions: does it answer as draftcheck expects?",
    "explain": "Show one rule, by its id or its name: reaction, versions, why, fix, source.",
    "gate": "Check the speculation setups in deploy FILES; without "
    "FILES, in all that git has here.",
    "inspect": "Show what the files of MODEL say, without opinion.",
    "known": "Show published acceptance and publishers' pairs for TARGET, with their sources.",
    "lock": "Write draftcheck.lock: what the gate needs to know of the "
    "models that deploy files name.",
    "pair": "Say whether DRAFT can speculate for TARGET, engine by engine.",
    "probe": "Ask the running server at URL whether it is speculating now, and how well.",
    "publish": "Say what is wrong with a draft's repository and card before others find out.",
    "recommend": "Name the best method and drafts for TARGET: from the Hub, or from this disk.",
    "report": "Write a static site of everything that a scan's store knows.",
    "rules": "List the rulebook, or show one rule: reaction, versions, why, fix, source.",
    "schema": "Print the JSON Schema of a report (pair, trial, gate …); without NAME: which "
    "there are.",
    "scan": "Keep a store of verdicts fresh: targets x drafts x engines, night after night.",
    "trial": "Measure what DRAFT is worth to TARGET: one generation, one "
    "reading, every draft length.",
    "watch": "Say which rules a release of ENGINE confirms, and which rest on changed code.",
    "web": "Write the checker as a static site into FOLDER: the same answers in a browser.",
    "why": "Explain an engine's log or error text: what it means, likely causes, what to do next.",
}
"""Module of this package -> the first lines of its help, so that --help imports none of them."""
GROUPS = {
    "Before you switch it on": ("pair", "recommend", "trial", "known"),
    "Deploy files": ("gate", "lock"),
    "A running server": ("probe", "why"),
    "Many models": ("scan", "report", "web"),
    "For publishers": ("publish",),
    "What it knows": ("explain", "rules", "schema", "watch", "inspect", "cache", "doctor"),
}
"""How --help lists them; what is in no group stands at the end."""
NOT_OURS = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EMFILE, errno.ENFILE,
    errno.EACCES, errno.EPERM, errno.ENAMETOOLONG,
}  # fmt: skip
"""The disk or the process has no room, or may not: no bug of draftcheck."""
EXTRAS = {"numpy": "trial"}
"""Modules that the core does without -> the extra that brings them."""


class LazyGroup(click.Group):
    """Knows its commands by name and imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"draftcheck.cli.{name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}. {did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list by what people come for."""
        grouped = {name for names in GROUPS.values() for name in names}
        rest = tuple(name for name in COMMANDS if name not in grouped)
        column = max(map(len, COMMANDS))
        for title, names in {**GROUPS, "More": rest}.items():
            if names:
                with formatter.section(title):
                    formatter.write_dl([(name.ljust(column), COMMANDS[name]) for name in names])


def _width() -> int:
    """Of help: the terminal's, up to a hundred."""
    return min(100, shutil.get_terminal_size((100, 24)).columns)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _width()},
)
@click.version_option(__version__, prog_name="draftcheck")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Can this draft model speculate for this target, on this engine and version?

    Exit codes: 0 compatible, 1 incompatible, 2 usage, 3 undecided, 70 a bug, 130 interrupted.
    """
    from draftcheck.cli import defaults

    if ctx.invoked_subcommand in defaults.COMMANDS:
        ctx.default_map = {ctx.invoked_subcommand: defaults.found()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code; no exception leaves it."""
    from draftcheck.cli import streams

    _show_everything()
    code = _run(arguments)
    if reason := streams.lost():
        _say(f"standard output: the report could not be written: {reason}", None)
        return code or 3
    return code


def _run(arguments: Sequence[str] | None) -> int:
    from draftcheck.errors import DraftcheckError

    try:
        code = cli.main(args=arguments, prog_name="draftcheck", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.ClickException as error:
        from draftcheck.report.safe import safe

        shown = io.StringIO()
        error.show(shown)
        for line in shown.getvalue().splitlines():
            click.echo(safe(re.sub("^Error: ", "error: ", line), 900), err=True)
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except DraftcheckError as error:
        _say(error.message, error.hint)
        return error.exit_code
    except MemoryError:
        _say("not enough memory to read these models", None)
        return 3
    except Exception as error:
        if isinstance(error, OSError) and (reason := _environment(error)):
            _say(reason, None)
            return 3
        if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
            extra = EXTRAS[error.name]
            _say(f"this needs {error.name}", f"pip install 'draftcheck-llm[{extra}]'")
            return 2
        _bug()
        return 70


def _environment(error: OSError) -> str | None:
    """What is wrong with the machine, if that is it: no fault of ours, and none of a model."""
    try:
        os.getcwd()  # noqa: PTH109
    except OSError:
        return "the current folder no longer exists"
    return f"{error.filename or 'a file'}: {error.strerror}" if error.errno in NOT_OURS else None


def _show_everything() -> None:
    """Characters that the terminal's encoding lacks are escaped, not an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _say(message: str, hint: str | None) -> None:
    from draftcheck.cli.options import colour
    from draftcheck.report.safe import safe

    click.echo(click.style("error: ", fg="red") + safe(message), err=True, color=colour())
    if hint:
        click.echo(f"hint: {safe(hint)}", err=True)


def _bug() -> None:
    """A report to paste: what was run, where, and the traceback."""
    import platform
    import shlex
    import traceback

    from draftcheck.report.safe import safe_block

    lines = [
        "draftcheck failed: this is a bug. Please report it with these lines:",
        f"draftcheck {__version__}, Python {platform.python_version()}, {platform.platform()}",
        # Not what addresses hold of passwords and keys.
        f"command: {re.sub(r'(?<=://)[^/@ ]*@|(?<=[?#])[^ ]+', '…', shlex.join(sys.argv))}",
        traceback.format_exc(),
    ]
    click.echo(safe_block("\n".join(lines)), err=True)
