"""Checks on the deployment: what the GPU can do and hold, and what the user asks of it.

Without a named GPU, most do not apply. Capabilities are written as engines do: 75 for 7.5.
Tables that change with the version: name -> "since:value since:value …", oldest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from draftcheck import versions
from draftcheck.judge.checks.listed import (
    in_window,
    is_listed,
    marlin_runs,
    quant_method,
    ran_by,
    whole_type,
)
from draftcheck.judge.checks.outcomes import (
    applies,
    fail,
    needed,
    not_applicable,
    ok,
    unknown,
    unread_config,
)
from draftcheck.values.dtypes import dtype_name
from draftcheck.values.facts import ModelFacts
from draftcheck.values.memory import Fit
from draftcheck.values.verdicts import EngineSetup, JudgedPair
from draftcheck.values.words import CheckOutcome

GIB = 1 << 30
NO_GPU = "no GPU with a known compute capability was named"
EVERY_GPU = 1000
"""The floor of rules that hold on every GPU with CUDA."""
UNREAD = "not read for this version, start it alone first"
USUAL_GROUPS = (None, 32, 64, 128)
"""How many weights share a scale, as the Marlin kernels take them; None: not stated."""
BLACKWELL = 10
"""The major capability of Blackwell in data centres (10.0, 10.3)."""


def capability_at_least(
    pair: JudgedPair,
    *,
    floor: int,
    above: int = 0,
    below: int | None = None,
    backends: dict[str, str] | None = None,
    longer: int = 0,
    cuda_only: bool = False,
    float32: str = "",
) -> CheckOutcome:
    """Fail when the GPU is older than that; it does not apply to those older than above.

    below: newer ones fail too, from this capability on; backends: ran_by(); longer: drafts of more
    tokens than this alone; cuda_only: a GPU of another maker fails; float32: in these versions
    every GPU does with that --dtype; where above is given, one with CUDA, and not older than it.
    """
    ran_by(pair, backends)
    tokens = pair.setup.draft_tokens
    if tokens is not None and tokens <= longer:
        return not_applicable(f"drafts of {tokens}")
    if cuda_only and without_cuda(pair.setup):
        return fail(f"{pair.setup.gpu} has no CUDA")
    if float32 and asked(pair.setup) == "float32" and in_window(float32, pair.setup):
        # Without a GPU named: any that has CUDA.
        named = 0 if without_cuda(pair.setup) else capability(pair.setup)
        if named is None or named >= above:
            return fail("--dtype float32")
    given = applies(capability(pair.setup), NO_GPU)
    if given < above:
        return not_applicable(_gpu(pair.setup))
    words = f"{_gpu(pair.setup)}, the limit is {_dotted(floor)}"
    if below is not None:
        words = f"{_gpu(pair.setup)}, needed: from {_dotted(floor)}, below {_dotted(below)}"
    return fail(words) if given < floor or (below and given >= below) else ok(words)


def capability_not_read(pair: JudgedPair, *, below: int, above: int = 0) -> CheckOutcome:
    """Unknown on such a GPU: what the engine does there was not found out."""
    given = applies(capability(pair.setup), NO_GPU)
    words = _gpu(pair.setup)
    return unknown(words) if above <= given < below else ok(words)


def dtype_capability(
    pair: JudgedPair,
    *,
    dtype: str,
    floor: int,
    automatic: bool,
    casts: dict[str, str] | None = None,
    inner: str | None = None,
) -> CheckOutcome:
    """Fail when that type of numbers is asked for on a GPU that lacks it.

    automatic: the type that the target's config names counts too, where the user names none; a
    config without one counts as float32; casts: targets of these types that are stored in float32
    are loaded in it; inner: versions that look for the type in the text part of a config, whose
    own was not read.
    """
    given = applies(capability(pair.setup), NO_GPU)
    wanted, source = asked(pair.setup), "--dtype"
    if wanted is None:
        if not automatic:
            return not_applicable("no --dtype given")
        config = pair.target.config
        plain = config.model_type is not None and config.outer_type in (None, config.model_type)
        if given < floor and not plain and inner and in_window(inner, pair.setup):
            return unknown("this version looks for the type in the target's text_config")
        wanted, source = config.dtype, "config.json of the target"
        if wanted is None and config.model_type is not None:
            wanted, source = "float32", "config.json of the target states none"
        if wanted == "float32" and casts:
            name = needed(whole_type(config), "the target's model_type was not read")
            if is_listed(name, casts, pair.setup):
                wanted, source = dtype, f"for {name} stored in float32"
    needed(wanted, "the target's dtype was not read")
    words = f"{wanted} ({source}) on {_gpu(pair.setup)}"
    return fail(words) if wanted == dtype and given < floor else ok(words)


def dtype_is_kept(pair: JudgedPair, *, dtype: str, floor: int) -> CheckOutcome:
    """Fail when the engine takes another type than the target's own because the GPU lacks it."""
    given = applies(capability(pair.setup), NO_GPU)
    if asked(pair.setup) is not None:
        return not_applicable("--dtype says it")
    own = needed(pair.target.config.dtype, "the target's dtype was not read")
    words = f"the target is stored as {own}, {_gpu(pair.setup)}"
    return fail(words) if own == dtype and given < floor else ok(words)


def type_takes_dtype(
    pair: JudgedPair, *, dtype: str, floor: int, refusing: dict[str, str]
) -> CheckOutcome:
    """Fail when a side's model type refuses the type of numbers that both will be loaded in.

    The draft is loaded in the target's type. floor: below it bfloat16 and float32 become float16,
    but for targets that refuse it. The engine looks at the model_type of the whole model.
    """
    wanted, _ = _loaded_dtype(pair, floor, refusing)
    if wanted != dtype:
        return not_applicable(f"computes in {wanted or 'a type that was not read'}")
    for side, facts in pair.sides:
        name = whole_type(facts.config)
        if is_listed(name, refusing, pair.setup):
            return fail(f"{side} model_type is {name}, computes in {wanted}")
    return unread_config(pair.sides, "model_type") or ok(f"no side refuses {wanted}")


def quantization_capability(pair: JudgedPair, *, floors: dict[str, str]) -> CheckOutcome:
    """Fail when a side's quantisation needs a newer GPU; the table holds "since:floor"."""
    given = applies(capability(pair.setup), NO_GPU)
    told = []
    for side, kind, floor in _entries(pair, floors):
        words = f"{side} is {kind}, which needs {_dotted(int(floor))}; {_gpu(pair.setup)}"
        if given < int(floor):
            return fail(words)
        told.append(ok(words))
    none = not_applicable("no quantisation with a floor")
    return unread_config(pair.sides) or next(iter(told), none)


def quantization_not_read(
    pair: JudgedPair, *, runs: dict[str, str], act_order: str | None = None
) -> CheckOutcome:
    """Unknown for a side that is quantised in another way, or on another GPU, than was read.

    runs: how (_ways) -> "since:floor" or "since:floor-most"; "…/experts" goes first for models with
    them. Without a named GPU the version alone is asked. act_order: the versions in which weights
    in activation order were read; not given: all.
    """
    given = capability(pair.setup)
    for side, facts in pair.sides:
        ordered = _in_activation_order(facts.config.quantization or {})
        for way in _ways(facts, pair.setup):
            with_experts = f"{way}/experts"
            meant = facts.config.experts and with_experts in runs
            entry = runs.get(with_experts if meant else way, "")
            floor = versions.value_at(pair.setup.order, pair.setup.version, entry)
            least, _, most = (floor or "").partition("-")
            words = f"{side} is quantised as {way[:80]}"
            if facts.config.experts:
                words += ", with experts"
            if asked(pair.setup) == "float32":
                return unknown(f"{words}, --dtype float32: {UNREAD}")
            if ordered and act_order is not None and not in_window(act_order, pair.setup):
                return unknown(f"{words}, in activation order: {UNREAD}")
            if floor is None or not int(least) <= (given or int(least)) <= int(most or EVERY_GPU):
                words += f" ({_gpu(pair.setup)})" if given else ""
                return unknown(f"{words}: {UNREAD}")
    return unread_config(pair.sides) or ok("not quantised, or in a way that was read")


def _ways(facts: ModelFacts, setup: EngineSetup) -> list[str]:
    """How a model is quantised: gptq/marlin, fp8/block, modelopt/nvfp4; none: not at all.

    By compressed-tensors each group is one: pack-quantized/int4/group, with /asymmetric weights.
    """
    if not (quantization := facts.config.quantization):
        return []
    method = quant_method(facts).lower() or "unnamed"
    if method != "compressed-tensors":
        if algorithm := quantization.get("quant_algo") or quantization.get("moe_quant_algo"):
            return [f"{method}/{str(algorithm).lower()}"]
        if method in ("awq", "gptq"):
            layout = quantization.get("checkpoint_format") or quantization.get("version") or "gptq"
            usual = str(layout).lower() in ("gptq", "gemm") and marlin_runs(facts, setup)
            return [f"{method}/marlin" if usual else method]
        return [f"{method}/block" if quantization.get("weight_block_size") else method]
    layout = str(quantization.get("format"))
    if quantization.get("sparsity"):
        layout = f"sparse/{layout}"
    ways = []
    for group in _groups(quantization):
        weights = group["weights"]
        names = ("weights", "input_activations", "output_activations")
        scheme = "-".join(filter(None, (_scheme(group.get(name)) for name in names)))
        way = f"{layout}/{scheme}/{weights.get('strategy')}"
        if weights.get("strategy") == "group" and weights.get("group_size") not in USUAL_GROUPS:
            way += f" of {str(weights.get('group_size'))[:10]}"
        ways.append(way if weights.get("symmetric") is not False else f"{way}/asymmetric")
    return ways or [f"{method}/{layout}"]


def _in_activation_order(quantization: Mapping[str, Any]) -> bool:
    """GPTQ's desc_act, and the actorder of compressed-tensors but for weight and static."""
    if quantization.get("desc_act") is True and quantization.get("group_size") != -1:
        return True
    weights = (group["weights"] for group in _groups(quantization))
    return any(part.get("actorder") in ("group", "dynamic", True) for part in weights)


def _groups(quantization: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The groups of layers that compressed-tensors tells apart, each with its weights."""
    groups = quantization.get("config_groups")
    listed = groups.values() if isinstance(groups, dict) else ()
    found = [group for group in listed if isinstance(group, dict)]
    return [{**g, "weights": w if isinstance(w := g.get("weights"), dict) else {}} for g in found]


def quantization_dtype(
    pair: JudgedPair,
    *,
    dtypes: dict[str, str],
    floor: int,
    refusing: dict[str, str],
) -> CheckOutcome:
    """Fail when a side's quantisation does not compute in the type that both are loaded in.

    The table holds "since:type,type"; floor, refusing: _loaded_dtype().
    """
    wanted, source = _loaded_dtype(pair, floor, refusing)
    if wanted is None:
        return not_applicable("the type that both are loaded in is not known")
    told = []
    for side, kind, allowed in _entries(pair, dtypes):
        words = f"{side} is {kind}, which computes in {allowed.replace(',', ' or ')}"
        if wanted not in allowed.split(","):
            return fail(f"{words}; {source} {wanted}")
        told.append(ok(words))
    none = not_applicable("no quantisation that is choosy")
    return unread_config(pair.sides) or next(iter(told), none)


def head_size_capability(
    pair: JudgedPair,
    *,
    sizes: list[str],
    floor: int,
    above: int,
    refusing: dict[str, str],
    unless_whole: dict[str, str],
    kinds: list[str],
) -> CheckOutcome:
    """Fail on such a GPU when the target is loaded in float16 and its heads have such a size.

    GPUs from above to below floor count, targets that keep latent vectors (MLA) do not;
    refusing: types of target that are not loaded in float16; unless_whole: types of whole models,
    not of their text parts, which have another backend; kinds: KV caches of other ones have one
    too, or need less (fp8/256: only those of heads of 256 fail).
    """
    given = applies(capability(pair.setup), NO_GPU)
    if not above <= given < floor:
        return ok(_gpu(pair.setup))
    config = pair.target.config
    kind = pair.setup.kv_dtype or "auto"
    meant = not {kind, f"{kind}/{config.head_dim}"}.isdisjoint(kinds)
    if not meant or is_listed(whole_type(config), unless_whole, pair.setup):
        return ok(f"KV cache {kind[:40]}, target {whole_type(config)}, {_gpu(pair.setup)}")
    wanted, _ = _loaded_dtype(pair, floor, refusing)
    if wanted != "float16" or config.sizes.get("kv_lora_rank"):
        return not_applicable(f"computes in {wanted}, or keeps latent vectors")
    size = applies(config.head_dim, "the size of the target's heads was not read")
    words = f"the target's heads have {size} values, {_gpu(pair.setup)}"
    return fail(words) if str(size) in sizes else ok(words)


def _loaded_dtype(
    pair: JudgedPair, floor: int, refusing: Mapping[str, str]
) -> tuple[str | None, str]:
    """The type of numbers that both models are loaded in, and who says so; None: not known.

    floor: GPUs below it have no bfloat16, and float16 is taken instead; refusing: types of target
    that are not loaded in float16 unless --dtype says so, but in bfloat16, else in float32.
    """
    if (wanted := asked(pair.setup)) is not None:
        return wanted, "--dtype says"
    given, config = capability(pair.setup), pair.target.config
    modern = given is None or given >= floor
    if config.dtype != "bfloat16" or not modern:
        needed(config.model_type, "the target's model_type was not read")
    shy = is_listed(whole_type(config), refusing, pair.setup)
    if given is not None and given < floor:
        return ("float32" if shy else "float16"), f"on {pair.setup.gpu} the target is loaded in"
    if shy and config.dtype == "float16":
        return (None if given is None else "bfloat16"), "the target is loaded in"
    half = config.dtype in ("float16", "bfloat16")
    return (config.dtype if half else None), "the target is stored as"


def kv_dtype_capability(
    pair: JudgedPair,
    *,
    starts: str,
    floor: int,
    lowest: int = 0,
    latent: list[str] | None = None,
    unless_whole: dict[str, str] | None = None,
    halves: bool = False,
    quantized: list[str] | None = None,
) -> CheckOutcome:
    """Fail when a KV cache of that type is asked for on a GPU that cannot read it.

    lowest: GPUs below it fail in another way; latent: types of target with a latent cache (MLA),
    which have backends of their own; unless_whole: types of whole models, not of their text parts,
    which have another one in these versions; halves: with --dtype float32 it is not known;
    quantized: targets of these quant methods, which fail on every GPU, named or not; with
    /kv_cache_scheme behind it only those that name a scheme for the cache.
    """
    name, method = pair.target.config.model_type, quant_method(pair.target)
    if (pair.target.config.quantization or {}).get("kv_cache_scheme"):
        method = method if method in (quantized or ()) else f"{method}/kv_cache_scheme"
    if name not in (latent or ()) and method in (quantized or ()):
        kind = applies(pair.setup.kv_dtype, "no --kv-dtype given")
        if kind.startswith(starts):
            if latent:
                needed(name, "the target's model_type was not read")
            return fail(f"KV cache {kind}, target quantised as {method}")
    given = applies(capability(pair.setup), NO_GPU)
    kind = applies(pair.setup.kv_dtype, "no --kv-dtype given")
    words = f"KV cache {kind} on {_gpu(pair.setup)}"
    if name in (latent or ()):
        return ok(f"{words}, target {name}")
    if not kind.startswith(starts) or not lowest <= given < floor:
        return ok(words)
    if latent:
        needed(name, "the target's model_type was not read")
    if is_listed(whole_type(pair.target.config), unless_whole or {}, pair.setup):
        return ok(f"{words}, target {whole_type(pair.target.config)}")
    if halves and asked(pair.setup) == "float32":
        return unknown(f"{words}, --dtype float32")
    return fail(words)


def kv_dtype_is_the_models(
    pair: JudgedPair,
    *,
    kinds: list[str],
    floor: int,
    refusing: dict[str, str],
    as_auto: dict[str, str],
    float32_as: str,
    unread: dict[str, str] | None = None,
) -> CheckOutcome:
    """Fail when the KV cache is asked for in one of these types, and both are loaded in another.

    floor, refusing: _loaded_dtype(); as_auto: types of target for which the engine takes this kind
    as no wish; float32_as: what a target stored in float32 is loaded in from the floor on; unread:
    for targets of these types it is not known, and it does not apply without CUDA: the engine has
    other backends for them.
    """
    kind = applies(pair.setup.kv_dtype, "no --kv-dtype given")
    if kind not in kinds:
        return not_applicable(f"KV cache {kind}")
    config = pair.target.config
    if as_auto.get(config.model_type or "") == kind:
        return not_applicable(f"the target's model_type is {config.model_type}")
    if unread is not None and without_cuda(pair.setup):
        return not_applicable("another backend, on such a GPU")
    wanted, source = _loaded_dtype(pair, floor, refusing)
    if wanted is None and config.dtype == "float32" and capability(pair.setup) is not None:
        wanted, source = float32_as, "the target is stored in float32 and loaded in"
    if wanted is None:
        return not_applicable("the type that both are loaded in is not known")
    words = f"KV cache {kind}; {source} {wanted}"
    if wanted != kind and unread is not None:
        name = needed(config.model_type, f"{words}; the target's model_type was not read")
        if any(is_listed(each, unread, pair.setup) for each in (name, whole_type(config))):
            return unknown(f"{words}; for such a target another backend may be taken")
    return ok(words) if wanted == kind else fail(words)


def kv_dtype_other_than(
    pair: JudgedPair, *, starts: str, families: list[str], latent: list[str]
) -> CheckOutcome:
    """Fail when a KV cache of that type is asked for on a GPU of other capabilities than these.

    Without families every GPU fails, named or not; latent: types of target with a latent cache
    (MLA), which have backends of their own.
    """
    given = _named(pair.setup, every=not families)
    kind = applies(pair.setup.kv_dtype, "no --kv-dtype given")
    words = f"KV cache {kind} on {_gpu(pair.setup)}"
    if not kind.startswith(starts) or str(given) in families:
        return ok(words)
    name = needed(pair.target.config.model_type, "the target's model_type was not read")
    return ok(f"{words}, target {name}") if name in latent else fail(words)


def target_reads_kv_dtype(
    pair: JudgedPair,
    *,
    kinds: list[str],
    types: list[str],
    floor: int,
    lowest: int = 0,
    above: int = 1000,
    latent: bool = False,
    whole: dict[str, str] | None = None,
    heads: list[str] | None = None,
    quantized: list[str] | None = None,
    wider: dict[str, str] | None = None,
    alone: list[str] | None = None,
) -> CheckOutcome:
    """Fail when such a target is asked for such a KV cache on a GPU that has no kernels for it.

    Those are GPUs from lowest to below floor (1000: every GPU, named or not), and from above on;
    latent: only targets that keep latent vectors (MLA), which not every model of a type does;
    whole: types of whole models, not of their text parts; heads: so are targets with attention
    alone and heads of other sizes; quantized: only targets of these quant methods, "" is none;
    wider: types with another floor; alone: kinds for which every target but those with latent
    vectors has that one backend.
    """
    given = _named(pair.setup, every=floor >= EVERY_GPU)
    kind = applies(pair.setup.kv_dtype, "no --kv-dtype given")
    name = needed(pair.target.config.model_type, "the target's model_type was not read")
    words = f"KV cache {kind} for {name} on {_gpu(pair.setup)}"
    config = pair.target.config
    listed = name in types or is_listed(whole_type(config), whole or {}, pair.setup)
    compressed = config.sizes.get("kv_lora_rank")
    listed = listed or (kind in (alone or ()) and not compressed)
    if heads and config.head_dim and not compressed:
        words += f", heads of {config.head_dim}"
        others = str(config.head_dim) not in heads
        if others and not listed and config.recurrent and lowest <= given < floor:
            return unknown(f"{words}, beside recurrent layers")
        listed = listed or (others and config.recurrent is False)
    if not listed or (latent and not compressed):
        return not_applicable(words)
    if quantized is not None and quant_method(pair.target) not in quantized:
        return ok(f"{words}, quantised as {quant_method(pair.target)[:80]}")
    lacks = lowest <= given < int((wider or {}).get(name, floor)) or given >= above
    return fail(words) if kind in kinds and lacks else ok(words)


def type_capability(
    pair: JudgedPair,
    *,
    types: dict[str, str],
    floor: int,
    above: int = 0,
    fits: int = 0,
    windowed: bool = False,
    perhaps: list[str] | None = None,
) -> CheckOutcome:
    """Fail when a side's model type is one that such a GPU cannot run; table: type -> "since".

    It does not apply to GPUs older than above; fits: models with heads of this size run; windowed:
    those with a sliding window do not either; perhaps: types of which some models do not.
    """
    given = applies(capability(pair.setup), NO_GPU)
    if not above <= given < floor:
        return not_applicable(_gpu(pair.setup))
    for side, facts in pair.sides:
        size, name = facts.config.head_dim, _refuses(facts, types, pair.setup)
        if name and (size is None or size > fits):
            return fail(f"{side} model_type is {name}, {_gpu(pair.setup)}")
        if windowed and facts.config.sliding_window:
            window = facts.config.sliding_window
            return fail(f"{side} has a sliding window of {window}, {_gpu(pair.setup)}")
        if facts.config.model_type in (perhaps or ()):
            return unknown(f"{side} model_type is {facts.config.model_type}, {_gpu(pair.setup)}")
    words = "no model type that is known to fail on such a GPU"
    return unread_config(pair.sides, "model_type") or ok(words)


def draft_keeps_latents_too(pair: JudgedPair, *, floor: int, below: int) -> CheckOutcome:
    """Unknown on such a GPU where the target keeps latent vectors (MLA) and the draft does not.

    Then the draft needs another attention backend, and whether an option names one is not known.
    """
    given = applies(capability(pair.setup), NO_GPU)
    if not floor <= given < below:
        return ok(_gpu(pair.setup))
    kept = {side: facts.config.sizes.get("kv_lora_rank") for side, facts in pair.both}
    if kept["target"] and not kept["draft"]:
        return unknown(f"the target keeps latent vectors, the draft does not; {_gpu(pair.setup)}")
    return unread_config(pair.both) or ok("attention of one kind, or the draft's own MLA")


def capability(setup: EngineSetup) -> int | None:
    """7.5 -> 75; None where no GPU, or only an amount of memory, was named."""
    return None if setup.capability is None else setup.capability[0] * 10 + setup.capability[1]


def fp8_cache_on_another(setup: EngineSetup, families: list[str] | None) -> bool:
    """Whether an FP8 cache is asked for on a GPU of other capabilities than these; None: never."""
    asked_for = (setup.kv_dtype or "").startswith("fp8")
    return families is not None and asked_for and str(capability(setup)) not in families


def _named(setup: EngineSetup, *, every: bool) -> int:
    """The capability, which must be known, but where every GPU is meant: 0 stands for any."""
    given = capability(setup)
    if given is None and every and not without_cuda(setup):
        return 0
    return applies(given, NO_GPU)


def without_cuda(setup: EngineSetup) -> bool:
    """Whether a GPU without CUDA was named; of a mere amount of memory nothing else is known."""
    devices = setup.machine.devices if setup.machine else ()
    return setup.gpu is not None and any(
        gpu.bandwidth and gpu.capability is None for gpu in devices
    )


def asked(setup: EngineSetup) -> str | None:
    """What --dtype says, in the spelling of config.json; None for nothing or auto."""
    name = dtype_name(setup.dtype or "auto")
    return None if name == "auto" else name


def _entries(pair: JudgedPair, table: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Side, kind and the table's entry: of the exact kind (modelopt/nvfp4), else of the method."""
    order, version = pair.setup.order, pair.setup.version
    for side, facts in pair.sides:
        method = quant_method(facts)
        algorithm = str((facts.config.quantization or {}).get("quant_algo") or "").lower()
        for kind in (f"{method}/{algorithm}", method):
            if (value := versions.value_at(order, version, table.get(kind, ""))) is not None:
                yield side, kind, value
                break


def _scheme(part: object) -> str:
    if not isinstance(part, dict):
        return ""
    kind = str(part.get("type") or part.get("dtype") or "int")
    name = f"{kind[:8]}{str(part.get('num_bits') or '')[:4]}"
    # The size of the groups tells MXFP4 (32) from NVFP4 (16).
    return "mxfp4" if name == "float4" and part.get("group_size") == 32 else name


def _refuses(facts: ModelFacts, table: Mapping[str, str], setup: EngineSetup) -> str | None:
    for name in (facts.config.outer_type, facts.config.model_type):
        if name is not None and is_listed(name, table, setup):
            return name
    return None


def _gpu(setup: EngineSetup) -> str:
    if setup.capability is None:
        return "any GPU"
    return f"{setup.gpu or 'the GPU'} has compute capability {_dotted(capability(setup) or 0)}"


def _dotted(number: int) -> str:
    return f"{number // 10}.{number % 10}"


def dtype_known(pair: JudgedPair, *, choices: list[str]) -> CheckOutcome:
    """Fail when the engine's option does not take what --dtype says."""
    word = applies(pair.setup.dtype, "no --dtype given")
    return ok(f"--dtype {word}") if word in choices else fail(f"--dtype {word}")


def kv_dtype_in(pair: JudgedPair, *, values: list[str]) -> CheckOutcome:
    """Fail when the cache type asked for is none of these words."""
    kind = applies(pair.setup.kv_dtype, "no cache type asked for")
    words = f"cache type {kind[:40]!r}"
    return ok(words) if kind in values else fail(words)


def kv_dtype_listed(pair: JudgedPair, *, values: dict[str, str]) -> CheckOutcome:
    """Fail when this version has no such word for a cache type; table: word -> "since"."""
    kind = applies(pair.setup.kv_dtype, "no cache type asked for")
    words = f"cache type {kind[:40]!r}"
    if kind in values and not is_listed(kind, values, pair.setup):
        return fail(f"{words}, which is there from {values[kind]} on")
    return ok(words) if kind in values else fail(words)


def kv_dtype_begins(
    pair: JudgedPair,
    *,
    types: dict[str, str],
    starts: str,
    unnamed: bool,
    named_by: list[str] | None = None,
    exact: dict[str, str] | None = None,
    datacenter: list[str] | None = None,
) -> CheckOutcome:
    """Fail when the KV cache of a target of these types is asked for in a type of another kind.

    types: type -> "since"; unnamed: the engine's own choice (auto) fails too; named_by: quant
    methods whose checkpoints may name the type themselves; exact: for these types of target only
    the kinds named, in words; datacenter: kinds for Blackwell 10.x alone. Read for CUDA.
    """
    name = needed(whole_type(pair.target.config), "the target's model_type was not read")
    if not is_listed(name, types, pair.setup) or without_cuda(pair.setup):
        return not_applicable(f"target model_type is {name}, or no CUDA")
    kind = pair.setup.kv_dtype or "auto"
    words = f"KV cache {kind[:40]} for {name}"
    known = (exact or {}).get(name)
    begins = kind.startswith(starts) if known is None else kind in known.split()
    wrong = unnamed if kind == "auto" else not begins
    if not wrong and kind in (datacenter or ()):
        given = needed(capability(pair.setup), f"{words}, no GPU named")
        wrong = given // 10 != BLACKWELL
    if wrong and kind == "auto" and quant_method(pair.target) in (named_by or ()):
        return unknown(f"{words}, quantised as {quant_method(pair.target)[:80]}")
    return fail(words) if wrong else ok(words)


def sequences_at_most(pair: JudgedPair, *, most: int) -> CheckOutcome:
    """Fail when more sequences are to run at once than a draft allows."""
    count = applies(pair.setup.sequences, "no number of sequences asked for")
    words = f"{count:,} sequences at once, {most:,} with a draft"
    return fail(words) if count > most else ok(words)


def weights_within_gpus(pair: JudgedPair) -> CheckOutcome:
    """Unknown where the weights alone exceed the GPUs and the engine's memory is not modelled."""
    setup = pair.setup
    if setup.memory is not None and setup.memory.answer is not Fit.CANNOT_TELL:
        return not_applicable("the memory section says it")
    if setup.gpu is None or setup.machine is None:
        return not_applicable("no GPU named")
    sizes = [facts.weights.nbytes for _, facts in pair.sides]
    room = sum(gpu.memory for gpu in setup.machine.devices)
    stored = sum(size for size in sizes if size is not None)
    words = f"{stored / GIB:.2f} GiB of weights, {room / GIB:.2f} GiB on {setup.gpu}"
    return unknown(words) if stored > room else ok(words)


def memory_is(pair: JudgedPair, *, bad: str) -> CheckOutcome:
    """Fail when the answer is this one; no GPU named, or no figures: nothing to say."""
    fit = pair.setup.memory
    if fit is None or fit.answer is Fit.CANNOT_TELL or fit.fullest is None:
        return not_applicable("no memory figures")
    device = fit.fullest
    words = (
        f"{device.required / GIB:.2f} GiB ({device.low / GIB:.2f} to {device.high / GIB:.2f})"
        f" for {fit.at_once:,} x {fit.context:,} tokens, {device.available / GIB:.2f} GiB"
        f" to use on {device.gpu}"
    )
    if fit.changes:
        words += f"; fits with: {' or '.join(fit.changes[:2])}"
    return fail(words) if fit.answer == bad else ok(words)
