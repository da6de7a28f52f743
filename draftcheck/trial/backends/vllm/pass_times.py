"""What passes take in vLLM itself: plain ones, and with drafts of a few lengths, by load.

An engine's start takes a minute or more, so one plain engine and two that draft have to do; between
and beyond their lengths a pass lies on a line. Prompts of one load are equal: greedy sequences then
stay in step, and every pass has all of them. A prompt's own reading is taken out by the difference
of a long and a short answer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from draftcheck.trial.backends.rounds import middle
from draftcheck.trial.backends.vllm.engines import VllmEngines, counters
from draftcheck.trial.speedup import LONGEST, Costs, spread

PLAIN = 0
LENGTHS = (2, 6)
PROMPT, FEW, MANY = 256, 8, 72
"""Tokens of a prompt and of the two answers."""
ROUNDS = 5

Loads = dict[int, list[float]]
"""Sequences at once -> seconds of a pass, one figure a round."""


def time_engine(
    engines: VllmEngines, ref: str, engine: Any, loads: Sequence[int], *, drafts: bool
) -> Loads:
    """drafts: it speculates, and its counter says how many passes there were."""
    context = engines.context
    prompt = [1 + i % 97 for i in range(min(PROMPT, context // 2))]
    many = min(MANY, context - len(prompt) - LONGEST)

    def run(sequences: int, tokens: int) -> tuple[float, float]:
        """Seconds and passes."""
        settings = {"temperature": 0.0, "max_tokens": tokens, "ignore_eos": True}
        before = counters(engine)[0] if drafts else 0
        began = time.perf_counter()
        engines.ask(ref, engine, [prompt] * sequences, {**settings, "detokenize": False})
        seconds = time.perf_counter() - began
        made = counters(engine)[0] - before if drafts else (tokens - 1) * sequences
        return seconds, made / sequences

    found: Loads = {}
    for sequences in loads:
        run(sequences, 2 * FEW)  # kernels that are made at their first use
        found[sequences] = []
        for _ in range(ROUNDS):
            (short, less), (long, more) = run(sequences, FEW), run(sequences, many)
            if more > less and long > short:  # otherwise all of it was noise
                found[sequences].append((long - short) / (more - less))
    return found


def costs(timed: dict[int, Loads], version: str) -> dict[int, Costs]:
    """By load; timed: by drafted tokens, PLAIN for the plain engine."""
    made = {}
    for sequences in timed[PLAIN]:
        columns = {g: loads[sequences] for g, loads in timed.items()}
        count = min(map(len, columns.values()))
        rounds = [{g: seconds[i] for g, seconds in columns.items()} for i in range(count)]
        if count > 1:
            made[sequences] = structs.replace(
                _line(middle(rounds)),
                version=version,
                spread=spread([_line(one) for one in rounds]),
                sequences=sequences,
            )
    return made


def _line(passes: Mapping[int, float]) -> Costs:
    """From passes with LENGTHS drafted tokens.

    A check is at least as long as a plain step: what a longer draft takes beyond that is checking
    more tokens, as with many sequences at once.
    """
    short, long = LENGTHS
    step = (passes[long] - passes[short]) / (long - short)
    step = max(min(step, (passes[short] - passes[PLAIN]) / short), 0.0)
    how = f"passes of vLLM with {short} and {long} drafted tokens"
    verify = {g + 1: passes[g] - g * step for g in LENGTHS}
    verify[2] = verify[short + 1]  # the first drafted token brings what speculating costs at all
    return Costs(step, passes[PLAIN], verify, how, engine="vllm", source="measured")
