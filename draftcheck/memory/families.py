"""What rules/tables says about one kind of model: how its layers follow each other, and the
fields that its class fills in where a config leaves them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from draftcheck.rulebook import files
from draftcheck.rulebook.files import Names, RuleRow

ConfigField = Literal[
    "attention_chunk_size", "attention_k_eq_v", "attn_layer_offset", "attn_layer_period",
    "conv_L_cache", "conv_kernel", "expand", "ffn_dim", "head_dim", "index_head_dim",
    "intermediate_size", "kv_lora_rank", "linear_conv_kernel_dim", "linear_key_head_dim",
    "linear_num_key_heads", "linear_num_value_heads", "linear_value_head_dim", "mamba_d_conv",
    "mamba_d_head", "mamba_d_state", "mamba_expand", "mamba_head_dim", "mamba_n_groups",
    "mamba_n_heads", "mamba_num_heads", "mamba_ssm_cache_dtype", "max_window_layers",
    "moe_intermediate_size", "multi_query", "n_groups", "n_head", "n_routed_experts",
    "new_decoder_architecture", "no_rope_layer_interval", "num_attention_heads", "num_experts",
    "num_heads", "num_key_value_heads", "num_kv_shared_layers", "num_local_experts",
    "qk_nope_head_dim", "qk_rope_head_dim", "sliding_window", "sliding_window_pattern",
    "ssm_state_size", "state_size", "tie_word_embeddings", "use_sliding_window", "v_head_dim",
    "vocab_size",
]  # fmt: skip
"""Fields of a config.json that decide memory."""
ConfigDefaults = dict[str, dict[ConfigField, int | bool | str]]


class ConfigFamily(RuleRow, frozen=True):
    """A model_type of config.json whose layers are not all alike."""

    layers: Literal[
        "every", "all", "late", "interval", "chunks", "period-offset", "indices", "pattern-list",
        "kimi", "one-kind",
    ] | None  # fmt: skip
    period: int = 0
    period_key: str = "sliding_window_pattern"
    full_first: bool = False
    last_full: bool = False
    word: str | None = None
    """What the layers are that are not full attention."""
    words: Names = ()
    indices: str = ""
    """The field that lists layers."""
    mamba: int = 0
    inner: bool = False
    """The width of a state is intermediate_size."""


class GgufFamily(RuleRow, frozen=True):
    """An architecture of llama.cpp with a rule of its own."""

    slide: Literal["period", "array", "all"] | None = None
    period: int = 0
    full_first: bool = False
    window: int | None = None
    window_fixed: bool = False
    only_with_layers: int | None = None
    own_cache: int | None = None
    shares: bool = False
    recurrent: Literal["no-kv", "interval", "all"] | None = None
    state: Literal["conv", "kda", "rwkv", "lightning"] | None = None
    both: bool = False
    ff_is_mlp: bool = False
    index: Literal["all", "types", "after-dense"] | None = None
    index_pools: bool = False
    index_values: bool = False
    mla: bool | Literal["always"] = False
    compressed: bool = False
    history: bool = False
    loops: bool = False
    unsure: str = ""


PLAIN_CONFIG = ConfigFamily(None)
PLAIN_GGUF = GgufFamily()


def config_defaults() -> Mapping[str, Mapping[str, int | bool | str]]:
    """rules/tables/config-defaults.toml: model_type -> field -> what its class fills in."""
    table: Any = files.read("tables/config-defaults", ConfigDefaults)
    return cast(Mapping[str, Mapping[str, int | bool | str]], table)
