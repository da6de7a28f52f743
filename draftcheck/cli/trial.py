"""draftcheck trial TARGET DRAFT"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from draftcheck.cli.options import emit, report_options

FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("trial")
@click.argument("target")
@click.argument("draft")
@click.option("--prompts", "prompt_file", type=FILE, help="Your prompts: text, JSONL or parquet.")
@click.option(
    "--tokens",
    type=click.IntRange(2, 1 << 20),
    default=128,
    show_default=True,
    help="New tokens per prompt.",
)
@click.option(
    "--temperature",
    type=click.FloatRange(0, 10),
    default=0.0,
    show_default=True,
    help="0: greedy.",
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--backend", default="transformers", show_default=True, help="What runs the models.")
@click.option("--device", help="cuda:0, cpu, mps … Default: the best one here.")
@click.option("--dtype", help="Type to compute in. Default: the model's own; float32 on a CPU.")
@click.option(
    "--precision",
    type=click.FloatRange(0, 1),
    default=0.03,
    show_default=True,
    help="Stop when acceptance is known to within this.",
)
@click.option("--budget", type=click.FloatRange(0), metavar="SECONDS", help="Stop after this long.")
@click.option("--no-cost", is_flag=True, help="Acceptance only: no steps are timed.")
@click.option("--verify", is_flag=True, help="Also speculate for real and compare.")
@click.option("--reuse", type=FILE, help="Keep the target's texts here, or take them from here.")
@click.option("--tree", type=FILE, help="A tree of your own: a JSON list of rank paths.")
@click.option("--plot", type=FILE, help="Draw the curves into this SVG file.")
@click.option("--thinking", is_flag=True, help="Let the chat template open a thinking block.")
@click.option("--trust-remote-code", is_flag=True, help="Run code from the models' repositories.")
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
@report_options("text", "json", "markdown")
def command(
    target: str,
    draft: str,
    prompt_file: Path | None,
    tokens: int,
    temperature: float,
    seed: int,
    backend: str,
    device: str | None,
    dtype: str | None,
    precision: float,
    budget: float | None,
    no_cost: bool,
    verify: bool,
    reuse: Path | None,
    tree: Path | None,
    plot: Path | None,
    thinking: bool,
    trust_remote_code: bool,
    quiet: bool,
    form: str,
    output: Path | None,
) -> int:
    """Measure what DRAFT is worth to TARGET: one generation, one reading, every draft length.

    The target writes its own answers; the draft reads them once. From that follow acceptance and
    tokens per pass for every draft length, confidence threshold, tree and n-gram setting.
    """
    from draftcheck.trial.backend import Options
    from draftcheck.trial.measure import Plan, run
    from draftcheck.trial.prompts import load

    options = Options(tokens, temperature, seed, device, dtype, thinking, trust_remote_code)
    plan = Plan(
        target, draft, load(prompt_file), backend, options, precision, budget,
        cost=not no_cost, verify=verify, reuse=reuse, tree=tree,
    )  # fmt: skip
    trial = run(plan, _say(quiet))
    from draftcheck.report import trial as report

    if plot is not None:
        from draftcheck.report import plot as drawing

        drawing.write(trial, plot)
    emit(report.render(trial, form), output)
    return 1 if trial.broken else 0


def _say(quiet: bool) -> Callable[[str], None]:
    """Progress for people who watch."""
    watched = not quiet and sys.stderr.isatty()

    def say(text: str) -> None:
        if watched:
            click.echo(f"  {text}", err=True)

    return say
