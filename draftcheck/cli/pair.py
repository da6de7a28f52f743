"""draftcheck pair TARGET DRAFT"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from draftcheck.cli.options import (
    FILE,
    circumstances_options,
    deep_option,
    emit,
    offline_option,
    report_options,
    say,
    trial_options,
)
from draftcheck.cli.progress import progress
from draftcheck.errors import ReadError, UsageError

if TYPE_CHECKING:
    from draftcheck.trial.result import Trial
    from draftcheck.values.verdicts import PairVerdict

MEASURED = ("prompts", "tokens", "temperature", "budget", "backend", "device")
"""Options of a trial."""


@click.command("pair")
@click.argument("target")
@click.argument("draft", required=False)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="NAME[@VERSION]",
    help="Engine to ask, as llama.cpp@b9109 or vllm (repeatable); auto: what is installed here."
    " Default: every engine of the rulebook.",
)
@click.option("--method", metavar="NAME", help="The engine's own word for the way of speculating.")
@circumstances_options
@deep_option
@click.option(
    "--trial", "wanted", is_flag=True, help="Also measure acceptance and speed-up (trial extra)."
)
@trial_options
@click.option(
    "--trial-from", type=FILE, help="Take the measurement from the JSON of an earlier trial."
)
@click.option("--strict", is_flag=True, help="Count degraded as incompatible.")
@offline_option
@click.option("--quiet", is_flag=True, help="Print nothing; the exit code is the answer.")
@click.option("--verbose", is_flag=True, help="Also list the rules that passed.")
@report_options("text", "json", "markdown")
def command(
    target: str,
    draft: str | None,
    engines: tuple[str, ...],
    method: str | None,
    wanted: bool,
    trial_from: Path | None,
    strict: bool,
    offline: bool,
    deep: bool,
    quiet: bool,
    verbose: bool,
    form: str,
    output: Path | None,
    **said: Any,
) -> int:
    """Say whether DRAFT can speculate for TARGET, engine by engine.

    TARGET and DRAFT are models of the Hub (org/name, org/name@revision, org/name:Q4_K_M,
    org/name/file.gguf), checkpoint folders, GGUF files (the first part of a split one),
    ollama:name[:tag], or facts files written by `draftcheck inspect`. Without DRAFT: how
    TARGET can speculate by itself, with MTP layers of its own or with n-grams.
    """
    # Imported here so that --help never pays for reading models.
    import draftcheck
    from draftcheck.report import exits
    from draftcheck.report.pair_formats import PAIR

    how = {name: said.pop(name) for name in MEASURED}
    if (wanted or trial_from) and draft is None:
        raise UsageError("a trial needs a draft", hint="Name TARGET and DRAFT.")
    asked = {"engines": engines, "method": method, **said}
    with progress(quiet):
        verdict = draftcheck.check(target, draft, offline=offline, deep=deep, **asked)
    trial, failed = None, None
    if trial_from is not None:
        trial = _earlier(verdict, trial_from)
    elif wanted and draft is not None:
        try:
            trial = _measure(verdict, target, draft, {**how, "dtype": said["dtype"]}, quiet)
        except ReadError as error:  # the verdict stands without it
            failed = error
    if trial is not None and said["draft_tokens"] is None and not trial.broken:
        asked["draft_tokens"] = trial.length
        verdict = draftcheck.decide(verdict.comparison, **asked)
    if not quiet or output is not None:
        emit(PAIR[form](verdict, trial, verbose, bool(engines)), output)
    for note in dict.fromkeys(n for _, facts in verdict.comparison.sides for n in facts.notes):
        exits.warn(note)
    if failed is not None:
        raise failed
    return exits.code(verdict.verdict, strict=strict, trial=trial)


def _measure(
    verdict: PairVerdict, target: str, draft: str, how: dict[str, Any], quiet: bool
) -> Trial | None:
    """A trial, when the verdict leaves room for one."""
    from draftcheck.report import exits
    from draftcheck.values.words import Verdict

    if verdict.verdict not in (Verdict.COMPATIBLE, Verdict.DEGRADED):
        exits.warn(f"no trial was made: the verdict is {verdict.verdict}")
        return None
    from draftcheck.trial.api import trial

    return trial(target, draft, say=say(quiet), **how)


def _earlier(verdict: PairVerdict, file: Path) -> Trial:
    """A saved trial, when it was made with these very models."""
    from draftcheck.trial import model_places, saved

    trial = saved.load(file)
    for side, measured in (("target", trial.target_model), ("draft", trial.draft_model)):
        facts = verdict.comparison.model(side)
        if difference := model_places.differs(measured, facts.called, facts.revision):
            raise UsageError(
                f"{file}: was measured with another {side}: {difference}",
                hint="Measure again with --trial.",
            )
    return trial
