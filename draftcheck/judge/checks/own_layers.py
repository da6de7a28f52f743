"""Checks on MTP layers: a target's own, or those of a file that has little else."""

from __future__ import annotations

from collections.abc import Iterator

from draftcheck.judge.checks.listed import in_window, is_listed, whole_type
from draftcheck.judge.checks.outcomes import (
    UNTOLD,
    applies,
    fail,
    needed,
    not_applicable,
    ok,
    unknown,
)
from draftcheck.models.readers import heads
from draftcheck.values.facts import ConfigFacts
from draftcheck.values.verdicts import EngineSetup, JudgedPair
from draftcheck.values.words import CheckOutcome

UNCOUNTED = "MTP layers could not be counted among the tensor names"


def own_layers_named(pair: JudgedPair, *, families: dict[str, str]) -> CheckOutcome:
    """Fail when the target's config class has no number of MTP layers in this version."""
    config = pair.target.config
    names = [name for name in (config.model_type, config.outer_type) if name is not None]
    if not names:
        return unknown("the target's model_type was not read")
    words = f"target model_type is {names[0]}"
    since = next((families[name] for name in names if name in families), None)
    if since is None:
        return fail(f"{words}, which has no number of MTP layers here")
    return ok(words) if in_window(since, pair.setup) else fail(f"{words}: from {since}")


def own_layers_found(pair: JudgedPair, *, depths: dict[str, str]) -> CheckOutcome:
    """Fail when the MTP weights are not there, or stand where the engine does not look.

    depths: model_type -> numbers of layers whose checkpoints it knows; others are not restricted.
    """
    target = pair.target
    config = target.config
    if config.model_type is None or target.role is None:
        return unknown("the target's config was not read")
    looked = depths.get(config.model_type, "").split()
    if looked:
        layers = needed(config.layers, "the target's number of layers was not read")
        if str(layers) not in looked:
            sought = " or ".join(looked)
            return fail(f"the target has {layers} layers; MTP weights are sought at {sought}")
    tensors = needed(target.weights.tensors, "the target's tensors were not listed")
    present = needed(heads.mtp_layers(tensors, config.layers), UNCOUNTED)
    words = f"{present} MTP layers in the weights"
    return ok(words) if present else fail(words)


def mtp_layers_present(pair: JudgedPair) -> CheckOutcome:
    """Fail when the draft's config promises MTP layers that its weights do not have."""
    head, role = pair.drafter.head, pair.drafter.role
    if head is None and role is None:
        return unknown("the draft's MTP layers were not read")
    if head is None or not head.mtp_promised:
        return not_applicable("no MTP layers promised")
    present = needed(head.mtp_present, UNCOUNTED)
    words = f"{head.mtp_promised} MTP layers promised, {present} in the weights"
    return fail(words) if present < head.mtp_promised else ok(words)


def mtp_layers_exist(pair: JudgedPair) -> CheckOutcome:
    """Fail when a whole model without any MTP layer is given for its MTP layers."""
    role, head = needed(pair.drafter.role, UNTOLD), pair.drafter.head
    if role == "mtp" or (role == "full" and head is not None and head.mtp_promised):
        return ok("the draft has MTP layers")
    return fail(f"the draft is: {role}, without MTP layers")


def draft_becomes_mtp(pair: JudgedPair, *, table: str) -> CheckOutcome:
    """Fail when this version turns such a draft into an MTP head, whatever method is asked for."""
    config = pair.drafter.config
    if config.model_type is None and config.architectures is None:
        return unknown("the draft's model_type was not read")
    listed = next(_listed(config, pair.setup, table), None)
    return fail(f"the draft's {listed}") if listed else ok(f"model_type is {config.model_type}")


def has_mtp_class(pair: JudgedPair, *, table: str) -> CheckOutcome:
    """Fail when this version has no MTP class for such a model."""
    config = pair.drafter.config
    side = pair.drafter_side
    if config.model_type is None and config.architectures is None:
        return unknown(f"the {side}'s model_type was not read")
    if listed := next(_listed(config, pair.setup, table), None):
        return ok(f"the {side}'s {listed}")
    ready = pair.setup.tables[table].ready
    for name in filter(None, (config.outer_type, config.model_type)):
        if is_listed(name, ready, pair.setup):
            return ok(f"the {side}'s model_type is {name}")
    words = f"the {side}'s model_type is {whole_type(config)}"
    later = _later(config, pair.setup, table)
    return fail(f"{words}: from {later}" if later else words)


def _listed(config: ConfigFacts, setup: EngineSetup, table: str) -> Iterator[str]:
    """Why the config becomes one with MTP layers in this version, in words."""
    rows = setup.tables[table]
    for name in filter(None, (config.outer_type, config.model_type)):
        parts = [part for part in rows.containing if part in name]
        by_part = any(is_listed(part, rows.containing, setup) for part in parts)
        if by_part or is_listed(name, rows.types, setup):
            yield f"model_type is {name}"
        if is_listed(name, rows.with_layers, setup) and config.mtp_layers:
            yield f"model_type is {name}, with {config.mtp_layers} MTP layers"
    for name in (config.architectures or ())[:1]:
        if is_listed(name, rows.architectures, setup):
            yield f"architecture is {name}"


def _later(config: ConfigFacts, setup: EngineSetup, table: str) -> str | None:
    """The version that first has the class, when this one is too old for it."""
    rows = setup.tables[table]
    names = [*filter(None, (config.outer_type, config.model_type)), *(config.architectures or ())]
    for part in (rows.types, rows.ready, rows.with_layers, rows.architectures):
        for name in names:
            if name in part:
                return str(part[name]).split()[0]
    return None


def mtp_type_readable(pair: JudgedPair, *, readable: dict[str, str]) -> CheckOutcome:
    """Fail when the draft's own config.json has a type that only the engine itself writes."""
    config = pair.drafter.config
    name = whole_type(config)
    if pair.draft is None or (name is not None and not name.endswith("_mtp")):
        return not_applicable("no model_type of MTP layers")
    needed(name, "the draft's model_type was not read")
    words = f"the draft's model_type is {name}"
    if is_listed(name, readable, pair.setup):
        return ok(words)
    needed(config.remote_code, f"{words}; whether it brings code of its own was not read")
    return ok(f"{words}, with code of its own") if config.remote_code else fail(words)


def own_layers_divide(pair: JudgedPair, *, at_most: bool) -> CheckOutcome:
    """Fail when the draft length does not go with the number of MTP layers.

    at_most: no more tokens than layers; otherwise more only in multiples.
    """
    tokens, head = applies(pair.setup.draft_tokens, "no draft length asked for"), pair.drafter.head
    layers = needed((head and head.mtp_promised) or None, "the number of MTP layers was not read")
    words = f"{tokens} draft tokens, {layers} MTP layers"
    return fail(words) if tokens > layers and (at_most or tokens % layers) else ok(words)
