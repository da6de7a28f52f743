"""What passes take in vLLM itself: plain ones, and with drafts of a few lengths, by load.

An engine's start takes a minute or more, so one plain engine and two that draft have to do; between
and beyond their lengths a pass follows the model of this engine, moved to what was timed, or a line
where there is none. Prompts of one load are equal: greedy sequences then
stay in step, and every pass has all of them.

Where no graph holds the drafts a pass is as long as the CPU takes to launch it, and machines that
others share are at half their speed for seconds at a time: of many short rounds the fastest
counts, and how far the others lie from it is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import structs

from draftcheck.trial.backends.vllm.engines import VllmEngines
from draftcheck.trial.speedup import LONGEST, Costs, spread

PLAIN = 0
LENGTHS = (2, 8)
PROMPT, TOKENS = 256, 48
"""Of a prompt and of an answer."""
SKIPPED = 2
"""Passes at the start of an answer that are not counted."""
ROUNDS = 12

Loads = dict[int, list[float]]
"""Sequences at once -> seconds of a pass, one figure a round."""
Modelled = Callable[[int, int], float]
"""Seconds of a pass by sequences at once and drafted tokens."""


def time_engine(
    engines: VllmEngines, ref: str, engine: Any, loads: Sequence[int], rounds: int | None = None
) -> Loads:
    """Loads take turns, so that a slow moment of the machine falls on all of them."""
    context = engines.context
    prompt = [1 + i % 97 for i in range(min(PROMPT, context // 2))]
    tokens = min(TOKENS, context - len(prompt) - LONGEST)
    settings = {"temperature": 0.0, "max_tokens": tokens, "ignore_eos": True, "detokenize": False}
    found: Loads = {sequences: [] for sequences in loads}
    for turn in range((rounds or ROUNDS) + 1):
        for sequences in loads:
            ends = engines.pass_ends(ref, engine, [prompt] * sequences, settings)[SKIPPED:]
            if turn and len(ends) > 1:  # first come kernels that are made at their first use
                found[sequences].append((ends[-1] - ends[0]) / (len(ends) - 1))
    return found


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
                _made_up({g: min(seconds) for g, seconds in columns.items()}, shape),
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
    short, long = LENGTHS
    known = {g: passes[g] for g in LENGTHS}
    if shape is not None:
        known = {g: _moved(passes, shape, g) for g in range(1, LONGEST + 1)}
    room = min((seconds - passes[PLAIN]) / g for g, seconds in known.items())
    step = max(min((passes[long] - passes[short]) / (long - short), room), 0.0)
    verify = {g + 1: seconds - g * step for g, seconds in known.items()}
    verify.setdefault(2, verify[short + 1])  # the first drafted token brings what speculating costs
    how = f"passes of vLLM with {short} and {long} drafted tokens"
    return Costs(step, passes[PLAIN], verify, how, engine="vllm", source="measured")


def _moved(passes: Mapping[int, float], shape: Callable[[int], float], g: int) -> float:
    """The modelled pass, by as much longer or shorter as those were that were timed."""
    short, long = LENGTHS
    here = min(max((g - short) / (long - short), 0.0), 1.0)
    off = [passes[length] / shape(length) for length in LENGTHS]
    return shape(g) * (off[0] + (off[1] - off[0]) * here)
