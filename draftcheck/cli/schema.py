"""draftcheck schema [NAME]"""

from __future__ import annotations

import json
from pathlib import Path

import click

from draftcheck.cli.help import HelpCommand
from draftcheck.cli.options import emit, report_options


@click.command("schema", cls=HelpCommand)
@click.argument("name", required=False)
@report_options("text", "json")
def command(name: str | None, form: str, output: Path | None) -> int:
    """Print the JSON Schema of a report (pair, trial, gate …); without NAME: which there are."""
    from draftcheck.report import schema

    if name is not None:
        emit(json.dumps(schema.load(name), indent=2), output)
        return 0
    titles = {found: str(schema.load(found)["title"]) for found in schema.names()}
    emit(schema.FORMATS[form](titles), output)
    return 0
