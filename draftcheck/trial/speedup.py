"""From tokens per pass and the cost of steps to what speculation is worth. Pure arithmetic.

speed-up(g) = tokens per pass(g) * t(target step) / t(pass g)
t(pass g) = g * t(draft step) + t(verify g + 1) + t(overhead g + 1)

Costs says what steps take, wherever that is known from: backends time them, recommend estimates
them from bandwidth. Another source of costs, such as an engine's own speed, belongs beside this
module and gives Costs too.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from draftcheck.trial.strict_json import AboveZero, Number, Text

LONGEST = 24
"""Tokens in one draft that are looked at."""
USUAL = 4
"""Tokens in one draft where nothing says which number is best."""
GAIN = 1.005
"""A speed-up up to here is none: it would be told as 1.00x."""
WIDTHS = (2, 3, 5, 9, 17, 65)
"""Tokens checked in one pass, for which backends time the pass."""
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""Half a 95 % interval in standard errors, for 2, 3, 4 … rounds."""
Width = Annotated[int, Meta(ge=0, le=1 << 30)]
SecondsByWidth = Annotated[Mapping[Width, Number], Meta(max_length=4096)]


class Costs(
    msgspec.Struct,
    frozen=True,
    rename={
        "draft_step": "draft_step_s",
        "target_step": "target_step_s",
        "verify": "verify_step_s",
        "overhead": "overhead_s",
    },
):
    """Seconds that steps take, for one number of sequences at once."""

    draft_step: Number
    target_step: AboveZero
    verify: SecondsByWidth
    """Tokens checked in one pass -> seconds."""
    how: Text = "measured"
    at_once: bool = False
    """One step of the draft gives all its tokens."""
    engine: Text = ""
    """Whose steps these are, and of which version."""
    version: Text = ""
    source: Text = "steps"
    """measured: in that engine; modelled; steps: of transformers, timed one by one."""
    spread: Number = 0.0
    """Half the 95 % interval of what a pass takes beside a plain step, relative."""
    overhead: SecondsByWidth = {}
    """Tokens checked in one pass -> seconds of a drafting pass that are neither draft steps nor the
    check: llama.cpp's draft reads those tokens once more. Drafts that no model makes have none."""
    sequences: int = 1
    """Not written: figures by load say it."""

    @property
    def ratio(self) -> float:
        """A draft step beside a target step: c."""
        return self.draft_step / self.target_step

    def verify_step(self, width: int) -> float:
        """Seconds to check `width` tokens; in between and beyond the measured widths by lines."""
        known, seconds = {}, 0.0
        for wide, taken in sorted({1: self.target_step, **self.verify}.items()):
            seconds = max(seconds, taken)  # more tokens never cost less: that would be noise
            known[wide] = seconds
        return _on_line(known, width)

    def pass_step(self, drafted: int, steps: float) -> float:
        """Seconds of a pass; steps: of the draft that it waits for."""
        seconds = (min(steps, 1) if self.at_once else steps) * self.draft_step
        if self.overhead and steps:
            seconds += _on_line(self.overhead, drafted + 1)
        return seconds + self.verify_step(drafted + 1)

    def to_dict(self) -> dict[str, Any]:
        """As the JSON of a trial has it."""
        again = {str(width): seconds for width, seconds in self.overhead.items()}
        return {
            "how": self.how,
            "draft_step_s": self.draft_step,
            "target_step_s": self.target_step,
            "verify_step_s": {str(width): seconds for width, seconds in self.verify.items()},
            **({"overhead_s": again} if again else {}),
            "ratio": self.ratio,
            **({"at_once": True} if self.at_once else {}),
            **(self._origin if self.engine else {}),
        }

    @property
    def _origin(self) -> dict[str, Any]:
        names = ("engine", "version", "source", "spread")
        return {name: getattr(self, name) for name in names}


def _on_line(timed: Mapping[int, float], width: int) -> float:
    """Seconds at a width, between and beyond those that were timed by lines."""
    known = sorted(timed.items())
    if width <= known[0][0] or len(known) == 1:
        return known[0][1]
    upper = next((i for i, (w, _) in enumerate(known) if w >= width), len(known) - 1)
    (w0, t0), (w1, t1) = known[max(upper - 1, 0)], known[upper]
    return t0 + (t1 - t0) * (width - w0) / (w1 - w0)


def ratio(over: float, under: float) -> float:
    """Nothing of nothing is 0."""
    return float(over) / float(under) if under else 0.0


def of_pass(
    tokens_per_pass: float, drafted: float, costs: Costs, steps: float | None = None
) -> float:
    """Draft so many tokens, check them in one pass.

    steps: of the draft that a pass waits for; None: one for each token. Means over many passes
    need not be whole numbers.
    """
    low, waits = int(drafted), drafted if steps is None else steps
    seconds = costs.pass_step(low, waits)
    if share := drafted - low:
        seconds += share * (costs.pass_step(low + 1, waits) - seconds)
    return tokens_per_pass * costs.target_step / seconds


def spread(rounds: Sequence[Costs]) -> float:
    """Costs.spread, by a few rounds that timed the same steps; two at least.

    Wide enough for what another measurement would give: it misses the truth as this one does.
    """
    passes = [-math.log(of_pass(1.0, USUAL, costs)) for costs in rounds]
    errors = STUDENT[len(rounds) - 2] if len(rounds) - 2 < len(STUDENT) else 2.0
    return math.expm1(errors * statistics.stdev(passes) * math.sqrt(2 / len(passes)))


def interval(
    gain: float, tokens: float, of_tokens: tuple[float, float] | None, costs: Costs
) -> tuple[float, float] | None:
    """95 % of a speed-up: what is not known of tokens per pass and what is not known of the steps.

    None where either is unknown; costs that do not say whose they are have no spread either.
    """
    if of_tokens is None or not of_tokens[0] or not costs.engine:
        return None
    steps = math.log1p(costs.spread)
    down, up = (math.hypot(math.log(end / tokens), steps) for end in of_tokens)
    return gain * math.exp(-down), gain * math.exp(up)


def expected_tokens(acceptance: float, g: int) -> float:
    """Tokens per pass when each draft is accepted with the same chance."""
    if acceptance >= 1.0:
        return g + 1.0
    return (1 - acceptance ** (g + 1)) / (1 - acceptance)


def break_even(costs: Costs, longest: int = LONGEST) -> float | None:
    """The acceptance from which some length pays; None: none does, even if all is accepted."""

    def best(acceptance: float) -> float:
        return max(of_pass(expected_tokens(acceptance, g), g, costs) for g in range(1, longest + 1))

    if best(1.0) <= 1.0:
        return None
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if best(middle) > 1.0 else (middle, high)
    return high
