"""draftcheck trial TARGET DRAFT"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from draftcheck.cli.options import FILE, emit, report_options, say, trial_options


@click.command("trial")
@click.argument("target")
@click.argument("draft")
@trial_options
@click.option(
    "--greedy-share",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="With a temperature: share of the requests that are greedy all the same.",
)
@click.option("--target-url", metavar="URL", help="A server of the target; only the draft is here.")
@click.option("--target-model", metavar="NAME", help="What that server calls the target.")
@click.option("--draft-url", metavar="URL", help="A llama-server of the draft.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--dtype", help="Type to compute in. Default: the model's own; float32 on a CPU.")
@click.option(
    "--precision",
    type=click.FloatRange(0, 1),
    default=0.03,
    show_default=True,
    help="Stop when acceptance is known to within this.",
)
@click.option("--no-cost", is_flag=True, help="Acceptance only: no steps are timed.")
@click.option("--verify", is_flag=True, help="Also speculate for real and compare.")
@click.option("--reuse", type=FILE, help="Keep the target's texts here, or take them from here.")
@click.option("--tree", type=FILE, help="A tree of your own: a JSON list of rank paths.")
@click.option("--plot", type=FILE, help="Draw the curves into this SVG file.")
@click.option(
    "--universal", is_flag=True, help="The draft has another vocabulary: measure it translated."
)
@click.option("--thinking", is_flag=True, help="Let the chat template open a thinking block.")
@click.option("--trust-remote-code", is_flag=True, help="Run code from the models' repositories.")
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
@report_options("text", "json", "markdown")
def command(
    no_cost: bool, plot: Path | None, quiet: bool, form: str, output: Path | None, **asked: Any
) -> int:
    """Measure what DRAFT is worth to TARGET: one generation, one reading, every draft length.

    The target writes its own answers; the draft reads them once. From that follow acceptance and
    tokens per pass for every draft length, confidence threshold, tree and n-gram setting.
    """
    from draftcheck.report import plot as drawing
    from draftcheck.report import trial as report
    from draftcheck.trial.api import trial

    if plot is not None:
        drawing.check(plot)
    measured = trial(**asked, cost=not no_cost, say=say(quiet))
    if plot is not None:
        drawing.write(measured, plot)
    emit(report.FORMATS[form](measured), output)
    return report.code(measured)
