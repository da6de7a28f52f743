"""draftcheck report"""

from __future__ import annotations

from pathlib import Path

import click

from draftcheck.cli.help import HelpCommand, WholeNumber

STORE = "draftcheck-scan.db"
FOLDER = "draftcheck-report"
MOST_SAID = 20
"""Rows that cannot be read, one line each."""


@click.command("report", cls=HelpCommand)
@click.option(
    "--store",
    type=click.Path(dir_okay=False, path_type=Path),
    default=STORE,
    show_default=True,
    metavar="PATH",
    help="The store that draftcheck scan fills.",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=FOLDER,
    show_default=True,
    metavar="FOLDER",
    help="Where the site is written; pages of an earlier night are replaced.",
)
@click.option("--title", default="Draft models", show_default=True, help="Heading of the site.")
@click.option("--gpu", metavar="SPEC", help="Rank for this GPU, as for pair: h200, 2x rtx-4090.")
@click.option(
    "--sequences",
    type=WholeNumber(1, 2**40),
    metavar="N",
    help="Rank for so many sequences at once.",
)
def command(store: Path, output: Path, title: str, gpu: str | None, sequences: int | None) -> int:
    """Write a static site of everything that a scan's store knows.

    With --gpu, drafts are ranked by the passes of their engine there, where those are modelled.
    It works from file:// and makes no request; JSON and CSV lie beside the pages.
    """
    from draftcheck.memory import gpus
    from draftcheck.report.safe import safe
    from draftcheck.report.site import loading, pages
    from draftcheck.values.circumstances import Circumstances

    served = gpus.placed(Circumstances(gpu=gpu, sequences=sequences))
    site, left_out = loading.load(store, title, served)
    for says in left_out[:MOST_SAID]:
        click.echo(f"left out: {safe(says)}", err=True)
    if len(left_out) > MOST_SAID:
        click.echo(f"left out: {len(left_out) - MOST_SAID:,} more rows", err=True)
    written = pages.write(site, output)
    click.echo(f"{len(written)} files for {len(site.targets)} targets", err=True)
    click.echo(safe(str(output / "index.html")))
    return 0
