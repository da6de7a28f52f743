"""draftcheck trial TARGET [DRAFT]"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from draftcheck.cli.help import ENGINE, HelpCommand, WholeNumber, cached_models
from draftcheck.cli.options import (
    FILE,
    FiniteRange,
    ReportOptions,
    TrialKnobs,
    emit,
    parsed_into,
    patience_option,
    report_options,
    trial_options,
)
from draftcheck.cli.progress import trial_progress

if TYPE_CHECKING:
    from draftcheck.trial.result import Trial
    from draftcheck.values.verdicts import EngineVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRequest:
    """What `draftcheck trial` is asked."""

    target: str
    draft: str | None
    knobs: TrialKnobs
    greedy_share: float
    engine: str | None
    gpu: str | None
    sequences: int
    target_url: str | None
    target_model: str | None
    draft_url: str | None
    seed: int
    dtype: str | None
    precision: float
    no_cost: bool
    verify: bool
    reuse: Path | None
    tree: Path | None
    plot: Path | None
    profile: Path | None
    universal: bool
    thinking: bool
    trust_remote_code: bool
    quiet: bool
    report: ReportOptions


@click.command("trial", cls=HelpCommand)
@click.argument("target", shell_complete=cached_models)
@click.argument("draft", required=False, shell_complete=cached_models)
@trial_options
@click.option(
    "--greedy-share",
    type=FiniteRange(0, 1),
    default=0.0,
    show_default=True,
    help="With a temperature: share of the requests that are greedy all the same.",
)
@click.option(
    "--engine",
    type=ENGINE,
    metavar="ENGINE",
    help="The engine that will serve (vllm, sglang@0.5.23 …): its speed, its way of running heads.",
)
@click.option("--gpu", metavar="GPU", help="The GPU that will serve, as for pair; auto: this one.")
@click.option(
    "--sequences",
    type=WholeNumber(1, 1 << 20),
    default=1,
    show_default=True,
    help="Sequences that will be served at once.",
)
@click.option("--target-url", metavar="URL", help="A server of the target; only the draft is here.")
@click.option("--target-model", metavar="NAME", help="What that server calls the target.")
@click.option("--draft-url", metavar="URL", help="A llama-server of the draft.")
@click.option("--seed", type=WholeNumber(0, (1 << 31) - 1), default=0, show_default=True)
@click.option("--dtype", help="Type to compute in. Default: the model's own; float32 on a CPU.")
@click.option(
    "--precision",
    type=FiniteRange(0, 1),
    default=0.03,
    show_default=True,
    help="Stop when acceptance is known to within this.",
)
@click.option("--no-cost", is_flag=True, help="Acceptance only: no steps are timed.")
@click.option("--verify", is_flag=True, help="Also speculate for real and compare.")
@click.option("--reuse", type=FILE, help="Keep the target's texts here, or take them from here.")
@click.option("--tree", type=FILE, help="A tree of your own: a JSON list of rank paths.")
@click.option("--plot", type=FILE, help="Draw the curves into this SVG file.")
@click.option("--profile", type=FILE, help="Write a speculation_profile.json here.")
@click.option(
    "--universal", is_flag=True, help="The draft has another vocabulary: measure it translated."
)
@click.option("--thinking", is_flag=True, help="Let the chat template open a thinking block.")
@click.option("--trust-remote-code", is_flag=True, help="Run code from the models' repositories.")
@patience_option
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
@report_options("text", "json", "markdown")
@parsed_into(TrialRequest)
def command(request: TrialRequest) -> int:
    """Measure what DRAFT is worth to TARGET: one generation, one reading, every draft length.

    The target writes its own answers; the draft reads them once. From that follow acceptance and
    tokens per pass for every draft length, confidence threshold, tree and n-gram setting.

    DRAFT may be a head (EAGLE, MTP, Medusa, DFlash …); without it the target's own MTP layers.
    """
    from draftcheck.report import plot as drawing
    from draftcheck.report import trial as report
    from draftcheck.trial.api import trial

    if request.plot is not None:
        drawing.check(request.plot)
    knobs = request.knobs
    with trial_progress(request.quiet) as say:
        measured = trial(
            request.target,
            request.draft,
            prompts=knobs.prompts,
            tokens=knobs.tokens,
            temperature=knobs.temperature,
            greedy_share=request.greedy_share,
            seed=request.seed,
            backend=knobs.backend,
            device=knobs.device,
            dtype=request.dtype,
            engine=request.engine,
            gpu=request.gpu,
            sequences=request.sequences,
            target_url=request.target_url,
            target_model=request.target_model,
            draft_url=request.draft_url,
            precision=request.precision,
            budget=knobs.budget,
            cost=not request.no_cost,
            verify=request.verify,
            reuse=request.reuse,
            tree=request.tree,
            universal=request.universal,
            thinking=request.thinking,
            trust_remote_code=request.trust_remote_code,
            say=say,
        )
    if request.plot is not None:
        drawing.write(measured, request.plot)
    if request.report.form == "text":
        shown = report.text(measured, _ready(measured, request.engine))
    else:
        shown = report.FORMATS[request.report.form](measured)
    emit(shown, request.report.output)
    if request.profile is not None:
        from draftcheck.trial.profile import profile

        profile(measured).write(request.profile)
    return report.code(measured)


def _ready(measured: Trial, asked: str | None) -> EngineVerdict | None:
    """The command that switches it on, in the engine that was named or that such files are for."""
    import draftcheck
    from draftcheck.errors import DraftcheckError
    from draftcheck.report.trial import next_step
    from draftcheck.trial.model_places import is_gguf

    step = next_step(measured)
    engine = (step and step.engine) or asked or ("llama.cpp" if is_gguf(measured.target) else "")
    if step is None or not engine:
        return None
    try:
        verdict = draftcheck.check(
            *step.models, engines=[engine], draft_tokens=step.length, offline=True
        )
    except DraftcheckError:  # what only a server knows
        return None
    return next((entry for entry in verdict.engines if entry.setup is not None), None)
