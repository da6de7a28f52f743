"""Checks on architecture, context, parallelism and what kind of model the draft is."""

from __future__ import annotations

from draftcheck.judge.checks.outcomes import UNTOLD, fail, not_applicable, ok, unknown
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import ModelFacts
from draftcheck.values.sizes import short_count
from draftcheck.values.verdicts import EngineSetup
from draftcheck.values.words import CheckOutcome, Outcome


def always(comparison: Comparison, setup: EngineSetup, *, says: str) -> CheckOutcome:
    """A fact about the engine version alone: holds for every pair."""
    return fail(says)


def draft_is_full_model(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the draft is a head or an encoder, which no two-model method can use."""
    role = comparison.drafter.role
    if role is None:
        return unknown(UNTOLD)
    return ok("a full language model") if role == "full" else fail(f"the draft is: {role}")


def draft_is_smaller(
    comparison: Comparison, setup: EngineSetup, *, max_ratio: float
) -> CheckOutcome:
    """Fail when the draft has too many parameters beside the target."""
    if comparison.draft is None:
        return not_applicable("there is no draft")
    ours, theirs = comparison.target.weights.parameters, comparison.drafter.weights.parameters
    if not ours or not theirs:
        return unknown("parameters were not counted on both sides")
    ratio = theirs / ours
    words = f"draft {short_count(theirs)} parameters, target {short_count(ours)} ({ratio:.0%})"
    return fail(words) if ratio > max_ratio else ok(words)


def target_is_dense(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the target sends each token to some of many experts."""
    config = comparison.target.config
    if config.experts is None:
        if config.model_type is None:
            return unknown("the target's config was not read")
        return ok("the target has no experts")
    if config.experts < 2:
        return ok("the target has no experts")
    used = f", {config.experts_used} per token" if config.experts_used else ""
    return fail(f"the target has {config.experts} experts{used}")


def weights_are_safe(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when a side offers nothing but pickled weights."""
    found = []
    unread = []
    for side, facts in comparison.both:
        if facts.weights.problems:
            found.append(f"{side}: {facts.weights.problems[0]}")
        elif not facts.weights.files:
            unread.append(side)
    if found:
        return fail("; ".join(found))
    return unknown(f"weights of the {', '.join(unread)} not listed") if unread else ok("no pickles")


def draft_context(
    comparison: Comparison, setup: EngineSetup, *, rope: str = "scaled"
) -> CheckOutcome:
    """Fail when the draft's window is shorter than the length that will be served.

    rope: how the engine counts rope scaling: scaled, plain (not at all), or unless-original
    (not where the config names the original length).
    """
    draft = _window(comparison.drafter, rope)
    served = setup.context or _window(comparison.target, rope)
    if draft is None or served is None:
        return unknown("a context length was not read")
    asked = "--context" if setup.context else "the target's own window"
    words = f"draft {draft:,} tokens, served {served:,} ({asked})"
    return fail(words) if draft < served else ok(words)


def _window(facts: ModelFacts, rope: str) -> int | None:
    named = "original_max_position_embeddings" in (facts.config.rope_scaling or {})
    if rope == "plain" or (rope == "unless-original" and named):
        return facts.config.context
    return facts.config.scaled_context


def draft_context_learned(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """The same for drafts with learned positions, which have no row beyond their window."""
    positions = comparison.drafter.config.positions
    if positions not in (None, "learned"):
        return not_applicable(f"positions: {positions}")
    seen = draft_context(comparison, setup)
    if seen.outcome is Outcome.FAIL and positions is None:
        return unknown(f"{seen.saw}; the draft's kind of positions was not read")
    return seen


def heads_divisible(
    comparison: Comparison, setup: EngineSetup, *, side: str = "draft"
) -> CheckOutcome:
    """Fail when that side's attention heads cannot be split over its tensor-parallel ranks."""
    ranks, facts = setup.tensor_parallel, comparison.target
    if side == "draft":
        ranks, facts = setup.draft_tensor_parallel or ranks, comparison.drafter
    if not ranks or ranks == 1:
        return not_applicable("no tensor parallelism asked for")
    heads = facts.config.heads
    if heads is None:
        return unknown(f"the {side}'s number of attention heads was not read")
    words = f"{side} has {heads} attention heads, tensor parallel size {ranks}"
    return fail(words) if heads % ranks else ok(words)


def not_multimodal(comparison: Comparison, setup: EngineSetup, *, side: str) -> CheckOutcome:
    """Fail when that side has vision or audio parts."""
    facts = comparison.model(side)
    if facts.config.multimodal is None:
        return unknown(f"whether the {side} is multimodal was not read")
    words = f"{side} is {'multimodal' if facts.config.multimodal else 'text only'}"
    return fail(words) if facts.config.multimodal else ok(words)


def one_kind_of_cache(
    comparison: Comparison, setup: EngineSetup, *, mixed: list[str]
) -> CheckOutcome:
    """Fail when the draft mixes kinds of layers (sliding and full, recurrent and attention).

    mixed: model types that do so without listing their layers.
    """
    kinds = comparison.drafter.config.layer_kinds
    model_type = comparison.drafter.config.model_type
    if model_type is None:
        return unknown("the draft's layers were not read")
    if kinds is None and model_type in mixed:
        return fail(f"the draft's model_type {model_type} mixes sliding and full attention")
    distinct = sorted(set(kinds or ()))
    if len(distinct) > 1:
        return fail(f"the draft mixes layers: {', '.join(distinct)}")
    return ok("all layers of the draft are of one kind")


def single_rank(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when tensor parallelism is asked for at all."""
    return _at_most_one(setup.tensor_parallel, "tensor")


def single_stage(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when pipeline parallelism is asked for at all."""
    return _at_most_one(setup.pipeline_parallel, "pipeline")


def _at_most_one(size: int | None, kind: str) -> CheckOutcome:
    if size is None:
        return not_applicable(f"no {kind} parallelism asked for")
    words = f"{kind} parallel size {size}"
    return fail(words) if size > 1 else ok(words)


def pipeline_not_read(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Unknown when pipeline parallelism is asked for: what then happens was not found out."""
    seen = single_stage(comparison, setup)
    if seen.outcome is not Outcome.FAIL:
        return seen
    return unknown(f"{seen.saw}: what this version does with a draft was not found out")


def no_mrope(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the draft has rotary positions in several dimensions."""
    mrope = comparison.drafter.config.mrope
    if mrope is None:
        return unknown("the draft's positions were not read")
    return fail("the draft has an mrope_section") if mrope else ok("no M-RoPE in the draft")


def draft_tensor_parallel(
    comparison: Comparison, setup: EngineSetup, *, one: bool, target: bool
) -> CheckOutcome:
    """Fail when the draft's own tensor parallel size is neither of the allowed values."""
    size = setup.draft_tensor_parallel
    if size is None:
        return not_applicable("no tensor parallel size asked for the draft")
    ours = setup.tensor_parallel or 1
    allowed = ([1] if one else []) + ([ours] if target else [])
    words = f"draft tensor parallel size {size}, target {ours}"
    return ok(words) if size in allowed else fail(words)


def draft_name_dotted(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the draft's name has a dot and no slash."""
    if comparison.draft is None:
        return not_applicable("no draft is named")
    name = comparison.drafter.called
    words = f"the draft is called {name!r}"
    return fail(words) if "." in name and "/" not in name else ok(words)
