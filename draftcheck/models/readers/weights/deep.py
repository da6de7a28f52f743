"""The tensors of a checkpoint against the class itself: transformers on the meta device.

Only when asked for: it imports torch and transformers, allocates no weights, reads none, and
runs no code from the model's folder.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from draftcheck.errors import UsageError
from draftcheck.models.readers.config import text_config
from draftcheck.models.readers.heads import SIGNS
from draftcheck.models.readers.jsonfile import integer
from draftcheck.models.readers.weights import families, quantised, soundness
from draftcheck.models.readers.weights.quantised import PLAIN
from draftcheck.models.readers.weights.soundness import packed_modules
from draftcheck.values.facts import Fault, Tensor, WeightFacts

DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64",
    "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
}  # fmt: skip
NOT_THE_CLASS = ("auto_map", "quantization_config", "torch_dtype", "dtype", "transformers_version")
LAYER = re.compile(r"(.*\.)?(layers|h|blocks)\.(\d{1,6})\.")
LARGEST = 2**31
MOST_LAYERS = 1024
MOST_FAULTS = 20
Shape = tuple[int, ...]


def look(weights: WeightFacts, raw: Mapping[str, Any], files: Sequence[str]) -> WeightFacts:
    """The same facts with the faults that the class itself shows; without a class, the table's."""
    plain = soundness.look(weights, raw, files)
    try:
        torch = importlib.import_module("torch")
        transformers = importlib.import_module("transformers")
    except ImportError as error:
        raise UsageError(
            f"--deep needs torch and transformers ({error})",
            hint="pip install 'draftcheck-llm[deep]'",
        ) from None
    if not weights.tensors or weights.nbytes is None or weights.origin.get("format") == "mlx":
        return plain
    if any(families.elsewhere().match(name[:300]) for name in weights.tensors):
        return plain  # in the names of another program: transformers does not load it as it is
    made = _class(transformers, raw)
    if made is None:
        return plain
    cls, config = made
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            found = _compare(torch, cls, config, weights.tensors, raw)
    except Exception as error:  # a class may need libraries that are not here, or another config
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        return replace(plain, class_known=f"{plain.class_known or 'no'} (transformers: {reason})")
    finally:
        transformers.logging.set_verbosity(level)
    told = (*(weights.faults or ()), *quantised.compare(raw, weights.tensors, files))
    faults = soundness.promises([*told, *found], raw, found)
    return replace(weights, faults=faults, class_known=f"transformers {transformers.__version__}")


def _class(transformers: Any, raw: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """transformers' own class for the first architecture, and its config; nothing from the repo."""
    names = raw.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    kind = raw.get("model_type")
    if not isinstance(name, str) or not isinstance(kind, str) or not name.isidentifier():
        return None
    if name.startswith("_") or kind not in transformers.CONFIG_MAPPING:
        return None
    cls: Any = getattr(transformers, name, None)
    base = transformers.PreTrainedModel
    if not (isinstance(cls, type) and issubclass(cls, base)):
        return None
    if not all(_sane(part) for part in (raw, text_config(raw))):
        return None
    values = {key: value for key, value in raw.items() if key not in NOT_THE_CLASS}
    try:
        config = transformers.CONFIG_MAPPING[kind].from_dict(values)
    except Exception:  # its own validation: any kind of error
        return None
    wanted: Any = getattr(cls, "config_class", None)
    return (cls, config) if wanted and isinstance(config, wanted) else None


def _sane(part: Mapping[str, Any]) -> bool:
    """Modules are made one by one, even without memory for their weights."""
    for key, value in part.items():
        if isinstance(value, int) and abs(value) >= LARGEST:
            return False
        counted = "layers" in key or key in ("n_layer", "num_experts", "num_local_experts")
        if (counted or key == "n_routed_experts") and (integer(value) or 0) > MOST_LAYERS:
            return False
    return True


def _compare(
    torch: Any, cls: Any, config: Any, tensors: Mapping[str, Tensor], raw: Mapping[str, Any]
) -> list[Fault]:
    who = cls.__name__
    packed = any(name.endswith(quantised.LEAVES) for name in tensors)
    if quantised.settings(raw) is None and not packed:
        with contextlib.suppress(Exception):  # a part of a joined parameter is missing, or more
            if (found := _load(torch, cls, config, tensors)) is not None:
                return found
    asked = parameters(torch, cls, config)
    modules = packed_modules(tensors)
    prefix = f"{getattr(cls, 'base_model_prefix', '')}."  # before the names of the body, or not
    bare = {name.removeprefix(prefix): shape for name, shape in asked.items()}
    best = min((asked, bare), key=lambda names: len(names.keys() - tensors.keys()))
    missing = sorted(
        name
        for name in best.keys() - tensors.keys()
        if not (name.endswith(".weight") and name.removesuffix(".weight") in modules)
        and f"{name}_blocks" not in tensors  # MXFP4
    )
    misshapen = [
        (name, tensors[name].shape, best[name])
        for name in best.keys() & tensors.keys()
        if tensors[name].shape != best[name] and tensors[name].dtype in PLAIN
    ]
    return _faults(who, missing, sorted(misshapen), [], tensors)


def _load(torch: Any, cls: Any, config: Any, tensors: Mapping[str, Tensor]) -> list[Fault] | None:
    """transformers' own loading, with tensors that have shapes and no content.

    None where it only says that a parameter joined from several tensors does not fit.
    """
    state = {
        name: torch.empty(
            t.shape, dtype=getattr(torch, DTYPES.get(t.dtype, "uint8")), device="meta"
        )
        for name, t in tensors.items()
    }
    _, told = cls.from_pretrained(
        None, config=config, state_dict=state, device_map={"": "meta"},
        output_loading_info=True, ignore_mismatched_sizes=True,
    )  # fmt: skip
    misshapen = [(n, tuple(a), tuple(b)) for n, a, b in sorted(told["mismatched_keys"])]
    if any(name not in tensors for name, *_ in misshapen):
        return None
    layers = integer(text_config(config.to_dict()).get("num_hidden_layers"))
    left = sorted(name for name in told["unexpected_keys"] if _matters(name, layers))
    return _faults(cls.__name__, sorted(told["missing_keys"]), misshapen, left, tensors)


def parameters(torch: Any, cls: Any, config: Any) -> dict[str, tuple[int, ...]]:
    """Names and shapes that save_pretrained would write for this class and config."""
    with torch.device("meta"):
        model = cls(config)
    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    state = {name: value for name, value in model.state_dict().items() if name not in tied}
    loading = importlib.import_module("transformers.core_model_loading")
    written = loading.revert_weight_conversion(model, state)
    return {name: tuple(value.shape) for name, value in written.items()}


def _faults(
    who: str,
    missing: Sequence[str],
    misshapen: Sequence[tuple[str, Shape, Shape]],
    left: Sequence[str],
    tensors: Mapping[str, Tensor],
) -> list[Fault]:
    faults = []
    for name in missing[:MOST_FAULTS]:
        head = name.startswith(("lm_head", "embed_out"))
        says = f"{who} needs tensor {name[:120]!r}, which is not stored"
        faults.append(Fault("missing-head" if head else "missing-parameter", "", says, name))
    for name, stored, wanted in misshapen[:MOST_FAULTS]:
        says = f"{name[:120]!r} is {list(stored)}, {who} with this config needs {list(wanted)}"
        file = tensors[name].file if name in tensors else ""
        faults.append(Fault("shape", file, says, name))
    if left:
        says = f"tensor {left[0][:120]!r} is stored, {who} does not have it{soundness.more(left)}"
        faults.append(Fault("left-over", "", says, left[0]))
    return faults


def _matters(name: str, layers: int | None) -> bool:
    """Left-over tensors of layers, less those that lie beside the parameters everywhere."""
    match = LAYER.match(name[:300])
    if match is None or families.beside().search(name[-300:]):
        return False
    beyond = layers is not None and int(match[3]) >= layers
    return not beyond and not any(sign in name for sign in SIGNS)
