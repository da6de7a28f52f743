"""How sure a figure is: bootstrap over prompts, because tokens of one text are not independent."""

from __future__ import annotations

import numpy as np

from draftcheck.trial.result import Interval
from draftcheck.trial.traces import Floats

RESAMPLES = 1000


class Bootstrap:
    """The same prompts drawn again and again: one set of draws for all figures of a trial."""

    def __init__(self, prompts: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        draws = RESAMPLES if prompts > 1 else 0
        self._times = np.zeros((draws, prompts))
        """How often each draw holds each prompt."""
        for i in range(draws):
            self._times[i] = np.bincount(rng.integers(0, prompts, prompts), minlength=prompts)

    def interval(self, over: Floats, under: Floats) -> Interval | None:
        """95 % interval of sum(over) / sum(under); None without two prompts to draw from."""
        above, below = self._times @ over, self._times @ under
        ratios = np.sort(above[below > 0] / below[below > 0])
        if not len(ratios):
            return None
        tail = round(0.025 * (len(ratios) - 1))
        return float(ratios[tail]), float(ratios[-1 - tail])


def interval(over: Floats, under: Floats, seed: int = 0) -> Interval | None:
    """The interval of a single figure."""
    return Bootstrap(len(over), seed).interval(over, under)
