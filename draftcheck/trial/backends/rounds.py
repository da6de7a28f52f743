"""Times that were taken in rounds, each kind of pass in turn: what they come to, and how sure.

Means, not medians or the fastest: on a busy machine a short pass often goes undisturbed and a long
one never does, so what is left when the slow ones are dropped favours the short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from msgspec import structs

from draftcheck.trial.speedup import Costs, spread


def merge(rounds: Sequence[Costs]) -> Costs:
    """One figure for each step that every round timed."""

    def by_width(tables: Sequence[Mapping[int, float]]) -> dict[int, float]:
        widths = [width for width in tables[0] if all(width in table for table in tables)]
        return {width: fmean([table[width] for table in tables]) for width in widths}

    return structs.replace(
        rounds[0],
        draft_step=fmean([one.draft_step for one in rounds]),
        target_step=fmean([one.target_step for one in rounds]),
        verify=by_width([one.verify for one in rounds]),
        overhead=by_width([one.overhead for one in rounds]),
        spread=spread(rounds) if len(rounds) > 1 else rounds[0].spread,
    )
