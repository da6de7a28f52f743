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
from draftcheck.values.memory import Fit
from draftcheck.values.verdicts import EngineSetup, JudgedPair
from draftcheck.values.words import CheckOutcome

GIB = 1 << 30
NO_GPU = "no GPU with a known compute capability was named"
EVERY_GPU = 1000
"""The floor of rules that hold on every GPU with CUDA."""


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
    every GPU does with that --dtype.
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
    words = f"{_gpu(pair.setup)}, the limit is {_dotted(floor)}"
    if below is not None:
        words = f"{_gpu(pair.setup)}, needed: from {_dotted(floor)}, below {_dotted(below)}"
    return fail(words) if given < floor or (below and given >= below) else ok(words)


def capability_not_read(
    pair: JudgedPair, *, below: int, above: int = 0, float32: bool = False
) -> CheckOutcome:
    """Unknown on such a GPU: what the engine does there was not found out.

    float32: nor what it does with that --dtype on any GPU.
    """
    if float32 and asked(pair.setup) == "float32":
        return unknown("--dtype float32")
    given = applies(capability(pair.setup), NO_GPU)
    words = _gpu(pair.setup)
    return unknown(words) if above <= given < below else ok(words)


def attention_not_read(
    pair: JudgedPair, *, below: int, types: list[str], heads: list[str], window: str
) -> CheckOutcome:
    """Unknown on a GPU below this capability, except for plain targets; window: for those too."""
    given = applies(capability(pair.setup), NO_GPU)
    if given >= below:
        return ok(_gpu(pair.setup))
    if in_window(window, pair.setup):
        return unknown(_gpu(pair.setup))
    other = _not_plain(pair, types, heads)
    return unknown(f"{other}, {_gpu(pair.setup)}") if other else ok(_gpu(pair.setup))


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
) -> CheckOutcome:
    """Unknown when a type is named for the KV cache, except where it is known to run.

    kinds: type of cache -> "since"; dtype: what the target is loaded in; gpus: capabilities, asked
    where a GPU is named; types: of plain targets; heads: sizes; fp8_alone: type -> "since", targets
    that have a cache in fp8 and no other.
    """
    setup, config = pair.setup, pair.target.config
    kind = applies(setup.kv_dtype, "no --kv-dtype given")
    if kind == "auto":
        return ok("KV cache auto")
    name = whole_type(config)
    words = f"KV cache {kind[:40]} for {name}"
    if kind.startswith("fp8") and is_listed(name, fp8_alone, setup):
        return ok(words)
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


def kv_dtype_other_than(pair: JudgedPair, *, families: list[str], latent: str = "") -> CheckOutcome:
    """Fail when an FP8 cache is asked for on a GPU of other capabilities than these.

    latent: in these versions targets that keep latent vectors (MLA) are left out.
    """
    applies(capability(pair.setup), NO_GPU)
    kind = applies(pair.setup.kv_dtype, "no --kv-dtype given")
    words = f"KV cache {kind[:40]} on {_gpu(pair.setup)}"
    if not fp8_cache_on_another(pair.setup, families):
        return ok(words)
    if latent and in_window(latent, pair.setup):
        needed(pair.target.config.model_type, "the target's model_type was not read")
        if pair.target.config.sizes.get("kv_lora_rank"):
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


def capability(setup: EngineSetup) -> int | None:
    """7.5 -> 75; None where no GPU, or only an amount of memory, was named."""
    return None if setup.capability is None else setup.capability[0] * 10 + setup.capability[1]


def fp8_cache_on_another(setup: EngineSetup, families: list[str] | None) -> bool:
    """Whether an FP8 cache is asked for on a GPU of other capabilities than these; None: never."""
    asked_for = (setup.kv_dtype or "").startswith("fp8")
    return families is not None and asked_for and str(capability(setup)) not in families


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
