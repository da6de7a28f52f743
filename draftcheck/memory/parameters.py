"""Weights by config alone, for a model whose headers were not read: counted, then quantised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftcheck.memory import shape
from draftcheck.memory.families import config_defaults
from draftcheck.memory.shape import LayerShape, Shape
from draftcheck.values.facts import ModelFacts

QKV_BIAS = ("qwen2", "qwen2_moe")
QK_NORM = ("qwen3", "qwen3_moe", "gemma3_text", "gemma3")
FOUR_NORMS = ("gemma2", "gemma3_text", "gemma3")


def estimate(facts: ModelFacts, table: Shape, float_bytes: int) -> tuple[int, int] | None:
    """Parameters and bytes that a decoder of this shape has; None where it has no plain parts."""
    sizes = facts.config.sizes
    if not table.vocab or any(layer.state_kind for layer in table.layers):
        return None
    tables = table.vocab * table.hidden * (1 if tied(facts) else 2)
    linear = small = 0
    dense = _number(sizes, "first_k_dense_replace")
    for number, layer in enumerate(table.layers):
        linear += _attention(layer, table, sizes) + _feed_forward(facts, table, number < dense)
        small += (4 if table.arch in FOUR_NORMS else 2) * table.hidden
        if table.arch in QK_NORM:
            small += 2 * layer.k
        if table.arch in QKV_BIAS:
            small += table.heads * layer.k + layer.kv_heads * (layer.k + layer.v)
    small += table.hidden
    bits = bits_per_weight(facts.config.quantization, 8 * float_bytes)
    nbytes = (tables + small) * float_bytes + int(linear * bits / 8)
    return tables + linear + small, nbytes


def tied(facts: ModelFacts) -> bool:
    """Whether the output matrix is the embedding; the class decides where the config is silent."""
    if facts.config.tied is not None:
        return facts.config.tied
    defaults = config_defaults().get(facts.config.model_type or "", {})
    return bool(defaults.get("tie_word_embeddings"))


def _number(sizes: Mapping[str, Any], name: str) -> int:
    value = sizes.get(name)
    return value if isinstance(value, int) and value > 0 else 0


def _attention(layer: LayerShape, table: Shape, sizes: Mapping[str, Any]) -> int:
    hidden = table.hidden
    if layer.kind == shape.MLA:
        rotary, plain = _number(sizes, "qk_rope_head_dim"), _number(sizes, "qk_nope_head_dim")
        value, latent = _number(sizes, "v_head_dim"), layer.v
        rank = _number(sizes, "q_lora_rank")
        wide = table.heads * (plain + rotary)
        query = rank * (hidden + wide) if rank else hidden * wide
        return (
            query + hidden * layer.k + latent * table.heads * (plain + value)
            + table.heads * value * hidden
        )  # fmt: skip
    return hidden * (
        table.heads * layer.k + layer.kv_heads * (layer.k + layer.v) + table.heads * layer.v
    )


def _feed_forward(facts: ModelFacts, table: Shape, dense: bool) -> int:
    sizes = facts.config.sizes
    wide = _number(sizes, "intermediate_size") or table.feed_forward
    experts = facts.config.experts or 0
    if not experts or dense:
        return 3 * table.hidden * wide
    each = 3 * table.hidden * (_number(sizes, "moe_intermediate_size") or wide)
    shared = _number(sizes, "n_shared_experts")
    return each * (experts + shared) + table.hidden * experts


def bits_per_weight(quantization: Mapping[str, Any] | None, plain: float) -> float:
    """Bits of one quantised weight with its share of scales and zero points."""
    if not quantization:
        return plain
    method = str(quantization.get("quant_method", "")).lower()
    given = quantization.get("bits")
    bits = given if isinstance(given, int) and 0 < given <= 8 else 4
    size = quantization.get("group_size")
    group = size if isinstance(size, int) and size > 0 else 128
    table = {
        "awq": bits + 20 / group,
        "gptq": bits + 20 / group,
        "bitsandbytes": 4.127,
        "fp8": 8.002,
        "mxfp4": 4.25,
        "modelopt": 4.5,
    }
    return table.get(method, plain)
