"""config.json, generation_config.json and hf_quant_config.json -> ConfigFacts."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from draftcheck.errors import ReadError
from draftcheck.models.readers.jsonfile import first_integer, integer, read_object, text
from draftcheck.models.readers.tokenizer.vocabulary import MAX_ID
from draftcheck.models.sources.source import ModelSource
from draftcheck.values.facts import (
    INNER,
    MLX_ALONE,
    NO_TOKEN,
    OLDER_KEY,
    OWN_FILE,
    QUANT_FILE,
    ConfigFacts,
)

# Multimodal configs keep the language model in one of these.
TEXT_CONFIGS = ("text_config", "llm_config", "language_config", "thinker_config")
OTHER_PARTS = (
    "vision_config", "audio_config", "vision_tower", "speech_config", "vit_config",
    "embd_layer",  # Phi-3 and Phi-4 with images
    "visual",  # Qwen-VL
    "vq_config",  # Chameleon
    "visual_tokenizer_config",  # Ovis
    "projector_config",  # Granite Speech
    "audio_encoder_config",  # MiDashengLM
    "acoustic_tokenizer_encoder_config",  # VibeVoice-ASR
)  # fmt: skip
SEEING = {"molmo", "minicpmv", "fuyu", "ultravox"}
"""Types with images or sound; some configs have no such part (MiniCPM-V 2, Ultravox 0.4)."""
CONTEXT_KEYS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length",
    "n_ctx",
)  # fmt: skip
POSITIONS = {
    "learned": ("gpt2", "gpt_neo", "opt", "gpt_bigcode", "biogpt", "openai-gpt"),
    "alibi": ("bloom", "mpt"),
    "sinusoidal": ("xglm",),
}
RECURRENT = {
    "mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv5", "rwkv6", "rwkv7", "recurrent_gemma",
    "jamba", "bamba", "zamba", "zamba2", "granitemoehybrid", "falcon_h1", "nemotron_h",
    "nemotron_h_puzzle", "qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe",
    "qwen3_5_moe_text", "lfm2", "lfm2_moe", "kimi_linear", "minimax", "minimax_text_01",
    "minimax_m1", "xlstm", "plamo2", "bailing_hybrid", "kimi_k3", "jet_nemotron", "minicpm_sala",
    "phi4flash", "zaya",
}  # fmt: skip
ATTENTION_ALONE = {"granitemoehybrid", "minimax"}
"""Of these, some are published with attention layers alone, and list them (Granite 4.0 Micro, and
MiniMax M2, whose first files have the type of the hybrid models before it)."""
RECURRENT_LAYERS = {"linear_attention", "mamba", "mamba2", "conv", "recurrent", "rwkv"}
# What decides the memory of a token or a sequence, kept as written (see memory/).
SIZES = (
    "num_hidden_layers", "n_layer", "num_layers", "n_layers", "num_attention_heads", "n_head",
    "num_heads", "num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num",
    "num_attention_groups", "multi_query", "new_decoder_architecture", "head_dim", "v_head_dim",
    "hidden_size_per_head", "hidden_size", "n_embd", "d_model", "dim", "intermediate_size",
    "n_inner", "ffn_dim", "moe_intermediate_size", "num_experts_per_tok", "vocab_size",
    "n_shared_experts", "moe_num_experts", "first_k_dense_replace", "q_lora_rank",
    "sliding_window", "sliding_window_size", "sliding_window_pattern", "use_sliding_window",
    "window_size", "loop_window_size",
    "max_window_layers", "interleaved_sliding_window", "global_attn_every_n_layers",
    "hybrid_layer_pattern", "swa_num_key_value_heads", "swa_head_dim", "swa_v_head_dim",
    "attention_chunk_size", "no_rope_layers", "no_rope_layer_interval", "num_kv_shared_layers",
    "global_head_dim", "num_global_key_value_heads", "attention_k_eq_v", "kv_lora_rank",
    "qk_rope_head_dim", "qk_nope_head_dim", "index_head_dim", "full_attention_interval",
    "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim",
    "linear_value_head_dim", "linear_conv_kernel_dim", "linear_attn_config", "attn_type_list",
    "mamba_ssm_dtype", "mamba_ssm_cache_dtype", "hybrid_override_pattern", "ssm_state_size",
    "state_size", "mamba_num_heads", "mamba_head_dim", "n_groups", "mamba_n_groups",
    "conv_kernel", "mamba_d_conv", "mamba_n_heads", "mamba_d_head", "mamba_d_state",
    "mamba_d_ssm", "mamba_expand", "expand", "attn_layer_period", "attn_layer_offset",
    "attn_layer_indices", "conv_L_cache", "full_attn_idxs", "num_mtp_modules", "num_target_layers",
    "n_predict", "tie_weights", "use_ordered_embeddings", "image_token_index",
    "max_sequence_length", "model_max_length", "seq_length", "max_seq_len",
    "original_max_position_embeddings",
)  # fmt: skip
MTP_NUMBERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers")
LARGEST_LIST = 10_000
TIED = "tie_word_embeddings"
SPECIAL_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")
KEPT_QUANT_KEYS = (
    "quant_method", "bits", "group_size", "sym", "desc_act", "checkpoint_format", "quant_algo",
    "fmt", "format", "version", "zero_point", "load_in_4bit", "_load_in_4bit", "load_in_8bit",
    "moe_quant_algo", "moe_quant_format", "weight_block_size", "activation_scheme",
    MLX_ALONE, OLDER_KEY, INNER, OWN_FILE,
)  # fmt: skip
MOST_GROUPS = 100
ACTIVATIONS = "input_activations"
OUTPUTS = "output_activations"
GROUP_NUMBERS = ("type", "dtype", "num_bits", "group_size", "symmetric", "actorder", "strategy")


def read(source: ModelSource, *, generation: bool = True) -> tuple[ConfigFacts, dict[str, Any]]:
    """Facts from the folder's configs, and the raw config for readers of heads.

    generation: read generation_config.json too, which few rules ask for.
    """
    config = read_object(source, "config.json")
    more = read_object(source, "generation_config.json") if generation else None
    if config is None:
        return ConfigFacts(generation_eos_ids=_ids(more, "eos_token_id")), {}
    facts = from_dict(config, more, f"{source.label}/config.json")
    if facts.quantization is None:
        facts = _by_own_file(facts, read_object(source, QUANT_FILE) or {})
    unread = not generation and "generation_config.json" in source.files()
    return replace(
        facts,
        use_cache=_use_cache(source, config, more),
        cache_kind=_cache_kind(text_config(config)),
        generation_cache_kind=None if unread else _cache_kind(more or {}),
        generation_version=text((more or {}).get("transformers_version")),
    ), config


def _by_own_file(facts: ConfigFacts, file: Mapping[str, Any]) -> ConfigFacts:
    """The same with the quantisation that ModelOpt's file names; a null is none."""
    maker, said = file.get("producer"), file.get("quantization")
    if not isinstance(maker, dict) or maker.get("name") != "modelopt" or not isinstance(said, dict):
        return facts
    if not text(said.get("quant_algo")):
        return facts
    quant = _quantization({**said, "quant_method": "modelopt", OWN_FILE: True})
    origin = {**facts.origin, "quantization": QUANT_FILE}
    return replace(facts, quantization=quant, origin=origin)


def _cache_kind(part: Mapping[str, Any]) -> str | None:
    said = part.get("cache_implementation")
    return "unset" if said is None else text(said)


def _use_cache(
    source: ModelSource, config: Mapping[str, Any], generation: Mapping[str, Any] | None
) -> bool | None:
    if generation is not None:
        said = generation.get("use_cache", True)
        return said if isinstance(said, bool) else None
    off = config.get("use_cache") is False
    if not off and text_config(config).get("use_cache") is not False:
        return True  # a file that was not read would hardly turn off what this one leaves on
    unread = "generation_config.json" in source.files()
    return False if off and not unread else None


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part that describes the language model; the root where there is no such part."""
    for name in TEXT_CONFIGS:
        part = config.get(name)
        if isinstance(part, dict):
            inner = part.get("text_config")
            return inner if isinstance(inner, dict) else part
    return config


def from_dict(
    config: Mapping[str, Any], generation: Mapping[str, Any] | None, where: str
) -> ConfigFacts:
    part = text_config(config)
    block = nested if isinstance(nested := config.get("dflash_config"), dict) else {}
    depth = {name: block[name] for name in ("num_target_layers",) if name in block}
    both = ChainMap(depth, dict(part), dict(config))
    number = partial(first_integer, (part,))
    heads = number("num_attention_heads", "n_head", "n_heads", "num_heads")
    hidden = number("hidden_size", "n_embd", "d_model", "dim")
    places = (part, config)
    dtypes = [place.get(name) for place in places for name in ("dtype", "torch_dtype")]
    model_type = text(part.get("model_type")) or text(config.get("model_type"))
    context = number(*CONTEXT_KEYS)
    given = (part.get(name) for name in ("rope_scaling", "rope_parameters"))
    ropes = [rope for rope in given if isinstance(rope, dict)]
    rope_keys = set().union(*ropes)
    inkling = nested if isinstance(nested := config.get("mtp_config"), dict) else {}
    scaling = [r for r in ropes if r.get("rope_type", r.get("type")) not in (None, "default")]
    rope = None
    if scaling:
        rope = {k: v for k, v in scaling[0].items() if isinstance(v, int | float | str | bool)}
    listed = [part.get(name) for name in ("layer_types", "layers_block_type", "block_types")]
    short = (names for names in listed if isinstance(names, list) and len(names) <= LARGEST_LIST)
    kinds = next((tuple(map(str, names)) for names in short), None)
    quant = config.get("quantization_config") or part.get("quantization_config")
    if isinstance(quant, dict) and not config.get("quantization_config"):
        quant = {**quant, INNER: True}
    older = config.get("compression_config") or part.get("compression_config")
    if quant is None and isinstance(older, dict) and "quant_method" in older:
        quant = {**older, OLDER_KEY: True}
    if not quant and isinstance(mlx := config.get("quantization"), dict) and "bits" in mlx:
        quant = {**mlx, MLX_ALONE: True}  # as older versions of mlx-lm wrote it
    nulls = (("quantization_config", config), ("num_nextn_predict_layers", part))
    # Qwen's Omni models keep their other parts beside the text part, one level down.
    thinker = nested if isinstance(nested := config.get("thinker_config"), dict) else {}
    recurrent = None
    if model_type is not None:
        kind_numbers = part.get("attn_type_list")  # 1 is attention, 0 linear attention
        attention_alone = isinstance(kind_numbers, list) and set(map(str, kind_numbers)) == {"1"}
        listed_only = model_type in ATTENTION_ALONE and (kinds is not None or attention_alone)
        recurrent = (model_type in RECURRENT and not listed_only) or bool(
            RECURRENT_LAYERS & set(kinds or ())
        )
    return ConfigFacts(
        model_type=model_type,
        outer_type=text(config.get("model_type")),
        architectures=_classes(config),
        text_architectures=None if part is config else _classes(part),
        vocab_size=_vocab_size(part, where) or _vocab_size(config, where),
        vocab_size_outside=None if part is config else "vocab_size" in config,
        layers=number("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=number("num_key_value_heads", "num_kv_heads", "n_head_kv") or heads,
        head_dim=number("head_dim") or (hidden // heads if hidden and heads else None),
        feed_forward=number("intermediate_size", "n_inner", "ffn_dim"),
        context=context,
        rope_scaling=rope,
        scaled_context=_scaled(context, rope),
        sliding_window=number("sliding_window")
        if part.get("use_sliding_window") is not False
        else None,
        layer_kinds=kinds,
        experts=number("num_experts", "num_local_experts", "n_routed_experts"),
        experts_used=number("num_experts_per_tok", "moe_topk"),
        tied=next((place[TIED] for place in places if isinstance(place.get(TIED), bool)), None),
        dtype=next(filter(None, map(text, dtypes)), None),
        quantization=_quantization(quant) if isinstance(quant, dict) else None,
        multimodal=not SEEING.isdisjoint((model_type, text(config.get("model_type"))))
        or any(
            isinstance(place.get(name), dict) for place in (config, thinker) for name in OTHER_PARTS
        ),
        recurrent=recurrent,
        bos_token_id=_id(both, "bos_token_id"),
        eos_token_ids=_ids(part, "eos_token_id") or _ids(config, "eos_token_id"),
        eos_is_list=isinstance(both["eos_token_id"], list) if "eos_token_id" in both else None,
        pad_token_id=_id(both, "pad_token_id"),
        ids_inside=None
        if part is config
        else tuple(name for name in SPECIAL_IDS if part.get(name) is not None),
        generation_eos_ids=_ids(generation, "eos_token_id"),
        # xdrope_section is HunYuan-VL's name for it; only newer engines take the two for one.
        mrope="mrope_section" in rope_keys or (None if "xdrope_section" in rope_keys else False),
        positions=_positions(model_type, part),
        remote_code="auto_map" in config,
        mtp_layers=first_integer((part, inkling), *MTP_NUMBERS),
        sizes={name: _kept(both[name]) for name in SIZES if name in both}  # null ones, too
        | {name: None for name, place in nulls if place.get(name, 0) is None},
        origin={"*": "config.json", "generation_eos_ids": "generation_config.json"},
    )


def _classes(part: Mapping[str, Any]) -> tuple[str, ...] | None:
    names = part.get("architectures")
    if not isinstance(names, list):
        return None
    return tuple(name for name in names if isinstance(name, str))


def _vocab_size(part: Mapping[str, Any], where: str) -> int | None:
    """Tables of this length get built later, so it must be one that a model can have."""
    size = part.get("vocab_size")
    if size is not None and (integer(size) is None or size > MAX_ID):
        raise ReadError(f"{where}: vocab_size is {str(size)[:40]!r}, not a sensible whole number")
    return integer(size)


def _kept(value: Any) -> Any:
    """A number, a short text, or a list or flat object of them; what is absurd stays a text."""
    if isinstance(value, int):
        return value if abs(value) < 2**64 else str(value)[:40]
    if isinstance(value, float | str):
        return value if isinstance(value, float) else value[:1000]
    if isinstance(value, list):
        # Nothing that could fill a report.
        return [
            entry
            for entry in value[:LARGEST_LIST]
            if (isinstance(entry, str) and len(entry) <= 64)
            or (isinstance(entry, int) and abs(entry) < 2**64)
        ]
    if isinstance(value, dict):
        entries = list(value.items())[:64]
        return {str(k): _kept(v) for k, v in entries if isinstance(v, int | float | str | list)}
    return None


def _id(both: Mapping[str, Any], name: str) -> int | None:
    """An id; NO_TOKEN for an explicit null, None for a key that is not there."""
    if name not in both:
        return None
    return NO_TOKEN if both[name] is None else integer(both[name])


def _ids(place: Mapping[str, Any] | None, name: str) -> tuple[int, ...] | None:
    if place is None or name not in place:
        return None
    value = place[name]
    if value is None:
        return ()
    values = value if isinstance(value, list) else [value]
    found = tuple(number for number in map(integer, values) if number is not None)
    return found if len(found) == len(values) else None


def _scaled(context: int | None, rope: Mapping[str, Any] | None) -> int | None:
    """The window after rope scaling; llama3 and longrope already state the long one."""
    if context is None or rope is None:
        return context
    kind = rope.get("rope_type", rope.get("type"))
    factor = rope.get("factor")
    if kind in ("llama3", "longrope", "su", "mrope") or not isinstance(factor, int | float):
        return context
    if not 0 < factor < 2**20:  # NaN fails this too
        return None
    original = integer(rope.get("original_max_position_embeddings"))
    if kind == "yarn" and original is not None:
        return max(context, int(original * factor))
    return int(context * factor)


def _positions(model_type: str | None, part: Mapping[str, Any]) -> str | None:
    for kind, types in POSITIONS.items():
        if model_type in types:
            return kind
    return "rope" if any(key.startswith(("rope", "rotary")) for key in part) else None


def _quantization(quant: Mapping[str, Any]) -> dict[str, Any]:
    """What rules ask for; of the groups of layers only the kinds of numbers."""
    kept = {key: quant[key] for key in KEPT_QUANT_KEYS if key in quant}
    sparse, groups = quant.get("sparsity_config"), quant.get("config_groups")
    if isinstance(sparse, dict) and sparse.get("targets"):
        kept["sparsity"] = str(sparse.get("format"))
    if isinstance(whole := quant.get("global_quant_config"), dict):  # Quark's name for them
        groups = {"all": {"weights": whole.get("weight"), ACTIVATIONS: whole.get("input_tensors")}}
    if isinstance(groups, dict):
        kept["config_groups"] = {
            name: _group(group)
            for name, group in list(groups.items())[:MOST_GROUPS]
            if isinstance(group, dict)
        }
    return kept


def _group(group: Mapping[str, Any]) -> dict[str, Any]:
    """Of a group its weights and activations; of its outputs only where they are quantised."""
    kept = {part: _numbers(group.get(part)) for part in ("weights", ACTIVATIONS)}
    outputs = _numbers(group.get(OUTPUTS))
    return kept if outputs is None else {**kept, OUTPUTS: outputs}


def _numbers(part: object) -> dict[str, Any] | None:
    if not isinstance(part, dict):
        return None
    return {key: part[key] for key in GROUP_NUMBERS if isinstance(part.get(key), str | int)}
