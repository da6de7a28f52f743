"""draftcheck rules [ID]"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from draftcheck.cli.help import ENGINE, HelpCommand, rule_ids
from draftcheck.cli.options import colour, emit, report_options


@click.command("rules", cls=HelpCommand)
@click.argument("rule_id", metavar="[ID]", required=False, shell_complete=rule_ids)
@click.option("--engine", type=ENGINE, metavar="NAME", help="Only this engine's rules.")
@click.option(
    "--pages",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write the whole rulebook as Markdown pages into this folder.",
)
@report_options("text", "json", "markdown")
def command(
    rule_id: str | None, engine: str | None, pages: Path | None, form: str, output: Path | None
) -> int:
    """List the rulebook, or show one rule: reaction, versions, why, fix, source.

    On a terminal the list is grouped by engine and subject, and paged; elsewhere it is a row each.
    """
    from draftcheck.report import rules

    if pages is not None:
        emit("\n".join(rules.write_pages(pages)), output)
        return 0
    rows = rules.select(rule_id, engine)
    if form == "text" and rule_id is None and output is None and sys.stdout.isatty():
        click.echo_via_pager(rules.grouped(rows), color=colour())
        return 0
    emit(rules.FORMATS[form](rows, rule_id is not None), output)
    return 0
