"""draftcheck pair TARGET DRAFT"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from draftcheck.cli.options import (
    circumstances_options,
    deep_option,
    emit,
    offline_option,
    report_options,
)
from draftcheck.cli.progress import progress


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
    strict: bool,
    offline: bool,
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

    with progress(quiet):
        verdict = draftcheck.check(
            target, draft, engines=engines, method=method, offline=offline, **said
        )
    if not quiet or output is not None:
        emit(exits.render_pair(verdict, form, verbose=verbose, explicit=bool(engines)), output)
    notes = (*verdict.comparison.target.notes, *verdict.comparison.draft.notes)
    for note in dict.fromkeys(notes):
        exits.warn(note)
    return exits.code(verdict.verdict, strict=strict)
