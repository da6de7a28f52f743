"""How sure a figure is: bootstrap over prompts, because tokens of one text are not independent."""

from __future__ import annotations

import numpy as np

from draftcheck.trial.traces import Floats

RESAMPLES = 1000


def interval(over: Floats, under: Floats, seed: int = 0) -> tuple[float, float] | None:
    """95 % interval of sum(over) / sum(under); None when there are not two prompts to draw from."""
    if len(over) < 2:
        return None
    drawn = np.random.default_rng(seed).integers(0, len(over), (RESAMPLES, len(over)))
    below = under[drawn].sum(axis=1)
    ratios = over[drawn].sum(axis=1)[below > 0] / below[below > 0]
    if not len(ratios):
        return None
    low, high = np.percentile(ratios, [2.5, 97.5])
    return float(low), float(high)
