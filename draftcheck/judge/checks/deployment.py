"""Checks on what the user says about the deployment: the GPU, and how the two are quantised."""

from __future__ import annotations

from draftcheck.judge.checks.hardware import capability_at_least
from draftcheck.judge.checks.outcomes import fail, not_applicable, ok, unknown
from draftcheck.values.comparison import Comparison
from draftcheck.values.verdicts import EngineSetup
from draftcheck.values.words import CheckOutcome


def half_precision_held(comparison: Comparison, setup: EngineSetup, *, floor: int) -> CheckOutcome:
    """Fail when a model in bfloat16 meets a GPU below this capability, which has none."""
    if setup.capability is None:
        return not_applicable("no GPU named, or one without a compute capability")
    if setup.dtype is not None:
        kinds = {"--dtype": setup.dtype}
    else:
        kinds = {side: facts.config.dtype or "" for side, facts in comparison.both}
    found = [f"{side} is {kind}" for side, kind in kinds.items() if kind == "bfloat16"]
    if not found:
        unread = [side for side, kind in kinds.items() if not kind]
        return unknown(f"dtype of the {unread[0]} was not read") if unread else ok("no bfloat16")
    seen = capability_at_least(comparison, setup, floor=floor)
    return CheckOutcome(seen.outcome, f"{found[0]}; {seen.saw}")


def same_quantization(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the two models are quantised in different ways, or only one of them is."""
    sides = (comparison.target, comparison.drafter)
    if any(facts.config.model_type is None for facts in sides):
        return unknown("config of a side was not read")
    names = [
        str((facts.config.quantization or {}).get("quant_method", "none"))[:80] for facts in sides
    ]
    words = f"quantisation: target {names[0]}, draft {names[1]}"
    return ok(words) if names[0] == names[1] else fail(words)
