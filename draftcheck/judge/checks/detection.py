"""Checks on how an engine finds its method out: from names, model types and what is listed."""

from __future__ import annotations

from collections.abc import Iterator

from draftcheck.judge.checks.listed import in_window, is_listed
from draftcheck.judge.checks.outcomes import fail, not_applicable, ok, unknown
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import NO_TOKEN, ConfigFacts
from draftcheck.values.verdicts import EngineSetup
from draftcheck.values.words import CheckOutcome


def name_picks_method(
    comparison: Comparison, setup: EngineSetup, *, words: dict[str, str]
) -> CheckOutcome:
    """Fail when the draft's path or id contains a word by which this version picks a method.

    The target's own name counts where it drafts for itself. Table: word -> "since" or
    "since until".
    """
    called = comparison.drafter.called
    found = [word for word in words if word in called.lower() and in_window(words[word], setup)]
    side = comparison.drafter_side
    if found:
        return fail(f"the {side} is called {called!r}, which contains {found[0]!r}")
    return ok(f"{called!r} contains none of {', '.join(words)}")


def head_is_recognised(
    comparison: Comparison, setup: EngineSetup, *, types: list[str], words: list[str]
) -> CheckOutcome:
    """Fail when neither the draft's model_type nor its name says what kind of head it is."""
    called, name = comparison.drafter.called, comparison.drafter.config.outer_type
    by_name = [word for word in words if word in called.lower()]
    if by_name:
        return ok(f"{called!r} contains {by_name[0]!r}")
    if name is None:
        return unknown("the draft's model_type was not read")
    said = f"the draft's model_type is {name}, it is called {called!r}"
    return ok(said) if name in types else fail(said)


def draft_becomes_mtp(comparison: Comparison, setup: EngineSetup, *, table: str) -> CheckOutcome:
    """Fail when this version turns such a draft into an MTP head, whatever method is asked for."""
    config = comparison.drafter.config
    if config.model_type is None and config.architectures is None:
        return unknown("the draft's model_type was not read")
    listed = next(_listed(config, setup, table), None)
    return fail(f"the draft's {listed}") if listed else ok(f"model_type is {config.model_type}")


def has_mtp_class(comparison: Comparison, setup: EngineSetup, *, table: str) -> CheckOutcome:
    """Fail when this version has no MTP class for such a model."""
    config = comparison.drafter.config
    side = comparison.drafter_side
    if config.model_type is None and config.architectures is None:
        return unknown(f"the {side}'s model_type was not read")
    if listed := next(_listed(config, setup, table), None):
        return ok(f"the {side}'s {listed}")
    ready = setup.tables[table].ready
    for name in filter(None, (config.outer_type, config.model_type)):
        if name in ready and in_window(ready[name], setup):
            return ok(f"the {side}'s model_type is {name}")
    words = f"the {side}'s model_type is {config.outer_type or config.model_type}"
    later = _later(config, setup, table)
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


def mtp_type_readable(
    comparison: Comparison, setup: EngineSetup, *, readable: dict[str, str]
) -> CheckOutcome:
    """Fail when the draft's own config.json has a type that only the engine itself writes."""
    config = comparison.drafter.config
    name = config.outer_type or config.model_type
    if comparison.draft is None or (name is not None and not name.endswith("_mtp")):
        return not_applicable("no model_type of MTP layers")
    if name is None:
        return unknown("the draft's model_type was not read")
    words = f"the draft's model_type is {name}"
    if is_listed(name, readable, setup):
        return ok(words)
    if config.remote_code is None:
        return unknown(f"{words}; whether it brings code of its own was not read")
    return ok(f"{words}, with code of its own") if config.remote_code else fail(words)


def own_layers_divide(comparison: Comparison, setup: EngineSetup, *, at_most: bool) -> CheckOutcome:
    """Fail when the draft length does not go with the number of MTP layers.

    at_most: no more tokens than layers; otherwise more only in multiples.
    """
    tokens, head = setup.draft_tokens, comparison.drafter.head
    if tokens is None:
        return not_applicable("no draft length asked for")
    layers = head.mtp_promised if head is not None else None
    if not layers:
        return unknown("the number of MTP layers was not read")
    words = f"{tokens} draft tokens, {layers} MTP layers"
    if tokens <= layers:
        return ok(words)
    return fail(words) if at_most or tokens % layers else ok(words)


def target_recurrent(
    comparison: Comparison, setup: EngineSetup, *, able: dict[str, str]
) -> CheckOutcome:
    """Fail when the target keeps a recurrent state and is of no type that this version excepts."""
    config = comparison.target.config
    name = config.outer_type or config.model_type
    if config.recurrent is None:
        return unknown("whether the target has recurrent layers was not read")
    if not config.recurrent:
        return ok("no recurrent layers in the target")
    words = f"the target has recurrent layers, model_type {name}"
    return ok(words) if name is not None and is_listed(name, able, setup) else fail(words)


def target_recurrent_not_read(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Unknown when the target keeps a recurrent state: what follows from it was not found out."""
    if not comparison.target.config.recurrent:
        return not_applicable("no recurrent layers seen")
    return unknown("the target has recurrent layers")


def states_mask_token(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when an ordinary draft does not name the token that parallel drafts start from."""
    draft = comparison.drafter
    if draft.config.model_type is None:
        return unknown("the draft's config was not read")
    mask = draft.head.mask_token_id if draft.head is not None else None
    return fail("no mask token in the config") if mask is None else ok(f"mask token {mask}")


def unknown_or_end(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when a tokenizer has neither an unknown token nor an end token."""
    for side, facts in comparison.both:
        ids = (facts.tokenizer.unk_id, facts.tokenizer.eos_id)
        if any(i is not None and i != NO_TOKEN for i in ids):
            continue
        if None in ids:
            return unknown(f"unknown and end token of the {side} were not read")
        return fail(f"the {side} has neither")
    return ok("both sides have one of them")


def shared_texts(comparison: Comparison, setup: EngineSetup, *, at_least: int) -> CheckOutcome:
    """Fail when the vocabularies share fewer token texts."""
    if comparison.vocabulary.same_file:
        return ok("the same tokenizer file on both sides")
    tokens, share = comparison.drafter.tokenizer.tokens, comparison.vocabulary.overlap
    if tokens is None or share is None:
        return unknown("the token texts were not read on both sides")
    count = round(share * sum(token is not None for token in tokens))
    words = f"about {count:,} shared texts"
    return ok(words) if count >= at_least else fail(words)
