"""Checks on what stands in an engine's lists: architectures, model types, quantisations.

An engine knows a model by its class name, its model_type or its quant_method, and what it knows
changes with its version. So a rule holds a table, name -> the versions in which it is listed
("since", or "since until"), or plain names where all versions have them; and a check holds one
fact of one side against it. _fact_listed is the common form; the others say what differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

from draftcheck import versions
from draftcheck.judge.checks.outcomes import fail, not_applicable, ok, unknown, unread_config
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import ConfigFacts, ModelFacts
from draftcheck.values.verdicts import EngineSetup
from draftcheck.values.words import CheckOutcome, Outcome


def in_window(window: str, setup: EngineSetup) -> bool:
    """Whether "since" or "since until" covers the version asked about."""
    return versions.in_window(setup.order, setup.version, window)


def is_listed(name: str | None, table: Mapping[str, str], setup: EngineSetup) -> bool:
    """Whether the table has the name for this version."""
    return name is not None and name in table and in_window(table[name], setup)


def whole_type(config: ConfigFacts) -> str | None:
    """The model_type by which an engine picks its class: that of the whole model."""
    return config.outer_type or config.model_type


def quant_method(facts: ModelFacts) -> str:
    """How the checkpoint is quantised; empty where it is not."""
    quant = facts.config.quantization
    return str(quant.get("quant_method", "")) if quant else ""


def _architecture(config: ConfigFacts) -> str | None:
    return (config.architectures or (None,))[0]


def _fact_listed(
    side: str, fact: str, name: str | None, known: dict[str, str] | list[str], setup: EngineSetup
) -> CheckOutcome:
    """Fail when the engine does not list this fact of this side."""
    if name is None:
        return unknown(f"the {side}'s {fact} was not read")
    if isinstance(known, dict):
        words, there = f"{side} {fact} is {name}", is_listed(name, known, setup)
    else:
        words, there = f"the {side}'s {fact} is {name}", name in known
    return ok(words) if there else fail(words)


def _both_listed(
    fact: str, names: dict[str, str | None], known: dict[str, str], setup: EngineSetup
) -> CheckOutcome:
    """The same for both sides: a name that is not listed counts before one that was not read."""
    for side, name in names.items():
        if name is not None and not is_listed(name, known, setup):
            return fail(f"{side} {fact} is {name}")
    if unread := [side for side, name in names.items() if name is None]:
        return unknown(f"{fact} of the {' and the '.join(unread)} was not read")
    return ok(f"{fact}: {names['target']} and {names['draft']}")


# ---- architectures ----


def architecture_known(
    comparison: Comparison, setup: EngineSetup, *, known: dict[str, str]
) -> CheckOutcome:
    """Fail when a side's architecture is not one that this version loads."""
    names = {side: _architecture(facts.config) for side, facts in comparison.both}
    return _both_listed("architecture", names, known, setup)


def draft_architecture_known(
    comparison: Comparison, setup: EngineSetup, *, known: dict[str, str]
) -> CheckOutcome:
    """Fail when this version builds no draft of that architecture."""
    name = _architecture(comparison.drafter.config)
    return _fact_listed("draft", "architecture", name, known, setup)


def target_architecture_known(
    comparison: Comparison, setup: EngineSetup, *, known: dict[str, str]
) -> CheckOutcome:
    """Fail when the target's architecture is not one that this version lists."""
    name = _architecture(comparison.target.config)
    return _fact_listed("target", "architecture", name, known, setup)


def draft_architecture_in(
    comparison: Comparison, setup: EngineSetup, *, names: list[str]
) -> CheckOutcome:
    """Fail when the draft's architecture is none of these."""
    name = _architecture(comparison.drafter.config)
    return _fact_listed("draft", "architecture", name, names, setup)


def target_architecture_in(
    comparison: Comparison, setup: EngineSetup, *, able: dict[str, str], unable: list[str]
) -> CheckOutcome:
    """Fail for architectures known to be unable in every version read; unknown for others."""
    name = _architecture(comparison.target.config)
    seen = _fact_listed("target", "architecture", name, able, setup)
    if seen.outcome is not Outcome.FAIL or name in unable:
        return seen
    if name in able:
        return fail(f"{seen.saw}: from {able[name]}")
    return unknown(f"{seen.saw}: not in the rulebook's list")


def target_architecture_starts(
    comparison: Comparison, setup: EngineSetup, *, words: list[str], fine: list[str]
) -> CheckOutcome:
    """Fail when the target's class name starts with none of these words.

    fine: kinds of head (by their model type) that this holds for.
    """
    draft, name = comparison.drafter.config, _architecture(comparison.target.config)
    if draft.outer_type is None or name is None:
        return unknown("the target's architecture or the draft's model_type was not read")
    if draft.outer_type not in fine:
        return not_applicable(f"the draft's model_type is {draft.outer_type}")
    seen = f"target architecture is {name}"
    return ok(seen) if name.startswith(tuple(words)) else fail(seen)


# ---- model types ----


def model_type_known(
    comparison: Comparison, setup: EngineSetup, *, known: dict[str, str]
) -> CheckOutcome:
    """Fail when a side's model_type is not one that this version loads."""
    names = {side: whole_type(facts.config) for side, facts in comparison.both}
    return _both_listed("model_type", names, known, setup)


def target_type_known(
    comparison: Comparison, setup: EngineSetup, *, known: dict[str, str]
) -> CheckOutcome:
    """Fail when neither model_type of the target (its own, its text part's) is listed."""
    config = comparison.target.config
    names = [name for name in (config.outer_type, config.model_type) if name is not None]
    if not names:
        return unknown("the target's model_type was not read")
    words = f"target model_type is {' with '.join(dict.fromkeys(names))}"
    return ok(words) if any(is_listed(name, known, setup) for name in names) else fail(words)


def target_type_told(
    comparison: Comparison, setup: EngineSetup, *, known: dict[str, str]
) -> CheckOutcome:
    """Unknown for types of target that are not listed: what is known is not all there is."""
    seen = target_type_known(comparison, setup, known=known)
    return unknown(f"{seen.saw}: not in the list") if seen.outcome is Outcome.FAIL else seen


def target_type_contains(
    comparison: Comparison, setup: EngineSetup, *, containing: dict[str, str]
) -> CheckOutcome:
    """Fail when the target's model_type contains none of the names that this version lists."""
    name = comparison.target.config.model_type
    if name is None:
        return unknown("the target's model_type was not read")
    words = f"target model_type is {name}"
    there = any(part in name and is_listed(part, containing, setup) for part in containing)
    return ok(words) if there else fail(words)


def draft_type_in(comparison: Comparison, setup: EngineSetup, *, types: list[str]) -> CheckOutcome:
    """Fail when the draft's model_type is none of these."""
    name = comparison.drafter.config.outer_type
    return _fact_listed("draft", "model_type", name, types, setup)


def own_type_in(
    comparison: Comparison, setup: EngineSetup, *, types: dict[str, str]
) -> CheckOutcome:
    """Fail when a target that drafts for itself is of none of these types."""
    if comparison.draft is not None:
        return not_applicable("the draft is another model")
    listed = [name for name in types if is_listed(name, types, setup)]
    name = whole_type(comparison.target.config)
    return _fact_listed("target", "model_type", name, listed, setup)


def type_listed(
    comparison: Comparison,
    setup: EngineSetup,
    *,
    side: str,
    types: dict[str, str],
    architectures: dict[str, str] | None = None,
    containing: dict[str, str] | None = None,
    with_mtp_layers: dict[str, str] | None = None,
) -> CheckOutcome:
    """Fail when this version lists that side's model_type or first architecture.

    containing: the name as a part of model_type; with_mtp_layers: only where such layers are.
    """
    config = comparison.model(side).config
    if config.model_type is None and config.architectures is None:
        return unknown(f"the {side}'s model_type was not read")
    for name in (config.model_type, config.outer_type):
        parts = [part for part in containing or {} if name and part in name]
        listed = any(is_listed(part, containing or {}, setup) for part in parts)
        if listed or is_listed(name, types, setup):
            return fail(f"{side} model_type is {name}")
    if is_listed(name := _architecture(config), architectures or {}, setup):
        return fail(f"{side} architecture is {name}")
    if is_listed(config.model_type, with_mtp_layers or {}, setup) and config.mtp_layers:
        return fail(f"{side} model_type is {config.model_type} with {config.mtp_layers} MTP layers")
    return ok(f"{side} model_type is {config.model_type}")


# ---- quantisations ----


def quantization_listed(
    comparison: Comparison, setup: EngineSetup, *, known: dict[str, str], complete: bool = False
) -> CheckOutcome:
    """Fail when a side's quant_method is in the table, but not for this version.

    complete: what is not in the table at all is unknown, not fine.
    """
    strange = []
    for side, facts in comparison.both:
        method = quant_method(facts)
        if method in known and not is_listed(method, known, setup):
            return fail(f"{side} quant_method is {method}")
        if complete and method and method not in known:
            strange.append(f"{side} quant_method is {method}, which the rulebook does not know")
    if doubt := unread_config(comparison.both):
        return doubt
    return unknown(strange[0]) if strange else ok("no quantisation that this version lacks")


def quantization_deprecated(
    comparison: Comparison, setup: EngineSetup, *, deprecated: dict[str, str]
) -> CheckOutcome:
    """Fail when a side's quant_method is one that this version takes only with a flag."""
    for side, facts in comparison.both:
        method = quant_method(facts)
        if is_listed(method, deprecated, setup):
            return fail(f"{side} quant_method is {method}")
    return unread_config(comparison.both) or ok("no deprecated quantisation")


def quantization_taken(
    comparison: Comparison, setup: EngineSetup, *, known: dict[str, str]
) -> CheckOutcome:
    """Fail when a side's quant_method is not among those that this version takes.

    known: all of them, name -> "since", "since until", "since until since" …
    """
    for side, facts in comparison.both:
        method = quant_method(facts)
        if facts.config.model_type is None or not method:
            continue
        if method not in known:
            return fail(f"{side} quant_method is {method[:80]}")
        edges = known[method].split()
        windows = zip_longest(edges[::2], edges[1::2])
        if not any(versions.covers(setup.order, setup.version, *window) for window in windows):
            return fail(f"{side} quant_method is {method[:80]} (taken: {known[method]})")
    words = "no quantisation that this version does not know"
    return unread_config(comparison.both) or ok(words)


def target_quantized_as(
    comparison: Comparison, setup: EngineSetup, *, methods: list[str]
) -> CheckOutcome:
    """Fail when the target's quant_method is none of these; unquantised counts as none."""
    if comparison.target.config.model_type is None:
        return unknown("the target's config was not read")
    name = quant_method(comparison.target)
    words = f"target quant_method is {name or 'none'}"
    return ok(words) if name in methods else fail(words)
