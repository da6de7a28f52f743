"""Checks on models that draft for themselves, with layers of their own."""

from __future__ import annotations

from draftcheck.judge.checks.listed import in_window
from draftcheck.judge.checks.outcomes import fail, ok, unknown
from draftcheck.models.readers import heads
from draftcheck.values.comparison import Comparison
from draftcheck.values.verdicts import EngineSetup
from draftcheck.values.words import CheckOutcome


def own_layers_named(
    comparison: Comparison, setup: EngineSetup, *, families: dict[str, str]
) -> CheckOutcome:
    """Fail when the target's config class has no number of MTP layers in this version."""
    config = comparison.target.config
    names = [name for name in (config.model_type, config.outer_type) if name is not None]
    if not names:
        return unknown("the target's model_type was not read")
    words = f"target model_type is {names[0]}"
    since = next((families[name] for name in names if name in families), None)
    if since is None:
        return fail(f"{words}, which has no number of MTP layers here")
    known = in_window(since, setup)
    return ok(words) if known else fail(f"{words}: from {since}")


def own_layers_found(
    comparison: Comparison, setup: EngineSetup, *, depths: dict[str, str]
) -> CheckOutcome:
    """Fail when the MTP weights are not there, or stand where the engine does not look.

    depths: model_type -> numbers of layers whose checkpoints it knows; others are not restricted.
    """
    target = comparison.target
    config = target.config
    if config.model_type is None or target.role is None:
        return unknown("the target's config was not read")
    looked = depths.get(config.model_type)
    if looked is not None:
        if config.layers is None:
            return unknown("the target's number of layers was not read")
        if str(config.layers) not in looked.split():
            numbers = " or ".join(looked.split())
            return fail(
                f"the target has {config.layers} layers; MTP weights are sought at {numbers}"
            )
    if target.weights.tensors is None:
        return unknown("the target's tensors were not listed")
    present = heads.mtp_layers(target.weights.tensors, config.layers)
    if present is None:
        return unknown("MTP layers could not be counted among the tensor names")
    words = f"{present} MTP layers in the weights"
    return ok(words) if present else fail(words)
