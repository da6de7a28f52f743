"""A measured acceptance and an engine's passes -> what speculating is worth there, load by load."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from msgspec import structs

from draftcheck.errors import UsageError
from draftcheck.memory import gpus
from draftcheck.models import read as facts
from draftcheck.models import refs
from draftcheck.rulebook import book
from draftcheck.trial import setups, speedup
from draftcheck.trial.engine_speed import table, work
from draftcheck.trial.engine_speed.passes import EnginePasses
from draftcheck.trial.engine_speed.speedups import WORTH, EngineSpeedup, LoadSpeedup
from draftcheck.trial.result import SpeculationFigures, Trial
from draftcheck.trial.speedup import Costs
from draftcheck.values.facts import ModelFacts
from draftcheck.values.memory import Gpu

Speedups = tuple[EngineSpeedup, ...]
CONTEXT = 1024
"""Tokens of each sequence."""
LOADS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


def check(asked: str | None, gpu: str | None) -> None:
    """Refuse an engine, a version or a GPU that nobody knows before hours are spent on a trial."""
    if asked is not None:
        name, _, version = asked.partition("@")
        book.load(name).version(version or None)
    if gpu is not None:
        gpus.parse(gpu)


def of_trial(
    trial: Trial, asked: str | None, gpu: str | None, sequences: int
) -> tuple[Speedups, tuple[str, ...]]:
    """One answer per engine whose passes are modelled, and the engines whose are not.

    asked: one of them, with a version or not.
    gpu: as --gpu names it; None: the one that the trial ran on, if any.
    """
    if not trial.lengths or trial.translation:
        return (), ()
    device = gpus.parse(gpu).devices[0] if gpu is not None else _gpu_of(trial)
    if device is None:
        return (), ()
    names = dict.fromkeys([trial.target, trial.draft])
    models = facts.read_all(*(refs.parse(name) for name in names))
    named = [asked] if asked else setups.engines_for(models)
    found, unknown = [], []
    for text in named:
        name, _, version = text.partition("@")
        engine = (name, book.load(name).version(version or None))
        passes = modelled(engine, models, device)
        if passes is not None:
            found.append(of_engine(passes, trial.lengths, sequences))
        elif trial.costs_origin is None or trial.costs_origin.engine != name:
            unknown.append(" ".join(engine) + _by_itself(engine, models))
    return tuple(found), tuple(unknown)


def _by_itself(engine: tuple[str, str], models: Sequence[ModelFacts]) -> str:
    """The option with which an engine finds the draft length by load itself."""
    method = setups.method(*engine, models)
    option = table.schedule(*engine, method.id) if method is not None else None
    return f" ({option} fits the length to the load)" if option and "{" not in option else ""


def _gpu_of(trial: Trial) -> Gpu | None:
    """The one that the trial ran on, where it can be asked."""
    if not trial.device.startswith("cuda"):
        return None
    with contextlib.suppress(UsageError):
        return gpus.ask()[0]
    return None


def modelled(
    engine: tuple[str, str], models: Sequence[ModelFacts], gpu: Gpu, ranks: int = 1
) -> EnginePasses | None:
    """The passes of an engine and version with a target and its draft; None: not known."""
    method = setups.method(*engine, models)
    rows = table.rows(*engine, method.id) if method is not None else None
    if rows is None or not gpu.bandwidth or not gpu.flops:
        return None
    target, draft = models[0], models[-1]
    ours, theirs = (work.of_model(one, CONTEXT) for one in (target, draft))
    if ours is None or theirs is None:
        return None
    theirs = replace(theirs, weights=theirs.weights + work.borrowed(target, draft))
    made = EnginePasses(*engine, *rows, gpu, ours, theirs, ranks)
    return made if made.known else None


def of_engine(
    passes: EnginePasses, lengths: Sequence[SpeculationFigures], sequences: int = 1
) -> EngineSpeedup:
    """lengths: what each draft length came to; sequences: at once, as the user has them."""
    longest = max(row.draft_tokens or 0 for row in lengths)
    here = passes.costs(sequences, longest)
    row, gain = max(_gains(lengths, here), key=lambda pair: pair[1])
    loads = [_load(lengths, passes.costs(load, longest)) for load in LOADS]
    paying = [load.sequences for load in loads if load.speedup >= WORTH]
    return EngineSpeedup(
        engine=passes.engine,
        version=passes.version,
        gpu=passes.gpu.name,
        source=here.source,
        measured=passes.drafting.measured,
        sequences=sequences,
        draft_tokens=row.draft_tokens or 0,
        speedup=gain,
        speedup_ci95=speedup.interval(
            gain,
            row.tokens_per_pass,
            row.interval,
            structs.replace(here, spread=passes.spread(sequences, row.draft_tokens or 1)),
        ),
        break_even_tokens_per_pass=row.tokens_per_pass / gain,
        stops_paying_at=next((n for n in LOADS if n > max(paying, default=0)), None),
        loads=tuple(loads),
        schedule=_schedule(passes, loads),
    )


def _gains(
    lengths: Sequence[SpeculationFigures], costs: Costs
) -> list[tuple[SpeculationFigures, float]]:
    return [
        (row, speedup.of_pass(row.tokens_per_pass, row.drafted_per_pass, costs)) for row in lengths
    ]


def _load(lengths: Sequence[SpeculationFigures], costs: Costs) -> LoadSpeedup:
    plain = costs.sequences / costs.target_step
    gains = _gains(lengths, costs)
    row, gain = max(gains, key=lambda pair: pair[1])
    return LoadSpeedup(
        sequences=costs.sequences,
        draft_tokens=(row.draft_tokens or 0) if gain >= WORTH else 0,
        speedup=gain,
        tokens_per_s=gain * plain,
        plain_tokens_per_s=plain,
        by_length={str(one.draft_tokens): plain * faster for one, faster in gains},
    )


def _schedule(passes: EnginePasses, loads: Sequence[LoadSpeedup]) -> str | None:
    template = table.schedule(passes.engine, passes.version, passes.drafting.methods[0])
    if template is None:
        return None
    return template.replace("{ranges}", json.dumps([list(part) for part in _ranges(loads)]))


def _ranges(loads: Sequence[LoadSpeedup]) -> Iterator[tuple[int, int, int]]:
    """First and last number of sequences, and the draft length for them."""
    first = loads[0].sequences
    for now, after in pairwise([*loads, None]):
        if now is not None and (after is None or after.draft_tokens != now.draft_tokens):
            last = now.sequences if after is None else after.sequences - 1
            yield first, last, now.draft_tokens
            first = last + 1
