"""What a model is: a full language model, or a head that lives on a target's hidden states.

Judged by configuration and tensor names; `architectures` alone lies (EAGLE-1 heads say
LlamaForCausalLM). Of the tensors only names and shapes are read, and by range the content of the
small tables of ids (d2t, t2d) in safetensors files.
"""

from __future__ import annotations

import json
import re
import struct
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from draftcheck.errors import ReadError
from draftcheck.models.readers import config as configs
from draftcheck.models.readers.jsonfile import first_integer, integer, text
from draftcheck.models.sources.source import ModelSource
from draftcheck.values.facts import ConfigFacts, HeadFacts, ModelFacts, Tensor

FULL = "full"
_BY_TYPE = {
    "medusa": "medusa", "mlp_speculator": "mlp_speculator", "eagle": "eagle", "eagle3": "eagle3",
    "gemma4_assistant": "mtp", "gemma4_unified_assistant": "mtp",
    "muse_glimmer_assistant": "dflash",
}  # fmt: skip
_BY_ARCHITECTURE = {
    "peagle": "peagle", "eagle3": "eagle3", "eagle": "eagle", "dspark": "dspark",
    "dflash": "dflash", "medusa": "medusa", "mlpspeculator": "mlp_speculator",
    "museglimmerassistant": "dflash", "lilicorr": "dflash", "xpress": "dflash",
    "mtp": "mtp",
}  # fmt: skip
"""Parts of the names of classes, in the order in which they are looked for."""
_GENERATES = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
_NO_HEAD = (None, FULL, "encoder")
_AUX = (
    "eagle_aux_hidden_state_layer_ids", "aux_hidden_state_layer_ids", "target_layer_ids",
    "dspark_target_layer_ids",
)  # fmt: skip
_PARTS = ("eagle_config", "dflash_config", "dspark_config")
_MASKS = ("mask_token_id", "dspark_noise_token_id", "pard_token", "ptd_token_id")
_BLOCKS = ("block_size", "dspark_block_size")
_FLAGS = (
    "norm_before_fc",
    "norm_before_residual",
    "norm_output",
    "sample_from_anchor",
    "fc_norm",
    "use_aux_hidden_state",
    "eagle_fc_bias",
)
_STATES = ("input_hidden_dim", "emb_dim")
"""Widths of the target's states for an MLP speculator: in Arctic Inference's form, in IBM's."""
_MOST_LAYERS = 1024
_BACKBONES = {"gemma4_assistant": 1536, "gemma4_unified_assistant": 3840}
"""Defaults of transformers' configs, which leave out what equals them."""
MAX_TABLE = 1 << 21
"""Ids in a table; no vocabulary has more."""
WIDTHS = {"I64": "q", "I32": "i", "BOOL": "B", "U8": "B"}
D2T = ("d2t", "model.d2t")
T2D = ("t2d", "model.t2d")
FC = ("fc.weight", "model.fc.weight")
FC_BIAS = ("fc.bias", "model.fc.bias")
LM_HEAD = ("lm_head.weight", "model.lm_head.weight", "language_model.lm_head.weight")
LAYER = re.compile(r"(?:language_model\.)?model\.(?:language_model\.)?layers\.(\d{1,6})\.")
MTP = re.compile(r"(?:.+\.)?(?:mtp\.layers|mtp_layers|mtp_block)\.(\d{1,6})\..+")
# DeepSeek V4's; its DSpark stages have the same name, without these tensors.
PLAIN_MTP = re.compile(r"(?:.+\.)?mtp\.(\d{1,6})\.(?:e_proj|h_proj|enorm|hnorm)\..+")
NEXTN = re.compile(r"blk\.(\d{1,6})\.nextn\..+")
STAGE = "mtp.0.main_proj."
"""Begins the names of DeepSeek V4's DSpark stages."""
STAGE_LAYERS = "dspark_target_layer_ids"
"""The key of config.json that promises them."""
SIGNS = ("mtp", "nextn", "eh_proj", "enorm")
IdTable = tuple[str, bool | None, int | None]
"""Of the table from a head's own ids to the target's: its fault, whether it rises, the last id."""
MEDUSA = re.compile(r"(?:medusa_heads?\.|heads?\.|blocks\.)?(\d{1,4})\..+")


def role(
    config: ConfigFacts,
    raw: Mapping[str, Any],
    tensors: Mapping[str, Tensor] | None,
    pickled: int | None = None,
) -> str | None:
    """full, a kind of head, encoder (cannot generate), or None when the files do not say.

    pickled: how many bytes of weights there are, where all are pickles, which nobody opens.
    """
    if kind := text(raw.get("speculators_model_type")):
        return kind
    for model_type in (config.outer_type or "", config.model_type or ""):
        if model_type in _BY_TYPE:
            return _BY_TYPE[model_type]
        if model_type.endswith("_mtp"):
            return "mtp"
    for name in config.architectures or ():
        for sign, kind in _BY_ARCHITECTURE.items():
            if sign in name.lower().replace("_", ""):
                return "peagle" if kind == "eagle3" and _drafts_at_once(raw, tensors) else kind
    if isinstance(raw.get("dflash_config"), dict):  # DSpark heads keep their fields there too
        return "dflash"
    if by_tensors := _by_tensors(tensors):
        at_once = by_tensors == "eagle3" and _drafts_at_once(raw, tensors)
        return "peagle" if at_once else by_tensors
    if pickled is not None and _too_small(config, pickled):
        return "eagle3" if "draft_vocab_size" in raw else None
    # Some classes do not say in their names that they generate; MTP layers do.
    if config.mtp_layers or any(name.endswith(_GENERATES) for name in config.architectures or ()):
        return FULL
    return "encoder" if config.architectures else None


def _too_small(config: ConfigFacts, size: int) -> bool:
    """Not a whole model: EAGLE heads were published with class, and depth, of their target."""
    whole = (config.layers or 0) * (config.hidden or 0) * (config.feed_forward or 0) * 3 * 2
    return config.layers == 1 or (config.quantization is None and size < whole // 2)


def verifier(raw: Mapping[str, Any]) -> str | None:
    """The target that a speculators-format head names."""
    return text(_verifier(raw).get("name_or_path"))


def layer_config(config: ConfigFacts, raw: Mapping[str, Any], where: str) -> ConfigFacts:
    """The config of the head's layers, which the speculators format keeps in a part of its own."""
    part = raw.get("transformer_layer_config")
    if not isinstance(part, dict) or "speculators_model_type" not in raw:
        return config
    whole = {**part, "architectures": raw.get("architectures")}
    return configs.from_dict(whole, None, where)


def read(
    kind: str | None,
    config: ConfigFacts,
    raw: Mapping[str, Any],
    tensors: Mapping[str, Tensor] | None,
    source: ModelSource,
) -> HeadFacts | None:
    """Facts of a head, of the MTP layers that a whole model promises, or of a PARD draft."""
    # DeepSeek V4.1 has the keys of its DSpark stages in its text part, which engines lay flat.
    inner = configs.text_config(raw).items()
    raw = {**{name: value for name, value in inner if name.startswith("dspark_")}, **raw}
    promised = config.mtp_layers
    if promised is None:
        names = ("num_mtp_modules", "n_predict") if kind == "mtp" else ("num_mtp_modules",)
        promised = _first(configs.text_config(raw), *names)
    # Some families state no number (Qwen3-Next, MiMo-V2, LongCat-Flash): names of tensors tell.
    named = mtp_layers(tensors, None)
    if kind in _NO_HEAD and not (promised or named) and _first(raw, *_MASKS) is None:
        return None
    stated = _stated(config, raw)
    classes = _verifier(raw).get("architectures")
    table = id_table(source, tensors) if kind not in _NO_HEAD else None
    fault, rising, last = table or (None, None, None)
    medusa = None
    if kind == "medusa":
        # Configs of trainers count fewer than the weights hold, at times.
        stated_heads = _first(raw, "medusa_num_heads", "num_medusa_heads", "num_heads")
        medusa = medusa_heads(tensors) or stated_heads
    return HeadFacts(
        kind=kind,
        form="speculators" if "speculators_model_type" in raw else "checkpoint",
        form_version=text(raw.get("speculators_version")),
        layer_type=config.model_type if _part(raw, "transformer_layer_config") else None,
        declared=tuple(name for name, value in stated.items() if value is not None),
        draft_vocab_named="draft_vocab_size" in raw,
        mtp_promised=promised,
        mtp_present=mtp_layers(tensors, config.layers),
        medusa_heads=medusa,
        **medusa_tensors(kind, raw, tensors),
        mask_hidden=any("mask_hidden" in name for name in tensors)
        if kind == "peagle" and tensors is not None
        else None,
        d2t_fault=fault,
        d2t_sorted=rising,
        d2t_last=last,
        verifier_architectures=tuple(name for name in classes if isinstance(name, str))
        if isinstance(classes, list) and len(classes) <= 100
        else None,
        origin={"*": "config.json", "d2t_fault": "d2t in the weights"},
        **stated,
        **shapes(tensors),
    )


def from_gguf(
    kind: str | None,
    config: ConfigFacts,
    keys: Mapping[str, tuple[str, Any]],
    tensors: Mapping[str, Tensor],
) -> HeadFacts | None:
    """The same from a GGUF's keys; every key that is not there is known to be absent."""
    values: dict[str, Any] = {}
    for name, (form, value) in keys.items():
        small = hasattr(value, "__len__") and len(value) <= _MOST_LAYERS
        values[name] = value if not form.startswith("array[") else list(value) if small else None
    promised = integer(values.get(f"{config.model_type}.nextn_predict_layers"))
    if kind in _NO_HEAD and not promised:
        return None
    stated = _gguf_stated(config, values)
    return HeadFacts(
        kind=kind,
        form="gguf",
        declared=tuple(name for name, value in stated.items() if value is not None),
        aux_count=len(stated["aux_layers"] or ()),
        mtp_promised=promised,
        mtp_present=mtp_layers(tensors, None) or 0,
        origin={"*": f"{config.model_type}.* keys and the tensor table"},
        **stated,
        **shapes(tensors, "token_embd"),
    )


def _gguf_stated(config: ConfigFacts, values: Mapping[str, Any]) -> dict[str, Any]:
    def of(name: str) -> Any:
        return values.get(f"{config.model_type}.{name}")

    ids = of("target_layers")
    numbers = [integer(entry) for entry in ids] if isinstance(ids, list) else [None]
    flags = {name: of(name) for name in _FLAGS}
    return {
        "hidden": config.hidden,
        "target_hidden": integer(of("target_hidden_size") or of("embedding_length_out")),
        "layers": config.layers,
        "aux_layers": None if None in numbers else tuple(numbers),
        "vocab": config.vocab_size,
        "mask_token_id": integer(values.get("tokenizer.ggml.mask_token_id")),
        "block_size": integer(of("block_size")),
        **{name: flag if isinstance(flag, bool) else None for name, flag in flags.items()},
    }


def shapes(tensors: Mapping[str, Tensor] | None, embedding: str = "embed_tokens") -> dict[str, Any]:
    """What names and shapes of the tensors tell, in either spelling."""
    fc = _find(tensors, FC)
    sides = fc.shape if fc is not None and len(fc.shape) == 2 else (None, None)
    names = (*LM_HEAD, "output.weight")
    lm_head = _find(tensors, names)
    return {
        "fc_out": sides[0],
        "fc_in": sides[1],
        "fc_bias": None if tensors is None else _find(tensors, FC_BIAS) is not None,
        "d2t": _length(tensors, D2T),
        "t2d": _length(tensors, T2D),
        "lm_head": None if tensors is None else lm_head is not None,
        "lm_head_rows": lm_head.shape[0] if lm_head and len(lm_head.shape) == 2 else None,
        "embed_tokens": None if tensors is None else any(embedding in name for name in tensors),
    }


def _stated(config: ConfigFacts, raw: Mapping[str, Any]) -> dict[str, Any]:
    ids, place, key = _aux_layers(raw)
    target_hidden = _first(raw, "target_hidden_size", "backbone_hidden_size")
    if target_hidden is None:
        target_hidden = _BACKBONES.get(config.outer_type or "")
    return {
        "hidden": config.hidden if config.hidden is not None else _first(raw, *_STATES),
        "target_hidden": target_hidden,
        "layers": config.layers,
        "aux_layers": ids,
        "aux_place": place,
        "aux_key": key,
        "aux_count": _first(raw, "num_aux_hidden_states") or (None if ids is None else len(ids)),
        "aux_number": _first(raw, "num_aux_hidden_states"),
        "vocab": config.vocab_size,
        "draft_vocab": _first(raw, "draft_vocab_size"),
        "mask_token_id": _first(raw, *_MASKS),
        "mask_keys": _mask_keys(raw) or None,
        "block_size": _first(raw, *_BLOCKS),
        "block_key": next((name for name in _BLOCKS if _first(raw, name) is not None), None),
        "markov_rank": _first(raw, "dspark_markov_rank", "markov_rank"),
        "markov_head_type": _word(raw, "dspark_markov_head_type", "markov_head_type"),
        "markov_place": _place(raw, "dspark_markov_rank", "markov_rank"),
        **{name: _flag(raw, name) for name in _FLAGS},
        "norm_place": _place(raw, "norm_before_fc"),
        "fc_norm": _flag(raw, "fc_norm") or _flag(raw, "use_aux_norm"),  # its older name
        "eagle_fc_bias": _eagle_fc_bias(raw),
    }


def _eagle_fc_bias(raw: Mapping[str, Any]) -> bool | None:
    """Heads of type eagle may have it in the config of their model; the root goes first."""
    own = _flag(raw, "eagle_fc_bias")
    if own is None and raw.get("model_type") == "eagle":
        return _flag(_part(raw, "model"), "eagle_fc_bias")
    return own


def _place(raw: Mapping[str, Any], *names: str) -> str | None:
    """The part of the config that states a number there, or true: the root, if it does too."""
    stated = (
        place
        for name in names
        for place, part in _places(raw)
        if part.get(name) is True or integer(part.get(name))
    )
    return min(stated, key=lambda place: place != "root", default=None)


def _mask_keys(raw: Mapping[str, Any]) -> tuple[str, ...]:
    """Every way in which the config names the mask token; engines look for some of them."""
    found = (
        (place, name)
        for place, part in _places(raw)
        for name in _MASKS
        if integer(part.get(name)) is not None
    )
    return tuple(name if place == "root" else f"{place}.{name}" for place, name in found)


def _word(raw: Mapping[str, Any], *names: str) -> str | None:
    words = (text(part.get(name)) for name in names for _, part in _places(raw))
    return next((word for word in words if word is not None), None)


def _places(raw: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The parts of a config that heads keep their own keys in, and the root."""
    for name in _PARTS:
        if part := _part(raw, name):
            yield name, part
    yield "root", raw


def _aux_layers(raw: Mapping[str, Any]) -> tuple[tuple[int, ...] | None, str | None, str | None]:
    """The layers, the part of the config that lists them, and their name there."""
    for place, part in _places(raw):
        for name in _AUX:
            ids = part.get(name)
            if isinstance(ids, list) and 0 < len(ids) <= _MOST_LAYERS:
                numbers = tuple(number for number in map(integer, ids) if number is not None)
                if len(numbers) == len(ids):
                    return numbers, place, name
    return None, None, None


def _first(raw: Mapping[str, Any], *names: str) -> int | None:
    return first_integer((part for _, part in _places(raw)), *names)


def _flag(raw: Mapping[str, Any], name: str) -> bool | None:
    values = (part.get(name) for _, part in _places(raw))
    return next((value for value in values if isinstance(value, bool)), None)


def _part(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = raw.get(name)
    return part if isinstance(part, dict) else {}


def _verifier(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    return _part(_part(raw, "speculators_config"), "verifier")


def _drafts_at_once(raw: Mapping[str, Any], tensors: Mapping[str, Tensor] | None) -> bool:
    """Whether an EAGLE-3 head is a P-EAGLE head, in whose class nothing says so."""
    masked = any("mask_hidden" in name for name in tensors or ())
    return masked or _first(raw, "ptd_token_id", "pard_token") is not None


def _by_tensors(tensors: Mapping[str, Tensor] | None) -> str | None:
    if not tensors:
        return None
    if "markov_w1.weight" in tensors:
        return "dspark"
    if any(name in tensors for name in ("d2t", "t2d", "midlayer.hidden_norm.weight")):
        return "eagle3"
    if "fc.weight" in tensors and not any("embed_out" in name for name in tensors):
        rows, columns = (*tensors["fc.weight"].shape, 0, 0)[:2]
        return "eagle3" if columns == 3 * rows else "eagle"
    if any(name.startswith(("medusa_head.", "medusa_heads.")) for name in tensors):
        return "medusa"
    return None


def _find(tensors: Mapping[str, Tensor] | None, names: Sequence[str]) -> Tensor | None:
    return next((tensors[name] for name in names if name in tensors), None) if tensors else None


def _length(tensors: Mapping[str, Tensor] | None, names: Sequence[str]) -> int | None:
    """Entries of a table; 0 when the weights are listed and have none, None when not read."""
    if tensors is None:
        return None
    tensor = _find(tensors, names)
    if tensor is None:
        return 0
    return tensor.shape[0] if len(tensor.shape) == 1 else None


def mtp_layers(tensors: Mapping[str, Tensor] | None, layers: int | None) -> int | None:
    """Multi-token-prediction layers among the names; None where no known spelling tells."""
    if tensors is None:
        return None
    spellings = (MTP, PLAIN_MTP, NEXTN)
    found = {m[1] for name in tensors for way in spellings if (m := way.match(name))}
    if layers is not None:
        numbers = (int(match[1]) for name in tensors if (match := LAYER.match(name)))
        found |= {f"layer {number}" for number in numbers if number >= layers}
    elif not found:
        return None
    if not found and any(sign in name for name in tensors for sign in SIGNS):
        return None
    return len(found)


def unstated_mtp(facts: ModelFacts) -> bool:
    """Whether a GGUF file has MTP tensors in a layout that no key counts (Ollama's library has)."""
    if facts.gguf is None or facts.role != FULL or (facts.head and facts.head.mtp_promised):
        return False
    return any(name.startswith("mtp.") for name in facts.weights.tensors or ())


def stages_for(target: ModelFacts, draft: ModelFacts) -> bool:
    """Whether the draft is a whole model that holds DSpark stages for a target of its sizes."""
    ours, theirs = target.config, draft.config
    names = ("model_type", "hidden", "layers", "vocab_size")
    alike = all(getattr(ours, name) == getattr(theirs, name) for name in names)
    return alike and draft.head is not None and bool(draft.head.markov_rank)


def dspark_stages(names: Iterable[str]) -> bool:
    """Whether the stages of DSpark that DeepSeek V4 can hold are among the names."""
    return any(name.startswith(STAGE) for name in names)


def medusa_heads(tensors: Mapping[str, Tensor] | None) -> int | None:
    numbers = {match[1] for name in tensors or () if (match := MEDUSA.fullmatch(name))}
    return len(numbers) or None


def medusa_tensors(
    kind: str | None, raw: Mapping[str, Any], tensors: Mapping[str, Tensor] | None
) -> dict[str, Any]:
    """Whose names the tensors have, and whether biases among them go unannounced."""
    names = [name.removeprefix("medusa_heads.") for name in tensors or ()]
    if kind != "medusa" or not names:
        return {}
    own = any(re.fullmatch(r"(?:medusa_head\.)?\d{1,4}\.\d{1,4}\..+", name) for name in names)
    biases = any(name.endswith(".bias") for name in names)
    return {
        "medusa_names": "medusa" if own else "vllm",
        "medusa_bias_dropped": biases and raw.get("medusa_fc_bias") is not True,
    }


def id_table(source: ModelSource, tensors: Mapping[str, Tensor] | None) -> IdTable | None:
    """Read d2t, and t2d where there is one; None when they cannot be read."""
    offsets = _numbers(source, tensors, D2T)
    return None if offsets is None else judge_table(offsets, _numbers(source, tensors, T2D))


def judge_table(offsets: Sequence[int], kept: Sequence[int] | None) -> IdTable:
    """target id = own id + offset: distinct, not negative, and the ids that t2d marks."""
    ids = [i + offset for i, offset in enumerate(offsets)]
    last = max(ids, default=None)
    bad = next((i for i, number in enumerate(ids) if number < 0), None)
    if bad is not None:
        return f"draft id {bad} becomes the target id {ids[bad]}", None, None
    rising = all(a < b for a, b in pairwise(ids))
    if not rising:
        seen: dict[int, int] = {}
        for i, number in enumerate(ids):
            if seen.setdefault(number, i) != i:
                return f"draft ids {seen[number]} and {i} both become {number}", False, last
    fault = ""
    if kept is not None:
        marked = {i for i, flag in enumerate(kept) if flag}
        if extra := set(ids) - marked:
            fault = f"d2t leads to the target id {min(extra)}, which t2d does not mark"
        elif extra := marked - set(ids):
            fault = f"t2d marks the target id {min(extra)}, to which d2t does not lead"
    return fault, rising, last


def _numbers(
    source: ModelSource, tensors: Mapping[str, Tensor] | None, names: Sequence[str]
) -> Sequence[int] | None:
    """A small vector of whole numbers under one of these names; None for anything else."""
    name = next((name for name in names if tensors and name in tensors), None)
    if name is None or tensors is None:
        return None
    tensor = tensors[name]
    code = WIDTHS.get(tensor.dtype)
    if code is None or len(tensor.shape) != 1 or tensor.shape[0] > MAX_TABLE:
        return None
    try:
        # The header was found sound when the weights were read.
        (header,) = struct.unpack("<Q", source.read_range(tensor.file, 0, 8))
        entries = json.loads(source.read_range(tensor.file, 8, header))
        start = 8 + int(header) + int(entries[name]["data_offsets"][0])
        data = source.read_range(tensor.file, start, tensor.nbytes or 0)
    except (ReadError, ValueError, TypeError, KeyError, struct.error, RecursionError):
        return None
    numbers = array(code)
    if len(data) != tensor.shape[0] * numbers.itemsize:
        return None
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
