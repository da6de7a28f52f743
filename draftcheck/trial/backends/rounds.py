"""Times that were taken in rounds, each kind of pass in turn: what they come to, and how sure.

Of a round the mean counts, of several rounds the median. Inside a round the fastest or the median
would favour short passes on a busy machine, which often go undisturbed while long ones never do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from msgspec import structs

from draftcheck.trial.speedup import Costs, spread


def middle(rounds: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """The median of what every round timed."""
    names = [name for name in rounds[0] if all(name in one for one in rounds)]
    return {name: median([one[name] for one in rounds]) for name in names}


def merge(rounds: Sequence[Costs]) -> Costs:
    """Costs of steps that were timed one by one, by all rounds."""
    return structs.replace(
        rounds[0],
        draft_step=median([one.draft_step for one in rounds]),
        target_step=median([one.target_step for one in rounds]),
        verify=middle([one.verify for one in rounds]),
        overhead=middle([one.overhead for one in rounds]),
        spread=spread(rounds),
    )
