"""Checks on quantised checkpoints: does this version know the kind?"""

from __future__ import annotations

from itertools import zip_longest

from draftcheck import versions
from draftcheck.judge.checks.outcomes import fail, ok, unknown
from draftcheck.values.comparison import Comparison
from draftcheck.values.verdicts import EngineSetup
from draftcheck.values.words import CheckOutcome


def quantization_taken(
    comparison: Comparison, setup: EngineSetup, *, known: dict[str, str]
) -> CheckOutcome:
    """Fail when a side's quant_method is not among those that this version takes.

    known: all of them, name -> "since", "since until", "since until since" …
    """
    unread = []
    for side, facts in comparison.both:
        if facts.config.model_type is None:
            unread.append(side)
            continue
        method = str((facts.config.quantization or {}).get("quant_method", ""))
        if not method:
            continue
        if method not in known:
            return fail(f"{side} quant_method is {method[:80]}")
        edges = known[method].split()
        windows = zip_longest(edges[::2], edges[1::2])
        if not any(versions.covers(setup.order, setup.version, *window) for window in windows):
            return fail(f"{side} quant_method is {method[:80]} (taken: {known[method]})")
    if unread:
        return unknown(f"config of the {' and the '.join(unread)} was not read")
    return ok("no quantisation that this version does not know")
