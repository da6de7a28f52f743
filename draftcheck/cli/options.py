"""Options that mean the same wherever they appear, and how a report leaves the program.

A command is a frozen dataclass, its request. click parses the words of the command line into
values by name; `parsed_into(Request)` fills the request's fields with them and calls the command
with it. A field that is a dataclass itself (ReportOptions, TrialKnobs, Circumstances) takes its own
fields from the same values, so what commands share is declared once here and typed everywhere.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import click

from draftcheck import atomic, settings
from draftcheck.cli.help import WholeNumber, within
from draftcheck.errors import ReadError
from draftcheck.values.dtypes import SHORT

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
Request = TypeVar("Request")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """Where the report goes, and in which form: the values of report_options."""

    form: str
    output: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialKnobs:
    """How a measurement is made: the values of trial_options."""

    prompts: Path | None
    tokens: int
    temperature: float
    budget: float | None
    backend: str | None
    device: str | None


class FiniteRange(click.FloatRange):
    """A float range that takes no NaN, which lies between any two numbers, and no infinity."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(click.FLOAT.convert(value, param, ctx))
        within(self, number, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number

    def _describe_range(self) -> str:
        """Bounds that nobody comes near are not worth a place in --help."""
        return super()._describe_range() if self.max is not None and self.max <= 10 else ""


def parsed_into(kind: type[Request]) -> Callable[[Callable[[Request], int]], Callable[..., int]]:
    """A command that takes one request gets it filled with what click parsed."""

    def decorate(command: Callable[[Request], int]) -> Callable[..., int]:
        @functools.wraps(command)
        def call(**values: object) -> int:
            request = _fill(kind, values)
            if values:
                raise TypeError(f"{kind.__name__} has no field for {', '.join(values)}")
            return command(request)

        return call

    return decorate


def _fill(kind: type[Request], values: dict[str, object]) -> Request:
    """Moves the values of kind's fields into a new object; those of inner dataclasses too."""
    types = get_type_hints(kind)
    given: dict[str, object] = {}
    for field in fields(kind):  # type: ignore[arg-type]  # a TypeVar cannot say "a dataclass"
        if is_dataclass(types[field.name]):
            given[field.name] = _fill(types[field.name], values)
        elif field.name in values:
            given[field.name] = values.pop(field.name)
    return kind(**given)


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


def circumstances_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What the user may say about the deployment; names are those of values.Circumstances."""
    number = WholeNumber(1, 2**40)
    options = (
        click.option("--gpu", metavar="SPEC", help="t4, h200, 2x rtx-4090, 24GiB, auto."),
        click.option("--context", type=number, metavar="N", help="Tokens per sequence served."),
        click.option("--sequences", type=number, metavar="N", help="Sequences served at once."),
        click.option(
            "--dtype",
            metavar="TYPE",
            callback=lambda _context, _option, word: SHORT.get(word, word),
            help="Type that the engine is told to compute in.",
        ),
        click.option("--kv-dtype", metavar="TYPE", help="Type of the KV cache."),
        click.option("--tensor-parallel", type=number, metavar="N", help="Ranks of the target."),
        click.option(
            "--pipeline-parallel", type=number, metavar="N", help="Stages of the target's layers."
        ),
        click.option(
            "--memory-fraction",
            type=FiniteRange(0, 1, min_open=True),
            metavar="F",
            help="Share of the GPU that the engine may use.",
        ),
        click.option(
            "--draft-gpu",
            type=WholeNumber(0, 1023),
            metavar="N",
            help="Device of --gpu that holds the draft alone, from 0.",
        ),
        click.option(
            "--draft-tensor-parallel", type=number, metavar="N", help="Ranks of the draft."
        ),
        click.option(
            "--draft-tokens", type=number, metavar="N", help="Draft length for the setup."
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def offline_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """--offline"""
    return click.option(
        "--offline",
        is_flag=True,
        help="Use no network: models of the Hub come from the caches (as HF_HUB_OFFLINE=1).",
    )(function)


def _be_patient(ctx: click.Context, option: click.Parameter, seconds: float | None) -> None:
    settings.be_patient(seconds)


patience_option = click.option(
    "--patience",
    type=FiniteRange(0, 86400),
    metavar="SECONDS",
    expose_value=False,
    callback=_be_patient,
    help="Wait so long at once when the Hub's rate limit asks for it (60; a scan: 330).",
)


deep_option = click.option(
    "--deep",
    is_flag=True,
    help="Hold the weights against transformers' own classes, and their headers against safetensors"
    " and gguf (needs the deep extra; reads no weights, runs no code of the model).",
)


FILE = click.Path(dir_okay=False, path_type=Path)


def trial_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a measurement needs to know, wherever one is made."""
    options = (
        click.option("--prompts", type=FILE, help="Your prompts: text, JSONL or parquet."),
        click.option(
            "--tokens",
            type=WholeNumber(2, 1 << 20),
            default=128,
            show_default=True,
            help="New tokens per prompt.",
        ),
        click.option(
            "--temperature",
            type=FiniteRange(0, 10),
            default=0.0,
            show_default=True,
            help="Of the target's answers; 0: greedy.",
        ),
        click.option(
            "--budget",
            type=FiniteRange(0),
            default=600.0,
            show_default=True,
            metavar="SECONDS",
            help="Stop measuring after this long.",
        ),
        click.option(
            "--backend",
            help="What runs the models: transformers, llama.cpp … Default: by the files.",
        ),
        click.option(
            "--device",
            help="cuda:0, cpu, mps, auto (several GPUs) … Default: the best one here.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def runtime_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What the checker's site is made of, and whom it may ask."""
    function = click.option(
        "--storage",
        multiple=True,
        metavar="ORIGIN",
        help="Where a Hub of HF_ENDPOINT keeps large files, as https://cdn.example (repeatable).",
    )(function)
    return click.option(
        "--runtime",
        type=click.Path(path_type=Path),
        metavar="FOLDER|FILE.tgz",
        help="Pyodide as its npm package, or a folder with it and the wheel of msgspec."
        " Default: downloaded from the package registries once, and checked.",
    )(function)


def colour() -> bool | None:
    """False when the user wants none; None lets click look whether this is a terminal."""
    return False if os.environ.get("NO_COLOR") else None


def emit(text: str, output: Path | None) -> None:
    """Print the report, or write it to a file; colour only on a terminal."""
    if output is None:
        click.echo(text, color=colour())
        return
    data = (click.unstyle(text) + "\n").encode("utf-8", "backslashreplace")
    try:
        if output.exists() and not output.is_file():  # a pipe, a terminal, a device
            output.write_bytes(data)
        else:
            atomic.write(output.resolve(), data)  # what a link points to; the link stays
    except OSError as error:
        raise ReadError(f"{output}: cannot be written: {error.strerror}") from error
