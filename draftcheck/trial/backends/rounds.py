"""Times that were taken in rounds, each kind of pass in turn: what they come to, and how sure.

Means, not medians or the fastest: on a busy machine a short pass often goes undisturbed and a long
one never does, so what is left when the slow ones are dropped favours the short.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np
from msgspec import structs

from draftcheck.trial.speedup import Costs

Round = Mapping[int, Sequence[float]]
"""Drafted tokens -> seconds of such passes; 0: plain ones."""
PLAIN = 0
DRAWS = 200
WATCHED = 4
"""Drafted tokens of the pass whose spread stands for all, where steps were timed."""
FEWEST = 4
"""Rounds that an interval is drawn from; of fewer all it could say is by chance."""


@dataclass(slots=True)
class TimedRounds:
    rounds: list[Round] = field(default_factory=list)

    def seconds(self) -> dict[int, float]:
        """What a pass takes, by drafted tokens."""
        return _pooled(self.rounds)

    def spread(self) -> float:
        """Half the 95 % interval of a drafting pass beside a plain one, relative.

        Rounds are drawn again and again; of fewer than FEWEST, their range.
        """
        count = len(self.rounds)
        draw = random.Random(0)
        again = (draw.choices(self.rounds, k=count) for _ in range(DRAWS))
        found: dict[int, list[float]] = defaultdict(list)
        for some in again if count >= FEWEST else ([one] for one in self.rounds):
            pooled = _pooled(some)
            for length, seconds in pooled.items():
                found[length].append(seconds / pooled[PLAIN])
        del found[PLAIN]
        tail = 0.025 if count >= FEWEST else 0.0
        ends = [np.quantile(np.array(ratios), [tail, 1 - tail]) for ratios in found.values()]
        return float(np.median([(high - low) / (high + low) for low, high in ends] or [0.0]))


def _pooled(rounds: Iterable[Round]) -> dict[int, float]:
    every: dict[int, list[float]] = defaultdict(list)
    for one in rounds:
        for length, seconds in one.items():
            every[length] += seconds
    return {length: fmean(seconds) for length, seconds in every.items() if seconds}


def merge(rounds: Sequence[Costs]) -> Costs:
    """One figure for each step that every round timed."""

    def by_width(tables: Sequence[Mapping[int, float]]) -> dict[int, float]:
        widths = [width for width in tables[0] if all(width in table for table in tables)]
        return {width: fmean([table[width] for table in tables]) for width in widths}

    passes: list[Round] = [
        {PLAIN: [one.target_step], WATCHED: [one.pass_step(WATCHED, WATCHED)]} for one in rounds
    ]
    return structs.replace(
        rounds[0],
        draft_step=fmean([one.draft_step for one in rounds]),
        target_step=fmean([one.target_step for one in rounds]),
        verify=by_width([one.verify for one in rounds]),
        overhead=by_width([one.overhead for one in rounds]),
        spread=TimedRounds(passes).spread(),
    )
