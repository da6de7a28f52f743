"""What a model is: a full language model, or a head that lives on a target's hidden states.

Judged by configuration and tensor names; `architectures` alone lies (EAGLE-1 heads say
LlamaForCausalLM).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from draftcheck.models.readers import config as configs
from draftcheck.models.readers import head_tensors
from draftcheck.models.readers.jsonfile import first_integer, integer, text
from draftcheck.models.sources.source import ModelSource
from draftcheck.values.facts import ConfigFacts, HeadFacts, Tensor

FULL = "full"
_BY_TYPE = {
    "medusa": "medusa",
    "mlp_speculator": "mlp_speculator",
    "eagle": "eagle",
    "eagle3": "eagle3",
    "gemma4_assistant": "mtp",
    "gemma4_unified_assistant": "mtp",
    "muse_glimmer_assistant": "dflash",
}
_BY_ARCHITECTURE = (
    ("eagle3", "eagle3"),
    ("eagle", "eagle"),
    ("dspark", "dspark"),
    ("dflash", "dflash"),
    ("medusa", "medusa"),
    ("mlpspeculator", "mlp_speculator"),
    ("museglimmerassistant", "dflash"),
    ("mtp", "mtp"),
)
_GENERATES = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
_NO_HEAD = (None, FULL, "encoder")
_AUX = (
    "eagle_aux_hidden_state_layer_ids",
    "aux_hidden_state_layer_ids",
    "target_layer_ids",
    "dspark_target_layer_ids",
)
_PARTS = ("eagle_config", "dflash_config", "dspark_config")
_MASKS = ("mask_token_id", "dspark_noise_token_id", "pard_token", "ptd_token_id")
_PARALLEL = ("pard_token", "ptd_token_id")
"""What a whole model that drafts all its tokens at once names."""
_MOST_LAYERS = 1024
_BACKBONES = {"gemma4_assistant": 1536, "gemma4_unified_assistant": 3840}
"""Defaults of transformers' configs, which leave out what equals them."""


def role(
    config: ConfigFacts, raw: Mapping[str, Any], tensors: Mapping[str, Tensor] | None
) -> str | None:
    """full, a kind of head, encoder (cannot generate), or None when the files do not say."""
    if kind := text(raw.get("speculators_model_type")):
        return kind
    for model_type in (config.outer_type or "", config.model_type or ""):
        if model_type in _BY_TYPE:
            return _BY_TYPE[model_type]
        if model_type.endswith("_mtp"):
            return "mtp"
    if isinstance(raw.get("dflash_config"), dict):
        return "dflash"
    for name in config.architectures or ():
        for sign, kind in _BY_ARCHITECTURE:
            if sign in name.lower().replace("_", ""):
                return kind
    if by_tensors := _by_tensors(tensors):
        return by_tensors
    return _plain(config)


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
    promised = _promised(kind, config, raw)
    if kind in _NO_HEAD and not promised and _first(raw, *_PARALLEL) is None:
        return None
    stated = _stated(config, raw)
    table = head_tensors.table(source, tensors) if kind not in _NO_HEAD else None
    medusa = None
    if kind == "medusa":
        medusa = _first(raw, "medusa_num_heads", "num_medusa_heads", "num_heads")
        medusa = medusa if medusa is not None else head_tensors.medusa_heads(tensors)
    return HeadFacts(
        kind=kind,
        form="speculators" if "speculators_model_type" in raw else "checkpoint",
        form_version=text(raw.get("speculators_version")),
        layer_type=config.model_type if _part(raw, "transformer_layer_config") else None,
        declared=tuple(name for name, value in stated.items() if value is not None),
        mtp_promised=promised,
        mtp_present=head_tensors.mtp_layers(tensors, config.layers),
        medusa_heads=medusa,
        d2t_fault=table.fault if table else None,
        d2t_sorted=table.sorted if table else None,
        d2t_last=table.last if table else None,
        verifier_architectures=_texts(_verifier(raw).get("architectures")),
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
    values = {name: _gguf_value(entry) for name, entry in keys.items()}
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
        mtp_present=head_tensors.mtp_layers(tensors, None) or 0,
        origin={"*": f"{config.model_type}.* keys and the tensor table"},
        **stated,
        **shapes(tensors, "token_embd"),
    )


def gguf_is_sidecar(tensors: Mapping[str, Tensor]) -> bool:
    """Only multi-token-prediction layers, without the model that they belong to."""
    nextn = any(head_tensors.NEXTN.match(name) for name in tensors)
    return nextn and not any(name.startswith("blk.0.") for name in tensors)


def _gguf_value(entry: tuple[str, Any]) -> Any:
    kind, value = entry
    if kind.startswith("array["):
        small = hasattr(value, "__len__") and len(value) <= _MOST_LAYERS
        return list(value) if small else None
    return value


def _gguf_stated(config: ConfigFacts, values: Mapping[str, Any]) -> dict[str, Any]:
    def of(name: str) -> Any:
        return values.get(f"{config.model_type}.{name}")

    ids = of("target_layers")
    numbers = [integer(entry) for entry in ids] if isinstance(ids, list) else [None]
    flags = {name: of(name) for name in ("norm_before_fc", "norm_before_residual")}
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
    fc = head_tensors.find(tensors, head_tensors.FC)
    sides = fc.shape if fc is not None and len(fc.shape) == 2 else (None, None)
    names = (*head_tensors.LM_HEAD, "output.weight")
    lm_head = head_tensors.find(tensors, names)
    return {
        "fc_out": sides[0],
        "fc_in": sides[1],
        "d2t": head_tensors.length(tensors, head_tensors.D2T),
        "t2d": head_tensors.length(tensors, head_tensors.T2D),
        "lm_head": None if tensors is None else lm_head is not None,
        "lm_head_rows": lm_head.shape[0] if lm_head and len(lm_head.shape) == 2 else None,
        "embed_tokens": None if tensors is None else any(embedding in name for name in tensors),
    }


def _stated(config: ConfigFacts, raw: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that the config itself states."""
    ids, place, key = _aux_layers(raw)
    return {
        "hidden": config.hidden if config.hidden is not None else _first(raw, "emb_dim"),
        "target_hidden": _target_hidden(config, raw),
        "layers": config.layers,
        "aux_layers": ids,
        "aux_place": place,
        "aux_key": key,
        "aux_count": _first(raw, "num_aux_hidden_states") or (None if ids is None else len(ids)),
        "vocab": config.vocab_size,
        "draft_vocab": _first(raw, "draft_vocab_size"),
        "mask_token_id": _first(raw, *_MASKS),
        "block_size": _first(raw, "block_size", "dspark_block_size"),
        "norm_before_fc": _flag(raw, "norm_before_fc"),
        "norm_before_residual": _flag(raw, "norm_before_residual"),
    }


def _target_hidden(config: ConfigFacts, raw: Mapping[str, Any]) -> int | None:
    stated = _first(raw, "target_hidden_size", "backbone_hidden_size")
    return stated if stated is not None else _BACKBONES.get(config.outer_type or "")


def _places(raw: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The parts of a config that heads keep their own keys in, and the root."""
    for name in _PARTS:
        if part := _part(raw, name):
            yield name, part
    yield "root", raw


def _aux_layers(
    raw: Mapping[str, Any],
) -> tuple[tuple[int, ...] | None, str | None, str | None]:
    """The layers, the part of the config that lists them, and their name there."""
    for place, part in _places(raw):
        for name in _AUX:
            ids = part.get(name)
            if isinstance(ids, list) and 0 < len(ids) <= _MOST_LAYERS:
                numbers = tuple(number for number in map(integer, ids) if number is not None)
                if len(numbers) == len(ids):
                    return numbers, place, name
    return None, None, None


def _promised(kind: str | None, config: ConfigFacts, raw: Mapping[str, Any]) -> int | None:
    if config.mtp_layers is not None:
        return config.mtp_layers
    names = ("num_mtp_modules", "n_predict") if kind == "mtp" else ("num_mtp_modules",)
    return _first(configs.text_config(raw), *names)


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


def _texts(value: Any) -> tuple[str, ...] | None:
    if not isinstance(value, list) or len(value) > 100:
        return None
    return tuple(entry for entry in value if isinstance(entry, str))


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


def _plain(config: ConfigFacts) -> str | None:
    if config.architectures is None:
        return None
    if any(name.endswith(_GENERATES) for name in config.architectures):
        return FULL
    return "encoder" if config.architectures else None
