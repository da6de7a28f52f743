"""draftcheck pair TARGET DRAFT"""

from __future__ import annotations

from pathlib import Path

import click

from draftcheck.cli.options import emit, report_options


@click.command("pair")
@click.argument("target")
@click.argument("draft")
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="NAME[@VERSION]",
    help="Engine to ask, as llama.cpp@b9109 or vllm (repeatable). Default: llama.cpp, SGLang,"
    " transformers and vLLM.",
)
@click.option("--method", metavar="NAME", help="The engine's own word for the way of speculating.")
@click.option("--context", type=click.IntRange(1), metavar="N", help="Tokens per sequence served.")
@click.option("--tensor-parallel", type=click.IntRange(1), metavar="N", help="Ranks of the target.")
@click.option(
    "--draft-tensor-parallel", type=click.IntRange(1), metavar="N", help="Ranks of the draft."
)
@click.option("--strict", is_flag=True, help="Count degraded as incompatible.")
@click.option("--offline", is_flag=True, help="Use no network (local references never do).")
@click.option("--quiet", is_flag=True, help="Print nothing; the exit code is the answer.")
@click.option("--verbose", is_flag=True, help="Also list the rules that passed.")
@report_options("text", "json", "markdown")
def command(
    target: str,
    draft: str,
    engines: tuple[str, ...],
    method: str | None,
    context: int | None,
    tensor_parallel: int | None,
    draft_tensor_parallel: int | None,
    strict: bool,
    offline: bool,
    quiet: bool,
    verbose: bool,
    form: str,
    output: Path | None,
) -> int:
    """Say whether DRAFT can speculate for TARGET, engine by engine.

    TARGET and DRAFT are checkpoint folders, GGUF files (the first part of a split one) or
    facts files written by `draftcheck inspect`.
    """
    # Imported here so that --help never pays for reading models.
    import draftcheck
    from draftcheck.report import exits

    verdict = draftcheck.check(
        target,
        draft,
        engines=engines,
        method=method,
        context=context,
        tensor_parallel=tensor_parallel,
        draft_tensor_parallel=draft_tensor_parallel,
    )
    if not quiet or output is not None:
        emit(exits.render_pair(verdict, form, verbose=verbose, explicit=bool(engines)), output)
    for note in (*verdict.comparison.target.notes, *verdict.comparison.draft.notes):
        exits.warn(note)
    return exits.code(verdict.verdict, strict=strict)
