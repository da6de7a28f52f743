"""draftcheck lock [FILES...]"""

from __future__ import annotations

from pathlib import Path

import click

from draftcheck.cli.help import HelpCommand
from draftcheck.cli.options import offline_option, patience_option
from draftcheck.cli.progress import progress


@click.command("lock", cls=HelpCommand)
@click.argument("files", nargs=-1, type=click.Path())
@click.option("--update", is_flag=True, help="Read every model again, not only those missing.")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="REF",
    help="With --update: only this model (repeatable).",
)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if the lock would change.")
@click.option(
    "--lock",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Another file than draftcheck.lock at the root of the repository.",
)
@offline_option
@patience_option
@click.option("--quiet", is_flag=True, help="Say nothing of what was done.")
def command(
    files: tuple[str, ...],
    update: bool,
    models: tuple[str, ...],
    check: bool,
    path: Path | None,
    offline: bool,
    quiet: bool,
) -> int:
    """Write draftcheck.lock: what the gate needs to know of the models that deploy files name.

    Adds what is missing and drops what is unused (nothing is dropped when FILES are named).
    Commit the lock: with it, `draftcheck gate` needs no network and no model files.
    """
    from draftcheck.errors import UsageError
    from draftcheck.gate.lock.refresh import LockRequest, complaints, refresh, summary
    from draftcheck.report.safe import safe

    if models and not update:
        raise UsageError("--model needs --update")
    with progress(quiet):
        done = refresh(LockRequest(files, path, update, models, offline))
    write = done.changed and not check
    if write:
        done.write()
    if not quiet:
        for line in summary(done, written=write):
            click.echo(safe(line, 1000))
    for line in complaints(done):
        click.echo(safe(line, 1000), err=True)
    if done.failed:
        return 3
    return 1 if check and done.changed else 0
