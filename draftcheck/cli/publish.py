"""draftcheck publish REPO|FOLDER"""

from __future__ import annotations

from pathlib import Path

import click

from draftcheck.cli.help import HelpCommand
from draftcheck.cli.options import emit, offline_option, patience_option, report_options
from draftcheck.cli.progress import progress


@click.command("publish", cls=HelpCommand)
@click.argument("draft", metavar="REPO|FOLDER")
@click.option("--target", metavar="TARGET", help="The target, where files and card name none.")
@click.option("--as", "called", metavar="REPO", help="What a folder will be called on the Hub.")
@offline_option
@patience_option
@report_options("text", "json", "markdown")
def command(
    draft: str,
    target: str | None,
    called: str | None,
    offline: bool,
    form: str,
    output: Path | None,
) -> int:
    """Say what is wrong with a draft's repository and card before others find out.

    Its files, header, commands and target are held against each other and against the rulebook;
    below stands a block for the card with the oldest version of each engine that takes the pair.
    Exit codes: 0 nothing wrong, 1 errors, 2 usage, 3 the draft could not be read.
    """
    from draftcheck.publish.run import publish
    from draftcheck.report import publish as report

    with progress(quiet=False):
        found = publish(draft, target, offline=offline, called=called)
    emit(report.FORMATS[form](found), output)
    return int(bool(found.errors))
