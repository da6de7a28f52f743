"""The trial as a function: the one place that turns wishes into a plan. Every command uses it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import structs

from draftcheck.errors import UsageError
from draftcheck.trial import measure
from draftcheck.trial import prompts as prompt_files
from draftcheck.trial.backends.backend import TrialOptions
from draftcheck.trial.engine_speed import serving
from draftcheck.trial.plan import TrialPlan
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.result import Trial
from draftcheck.trial.simulate import trees

MOST_TOKENS = 1 << 20
SEEDS = 1 << 31
"""As many as every engine takes."""


def trial(
    target: str,
    draft: str | None = None,
    *,
    prompts: str | Path | Sequence[Prompt] | None = None,
    tokens: int = 128,
    temperature: float = 0.0,
    greedy_share: float = 0.0,
    seed: int = 0,
    backend: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    engine: str | None = None,
    gpu: str | None = None,
    sequences: int = 1,
    target_url: str | None = None,
    target_model: str | None = None,
    draft_url: str | None = None,
    precision: float = 0.03,
    budget: float | None = 600.0,
    cost: bool = True,
    verify: bool = False,
    reuse: str | Path | None = None,
    tree: str | Path | None = None,
    universal: bool = False,
    thinking: bool = False,
    trust_remote_code: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Trial:
    """Measure what the draft is worth to the target; loads both models.

    The draft may be a head; None: the target's own MTP layers. engine: the one that will serve,
    with a version or not; its way of running heads is taken. gpu and sequences: what it will serve
    on, and how many at once.
    The arguments are the options of `draftcheck trial`; prompts: a file, prompts, or None for our
    own set; tokens: new ones per prompt; say: is told the progress. The result's to_dict() is the
    JSON of the command.
    """
    sizes = 2 <= tokens <= MOST_TOKENS and 0 <= seed < SEEDS
    limits = 0 <= temperature < math.inf and 0 <= (budget or 0) < math.inf
    if not (sizes and limits and 0 <= greedy_share <= 1 and 0 <= precision <= 1):
        raise UsageError(
            "a trial takes 2 tokens or more, a temperature from 0, a share from 0 to 1, a precision"
            f" from 0 to 1, a budget of seconds, a seed from 0 to {SEEDS - 1:,}"
        )
    serving.check(engine, gpu)
    if prompts is None or isinstance(prompts, str | Path):
        prompts = prompt_files.load(Path(prompts) if prompts is not None else None)
    texts_file = Path(reuse) if reuse is not None else None
    plan = TrialPlan(
        target=target,
        draft=draft,
        prompts=prompts,
        backend=backend,
        options=TrialOptions(
            tokens=tokens,
            temperature=temperature,
            seed=seed,
            device=device,
            dtype=dtype,
            thinking=thinking,
            trust_remote_code=trust_remote_code,
            universal=universal,
            kept=texts_file is not None and texts_file.exists(),
            target_url=target_url,
            target_model=target_model,
            draft_url=draft_url,
            engine=engine.partition("@")[0] if engine else None,
        ),
        precision=precision,
        budget=budget,
        cost=cost,
        verify=verify,
        reuse=texts_file,
        tree=trees.load(Path(tree)) if tree is not None else None,
        greedy_share=greedy_share,
    )
    measured = measure.run(plan, say)
    if measured.broken is not None:
        return measured
    speeds, unknown = serving.of_trial(measured, engine, gpu, sequences)
    return structs.replace(measured, speeds=speeds, speeds_unknown=unknown)
