"""What passes take in vLLM itself: plain ones, and with drafts of a few lengths, by load.

An engine's start takes a minute or more, so one plain engine and four that draft have to do;
between and beyond their lengths a pass follows the model of this engine, moved to what was timed,
or a line where there is none. Prompts of one load are equal: greedy sequences then stay in step,
and every pass has all of them.

Where no graph holds the drafts a pass is as long as the CPU takes to launch it, and machines that
others share are at half their speed for seconds at a time: of a round its calmest moment counts,
of many short rounds one that a quarter of them stay below (the very fastest is luck), and how far
the others lie from it is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

from msgspec import structs
from numpy import interp, quantile

from draftcheck.trial.backends.vllm.engines import VllmEngines
from draftcheck.trial.speedup import LONGEST, Costs, spread

PLAIN = 0
LENGTHS = (1, 2, 4, 8)
PROMPT, TOKENS = 256, 48
"""Of a prompt and of an answer."""
SKIPPED = 2
"""Passes at the start of an answer that are not counted."""
MOMENT_S, FEWEST = 0.1, 2
"""How long passes in a row are timed together, and at least how many."""
ROUNDS = 12
CALM = 0.25
"""Of the rounds are faster than what counts."""

Loads = dict[int, list[float]]
"""Sequences at once -> seconds of a pass, one figure a round."""
Modelled = Callable[[int, int], float]
"""Seconds of a pass by sequences at once and drafted tokens."""


def time_engine(
    engines: VllmEngines, ref: str, engine: Any, loads: Sequence[int], rounds: int | None = None
) -> Loads:
    """Loads take turns, so that a slow moment of the machine falls on all of them.

    rounds: that many of an engine that was used before; else a first one is not counted.
    """
    context = engines.context
    prompt = [1 + i % 97 for i in range(min(PROMPT, context // 2))]
    tokens = min(TOKENS, context - len(prompt) - LONGEST)
    settings = {"temperature": 0.0, "max_tokens": tokens, "ignore_eos": True, "detokenize": False}
    found: Loads = {sequences: [] for sequences in loads}
    for turn in range(rounds or ROUNDS + 1):
        for sequences in loads:
            ends = engines.pass_ends(ref, engine, [prompt] * sequences, settings)[SKIPPED:]
            # First come kernels that are made at their first use.
            if (turn or rounds) and len(ends) > 1:
                found[sequences].append(calmest(ends))
    return found


def calmest(ends: Sequence[float]) -> float:
    """Seconds of a pass, where passes in a row took least."""
    each = median([after - before for before, after in pairwise(ends)])
    size = min(max(FEWEST, math.ceil(MOMENT_S / each)), len(ends) - 1)
    return min((ends[i + size] - ends[i]) / size for i in range(len(ends) - size))


def calm(rounds: Sequence[float]) -> float:
    return float(quantile(rounds, CALM))


def costs(
    timed: Mapping[int, Loads], version: str, modelled: Modelled | None = None
) -> dict[int, Costs]:
    """By load; timed: by drafted tokens, PLAIN for the plain engine."""
    made = {}
    for sequences in timed[PLAIN]:
        columns = {g: loads[sequences] for g, loads in timed.items()}
        count = min(map(len, columns.values()))
        rounds = [{g: seconds[i] for g, seconds in columns.items()} for i in range(count)]
        shape = partial(modelled, sequences) if modelled is not None else None
        if count > 1:
            made[sequences] = structs.replace(
                _made_up({g: calm(seconds) for g, seconds in columns.items()}, shape),
                version=version,
                spread=spread([_made_up(one, shape) for one in rounds]),
                sequences=sequences,
            )
    return made


def _made_up(passes: Mapping[int, float], shape: Callable[[int], float] | None) -> Costs:
    """From passes with LENGTHS drafted tokens.

    A check is at least as long as a plain step: what a longer draft takes beyond that is checking
    more tokens, as with many sequences at once.
    """
    known = {g: passes[g] for g in LENGTHS}
    if shape is not None:
        off = [passes[g] / shape(g) for g in LENGTHS]
        known = {g: shape(g) * float(interp(g, LENGTHS, off)) for g in range(1, LONGEST + 1)}
    # No draft step takes more than the least that a longer draft adds: the rest is checking.
    points = {PLAIN: passes[PLAIN], **known}
    slopes = [(points[b] - points[a]) / (b - a) for a, b in pairwise(sorted(points))]
    step = max(min(slopes), 0.0)
    verify = {g + 1: seconds - g * step for g, seconds in known.items()}
    *fewer, longest = map(str, LENGTHS)
    how = f"passes of vLLM with {', '.join(fewer)} and {longest} drafted tokens"
    return Costs(step, passes[PLAIN], verify, how, engine="vllm", source="measured")
