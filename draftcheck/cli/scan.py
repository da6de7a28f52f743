"""draftcheck scan [FILE]"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from draftcheck.cli.options import circumstances_options, emit, report_options

STORE = "draftcheck-scan.db"


@click.command("scan")
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--store",
    type=click.Path(dir_okay=False, path_type=Path),
    default=STORE,
    show_default=True,
    help="The SQLite file that is brought up to date.",
)
@click.option("--target", "targets", multiple=True, metavar="REF", help="A target (repeatable).")
@click.option(
    "--pin",
    "pins",
    nargs=2,
    multiple=True,
    metavar="TARGET DRAFT",
    help="A pair that must keep working (repeatable): exit code 1 when it does not.",
)
@click.option("--candidate", "named", multiple=True, metavar="REF", help="A draft (repeatable).")
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="NAME[@VERSION]",
    help="Engine to ask (repeatable). Default: every engine of the rulebook.",
)
@click.option("--author", help="Look for drafts among this author's models only.")
@click.option("--filter", "filters", multiple=True, metavar="TAG", help="Only models so tagged.")
@click.option("--search", "words", metavar="TEXT", help="Only models with this in their names.")
@click.option("--max-size", metavar="N", help="Only drafts of at most so many parameters: 8B.")
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help="Rows of the Hub's list to look at."
)
@circumstances_options
@click.option(
    "--max-time",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Stop in good order after this long; the next run goes on.",
)
@click.option(
    "--trials",
    type=click.IntRange(0),
    metavar="N",
    help="Measure the best N drafts of each target.",
)
@click.option("--retry", is_flag=True, help="Read again what could not be read before.")
@click.option("--executor", default="local", show_default=True, metavar="local|ray[:ADDRESS]")
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Processes that judge.")
@click.option(
    "--connections",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    metavar="N",
    help="Connections to one host at a time.",
)
@click.option("--strict", is_flag=True, help="A pinned pair that is degraded counts as broken.")
@click.option("--offline", is_flag=True, help="Use no network: judge again what was read before.")
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
@report_options("text", "json", "markdown")
def command(
    file: Path | None,
    store: Path,
    strict: bool,
    quiet: bool,
    form: str,
    output: Path | None,
    **options: Any,
) -> int:
    """Keep a store of verdicts fresh: targets x drafts x engines, night after night.

    FILE is a TOML list of targets and filters (docs/scan.md); options add to it. A scan that was
    killed or ran out of time goes on where it stopped. `draftcheck report` makes pages of the
    store.
    """
    from draftcheck.cli.scanning import night, watch
    from draftcheck.report import scan as report

    with watch(quiet) as say:
        summary = night(file, store, say, **options)
    emit(report.FORMATS[form](summary), output)
    return report.code(summary, strict=strict)
