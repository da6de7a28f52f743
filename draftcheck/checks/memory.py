"""Checks on the memory answer of a verdict; the numbers are made in memory/."""

from __future__ import annotations

from draftcheck.memorytypes import Fit
from draftcheck.types import Comparison, Outcome, Seen, Setup

GIB = 1 << 30


def memory_is(comparison: Comparison, setup: Setup, *, bad: str) -> Seen:
    """Fail when the answer is this one; no GPU named, or no figures: nothing to say."""
    fit = setup.memory
    if fit is None or fit.answer is Fit.CANNOT_TELL or fit.fullest is None:
        return Seen(Outcome.NOT_APPLICABLE, "no memory figures")
    device = fit.fullest
    saw = (
        f"{device.required / GIB:.2f} GiB ({device.low / GIB:.2f} to {device.high / GIB:.2f})"
        f" for {fit.sequences:,} x {fit.context:,} tokens, {device.available / GIB:.2f} GiB"
        f" to use on {device.gpu}"
    )
    if fit.changes:
        saw += f"; fits with: {' or '.join(fit.changes[:2])}"
    return Seen(Outcome.FAIL if fit.answer == bad else Outcome.OK, saw)
