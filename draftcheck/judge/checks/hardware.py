"""Checks on the deployment: what the GPU can do and hold, and what the user asks of it.

Without a named GPU, most do not apply. Capabilities are written as engines do: 75 for 7.5.
Tables that change with the version: name -> "since:value since:value …", oldest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from draftcheck import versions
from draftcheck.judge.checks.listed import (
    first_class,
    in_window,
    is_listed,
    marlin_runs,
    quant_method,
    ran_by,
    stored_quantised,
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
from draftcheck.values.dtypes import BYTES, dtype_name
from draftcheck.values.facts import INNER, ConfigFacts, ModelFacts
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
WIDEST_BLOCK = 128
"""How many weights in a row share a scale, at most, and what a kernel takes at once."""
CUDA = "nvidia"
"""The maker of GPUs with CUDA."""
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
    latent: int = 0,
) -> CheckOutcome:
    """Fail when the GPU is older than that; it does not apply to those older than above.

    below: newer ones fail too, from this capability on; backends: ran_by(); longer: drafts of more
    tokens than this alone; cuda_only: a GPU of another maker fails; float32: in these versions
    every GPU does with that --dtype; latent: the floor for targets that keep latent vectors (MLA).
    """
    ran_by(pair, backends)
    tokens = pair.setup.draft_tokens
    if tokens is not None and tokens <= longer:
        return not_applicable(f"drafts of {tokens}")
    if cuda_only and without_cuda(pair.setup):
        return fail(f"{pair.setup.gpu} has no CUDA")
    if float32 and asked(pair.setup) == "float32" and in_window(float32, pair.setup):
        return fail("--dtype float32")
    given = applies(capability(pair.setup), NO_GPU)
    if given < above:
        return not_applicable(_gpu(pair.setup))
    if latent and pair.target.config.sizes.get("kv_lora_rank"):
        floor = latent
    words = f"{_gpu(pair.setup)}, the limit is {_dotted(floor)}"
    if below is not None:
        words = f"{_gpu(pair.setup)}, needed: from {_dotted(floor)}, below {_dotted(below)}"
    return fail(words) if given < floor or (below and given >= below) else ok(words)


def capability_not_read(
    pair: JudgedPair, *, below: int, above: int = 0, float32: bool = False, blackwell: str = "",
    sparse: list[str] | None = None, sparse_below: int = 0, sparse_most: int = EVERY_GPU,
) -> CheckOutcome:  # fmt: skip
    """Unknown on such a GPU: what the engine does there was not found out.

    float32: nor what it does with that --dtype on any GPU; blackwell: versions in which GPUs of
    capability 10 and 12 count too; sparse: types of targets that need more, sparse_below, and
    were not read for newer ones than sparse_most.
    """
    if float32 and asked(pair.setup) == "float32":
        return unknown("--dtype float32")
    given = applies(capability(pair.setup), NO_GPU)
    words = _gpu(pair.setup)
    newest = bool(blackwell) and given >= 10 * BLACKWELL and in_window(blackwell, pair.setup)
    name = whole_type(pair.target.config)
    within = sparse_below <= given <= sparse_most
    if sparse and (name is None or name in sparse) and not within:
        return unknown(f"target model_type is {name or 'not read'}, {words}")
    return unknown(words) if newest or above <= given < below else ok(words)


def attention_not_read(
    pair: JudgedPair, *, below: int, types: list[str], heads: list[str], window: str,
    sparse: list[str], sparse_below: int, sparse_above: int,
) -> CheckOutcome:  # fmt: skip
    """Unknown on a GPU below this capability, except for plain targets; window: for those too.

    With --dtype float32 it is so on every GPU. sparse: types of targets that are for GPUs from
    sparse_below on and below sparse_above.
    """
    whole = asked(pair.setup) == "float32"
    if whole and (other := _not_plain(pair, types, heads)):
        return unknown(f"{other}, --dtype float32")
    given = applies(capability(pair.setup), NO_GPU)
    name = whole_type(pair.target.config)
    needs_more = name is None or name in sparse
    if needs_more and given >= sparse_above:
        return unknown(f"target model_type is {name or 'not read'}, {_gpu(pair.setup)}")
    if given >= (sparse_below if needs_more else below):
        return ok(_gpu(pair.setup))
    if in_window(window, pair.setup):
        return unknown(_gpu(pair.setup))
    other = _not_plain(pair, types, heads)
    return unknown(f"{other}, {_gpu(pair.setup)}") if other else ok(_gpu(pair.setup))


def gpu_maker(pair: JudgedPair, *, makers: list[str]) -> CheckOutcome:
    """Fail on a GPU of a maker for whose GPUs the engine has no build."""
    given = applies(pair.setup.gpu, "no GPU named")
    return fail(given) if _made_elsewhere(pair.setup, makers) else ok(given)


def gpu_maker_not_read(pair: JudgedPair, *, makers: list[str]) -> CheckOutcome:
    """Unknown on a GPU of another maker than those that the engine was read for."""
    given = applies(pair.setup.gpu, "no GPU named")
    return unknown(given) if _made_elsewhere(pair.setup, makers) else ok(given)


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
    are loaded in it; inner: versions (windows, with commas) that look for the type in the text part
    of a config, whose own was not read.
    """
    given = applies(capability(pair.setup), NO_GPU)
    wanted, source = asked(pair.setup), "--dtype"
    if wanted is None:
        if not automatic:
            return not_applicable("no --dtype given")
        config = pair.target.config
        plain = config.model_type is not None and config.outer_type in (None, config.model_type)
        windows = inner.split(", ") if inner else ()
        if given < floor and not plain and any(in_window(each, pair.setup) for each in windows):
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
    pair: JudgedPair,
    *,
    runs: dict[str, str],
    act_order: str | None = None,
    inner: str | None = None,
    experts_but: dict[str, str] | None = None,
    named_on_blackwell: dict[str, str] | None = None,
    by_class: dict[str, str] | None = None,
    newer: dict[str, str] | None = None,
    newer_ways: list[str] | None = None,
) -> CheckOutcome:
    """Unknown for a side that is quantised in another way, or on another GPU, than was read.

    runs: how (_ways) -> "since:floor" or "since:floor-most"; "…/experts" goes first for models with
    them. Without a named GPU the version alone is asked. act_order: the versions in which weights
    in activation order were read; not given: all. experts_but: types of models whose experts were
    not read in ways that begin with one of these words. named_on_blackwell: architectures whose
    method these versions name themselves on GPUs of capability 10: AWQ and GPTQ then do without
    Marlin, and experts in FP8 that is not by block get another kernel. by_class: ways that were
    read for these architectures alone. newer: capabilities for which kernels are built from these
    versions on, for ways that begin with newer_ways. inner: versions that do not look for a
    quantisation in the text part of config.json.
    """
    given = capability(pair.setup)
    name = first_class(pair.target.config)
    named = (
        is_listed(name, named_on_blackwell or {}, pair.setup) and (given or 0) // 10 == BLACKWELL
    )
    for side, facts in pair.sides:
        types = {facts.config.model_type, facts.config.outer_type} - {None} or (experts_but or {})
        but = tuple(" ".join((experts_but or {}).get(name or "", "") for name in types).split())
        ordered = _in_activation_order(facts.config.quantization or {})
        experts = _has_experts(facts.config)
        if stored := stored_quantised(facts):
            return unknown(f"{side} is quantised ({stored}), and not by config.json: {UNREAD}")
        if inner and (facts.config.quantization or {}).get(INNER) and in_window(inner, pair.setup):
            return unknown(f"{side} is quantised by the text part of config.json: {UNREAD}")
        for way in _ways(facts, pair.setup):
            with_experts = f"{way}/experts"
            meant = experts and with_experts in runs
            entry = runs.get(with_experts if meant else way, "")
            floor = versions.value_at(pair.setup.order, pair.setup.version, entry)
            least, _, most = (floor or "").partition("-")
            words = f"{side} is quantised as {way[:80]}"
            if experts:
                words += ", with experts"
                if way.startswith(but):
                    return unknown(f"{words} of {facts.config.model_type}: {UNREAD}")
            own, read = first_class(facts.config), (by_class or {}).get(way)
            if read is not None and own not in read.split():
                return unknown(f"{words}, class {own}: {UNREAD}")
            apart = way.endswith("/marlin") or (way == "fp8" and experts)
            if named and apart and facts is pair.target:
                return unknown(f"{words} ({_gpu(pair.setup)}): {UNREAD}")
            since = (newer or {}).get(str(given), "")
            unbuilt = bool(since) and not in_window(since, pair.setup)
            if unbuilt and way.startswith(tuple(newer_ways or ())):
                return unknown(f"{words} ({_gpu(pair.setup)}): {UNREAD}")
            if asked(pair.setup) == "float32":
                return unknown(f"{words}, --dtype float32: {UNREAD}")
            if width := _cut_inside_a_block(facts, way, _parts(pair, facts)):
                return unknown(f"{words}, {width} in {_parts(pair, facts)} parts: {UNREAD}")
            if ordered and act_order is not None and not in_window(act_order, pair.setup):
                return unknown(f"{words}, in activation order: {UNREAD}")
            if floor is None or not int(least) <= (given or int(least)) <= int(most or EVERY_GPU):
                words += f" ({_gpu(pair.setup)})" if given else ""
                return unknown(f"{words}: {UNREAD}")
    return unread_config(pair.sides) or ok("not quantised, or in a way that was read")


def _has_experts(config: ConfigFacts) -> bool:
    """Whether it has experts, by the name of ERNIE and Step for their number too."""
    return bool(config.experts or config.sizes.get("moe_num_experts"))


def _parts(pair: JudgedPair, facts: ModelFacts) -> int:
    """Over how many ranks that model is split."""
    ranks = pair.setup.tensor_parallel or 1
    return ranks if facts is pair.target else pair.setup.draft_tensor_parallel or ranks


def _cut_inside_a_block(facts: ModelFacts, way: str, parts: int) -> int | None:
    """A width of weights by blocks or groups of which a rank's share is no whole number of them."""
    config = facts.config
    if parts == 1 or not ("/block" in way or "/marlin" in way or "pack-quantized" in way):
        return None
    widths = [config.feed_forward]
    if _has_experts(config) and isinstance(size := config.sizes.get("moe_intermediate_size"), int):
        widths.append(size)
    if config.heads and config.head_dim and not config.sizes.get("kv_lora_rank"):
        widths.append(config.heads * config.head_dim)
    return next((width for width in widths if width and width % (parts * WIDEST_BLOCK)), None)


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


def loaded_alike(
    pair: JudgedPair, *, kinds: list[str], floor: int, bfloat16: str, forced: dict[str, str]
) -> CheckOutcome:
    """Fail when a head of these kinds and its target are loaded in different types of numbers.

    Without --dtype each side has the type of its own config; float32 and none become float16,
    as bfloat16 where model_type starts with that word. floor: GPUs below it have float16 alone.
    forced: unknown for targets of these classes, which may set the type of both.
    """
    head = pair.drafter.head
    if pair.draft is None or head is None or head.kind not in kinds:
        return not_applicable("no such head")
    if (wanted := asked(pair.setup)) is not None:
        return ok(f"--dtype {wanted} is for both")
    if (given := capability(pair.setup)) is not None and given < floor:
        return ok(f"float16 for both on {_gpu(pair.setup)}")
    if unread := unread_config(pair.sides, "model_type"):
        return unread
    loaded, stated = {}, True
    for side, facts in pair.sides:
        name = dtype_name(facts.config.dtype or "")
        whole = "bfloat16" if (whole_type(facts.config) or "").startswith(bfloat16) else "float16"
        loaded[side] = name if name in ("float16", "bfloat16") else whole
        several = facts.config.vocab_size_outside is not None
        stated = stated and name in BYTES and not several
    words = f"target loaded in {loaded['target']}, head in {loaded['draft']}"
    if loaded["target"] == loaded["draft"]:
        return ok(words)
    own = first_class(pair.target.config)
    sure = stated and own is not None and not is_listed(own, forced, pair.setup)
    return fail(words) if sure else unknown(words)


def kv_dtype_not_read(
    pair: JudgedPair,
    *,
    kinds: dict[str, str],
    dtype: str,
    gpus: list[str],
    types: list[str],
    heads: list[str],
    methods: list[str],
    fp8_alone: dict[str, str],
    fp8_unnamed: dict[str, str],
) -> CheckOutcome:
    """Unknown when a type is named for the KV cache, except where it is known to run.

    kinds: type of cache -> "since"; dtype: what the target is loaded in; gpus: capabilities, asked
    where a GPU is named; types: of plain targets; heads: sizes; fp8_alone: type -> "since", targets
    that have a cache in fp8 and no other, which is laid out for them: a draft of another type may
    not run with it; fp8_unnamed: the same, where nothing is asked for.
    """
    setup, config = pair.setup, pair.target.config
    name = whole_type(config)
    kind = setup.kv_dtype or "auto"
    if kind == "auto" and not is_listed(name, fp8_unnamed, setup):
        applies(setup.kv_dtype, "no --kv-dtype given")
        return ok("KV cache auto")
    words = f"KV cache {kind[:40]} for {name}"
    if kind == "auto" or (kind.startswith("fp8") and is_listed(name, fp8_alone, setup)):
        draft = name if pair.draft is None else whole_type(pair.draft.config)
        return ok(words) if draft == name else unknown(f"{words}, with a draft of type {draft}")
    if not is_listed(kind, kinds, setup) or setup.method not in methods:
        return unknown(f"{words} with {setup.method} in this version")
    if (loaded := asked(setup) or config.dtype) != dtype:
        return unknown(f"{words}, loaded in {loaded}")
    if other := _not_plain(pair, types, heads):
        return unknown(f"KV cache {kind}; {other}")
    given = capability(setup)
    named = given is not None or without_cuda(setup)
    words += f" on {setup.gpu if given is None and named else _gpu(setup)}"
    return unknown(words) if named and str(given) not in gpus else ok(words)


def kv_dtype_by_gpu(
    pair: JudgedPair,
    *,
    kinds: dict[str, str],
    gpus: dict[str, str],
    floor: int,
    dtype: str,
    types: list[str],
    heads: list[str],
    methods: list[str],
) -> CheckOutcome:
    """Unknown when a type is named for the KV cache, except where it is known to run.

    kinds: type of cache -> "since"; gpus: type -> "80 90", for targets that are not quantised,
    others run from floor on and where no GPU is named; dtype: what both models are loaded in;
    types, heads: of both, _not_plain().
    """
    setup = pair.setup
    kind = applies(setup.kv_dtype, "no --kv-dtype given")
    if kind == "auto":
        return ok("KV cache auto")
    words = f"KV cache {kind[:40]}"
    if not is_listed(kind, kinds, setup) or setup.method not in methods:
        return unknown(f"{words} with {setup.method} in this version")
    if kind in gpus and pair.target.config.quantization:
        return unknown(f"{words}, and the target is quantised")
    for side, facts in pair.sides:
        if (loaded := asked(setup) or facts.config.dtype) != dtype:
            return unknown(f"{words}, {side} loaded in {loaded}")
        if (name := whole_type(facts.config)) not in types:
            return unknown(f"{words}, {side} model_type is {name}")
    if other := _not_plain(pair, types, heads):
        return unknown(f"{words}; {other}")
    given = capability(setup)
    if given is None:
        fine = kind not in gpus and not without_cuda(setup)
    else:
        fine = str(given) in gpus[kind].split() if kind in gpus else given >= floor
    words += f" on {setup.gpu if without_cuda(setup) else _gpu(setup)}"
    return ok(words) if fine else unknown(words)


def float32_not_read(
    pair: JudgedPair, *, types: list[str], heads: list[str], plain_alone: str
) -> CheckOutcome:
    """Unknown with --dtype float32 for targets that keep latent vectors (MLA).

    plain_alone: in these versions for all others but plain ones too (types, heads: _not_plain()).
    """
    if asked(pair.setup) != "float32":
        return not_applicable("no --dtype float32")
    name = needed(whole_type(pair.target.config), "the target's model_type was not read")
    if pair.target.config.sizes.get("kv_lora_rank"):
        return unknown(f"--dtype float32, {name} keeps latent vectors")
    if in_window(plain_alone, pair.setup) and (other := _not_plain(pair, types, heads)):
        return unknown(f"--dtype float32, {other}")
    return ok(f"--dtype float32, target model_type is {name}")


def head_size_not_read(
    pair: JudgedPair, *, sizes: list[str], windowed: bool = False
) -> CheckOutcome:
    """Unknown for a target whose attention heads have another size than these.

    windowed: only of a target with a sliding window.
    """
    config = pair.target.config
    if config.sizes.get("kv_lora_rank"):
        return not_applicable("the target keeps latent vectors")
    words = f"heads of the target have {applies(config.head_dim, 'size of heads not read')} values"
    fine = windowed and not config.sliding_window
    return ok(words) if fine or str(config.head_dim) in sizes else unknown(words)


def _not_plain(pair: JudgedPair, types: list[str], heads: list[str]) -> str | None:
    """What the attention of a side has that not every GPU and cache has kernels for."""
    if (name := whole_type(pair.target.config)) not in types:
        return f"target model_type is {name}"
    for side, facts in pair.sides:
        config = facts.config
        if config.recurrent or config.sliding_window or config.sizes.get("kv_lora_rank"):
            return f"attention of the {side} is not plain"
        if config.head_dim and str(config.head_dim) not in heads:
            return f"heads of the {side} have {config.head_dim} values"
    return None


def kv_dtype_other_than(
    pair: JudgedPair, *, families: list[str], latent: dict[str, str] | None = None
) -> CheckOutcome:
    """Fail when an FP8 cache is asked for on a GPU of other capabilities than these.

    latent: targets of these types that keep latent vectors (MLA) are left out in these versions.
    """
    applies(capability(pair.setup), NO_GPU)
    kind = applies(pair.setup.kv_dtype, "no --kv-dtype given")
    words = f"KV cache {kind[:40]} on {_gpu(pair.setup)}"
    if not fp8_cache_on_another(pair.setup, families):
        return ok(words)
    if latent:
        config = pair.target.config
        name = needed(config.model_type, "the target's model_type was not read")
        if is_listed(name, latent, pair.setup) and config.sizes.get("kv_lora_rank"):
            return ok(f"{words}; the target keeps latent vectors")
    return fail(words)


def kv_dtype_by_name(
    pair: JudgedPair, *, types: list[str], starts: str, named_by: list[str]
) -> CheckOutcome:
    """Fail when no KV cache of this kind is asked for by name, and the target is of these types.

    named_by: quant methods whose checkpoints may name it themselves. Read for CUDA.
    """
    name = needed(whole_type(pair.target.config), "the target's model_type was not read")
    if name not in types or without_cuda(pair.setup):
        return not_applicable(f"target model_type is {name}, or no CUDA")
    kind = pair.setup.kv_dtype or "auto"
    words = f"KV cache {kind[:40]} for {name}"
    if kind == "auto" and (method := quant_method(pair.target)) in named_by:
        return unknown(f"{words}, quantised as {method[:80]}")
    return ok(words) if kind.startswith(starts) else fail(words)


def draft_cache_not_read(pair: JudgedPair, *, floor: int, below: int) -> CheckOutcome:
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


def without_cuda(setup: EngineSetup) -> bool:
    """Whether a GPU without CUDA was named; of a mere amount of memory nothing else is known."""
    return _made_elsewhere(setup, [CUDA])


def _made_elsewhere(setup: EngineSetup, makers: list[str]) -> bool:
    devices = setup.machine.devices if setup.machine and setup.gpu is not None else ()
    return any(gpu.maker not in (None, *makers) for gpu in devices)


def asked(setup: EngineSetup) -> str | None:
    """What --dtype says, in the spelling of config.json; None for nothing or auto."""
    name = dtype_name(setup.dtype or "auto")
    return None if name == "auto" else name


def _entries(pair: JudgedPair, table: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Side, kind and the table's entry: of the exact kind (modelopt/nvfp4), else of the method."""
    order, version = pair.setup.order, pair.setup.version
    for side, facts in pair.sides:
        method = quant_method(facts)
        quant = facts.config.quantization or {}
        algorithm = str(quant.get("quant_algo") or quant.get("moe_quant_algo") or "").lower()
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
    """Fail when this version has no such word for a cache type; table: word -> its versions."""
    kind = applies(pair.setup.kv_dtype, "no cache type asked for")
    words = f"cache type {kind[:40]!r}"
    if kind in values and not is_listed(kind, values, pair.setup):
        since, _, until = values[kind].partition(" ")
        ended = f"to before {until}" if until else "on"
        return fail(f"{words}, which is there from {since} {ended}")
    return ok(words) if kind in values else fail(words)


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
