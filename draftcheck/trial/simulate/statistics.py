"""How sure a figure is: bootstrap over prompts, because tokens of one text are not independent."""

from __future__ import annotations

import numpy as np

from draftcheck.trial.result import Interval
from draftcheck.trial.simulate.traces import Floats

RESAMPLES = 1000


class Bootstrap:
    """The same prompts drawn again and again: one set of draws for all figures of a trial."""

    def __init__(self, prompts: int, seed: int = 0) -> None:
        draws = RESAMPLES if prompts > 1 else 0
        even = np.full(prompts, 1 / max(prompts, 1))
        times = np.random.default_rng(seed).multinomial(prompts, even, draws)
        self._times = times.astype(np.float32)  # small whole numbers: exact, and half the memory
        """How often each draw holds each prompt."""

    def interval(self, over: Floats, under: Floats) -> Interval | None:
        """95 % interval of sum(over) / sum(under); None without two prompts to draw from."""
        both = np.stack([over, under], axis=1).astype(np.float32)
        above, below = (self._times @ both).T
        ratios = np.sort(above[below > 0] / below[below > 0])
        if not len(ratios):
            return None
        tail = round(0.025 * (len(ratios) - 1))
        return float(ratios[tail]), float(ratios[-1 - tail])


def interval(over: Floats, under: Floats, seed: int = 0) -> Interval | None:
    """The interval of a single figure."""
    return Bootstrap(len(over), seed).interval(over, under)
