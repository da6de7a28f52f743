"""A measured acceptance and an engine's passes -> what speculating is worth there, load by load."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated

import msgspec
from msgspec import Meta

from draftcheck.trial import speedup
from draftcheck.trial.engine_speed import table
from draftcheck.trial.engine_speed.passes import EnginePasses
from draftcheck.trial.result import SpeculationFigures
from draftcheck.trial.speedup import Costs
from draftcheck.trial.strict_json import Number, Text, Whole

LOADS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
WORTH = 1.005
"""A gain below this is none."""


class ServedLoad(msgspec.Struct, frozen=True, kw_only=True):
    """So many sequences at once, with the best draft length for them."""

    sequences: Whole
    draft_tokens: Whole
    """0: not speculating is best."""
    speedup: Number
    """Of the best length that speculates, also where it loses."""
    tokens_per_s: Number
    """All sequences together, with that length."""
    plain_tokens_per_s: Number

    @property
    def ms_per_token(self) -> float:
        """That one sequence waits for a token, on average."""
        return 1e3 * self.sequences / self.tokens_per_s


class EngineSpeedup(msgspec.Struct, frozen=True, kw_only=True):
    """One engine's answer."""

    engine: Text
    version: Text
    gpu: Text
    source: Text
    measured: Text
    """The version whose passes were timed for it; empty: this one's were only read."""
    sequences: Whole
    draft_tokens: Whole
    speedup: Number
    speedup_ci95: tuple[Number, Number] | None = None
    break_even_tokens_per_pass: Number
    """Tokens per pass from which that length pays."""
    stops_paying_at: Whole | None = None
    """Sequences at once from which no length pays any more."""
    loads: Annotated[tuple[ServedLoad, ...], Meta(max_length=64)] = ()
    schedule: Text | None = None
    """The draft length by load, as the engine takes it; None: it has no such setting."""

    @property
    def pays(self) -> bool:
        return self.speedup >= WORTH


def of_engine(
    passes: EnginePasses, lengths: Sequence[SpeculationFigures], sequences: int = 1
) -> EngineSpeedup:
    """lengths: what each draft length came to; sequences: at once, as the user has them."""
    longest = max(row.draft_tokens or 0 for row in lengths)
    here = passes.costs(sequences, longest)
    row, gain = _best(lengths, here)
    loads = [_load(lengths, passes.costs(load, longest)) for load in LOADS]
    paying = [load.sequences for load in loads if load.speedup >= WORTH]
    measured = passes.drafting.measured if passes.passes.measured else ""
    return EngineSpeedup(
        engine=passes.engine,
        version=passes.version,
        gpu=passes.gpu.name,
        source=here.source,
        measured=measured,
        sequences=sequences,
        draft_tokens=row.draft_tokens or 0,
        speedup=gain,
        speedup_ci95=speedup.interval(gain, row.tokens_per_pass, row.interval, here),
        break_even_tokens_per_pass=row.tokens_per_pass / gain,
        stops_paying_at=next((n for n in LOADS if n > max(paying, default=0)), None),
        loads=tuple(loads),
        schedule=_schedule(passes, loads),
    )


def _best(lengths: Sequence[SpeculationFigures], costs: Costs) -> tuple[SpeculationFigures, float]:
    gains = [
        (row, speedup.of_pass(row.tokens_per_pass, row.drafted_per_pass, costs)) for row in lengths
    ]
    return max(gains, key=lambda pair: pair[1])


def _load(lengths: Sequence[SpeculationFigures], costs: Costs) -> ServedLoad:
    row, gain = _best(lengths, costs)
    plain = costs.sequences / costs.target_step
    return ServedLoad(
        sequences=costs.sequences,
        draft_tokens=(row.draft_tokens or 0) if gain >= WORTH else 0,
        speedup=gain,
        tokens_per_s=gain * plain,
        plain_tokens_per_s=plain,
    )


def _schedule(passes: EnginePasses, loads: Sequence[ServedLoad]) -> str | None:
    template = table.schedule(passes.engine, passes.version)
    if template is None:
        return None
    return template.replace("{ranges}", json.dumps([list(part) for part in _ranges(loads)]))


def _ranges(loads: Sequence[ServedLoad]) -> Iterator[tuple[int, int, int]]:
    """First and last number of sequences, and the draft length for them."""
    first = loads[0].sequences
    for now, after in pairwise([*loads, None]):
        if now is not None and (after is None or after.draft_tokens != now.draft_tokens):
            last = now.sequences if after is None else after.sequences - 1
            yield first, last, now.draft_tokens
            first = last + 1
