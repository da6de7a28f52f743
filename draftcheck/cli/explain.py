"""draftcheck explain RULE"""

from __future__ import annotations

from pathlib import Path

import click

from draftcheck.cli.help import HelpCommand, rule_ids
from draftcheck.cli.options import emit, report_options


@click.command("explain", cls=HelpCommand)
@click.argument("rule", shell_complete=rule_ids)
@report_options("text", "json", "markdown")
def command(rule: str, form: str, output: Path | None) -> int:
    """Show one rule, by its id or its name: reaction, versions, why, fix, source."""
    from draftcheck.report import rules

    emit(rules.FORMATS[form](rules.select(rule, None), True), output)
    return 0
