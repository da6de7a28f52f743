"""Checks on the models themselves: architecture, context, caches, kinds of draft, weights."""

from __future__ import annotations

from draftcheck.errors import UsageError
from draftcheck.judge.checks import hardware, heads
from draftcheck.judge.checks.hardware import NO_GPU, capability, fp8_cache_on_another
from draftcheck.judge.checks.listed import (
    among_classes,
    in_window,
    is_listed,
    quant_method,
    ran_by,
    target_type_known,
    whole_type,
)
from draftcheck.judge.checks.outcomes import (
    UNTOLD,
    Settled,
    applies,
    fail,
    longer_drafts,
    needed,
    needed_of_both,
    not_applicable,
    ok,
    unknown,
)
from draftcheck.values.facts import ConfigFacts, ModelFacts
from draftcheck.values.sizes import short_count
from draftcheck.values.verdicts import JudgedPair
from draftcheck.values.words import CheckOutcome, Outcome
from draftcheck.versions import pep440

ATTENTION = {"attention", "full_attention", "sliding_attention", "chunked_attention"}
CHUNKED = "chunked_attention"
SLIDING = "sliding_attention"
ORIGINAL = "original_max_position_embeddings"
LONGROPE = ("longrope", "su")
WINDOW_KEY = "sliding_window"
SHOWN = 3
"""Faults of one kind that are shown; the rest is counted."""


def always(pair: JudgedPair, *, says: str, unsure_up_to: int = 0) -> CheckOutcome:
    """A fact about the engine version alone: holds for every pair.

    unsure_up_to: unknown where drafts of so few tokens are asked for.
    """
    longer_drafts(pair, unsure_up_to)
    return fail(says)


def draft_is_full_model(pair: JudgedPair) -> CheckOutcome:
    """Fail when the draft is a head or an encoder, which no two-model method can use."""
    role = needed(pair.drafter.role, UNTOLD)
    return ok("a full language model") if role == "full" else fail(f"the draft is: {role}")


def draft_is_smaller(pair: JudgedPair, *, max_ratio: float) -> CheckOutcome:
    """Fail when the draft has too many parameters beside the target."""
    applies(pair.draft, "there is no draft")
    ours, theirs = pair.target.weights.parameters, pair.drafter.weights.parameters
    if not ours or not theirs:
        return unknown("parameters were not counted on both sides")
    ratio = theirs / ours
    words = f"draft {short_count(theirs)} parameters, target {short_count(ours)} ({ratio:.0%})"
    return fail(words) if ratio > max_ratio else ok(words)


def target_is_dense(pair: JudgedPair) -> CheckOutcome:
    """Fail when the target sends each token to some of many experts."""
    config = pair.target.config
    if config.experts is None:
        needed(config.model_type, "the target's config was not read")
    first = config.sizes.get("first_k_dense_replace")
    if isinstance(first, int) and config.layers is not None and first >= config.layers:
        return ok(f"the target's first {first} layers are dense, of {config.layers}")
    if (config.experts or 0) < 2:
        return ok("the target has no experts")
    used = f", {config.experts_used} per token" if config.experts_used else ""
    return fail(f"the target has {config.experts} experts{used}")


def draft_context(
    pair: JudgedPair,
    *,
    rope: str = "scaled",
    target_rope: str | None = None,
    first: list[str] | None = None,
    first_since: str = "",
    unstated: int | None = None,
    served_at_most: dict[str, str] | None = None,
    backends: dict[str, str] | None = None,
    yarn_named: str | None = None,
    yarn_stated: str | None = None,
    by_layer: dict[str, str] | None = None,
    longrope_original: bool = False,
    unless_rope: list[str] | None = None,
    unread_below: int = 0,
    sharded: bool | None = None,
    cut: str = "",
) -> CheckOutcome:
    """Fail when the draft's window is shorter than the length that will be served.

    rope: how the engine counts rope scaling: scaled, plain (not at all), or unless-original
    (not where the config names the original length); target_rope: the same for the target, where
    that differs; first: names in config.json that count before the usual one, first_since: from
    this version on; unstated: what a config without a length comes to; served_at_most: where no
    context is asked for, tokens -> the versions; backends: ran_by(); yarn_named: versions that name
    the original length of yarn themselves; yarn_stated: versions that take the length stated beside
    yarn as it is; by_layer: types whose scaling these versions keep by the kind of layer: it does
    not count there;
    longrope_original: a model with longrope gets its original length unless more is asked for;
    unless_rope: kinds of scaling, none at all among them, with which the draft's window does not
    count; unread_below: on older GPUs it is not known; sharded: only of drafts on several GPUs, or
    only of others; cut: versions that serve no more than the target's tokenizer_config.json says.
    """
    ran_by(pair, backends)
    if first_since and not in_window(first_since, pair.setup):
        first = None
    ranks = pair.setup.draft_tensor_parallel or pair.setup.tensor_parallel or 1
    if sharded and ranks == 1:
        return ok("the draft is on one GPU")
    if sharded is False and ranks > 1:
        return not_applicable("another rule speaks of drafts on several GPUs")
    scaled = pair.drafter.config.rope_scaling or {}
    if unless_rope and not any(map(scaled.get, ("rope_type", "type"))):
        return not_applicable("the draft's positions are not scaled")
    if unless_rope and _has_rope(pair.drafter.config, *unless_rope):
        return not_applicable("with this scaling the draft's length does not count")
    unread = "a context length was not read"
    yarn = yarn_named is not None and in_window(yarn_named, pair.setup)

    stated = yarn_stated is not None and in_window(yarn_stated, pair.setup)

    def window(facts: ModelFacts, rope: str) -> int | None:
        original = facts.config.sizes.get(ORIGINAL)
        if longrope_original and _has_rope(facts.config, *LONGROPE) and isinstance(original, int):
            return original
        if by_layer and facts.config.model_type is None and facts.config.rope_scaling:
            return None  # whether its scaling counts depends on the type
        plain = is_listed(facts.config.model_type, by_layer or {}, pair.setup)
        plain = plain or (stated and _has_rope(facts.config, "yarn"))
        return _window(facts, "plain" if plain else rope, first, unstated, yarn)

    def refused(words: str) -> CheckOutcome:
        if cut and in_window(cut, pair.setup):
            return unknown(f"{words}; model_max_length of the target's tokenizer was not read")
        return heads.unread_gpu(pair.setup, unread_below, words) or fail(words)

    draft = needed(window(pair.drafter, rope), unread)
    if asked := pair.setup.context:
        words = f"draft {draft:,} tokens, served {asked:,} (--context)"
        return refused(words) if draft < asked else ok(words)
    served = needed(window(pair.target, target_rope or rope), unread)
    where = "the target's own window"
    most = served_at_most or {}
    limit = next((int(n) for n in most if is_listed(n, most, pair.setup)), served)
    if served > limit:
        served, where = limit, "unless more is asked for"
    words = f"draft {draft:,} tokens, served {served:,} ({where})"
    return refused(words) if draft < served else ok(words)


def _window(
    facts: ModelFacts, rope: str, first: list[str] | None, unstated: int | None, yarn: bool
) -> int | None:
    config = facts.config
    sizes = (config.sizes.get(name) for name in first or ())
    length = next((size for size in sizes if isinstance(size, int)), None)
    if length is None and unstated is not None and config.context is None and config.model_type:
        return unstated
    scaling = config.rope_scaling or {}
    named = ORIGINAL in scaling or (yarn and _has_rope(config, "yarn"))
    if rope == "plain" or (rope == "unless-original" and named):
        return length or config.context
    if length and config.context and config.scaled_context:
        return length * config.scaled_context // config.context
    return length or config.scaled_context


def _has_rope(config: ConfigFacts, *kinds: str) -> bool:
    scaling = config.rope_scaling or {}
    return any(scaling.get(key) in kinds for key in ("rope_type", "type"))


def draft_context_learned(pair: JudgedPair, *, also: dict[str, str] | None = None) -> CheckOutcome:
    """The same for drafts with learned positions, which have no row beyond their window.

    also: types that compute their positions once, for that many tokens.
    """
    config = pair.drafter.config
    listed = is_listed(config.model_type, also or {}, pair.setup)
    untold = also and config.model_type is None
    positions = "learned" if listed else None if untold else config.positions
    if positions not in (None, "learned"):
        return not_applicable(f"positions: {positions}")
    seen = draft_context(pair)
    if seen.outcome is Outcome.FAIL and positions is None:
        return unknown(f"{seen.saw}; the draft's kind of positions was not read")
    return seen


def heads_divisible(pair: JudgedPair, *, side: str = "draft") -> CheckOutcome:
    """Fail when that side's attention heads cannot be split over its tensor-parallel ranks."""
    ranks, config = _ranks(pair, side)
    heads = needed(config.heads, f"the {side}'s number of attention heads was not read")
    words = f"{side} has {heads} attention heads, tensor parallel size {ranks}"
    return fail(words) if heads % ranks else ok(words)


def kv_heads_divisible(
    pair: JudgedPair, *, side: str = "draft", target_ranks: bool = False, grouped: bool = False
) -> CheckOutcome:
    """Fail when that side's KV heads can neither be split over its ranks nor repeated evenly.

    target_ranks: a draft is built on all of the target's ranks, whatever its own size says;
    grouped: or, where it has another size, on a group of them: not known.
    """
    ranks, config = _ranks(pair, "target" if target_ranks else side)
    apart = grouped and pair.setup.draft_tensor_parallel not in (None, ranks)
    uneven = unknown if apart else fail
    if target_ranks:
        config = pair.drafter.config
    if config.sizes.get("kv_lora_rank"):
        return not_applicable("latent attention, which every rank has whole")
    unread = f"the {side}'s number of KV heads was not read"
    heads = needed(config.kv_heads or config.heads, unread)
    if (config.heads or heads) % ranks:
        if target_ranks and pair.setup.draft_tensor_parallel:
            words = f"{side} has {config.heads} attention heads, tensor parallel size {ranks}"
            return uneven(words)
        return not_applicable("another rule speaks of the attention heads")
    words = f"{side} has {heads} KV heads, tensor parallel size {ranks}"
    return ok(words) if heads % ranks == 0 or ranks % heads == 0 else uneven(words)


def _ranks(pair: JudgedPair, side: str) -> tuple[int, ConfigFacts]:
    """How many ranks share that side, and its config; settles a check where it is one."""
    ranks, facts = pair.setup.tensor_parallel, pair.target
    if side == "draft":
        ranks, facts = pair.setup.draft_tensor_parallel or ranks, pair.drafter
    if not ranks or ranks == 1:
        raise Settled(not_applicable("no tensor parallelism asked for"))
    return ranks, facts.config


def not_multimodal(pair: JudgedPair, *, side: str) -> CheckOutcome:
    """Fail when that side has vision or audio parts."""
    multimodal = pair.model(side).config.multimodal
    needed(multimodal, f"whether the {side} is multimodal was not read")
    return fail(f"{side} is multimodal") if multimodal else ok(f"{side} is text only")


def one_kind_of_cache(
    pair: JudgedPair, *, mixed: list[str], latent: str, recurrent: str, chunked: list[str]
) -> CheckOutcome:
    """Fail when the draft mixes kinds of layers (sliding and full, recurrent and attention).

    mixed: model types that do so without listing their layers; latent: versions in which such a
    draft may share one cache beside a target with latent attention; recurrent: in others a draft
    with a recurrent state does not get that far; chunked: beside targets of these types, whose
    attention goes by chunks, sliding and full layers may be one kind. A target that mixes kinds may
    split any draft: that depends on counts, sizes and the backend.
    """
    draft, target = pair.drafter.config, pair.target.config
    needed(draft.model_type, "the draft's layers were not read")
    if draft.recurrent and not in_window(recurrent, pair.setup):
        return ok("another rule speaks of drafts with recurrent layers")
    if kinds := _mixed_kinds(draft, mixed):
        words = f"the draft mixes layers: {kinds}"
        if target.sizes.get("kv_lora_rank") and in_window(latent, pair.setup):
            return unknown(f"{words}; beside latent attention they may share one cache")
        whole = needed(target.model_type, f"{words}; the target's model_type was not read")
        if whole in chunked and not draft.recurrent:
            return unknown(f"{words}; beside attention in chunks the engine treats them as one")
        return fail(words)
    if target.layer_kinds is None:
        needed(target.model_type, "the target's layers were not read")
    if kinds := _mixed_kinds(target, mixed):
        return unknown(f"the target mixes layers ({kinds}), which may split those of the draft")
    return ok("all layers of the draft are of one kind")


def _mixed_kinds(config: ConfigFacts, mixed: list[str]) -> str:
    """The kinds of layers, or the type that mixes them; empty where there is one kind."""
    if config.layer_kinds is None and config.model_type in mixed:
        return f"model_type {config.model_type}"
    kinds = sorted(set(config.layer_kinds or ()))
    return ", ".join(kinds) if len(kinds) > 1 else ""


def single_rank(
    pair: JudgedPair,
    *,
    quantised: str = "",
    classes: dict[str, str] | None = None,
    stages: bool = False,
) -> CheckOutcome:
    """Fail when tensor parallelism is asked for at all.

    quantised: only for such a target; classes: only with drafts of these; stages: pipeline
    parallelism counts as well.
    """
    among_classes(pair, classes, None)
    if stages and (pair.setup.pipeline_parallel or 1) > 1:
        return single_stage(pair)
    seen = _at_most_one(pair.setup.tensor_parallel, "tensor")
    if not quantised or seen.outcome is not Outcome.FAIL:
        return seen
    needed(pair.target.config.model_type, "the target's config was not read")
    words = f"{seen.saw}, target quant_method {quant_method(pair.target) or 'none'}"
    return fail(words) if quant_method(pair.target) == quantised else ok(words)


def single_stage(pair: JudgedPair, *, types: dict[str, str] | None = None) -> CheckOutcome:
    """Fail when pipeline parallelism is asked for at all; types: only for targets of these."""
    stages = _at_most_one(pair.setup.pipeline_parallel, "pipeline")
    if types is None or stages.outcome is not Outcome.FAIL:
        return stages
    name = needed(pair.target.config.model_type, "the target's model_type was not read")
    words = f"{stages.saw}, target model_type {name}"
    return stages if is_listed(name, types, pair.setup) else ok(words)


def _at_most_one(size: int | None, kind: str) -> CheckOutcome:
    words = f"{kind} parallel size {size}"
    return fail(words) if applies(size, f"no {kind} parallelism asked for") > 1 else ok(words)


def pipeline_not_read(pair: JudgedPair) -> CheckOutcome:
    """Unknown when pipeline parallelism is asked for: what then happens was not found out."""
    seen = single_stage(pair)
    if seen.outcome is not Outcome.FAIL:
        return seen
    return unknown(f"{seen.saw}: what this version does with a draft was not found out")


def no_mrope(pair: JudgedPair) -> CheckOutcome:
    """Fail when the draft has rotary positions in several dimensions."""
    mrope = needed(pair.drafter.config.mrope, "the draft's positions were not read")
    return fail("the draft has an mrope_section") if mrope else ok("no M-RoPE in the draft")


def draft_tensor_parallel(
    pair: JudgedPair,
    *,
    one: bool,
    target: bool,
    inherits: list[str] | None = None,
    named: list[str] | None = None,
    below: int | None = None,
    fp8_but_on: list[str] | None = None,
    float32: str | None = None,
    no_cuda: str | None = None,
) -> CheckOutcome:
    """Fail when the draft's own tensor parallel size is neither of the allowed values.

    inherits: only drafts of these types (empty: of any), or with one of the words in named in
    their name, which take the target's size where they have none; below: only on such GPUs, and,
    fp8_but_on, with an FP8 cache on others than these, and in the versions of float32 with that
    --dtype, and of no_cuda on GPUs without CUDA.
    """
    whole = hardware.asked(pair.setup) == "float32" and float32 and in_window(float32, pair.setup)
    if no_cuda and hardware.without_cuda(pair.setup):
        whole = whole or in_window(no_cuda, pair.setup)
    if below is not None and not whole:
        newer = applies(capability(pair.setup), NO_GPU) >= below
        if newer and not fp8_cache_on_another(pair.setup, fp8_but_on):
            return ok("a newer GPU")
    size, ours = pair.setup.draft_tensor_parallel, pair.setup.tensor_parallel or 1
    if inherits is not None:
        size = applies(size or pair.setup.tensor_parallel, "no tensor parallelism asked for")
        by_name = any(word in pair.drafter.called.lower() for word in named or ())
        name = whole_type(pair.drafter.config)
        listed = by_name or not inherits
        if not listed and needed(name, "the draft's model_type was not read") not in inherits:
            return not_applicable(f"the draft's model_type is {name}")
    size = applies(size, "no tensor parallel size asked for the draft")
    allowed = ([1] if one else []) + ([ours] if target else [])
    words = f"draft tensor parallel size {size}, target {ours}"
    return ok(words) if size in allowed else fail(words)


def draft_name_dotted(pair: JudgedPair) -> CheckOutcome:
    """Fail when the draft's name has a dot and no slash."""
    applies(pair.draft, "no draft is named")
    name = pair.drafter.called
    words = f"the draft is called {name!r}"
    return fail(words) if "." in name and "/" not in name else ok(words)


def both_decode_alone(
    pair: JudgedPair, *, types: list[str], alone: list[str] | None = None
) -> CheckOutcome:
    """Fail when the target is of these encoder-decoder types and the draft is not.

    alone: those of which the engine may load the decoder alone.
    """
    ours, theirs = needed_of_both(pair, lambda facts: whole_type(facts.config), "model_type")
    names = {"target": ours, "draft": theirs}
    found = [f"{side} model_type is {name}" for side, name in names.items() if name in types]
    if theirs in types:
        return unknown(f"{', '.join(found)}: drafts with an encoder were not read")
    if ours in (alone or ()):
        return unknown(f"{found[0]}: it may be loaded as a decoder alone")
    return fail(found[0]) if found else ok("both are decoders")


def no_nested_config(
    pair: JudgedPair,
    *,
    alone: dict[str, str],
    answers: dict[str, str],
    never: dict[str, str],
    partly: dict[str, str],
) -> CheckOutcome:
    """Fail when a side keeps its language model in a part of the config.

    alone: targets that are loaded as that part (drafts are loaded whole); answers: types whose
    config answers for its part; never: types that do not, however config.json is written; partly:
    types that have a vocab_size of their own, and the special ids only if config.json has them.
    """
    doubts = []
    for side, facts in pair.both:
        config = facts.config
        if config.multimodal is None or config.model_type is None:
            doubts.append(f"the config of the {side} was not read")
            continue
        name = config.outer_type
        words = f"{side} model_type is {name}"
        if is_listed(name, never, pair.setup):
            return fail(words)
        answered = is_listed(name, alone if side == "target" else {}, pair.setup)
        if name == config.model_type or not config.multimodal or answered:
            continue
        words += f", of its text {config.model_type}"
        if is_listed(name, answers, pair.setup):
            continue
        if config.vocab_size_outside is False and not is_listed(name, partly, pair.setup):
            return fail(words)
        doubts.append(f"{words}; which ids it gives at its top level was not read")
    return unknown(doubts[0]) if doubts else ok("both configs answer at their top level")


def target_layers_at_least(
    pair: JudgedPair, *, least: int, at_root: str | None = None
) -> CheckOutcome:
    """Fail when the target has fewer layers than the engine picks from.

    at_root: versions that do not read a number in the text part of a larger config.
    """
    config = pair.target.config
    layers = needed(config.layers, "the target's number of layers was not read")
    words = f"the target has {layers} layers, {least} are needed"
    nested = config.outer_type not in (None, config.model_type)
    nested = nested or config.vocab_size_outside is not None
    if nested and at_root is not None and in_window(at_root, pair.setup):
        return unknown(f"{words}, and the number may stand where this version does not look")
    return fail(words) if layers < least else ok(words)


def multimodal_not_read(pair: JudgedPair) -> CheckOutcome:
    """Unknown when the target sees images: what follows from it was not found out."""
    seen = not_multimodal(pair, side="target")
    words = f"the {seen.saw}"
    return unknown(words) if seen.outcome is Outcome.FAIL else ok(words)


# ---- what the caches keep ----


def cache_rewinds(
    pair: JudgedPair, *, side: str, types: dict[str, str], mixed: dict[str, str] | None = None
) -> CheckOutcome:
    """Fail when that side's cache cannot take back rejected tokens.

    Tables: model_type -> "since" or "since until"; mixed: only with layers that are no attention.
    """
    config = pair.model(side).config
    name = needed(whole_type(config), f"the {side}'s model_type was not read")
    words = f"{side} model_type is {name}"
    if is_listed(name, types, pair.setup):
        return fail(words)
    if is_listed(name, mixed or {}, pair.setup):
        kinds = needed(config.layer_kinds, f"{words}; its kinds of layers were not read")
        if other := sorted(set(kinds) - ATTENTION):
            return fail(f"{words} with layers of kind {', '.join(other)}")
    return ok(words)


def caches_per_layer(
    pair: JudgedPair, *, always: dict[str, str], shared: dict[str, str]
) -> CheckOutcome:
    """Fail when the target has another number of caches than of layers.

    always: types that do; shared: those that do where layers share a cache. model_type -> "since".
    """
    config = pair.target.config
    name = needed(whole_type(config), "the target's model_type was not read")
    words = f"target model_type is {name}"
    if is_listed(name, always, pair.setup):
        return fail(words)
    if not is_listed(name, shared, pair.setup):
        return ok(words)
    count = config.sizes.get("num_kv_shared_layers")
    if not isinstance(count, int):
        return unknown(f"{words}; num_kv_shared_layers was not read")
    words = f"{words}, {count} of its layers share a cache"
    return fail(words) if count else ok(words)


def cache_is_kept(pair: JudgedPair) -> CheckOutcome:
    """Fail when the target's files turn its cache off."""
    kept = applies(pair.target.config.use_cache, "where generate() starts from was not read")
    words = f"use_cache of the target is {str(kept).lower()}"
    return ok(words) if kept else fail(words)


def cache_asked_for(
    pair: JudgedPair,
    *,
    side: str,
    kinds: list[str],
    types: list[str],
    generation: bool = False,
    alone: bool = False,
    written_since: str | None = None,
) -> CheckOutcome:
    """Fail when that side's files ask for a kind of cache that cannot take tokens back.

    generation: generation_config.json is asked before config.json; alone: config.json is not asked;
    written_since: only a generation_config.json that
    names this version of transformers, a newer one, or none; types: these are known to state the
    key, so for them a file that was not read leaves it open, and so does, with alone, one that
    names no version: it may be missing, and then their class asks.
    """
    config = pair.model(side).config
    unnamed = config.generation_cache_kind == "unset" and config.generation_version is None
    if alone and unnamed and config.model_type in (None, *types):
        return unknown(f"whether the {side} has a generation_config.json was not read")
    said = [] if alone else [config.cache_kind]
    if generation and _counts(config.generation_version, written_since):
        said.insert(0, config.generation_cache_kind)
    asked = next((kind for kind in said if kind not in (None, "unset")), None)
    if asked is not None:
        words = f"cache_implementation of the {side} is {asked}"
        if asked in kinds:
            return fail(words)
        return ok(words) if asked == "dynamic" else unknown(words)
    if None not in said:
        return ok(f"the {side}'s files ask for no kind of cache")
    unread = f"whether the {side}'s files state cache_implementation was not read"
    return unknown(unread) if config.model_type in types else not_applicable(unread)


def _counts(version: str | None, since: str | None) -> bool:
    if version is None or since is None:
        return True
    try:
        return bool(pep440(pep440(version).base_version) >= pep440(since))
    except UsageError:
        return True


def window_rewinds(
    pair: JudgedPair,
    *,
    margin: int,
    types: dict[str, str],
    listed: dict[str, str],
    around: dict[str, str] | None = None,
    stated: list[str] | None = None,
    windows: dict[str, str] | None = None,
    sharing: list[str] | None = None,
    side: str = "target",
    sizes_differ: bool = False,
    unsure_up_to: int = 0,
    margins: dict[str, str] | None = None,
    by_class: list[str] | None = None,
) -> CheckOutcome:
    """Fail when the sliding layers of that side are full before the served length is reached.

    margin: tokens of one round with the usual draft length, which must fit too (0: drafts never
    pass the served length); margins: the same for these methods; types: these
    slide unless their config lists other layers; listed: only where it does; around: of a whole
    model of these types the text part is asked; stated: of the
    types, those that slide only where their config states a window (Mistral); sharing: those
    that do only where layers share a cache; windows: types whose config.json has another word
    for sliding_window; sizes_differ: only asked where the configured vocabulary sizes do;
    unsure_up_to: unknown where drafts of so few tokens are asked for.
    by_class: stated types whose class has a window where config.json lacks the key (null is
    none): left open; and so is use_sliding_window where config.json lists no layers.
    """
    sizes = {facts.config.vocab_size for _, facts in pair.both}
    if sizes_differ and len(sizes) == 1 and None not in sizes:
        return ok("vocab_size is the same on both sides: nothing is translated")
    config = pair.model(side).config
    name = needed(whole_type(config), f"the {side}'s model_type was not read")
    if is_listed(name, around or {}, pair.setup):
        name = config.model_type or name
    usual = is_listed(name, types, pair.setup)
    kinds = config.layer_kinds
    slides = usual if kinds is None else SLIDING in kinds or CHUNKED in kinds
    none = name in (stated or ()) and config.sliding_window is None
    none = none and not (config.model_type in (by_class or ()) and WINDOW_KEY not in config.sizes)
    alone = name in (sharing or ()) and not config.sizes.get("num_kv_shared_layers")
    known = usual or is_listed(name, listed, pair.setup)
    wanted = config.sizes.get("use_sliding_window") is True and config.sliding_window is not None
    some = by_class is not None and wanted and kinds is None and not slides
    if none or alone or not known or not (slides or some):
        return ok(f"{side} model_type is {name}, without a sliding window")
    unread = f"{side} model_type is {name}; its window or context was not read"
    target = pair.target.config
    served = needed(pair.setup.context or target.scaled_context or target.context, unread)
    other = config.sizes.get((windows or {}).get(name, ""))
    window = needed(config.sliding_window or (other if isinstance(other, int) else None), unread)
    margin = int((margins or {}).get(pair.setup.method, margin))
    if margin and pair.setup.draft_tokens is not None:
        margin = pair.setup.draft_tokens + 1
    asked = "--context" if pair.setup.context else "the target's own context"
    words = f"sliding window {window:,} tokens, served {served:,} ({asked})"
    if served + margin <= window:
        return ok(words)
    longer_drafts(pair, unsure_up_to)
    return unknown(f"{words}; which layers slide was not read") if some else fail(words)


def rope_factors_switch(
    pair: JudgedPair, *, types: dict[str, str], margins: dict[str, str] | None = None
) -> CheckOutcome:
    """Fail when the served length passes the one at which the target's longrope changes factors.

    types: these look up their factors anew in every pass; margins: with these methods drafts pass
    the served length by as many tokens as are asked for, or by this number.
    """
    config = pair.target.config
    name = needed(whole_type(config), "the target's model_type was not read")
    scaling = config.rope_scaling or {}
    if not is_listed(name, types, pair.setup) or not _has_rope(config, *LONGROPE):
        return ok(f"target model_type is {name}, with one set of rope factors")
    unread = f"target model_type is {name}; its {ORIGINAL} or context was not read"
    original = config.sizes.get(ORIGINAL) or scaling.get(ORIGINAL)
    switch = needed(original if isinstance(original, int) else None, unread)
    served = needed(pair.setup.context or config.context, unread)
    asked = "--context" if pair.setup.context else "the target's own context"
    words = f"other rope factors past {switch:,} tokens, served {served:,} ({asked})"
    past = int((margins or {}).get(pair.setup.method, 0))
    past = past and (pair.setup.draft_tokens or past)
    words += f", drafts of {past} more" if past else ""
    return fail(words) if served + past > switch else ok(words)


def no_recurrent_layers(pair: JudgedPair) -> CheckOutcome:
    """Fail when a side keeps a recurrent state."""
    flags = {side: facts.config.recurrent for side, facts in pair.both}
    for side, flag in flags.items():
        if flag:
            return fail(f"the {side} has recurrent layers")
    if unread := [side for side, flag in flags.items() if flag is None]:
        return unknown(f"layers of the {' and the '.join(unread)} were not read")
    return ok("no recurrent layers")


def recurrent_not_read(pair: JudgedPair, *, side: str = "both") -> CheckOutcome:
    """Unknown when a side keeps a recurrent state: what follows from it was not found out.

    side: target where the draft is a head, or there is none.
    """
    if side == "target":
        recurrent = needed(pair.target.config.recurrent, "layers of the target were not read")
        return target_recurrent_not_read(pair) if recurrent else ok("no recurrent layers")
    seen = no_recurrent_layers(pair)
    return unknown(seen.saw) if seen.outcome is Outcome.FAIL else seen


def keeps_recurrent_state(
    pair: JudgedPair,
    *,
    able: dict[str, str],
    side: str = "target",
    unless: list[str] | None = None,
    read: list[str] | None = None,
) -> CheckOutcome:
    """Fail when that side keeps a recurrent state and the target is of no type excepted here.

    unless: types of that side that another rule speaks of; read: the types whose kind of state
    the engine was read for.
    """
    config = pair.model(side).config
    if whole_type(config) in (unless or ()):
        return ok(f"the {side}'s model_type is {whole_type(config)}")
    if not needed(config.recurrent, f"whether the {side} has recurrent layers was not read"):
        return ok(f"no recurrent layers in the {side}")
    words = f"the {side} has recurrent layers, model_type {whole_type(config)}"
    if is_listed(whole_type(pair.target.config), able, pair.setup):
        return ok(words)
    return fail(words) if read is None or whole_type(config) in read else unknown(words)


def _untyped(config: ConfigFacts) -> CheckOutcome | None:
    """Unknown where config.json names a class and no model_type, which tells of such layers."""
    if config.recurrent is None and config.model_type is None and config.architectures:
        return unknown("config.json names no model_type: its kinds of layers were not read")
    return None


def target_recurrent_not_read(
    pair: JudgedPair, *, kinds: dict[str, str] | None = None
) -> CheckOutcome:
    """Unknown when the target keeps a recurrent state: what follows from it was not found out.

    kinds: model types of text parts whose state these versions are known to handle.
    """
    config = pair.target.config
    if not config.recurrent or is_listed(config.model_type, kinds or {}, pair.setup):
        return _untyped(config) or not_applicable("no recurrent layers seen, or of a kind read")
    return unknown("the target has recurrent layers")


def draft_recurrent_not_read(pair: JudgedPair) -> CheckOutcome:
    """Unknown when the draft keeps a recurrent state: what follows from it was not found out."""
    config = pair.drafter.config
    if not config.recurrent:
        return _untyped(config) or not_applicable("no recurrent layers seen")
    return unknown("the draft has recurrent layers")


# ---- which kinds of draft an engine takes, and how it finds out what kind one is ----


def draft_kind_taken(
    pair: JudgedPair, *, format: str, kinds: list[str], prefix: str = ""
) -> CheckOutcome:
    """Fail when the draft, in a file of this format, is of none of these kinds.

    A whole GGUF file that carries MTP layers too is taken for its layers, where such are taken.
    prefix: of the names of all its tensors.
    """
    draft = pair.drafter
    here = "gguf" if draft.gguf is not None else "folder"
    if here != format:
        return not_applicable(f"the draft is a {here}")
    role, head = needed(draft.role, UNTOLD), draft.head
    words = "the draft is " + ("an ordinary model" if role == "full" else f"a head of kind {role}")
    if role in kinds:
        names = draft.weights.tensors or ()
        other = next((name for name in names if not name.startswith(prefix)), None)
        return fail(f"the folder has {other} beside {prefix}*") if other else ok(words)
    layers = head is not None and (head.mtp_promised or head.mtp_present)
    if layers and format == "gguf" and role == "full" and "mtp" in kinds:
        return unknown(f"{words} with MTP layers: ask again with --method draft-mtp")
    return fail(words)


def draft_kind_not_read(pair: JudgedPair, *, kinds: list[str]) -> CheckOutcome:
    """Unknown for drafts of these kinds: what the engine does with them was not found out."""
    role = needed(pair.drafter.role, UNTOLD)
    return unknown(f"the draft is: {role}") if role in kinds else ok(f"the draft is: {role}")


def head_vocabulary_whole(
    pair: JudgedPair,
    *,
    classes: list[str] | None = None,
    unless_classes: list[str] | None = None,
    form: str | None = None,
) -> CheckOutcome:
    """Fail when the head has a smaller vocabulary of its own.

    classes, unless_classes: only heads of these classes, or only the others; form: only heads
    that are stored in this form.
    """
    head, role = pair.drafter.head, pair.drafter.role
    if role == "full":
        return not_applicable("the draft is no head")
    if form is not None and head is not None and head.form not in (None, form):
        return not_applicable(f"the head is in the {head.form} format")
    names = set(pair.drafter.config.architectures or ())
    if names & set(unless_classes or ()) or (classes is not None and not names & set(classes)):
        return not_applicable("the draft is of another class")
    if head is None or head.declared is None:
        return unknown("the head's own vocabulary was not read")
    if head.draft_vocab is None or head.draft_vocab == head.vocab:
        return ok("the head uses the target's whole vocabulary")
    needed(head.vocab, f"draft_vocab_size {head.draft_vocab:,}; vocab_size was not read")
    return fail(f"draft_vocab_size {head.draft_vocab:,} of {head.vocab:,}")


def attaches(pair: JudgedPair, *, architectures: list[str]) -> CheckOutcome:
    """Fail when a head of these architectures does not fit: vocabulary, width, mask, layers."""
    names = pair.drafter.config.architectures
    if not names:
        return unknown("the draft's architecture was not read")
    if names[0] not in architectures:
        return not_applicable(f"the draft's architecture is {names[0]}")
    head, target = pair.drafter.head, pair.target.config
    if head is None or None in (head.vocab, head.hidden, target.vocab_size, target.hidden):
        return unknown("sizes of the target or of the head were not read")
    if head.vocab != target.vocab_size:
        return fail(f"vocab_size {head.vocab:,} / {target.vocab_size:,} (head / target)")
    if head.hidden != target.hidden:
        return fail(f"hidden_size {head.hidden:,} / {target.hidden:,} (head / target)")
    if head.mask_token_id is not None and head.mask_token_id >= (target.vocab_size or 0):
        return fail(f"mask_token_id {head.mask_token_id:,}, vocab_size {target.vocab_size:,}")
    if target.layers is None or head.aux_layers is None:
        return unknown("layers of the target or of the head were not read")
    if (highest := max(head.aux_layers, default=0)) >= target.layers:
        return fail(f"target_layer_ids has {highest}, the target {target.layers} layers")
    return ok("vocabulary, width, mask token and layers fit")


def folder_head_converts(pair: JudgedPair, *, known: dict[str, str]) -> CheckOutcome:
    """Fail when a head in a folder is converted for other types of target than this one."""
    if pair.drafter.gguf is not None:
        return not_applicable("the draft is a gguf")
    return target_type_known(pair, known=known)


def folder_head_is_needed(pair: JudgedPair) -> CheckOutcome:
    """Fail when a head in a folder is given for a target that has such layers already."""
    draft, target = pair.drafter, pair.target
    if draft.gguf is not None:
        return not_applicable("the draft is a gguf")
    needed(target.role, "whether the target has MTP layers was not read")
    promised = target.head.mtp_promised if target.head is not None else 0
    if target.gguf is None and target.head is not None:  # the converter counts what is there
        promised = promised or target.head.mtp_present
    words = f"the target promises {promised or 'no'} MTP layers"
    return fail(words) if promised else ok(words)


def name_picks_method(
    pair: JudgedPair,
    *,
    words: dict[str, str],
    classes: dict[str, str] | None = None,
    unless_classes: dict[str, str] | None = None,
    whole: bool = False,
) -> CheckOutcome:
    """Fail when the draft's path or id contains a word by which this version picks a method.

    The target's own name counts where it drafts for itself. Table: word -> "since" or
    "since until". classes, unless_classes: only drafts of these, or only the others; whole: a head
    is no matter of this rule, since its own method may be the one picked.
    """
    if whole and pair.drafter.role not in (None, "full"):
        return ok(f"the draft is: {pair.drafter.role}")
    among_classes(pair, classes, unless_classes)
    called = pair.drafter.called
    for word in words:
        if word in called.lower() and is_listed(word, words, pair.setup):
            if whole:
                needed(pair.drafter.role, UNTOLD)
            return fail(f"the {pair.drafter_side} is called {called!r}, which contains {word!r}")
    return ok(f"{called!r} contains none of {', '.join(words)}")


def head_is_recognised(pair: JudgedPair, *, types: list[str], words: list[str]) -> CheckOutcome:
    """Fail when neither the model_type nor the name of a head says that it is of these kinds."""
    if pair.drafter.role not in (None, *types):
        return not_applicable(f"the draft is: {pair.drafter.role}")
    called, name = pair.drafter.called, pair.drafter.config.outer_type
    by_name = [word for word in words if word in called.lower()]
    if by_name:
        return ok(f"{called!r} contains {by_name[0]!r}")
    needed(name, "the draft's model_type was not read")
    said = f"the draft's model_type is {name}, it is called {called!r}"
    return ok(said) if name in types else fail(said)


def states_mask_token(pair: JudgedPair, *, keys: dict[str, str]) -> CheckOutcome:
    """Fail when an ordinary draft does not name the token that parallel drafts start from.

    keys: the names that a version looks for, name -> "since".
    """
    draft = pair.drafter
    needed(draft.config.model_type, "the draft's config was not read")
    mask = draft.head.mask_token_id if draft.head is not None else None
    if draft.head is None or mask is None:
        return fail("no mask token in the config")
    unread = heads.mask_key_unread(draft.head, keys, pair.setup)
    return fail(unread) if unread else ok(f"mask token {mask}")


# ---- weights: files, tensors, names and shapes ----


def weights_have_no(
    pair: JudgedPair,
    *,
    kinds: list[str],
    instead: str = "",
    read_by: dict[str, str] | None = None,
) -> CheckOutcome:
    """Fail when the files of a side prove one of these faults.

    instead: a weight file whose name begins like this is read in their place, where it has no such
    fault itself; read_by: engines to which a fault of this kind is none.
    """
    looked, found, setup = False, [], pair.setup
    for side, facts in pair.sides:
        faults = facts.weights.faults
        looked = looked or faults is not None
        if faults:  # hardly ever, and many rules ask
            harmless = [k for k, names in (read_by or {}).items() if setup.engine in names.split()]
            mine = [f for f in faults if f.kind in kinds and f.kind not in harmless]
            there = instead and any(f.name.startswith(instead) for f in facts.weights.files or ())
            if there and not any(fault.file.startswith(instead) for fault in mine):
                continue
            found += [f"{side}: {fault}" for fault in mine[:SHOWN]]
            if len(mine) > SHOWN:
                found.append(f"{side}: {len(mine) - SHOWN} more of this kind")
    if found:
        return fail("; ".join(found))
    return ok("not seen in the headers") if looked else not_applicable("weights not read")


def gguf_table_sound(pair: JudgedPair, *, failure: str) -> CheckOutcome:
    """Fail when a GGUF is broken for every reader; engines that say so themselves are not asked.

    failure: the engine's own word for it, where it has rules for loading.
    """
    sides = [(side, facts.gguf) for side, facts in pair.sides if facts.gguf is not None]
    if not sides or failure in pair.setup.failures:
        return not_applicable("no GGUF file, or judged by the engine's own rules")
    for side, gguf in sides:
        if gguf.data_short_by > 0:
            missing = f"{gguf.data_short_by:,} bytes of tensor data are missing at the end"
            return fail(f"{side}: {missing}")
        if words := gguf.tensor_fault or gguf.offset_fault or gguf.split_fault:
            return fail(f"{side}: {words}")
    return ok("tensor table and size of the file agree")


def gguf_has_tensors(pair: JudgedPair, *, told_by: str, beside: str) -> CheckOutcome:
    """Fail when a GGUF lacks a tensor of its architecture.

    told_by: the table that lists tensors of some architectures; engines that have the other one
    beside it say by rules of their own what becomes of those.
    """
    tables = pair.setup.tables
    told = tables[told_by].tensors if {told_by, beside} <= tables.keys() else ()
    looked = False
    for side, facts in pair.sides:
        faults = facts.weights.faults
        if facts.gguf is None or faults is None or facts.config.model_type in told:
            continue
        looked = True
        for fault in faults:
            if fault.kind == "gguf-tensor":
                return fail(f"{side}: {fault}")
    return ok("every tensor is listed") if looked else not_applicable("no GGUF to look at")


def rows_for_tokens(pair: JudgedPair) -> CheckOutcome:
    """Fail when a tokenizer makes ids for which its own model has no row."""
    looked, found = False, []
    for side, facts in pair.sides:
        rows, length = facts.weights.embedding_rows, facts.tokenizer.length
        if facts.role == "full" and rows is not None and length is not None:
            looked = True
            if length > rows:
                found.append(f"{side}: {length:,} tokens, {rows:,} rows")
    if found:
        return fail("; ".join(found))
    return ok("a row for each token") if looked else not_applicable("rows or tokens not read")


def has_safetensors(pair: JudgedPair, *, names: dict[str, str] | None = None) -> CheckOutcome:
    """Fail when a side has no safetensors file.

    names: only files that begin like this are taken; beginning -> "since" or "since until".
    """
    unread = []
    begins = tuple(name for name in names or {} if is_listed(name, names or {}, pair.setup)) or (
        "",
    )
    for side, facts in pair.both:
        files = facts.weights.files
        if not files:
            unread.append(side)
        elif not any(f.format == "safetensors" and f.name.startswith(begins) for f in files):
            what = f"{begins[0]}*.safetensors" if names else "safetensors"
            return fail(f"{side}: no {what} among {len(files)} weight files")
    if unread:
        return unknown(f"weight files of the {' and the '.join(unread)} were not listed")
    return ok("safetensors on both sides")


def weights_are_safe(pair: JudgedPair) -> CheckOutcome:
    """Fail when a side offers nothing but pickled weights."""
    bad = [(side, facts.weights.problems) for side, facts in pair.both if facts.weights.problems]
    if bad:
        return fail("; ".join(f"{side}: {problems[0]}" for side, problems in bad))
    unread = [side for side, facts in pair.both if not facts.weights.files]
    return unknown(f"weights of the {', '.join(unread)} not listed") if unread else ok("no pickles")


def gguf_is_whole(pair: JudgedPair) -> CheckOutcome:
    """Fail when a GGUF file is cut off, or its tables contradict each other."""
    for side, facts in pair.both:
        found = needed(facts.gguf, f"the {side} was not read as a GGUF file")
        if found.data_short_by:
            return fail(f"{side}: {found.data_short_by:,} bytes are missing at the end")
        fault = found.tensor_fault or found.offset_fault or found.split_fault
        if fault or found.duplicate_key:
            return fail(f"{side}: {fault or f'the key {found.duplicate_key} stands twice'}")
    return ok("both files are whole")
