"""Options that mean the same wherever they appear, and how a report leaves the program."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from draftcheck.errors import ReadError

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def report_options(*formats: str) -> Decorator:
    """--format and --output."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function = click.option(
            "--output",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Write the report to this file instead of standard output.",
        )(function)
        return click.option(
            "--format",
            "form",
            type=click.Choice(formats),
            default=formats[0],
            show_default=True,
            help="Form of the report.",
        )(function)

    return decorate


def colour() -> bool | None:
    """False when the user wants none; None lets click look whether this is a terminal."""
    return False if os.environ.get("NO_COLOR") else None


def emit(text: str, output: Path | None) -> None:
    """Print the report, or write it to a file; colour only on a terminal."""
    if output is None:
        click.echo(text, color=colour())
        return
    try:
        output.write_text(click.unstyle(text) + "\n", encoding="utf-8")
    except OSError as error:
        raise ReadError(f"{output}: cannot be written: {error.strerror}") from error
