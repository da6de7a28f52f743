"""Checks on the memory answer of a verdict; the numbers are made in memory/."""

from __future__ import annotations

from draftcheck.values.comparison import Comparison
from draftcheck.values.memory import Fit
from draftcheck.values.verdicts import EngineSetup
from draftcheck.values.words import CheckOutcome, Outcome

GIB = 1 << 30


def memory_is(comparison: Comparison, setup: EngineSetup, *, bad: str) -> CheckOutcome:
    """Fail when the answer is this one; no GPU named, or no figures: nothing to say."""
    fit = setup.memory
    if fit is None or fit.answer is Fit.CANNOT_TELL or fit.fullest is None:
        return CheckOutcome(Outcome.NOT_APPLICABLE, "no memory figures")
    device = fit.fullest
    saw = (
        f"{device.required / GIB:.2f} GiB ({device.low / GIB:.2f} to {device.high / GIB:.2f})"
        f" for {fit.sequences:,} x {fit.context:,} tokens, {device.available / GIB:.2f} GiB"
        f" to use on {device.gpu}"
    )
    if fit.changes:
        saw += f"; fits with: {' or '.join(fit.changes[:2])}"
    return CheckOutcome(Outcome.FAIL if fit.answer == bad else Outcome.OK, saw)
