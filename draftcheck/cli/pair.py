"""draftcheck pair TARGET DRAFT"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from draftcheck.cli.help import ENGINE, HelpCommand, cached_models
from draftcheck.cli.options import (
    FILE,
    ReportOptions,
    TrialKnobs,
    circumstances_options,
    deep_option,
    emit,
    offline_option,
    parsed_into,
    patience_option,
    report_options,
    trial_options,
)
from draftcheck.cli.progress import progress, trial_progress
from draftcheck.errors import ReadError, UsageError
from draftcheck.values.circumstances import Circumstances

if TYPE_CHECKING:
    from draftcheck.trial.result import Trial
    from draftcheck.values.verdicts import PairVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRequest:
    """What `draftcheck pair` is asked."""

    target: str
    drafts: tuple[str, ...]
    engines: tuple[str, ...]
    method: str | None
    circumstances: Circumstances
    deep: bool
    offline: bool
    measure: bool
    """Whether a trial is made."""
    trial: TrialKnobs
    trial_from: Path | None
    """The JSON of a trial that was made before."""
    strict: bool
    quiet: bool
    verbose: bool
    report: ReportOptions

    @property
    def draft(self) -> str | None:
        return self.drafts[0] if self.drafts else None


@click.command("pair", cls=HelpCommand)
@click.argument("target", shell_complete=cached_models)
@click.argument("drafts", nargs=-1, metavar="[DRAFT]...", shell_complete=cached_models)
@click.option(
    "--engine",
    "engines",
    type=ENGINE,
    multiple=True,
    metavar="NAME[@VERSION]",
    help="Engine to ask, as llama.cpp@b9109 or vllm (repeatable); auto: what is installed here."
    " Default: [defaults] of draftcheck.toml, else every engine.",
)
@click.option("--method", metavar="NAME", help="The engine's own word for the way of speculating.")
@circumstances_options
@deep_option
@click.option(
    "--trial", "measure", is_flag=True, help="Also measure acceptance and speed-up (trial extra)."
)
@trial_options
@click.option(
    "--trial-from", type=FILE, help="Take the measurement from the JSON of an earlier trial."
)
@click.option("--strict", is_flag=True, help="Count degraded as incompatible.")
@offline_option
@patience_option
@click.option("--quiet", is_flag=True, help="Print nothing; the exit code is the answer.")
@click.option("--verbose", is_flag=True, help="Also list the rules that passed.")
@report_options("text", "json", "markdown")
@parsed_into(PairRequest)
def command(request: PairRequest) -> int:
    """Say whether DRAFT can speculate for TARGET, engine by engine.

    TARGET and DRAFT are models of the Hub (org/name, org/name@revision, org/name:Q4_K_M,
    org/name/file.gguf), checkpoint folders, GGUF files (the first part of a split one),
    ollama:name[:tag], or facts files written by `draftcheck inspect`. Without DRAFT: how
    TARGET can speculate by itself, with MTP layers of its own or with n-grams. Several DRAFTs are
    compared in one table, the best first, in the form of `draftcheck recommend`.
    """
    if len(request.drafts) > 1:
        return _compare_drafts(request)
    # Imported here so that --help never pays for reading models.
    import draftcheck
    from draftcheck.report import exits
    from draftcheck.report.pair import PAIR
    from draftcheck.values.words import Verdict

    with progress(request.quiet):
        verdict = draftcheck.check(
            request.target,
            request.draft,
            engines=request.engines,
            method=request.method,
            circumstances=request.circumstances,
            offline=request.offline,
            deep=request.deep,
        )
    trial, failed = None, None
    if request.trial_from is not None:
        trial = _earlier(verdict, request.trial_from)
    elif request.measure:
        try:
            trial = _measure(verdict, request)
        except ReadError as error:  # the verdict stands without it
            failed = error
    if trial is not None:
        verdict = _at_its_length(verdict, trial, request)
        if trial.broken:  # whatever the rules say
            verdict = replace(verdict, verdict=Verdict.INCOMPATIBLE)
    report = request.report
    if not request.quiet or report.output is not None:
        shown = PAIR[report.form](verdict, trial, request.verbose, bool(request.engines))
        emit(shown, report.output)
    for note in dict.fromkeys(n for _, facts in verdict.comparison.sides for n in facts.notes):
        exits.warn(note)
    if failed is not None:
        raise failed
    return exits.code(verdict.verdict, strict=request.strict, trial=trial)


def _compare_drafts(request: PairRequest) -> int:
    """The drafts beside each other, ranked; those that cannot be used with their reasons."""
    from draftcheck import settings
    from draftcheck.recommend.run import RecommendRequest, exit_code, measured, recommend
    from draftcheck.report import recommend as report

    if request.trial_from is not None or request.deep:
        option = "--deep" if request.deep else "--trial-from"
        raise UsageError(f"{option} takes one DRAFT", hint="Ask for them one by one.")
    drafts = tuple(dict.fromkeys(request.drafts))
    plan = RecommendRequest(
        engines=request.engines,
        method=request.method,
        circumstances=request.circumstances,
        limit=len(drafts),
        named=drafts,
        offline=request.offline or settings.offline(),
    )
    with progress(request.quiet) as say:
        answer = recommend(request.target, plan, say)
        if request.measure:
            answer = measured(answer, say)
    if not request.quiet or request.report.output is not None:
        emit(report.FORMATS[request.report.form]([answer], False, True), request.report.output)
    return exit_code([answer], strict=request.strict)


def _measure(verdict: PairVerdict, request: PairRequest) -> Trial | None:
    """A trial, when the verdict leaves room for one."""
    from draftcheck.report import exits
    from draftcheck.values.words import Verdict

    if verdict.verdict not in (Verdict.COMPATIBLE, Verdict.DEGRADED):
        exits.warn(f"no trial was made: the verdict is {verdict.verdict}")
        return None
    from draftcheck.trial.api import trial
    from draftcheck.trial.backends.transformers.heads import ways

    knobs = request.trial
    with trial_progress(request.quiet) as say:
        return trial(
            request.target,
            request.draft,
            engine=ways.first_known(request.engines),
            prompts=knobs.prompts,
            tokens=knobs.tokens,
            temperature=knobs.temperature,
            budget=knobs.budget,
            backend=knobs.backend,
            device=knobs.device,
            dtype=request.circumstances.dtype,
            say=say,
        )


def _at_its_length(verdict: PairVerdict, trial: Trial, request: PairRequest) -> PairVerdict:
    """The verdict whose setups have the draft length that was best, unless the user named one."""
    import draftcheck

    if request.circumstances.draft_tokens is not None or trial.broken:
        return verdict
    return draftcheck.decide(
        verdict.comparison,
        engines=request.engines,
        method=request.method,
        circumstances=replace(request.circumstances, draft_tokens=trial.length),
    )


def _earlier(verdict: PairVerdict, file: Path) -> Trial:
    """A saved trial, when it was made with these very models."""
    from draftcheck.trial import model_places
    from draftcheck.trial.result import load

    trial = load(file)
    for side, measured in (("target", trial.target_model), ("draft", trial.draft_model)):
        facts = verdict.comparison.model(side)
        if difference := model_places.differs(measured, facts.called, facts.revision):
            raise UsageError(
                f"{file}: was measured with another {side}: {difference}",
                hint="Measure again with --trial.",
            )
    return trial
