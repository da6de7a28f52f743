"""Checks on the deployment: what the GPU can do and hold, and what the user asks of it.

Without a named GPU, most do not apply. Capabilities are written as engines do: 75 for 7.5.
Tables that change with the version: name -> "since:value since:value …", oldest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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


def gpu_made_by(pair: JudgedPair, *, maker: str) -> CheckOutcome:
    """Unknown on a GPU of another maker than the one that the engine was read for."""
    given = applies(pair.setup.gpu, "no GPU named")
    return unknown(given) if _made_elsewhere(pair.setup, maker) else ok(given)


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


def quantization_capability(
    pair: JudgedPair,
    *,
    floors: dict[str, str],
    exact: bool = False,
    dense: bool = False,
    experts: bool = False,
    above: int = 0,
    below: int = EVERY_GPU,
    experts_first: str = "",
) -> CheckOutcome:
    """Fail when a side's quantisation needs a newer GPU; the table holds "since:floor".

    "since:floor-most": newer ones than the second fail too.

    exact: newer ones than that fail too; dense: read for models without experts alone; experts:
    asked for models with them alone; above: another rule speaks of older GPUs; below: GPUs from
    this capability on fail too; experts_first: older versions have it on no GPU for models with
    experts.
    """
    for side, kind, _ in _entries(pair, floors):
        late = experts_first and not in_window(experts_first, pair.setup)
        if late and pair.model(side).config.experts:
            return fail(f"{side} is {kind}, with experts from {experts_first} on")
    given = applies(capability(pair.setup), NO_GPU)
    if given < above:
        return ok(f"{_gpu(pair.setup)}: another rule speaks of it")
    told = []
    for side, kind, floor in _entries(pair, floors):
        if experts and not pair.model(side).config.experts:
            continue
        least, _, most = floor.partition("-")
        needs = f"{_dotted(int(least))} to {_dotted(int(most))}" if most else _dotted(int(least))
        words = f"{side} is {kind}, which needs {needs}; {_gpu(pair.setup)}"
        if given >= below:
            return fail(
                f"{side} is {kind}, which needs less than {_dotted(below)}; {_gpu(pair.setup)}"
            )
        if not int(least) <= given <= int(least if exact else most or EVERY_GPU):
            if dense and pair.model(side).config.experts:
                return unknown(f"{words}; how experts are computed there was not read")
            return fail(words)
        told.append(ok(words))
    none = not_applicable("no quantisation with a floor")
    return unread_config(pair.sides) or next(iter(told), none)


def quantization_dtype(
    pair: JudgedPair,
    *,
    dtypes: dict[str, str],
    floor: int,
    refusing: dict[str, str],
    full: str = "",
) -> CheckOutcome:
    """Fail when a side's quantisation does not compute in the type that both are loaded in.

    The table holds "since:type,type"; floor, refusing: _loaded_dtype(); full: "since:type", what a
    target stored in float32 is loaded in on a GPU from floor on.
    """
    wanted, source = _loaded_dtype(pair, floor, refusing)
    if wanted is None and pair.target.config.dtype == "float32" and capability(pair.setup):
        wanted = versions.value_at(pair.setup.order, pair.setup.version, full)
        source = "the target is stored as float32 and loaded in"
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
    return _made_elsewhere(setup, CUDA)


def _made_elsewhere(setup: EngineSetup, maker: str) -> bool:
    devices = setup.machine.devices if setup.machine and setup.gpu is not None else ()
    return any(gpu.maker not in (None, maker) for gpu in devices)


def asked(setup: EngineSetup) -> str | None:
    """What --dtype says, in the spelling of config.json; None for nothing or auto."""
    name = dtype_name(setup.dtype or "auto")
    return None if name == "auto" else name


def _entries(pair: JudgedPair, table: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Side, kind and the table's entry: of the exact kinds (modelopt/nvfp4), else of the method."""
    order, version = pair.setup.order, pair.setup.version
    for side, facts in pair.sides:
        quantization = facts.config.quantization or {}
        method = str(quantization.get("quant_method") or "")
        # int4, int8-int8, mxfp4 …: weights and activations of groups; block …: how they are scaled;
        # float8-float8/channel: both.
        groups = quantization.get("config_groups")
        schemes = set()
        for group in groups.values() if isinstance(groups, dict) else ():
            if isinstance(group, dict):
                names = ("weights", "input_activations", "output_activations")
                parts = [_scheme(group.get(name)) for name in names]
                schemes.add(scheme := "-".join(filter(None, parts)))
                if isinstance(weights := group.get("weights"), dict):
                    scaled = str(weights.get("strategy") or "")
                    schemes |= {scaled, f"{scheme}/{scaled}"}
        named = (str(quantization.get(name) or "").lower() for name in ("quant_algo", "format"))
        kinds = [*sorted(schemes), *named]
        if structure := quantization.get("sparsity_structure"):  # "float8-float8/2:4 dense"
            sparse = f"{structure} {quantization.get('sparsity')}"
            kinds += [f"{name}/{sparse}" for name in sorted(schemes)] or [sparse]
        if quantization.get("weight_block_size"):
            kinds.append("block")
        if not marlin_runs(facts, pair.setup):  # a table has it for the methods that they speed up
            kinds.append("without-marlin")
        if facts.config.experts:
            kinds += [*(f"{name}/experts" for name in kinds if name), "experts"]
        exact = [f"{method}/{name}" for name in kinds if name]
        found = {k: versions.value_at(order, version, table.get(k, "")) for k in (*exact, method)}
        for kind in exact if any(found[kind] for kind in exact) else [method]:
            if (value := found[kind]) is not None:
                yield side, kind, value


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


def half_precision_held(pair: JudgedPair, *, floor: int, above: int = 0) -> CheckOutcome:
    """Fail when a model in bfloat16 meets a GPU below this capability, which has none.

    above: nothing runs on older GPUs than this.
    """
    applies(pair.setup.capability, "no GPU named, or one without a compute capability")
    if (wanted := asked(pair.setup)) is not None:
        kinds = {"--dtype": wanted}
    else:
        kinds = {side: facts.config.dtype or "" for side, facts in pair.both}
    found = [f"{side} is {kind}" for side, kind in kinds.items() if kind == "bfloat16"]
    if not found:
        unread = [side for side, kind in kinds.items() if not kind]
        return unknown(f"dtype of the {unread[0]} was not read") if unread else ok("no bfloat16")
    if (capability(pair.setup) or 0) < above:
        return ok(f"{_gpu(pair.setup)}: another rule says that nothing runs on it")
    seen = capability_at_least(pair, floor=floor)
    return CheckOutcome(seen.outcome, f"{found[0]}; {seen.saw}")


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
