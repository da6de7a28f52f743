"""rules/tables/memory.toml -> how one version of an engine uses memory, how one kind of model.

A `Profile` lists every habit that the file may name. An engine's row gives the habits of its
oldest version, each `change` what is different from a version on; `like` rows are programs
around another engine. A field that no profile has is refused, so that a misspelt one cannot
change an estimate in silence. Families say how the layers of a kind of model follow each other;
rules/tables/config-defaults.toml what its class fills in where a config leaves fields out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from msgspec import UNSET, UnsetType, defstruct, structs

from draftcheck.errors import RuleError, UsageError
from draftcheck.rulebook import files
from draftcheck.rulebook.files import Names, RuleRow, Text
from draftcheck.values.words import Reaction, Severity

FILE = "tables/memory"
MIB = 1 << 20
GIB = 1 << 30
Range = tuple[int, int, int]
"""Low, typical, high."""
Steps = tuple[tuple[int, int], ...]
"""What an engine picks by the size of the GPU: [value, below GiB]; the last one has no bound."""

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


class WhenFull(RuleRow, frozen=True):
    """What an engine does when a pair does not fit."""

    reaction: Reaction
    severity: Severity
    says: Text
    without: Names = ()
    """Options that keep the engine from making do: left out of the command."""


class Reserve(RuleRow, frozen=True):
    """SGLang's memory for activations and graphs."""

    base_mib: int
    per_token_kib: int
    tokens: int
    parallel_mib: int
    graph_mib: int
    large_gib: int
    large_mib: int


class DraftReserve(RuleRow, frozen=True):
    """What older versions of SGLang add to it for a draft."""

    full: int
    head: int


class Profile(RuleRow, frozen=True, kw_only=True):
    """The habits of an engine at one version."""

    engine: str
    cache: Literal["cells", "paged", "pool", "growing", "pages"]
    split: Literal["layers", "tensor"]
    weights: Literal["gguf", "torch"]
    when_full: WhenFull
    kv_types: Names
    kv_of_draft: bool
    draft_tokens: int
    context_mib: Range
    source: Text
    kv_uncounted: Names = ()
    """Types of a KV cache that the engine has, and whose bytes are not modelled."""
    smaller_kv: str | None = None
    queues: bool = False
    """Requests that find no room wait: one has to fit, however many may come at once."""
    stages: Literal["last-takes-rest", "middle-first", "last-ones"] | None = None
    halves_float32: bool = False
    allocator: bool = False
    fraction: float = 1.0
    # cells
    pad: int = 1
    batch: int = 0
    mla_values: bool = False
    outputs: Literal["batch", "drafts"] = "batch"
    rollback_roles: Names = ()
    # paged
    block: int = 1
    in_flight: int = 1
    group_ratio: float = 1.0
    state_copies: int = 1
    state_exact: bool = False
    graphs_mib: Range = (0, 0, 0)
    batched_tokens: Steps = ()
    small_batch: Names = ()
    shares_head_tables: Names = ()
    # paged, pool and pages
    workspace: tuple[float, float, float] = (0.0, 0.0, 0.0)
    sequences: int = 1
    page: int = 1
    # pool
    reserve: Reserve | None = None
    chunked_prefill: Steps = ()
    graph_batch: Steps = ()
    draft_reserve_mib: DraftReserve = DraftReserve(0, 0)
    # growing
    mla: Literal["latent", "expanded"] = "latent"
    blas_mib: Range = (0, 0, 0)
    # pages
    reserve_mib: int = 0

    def kv_bits(self, kv_dtype: str | None, float_bytes: int) -> tuple[str, float]:
        """Find the name and the bits per element of the cache's type."""
        types = table().kv_bits
        word = (kv_dtype or self.kv_types[0]).lower()
        if kv_dtype is not None and not self.takes(word) and word not in types:
            raise UsageError(
                f"--kv-dtype {kv_dtype[:40]!r} is no type of a KV cache",
                hint=f"{self.engine} takes {', '.join(self.kv_types)}.",
            )
        if word == "auto":
            return ("float32" if float_bytes == 4 else "16-bit"), 8.0 * float_bytes
        return word, types.get(word, 8.0 * float_bytes)

    def takes(self, kv_dtype: str | None) -> bool:
        return kv_dtype is None or kv_dtype.lower() in (*self.kv_types, *self.kv_uncounted)


NEEDED = {
    "cells": {"pad", "batch", "mla_values", "outputs", "rollback_roles"},
    "paged": {"block", "in_flight", "group_ratio", "state_copies", "graphs_mib", "workspace",
              "sequences", "batched_tokens", "small_batch", "fraction"},
    "pool": {"reserve", "chunked_prefill", "graph_batch", "draft_reserve_mib"},
    "growing": {"mla", "blas_mib"},
    "pages": {"page", "workspace", "reserve_mib"},
}  # fmt: skip
"""Habits without which a layout cannot be counted."""


def step(rows: Steps, memory: int) -> int:
    """Find what an engine picks for a GPU of this size."""
    return next((value for value, below in rows if below and memory < below * GIB), rows[-1][0])


# The rows of the file: any of a profile's habits, and no others.
_HABITS = [
    (habit.name, habit.type | UnsetType, UNSET)
    for habit in structs.fields(Profile)
    if habit.name != "engine"
]
_Change: Any = defstruct("ProfileChange", [("since", Text), *_HABITS], bases=(RuleRow,))
_Row: Any = defstruct(
    "ProfileRow",
    [*_HABITS, ("like", str | None, None), ("change", tuple[_Change, ...], ())],
    bases=(RuleRow,),
)


class Rollback(RuleRow, frozen=True):
    """Architectures whose recurrent states speculation can roll back."""

    architectures: Names


class MemoryFile(RuleRow, frozen=True):
    """rules/tables/memory.toml."""

    family: Mapping[str, ConfigFamily]
    gguf: Mapping[str, GgufFamily]
    rollback: Rollback
    kv_bits: Mapping[str, float]
    engine: Mapping[str, _Row]


def table() -> MemoryFile:
    return files.read(FILE, MemoryFile)


def load(engine: str, version: str, order: Callable[[str], Any]) -> Profile | None:
    """Find the habits of an engine's version; None where its memory is not modelled."""
    rows = table().engine
    row = rows.get(engine)
    if row is None:
        return None
    if row.like is not None:
        # Another program around the same engine; its versions say nothing about the cache.
        base = rows[row.like]
        habits: dict[str, Any] = {}
        for part in (base, *base.change, row):
            habits |= _given(part)
    else:
        at = order(version)
        habits = _given(row)
        for change in row.change:
            if at >= order(change.since):
                habits |= _given(change)
    needed = {habit.name for habit in structs.fields(Profile) if habit.required} - {"engine"}
    needed |= NEEDED.get(habits.get("cache", ""), set())
    if missing := sorted(needed - set(habits)):
        raise RuleError(f"{FILE}.toml [engine.{engine}]: {missing[0]!r} is missing")
    return Profile(engine=engine, **habits)


def _given(row: Any) -> dict[str, Any]:
    values = {name: getattr(row, name) for name, *_ in _HABITS}
    return {name: value for name, value in values.items() if value is not UNSET}


def config_defaults() -> Mapping[str, Mapping[str, int | bool | str]]:
    """rules/tables/config-defaults.toml: model_type -> field -> what its class fills in."""
    table: Any = files.read("tables/config-defaults", ConfigDefaults)
    return cast(Mapping[str, Mapping[str, int | bool | str]], table)
