"""From tokens per pass and the cost of steps to what speculation is worth. Pure arithmetic.

speed-up(g) = tokens per pass(g) * t(target step) / (g * t(draft step) + t(verify g + 1))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds that steps take, for one number of sequences at once."""

    draft_step: float
    target_step: float
    verify: Mapping[int, float]
    """Tokens checked in one pass -> seconds."""
    how: str = "measured"
    sequences: int = 1

    @property
    def ratio(self) -> float:
        """A draft step beside a target step: c."""
        return self.draft_step / self.target_step

    def verify_step(self, width: int) -> float:
        """Seconds to check `width` tokens; in between and beyond the measured widths by lines."""
        known, seconds = [], 0.0
        for wide, taken in sorted({1: self.target_step, **self.verify}.items()):
            seconds = max(seconds, taken)  # more tokens never cost less: that would be noise
            known.append((wide, seconds))
        if width <= known[0][0] or len(known) == 1:
            return known[0][1]
        upper = next((i for i, (w, _) in enumerate(known) if w >= width), len(known) - 1)
        (w0, t0), (w1, t1) = known[max(upper - 1, 0)], known[upper]
        return t0 + (t1 - t0) * (width - w0) / (w1 - w0)


def ratio(over: float, under: float) -> float:
    """Nothing of nothing is 0."""
    return float(over) / float(under) if under else 0.0


def of_length(tokens_per_pass: float, g: float, costs: Costs) -> float:
    """Draft g tokens one after the other, check them in one pass."""
    return of_pass(tokens_per_pass, g * costs.draft_step, g, costs)


def of_pass(tokens_per_pass: float, draft_seconds: float, checked: float, costs: Costs) -> float:
    """Any way of drafting: how long the draft takes, and how many tokens are checked."""
    low = int(checked)
    share = checked - low
    verify = costs.verify_step(low + 1)
    if share:
        verify += share * (costs.verify_step(low + 2) - verify)
    return tokens_per_pass * costs.target_step / (draft_seconds + verify)


def memory_bound(tokens_per_pass: float, g: int, ratio: float) -> float:
    """MBSU: checking costs what one step costs, a draft step costs c of it."""
    return tokens_per_pass / (ratio * g + 1)


def expected_tokens(acceptance: float, g: int) -> float:
    """Tokens per pass when each draft is accepted with the same chance."""
    if acceptance >= 1.0:
        return g + 1.0
    return (1 - acceptance ** (g + 1)) / (1 - acceptance)


def break_even(costs: Costs, longest: int = 24, *, at_once: bool = False) -> float | None:
    """The acceptance from which some length pays; None: none does, even if all is accepted.

    at_once: one step of the draft gives all its tokens.
    """

    def best(acceptance: float) -> float:
        return max(
            of_pass(
                expected_tokens(acceptance, g), (1 if at_once else g) * costs.draft_step, g, costs
            )
            for g in range(1, longest + 1)
        )

    if best(1.0) <= 1.0:
        return None
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if best(middle) > 1.0 else (middle, high)
    return high
