"""Weights in bytes on the device: stored spans, less what an engine leaves elsewhere.

Of a model whose headers were not read: counted by its config alone, then quantised.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from draftcheck.memory import shape as shapes
from draftcheck.memory.profiles import MIB, Profile, config_defaults
from draftcheck.memory.shape import LayerShape, Shape
from draftcheck.models.readers.weights import quantised
from draftcheck.values.dtypes import dtype_bytes
from draftcheck.values.facts import ModelFacts, Tensor

FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
# Small tensors of quantised layers, and those that models keep in float32.
KEPT = re.compile(
    r"(scales?|scale_inv|_scale|zeros|absmax|quant_map|quant_state[^.]*|A_log|dt_bias|inv_freq"
    r"|e_score_correction_bias|SCB|g_idx|suh|svh)$"
)
ENCODERS = re.compile(
    r"(^|\.)(vision_tower|vision_model|visual|vision_encoder|audio_tower|audio_model|audio_encoder"
    r"|multi_modal_projector|mm_projector|speech_encoder|embed_vision|embed_audio)\."
)
HEADS = re.compile(r"(^|\.)(lm_head|output|embed_out)\.weight$")
EMBEDDINGS = re.compile(
    r"(^|\.)(embed_tokens|wte|word_embeddings|embed_in|tok_embeddings|embeddings?)\.weight$"
)
TABLES = re.compile(f"{HEADS.pattern}|{EMBEDDINGS.pattern}")
LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d{1,6})\.")
GGUF_LAYER = re.compile(r"^blk\.(\d{1,6})\.")
MTP = re.compile(r"(^|\.)mtp(_layers|\.|s\.)|(^|\.)nextn\.")
# llama.cpp keeps the tensors of its input layer on the host (LLM_TENSOR_LAYER_INPUT).
ON_HOST = re.compile(r"^(token_embd|position_embd|token_types|per_layer_token_embd)\.")
WHOLE = re.compile(
    r"norm|\.gate\.weight$|router|kv_a_proj|q_a_proj|(^|\.)bias$|_scale$|A_log|dt_bias"
)
KV = re.compile(r"\.(k_proj|v_proj)\.")
SEGMENT = 2 * MIB
QKV_BIAS = ("qwen2", "qwen2_moe")
QK_NORM = ("qwen3", "qwen3_moe", "gemma3_text", "gemma3")
FOUR_NORMS = ("gemma2", "gemma3_text", "gemma3")


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes of one model on one rank."""

    nbytes: int
    low: int
    high: int
    exact: bool
    slack: int = 0
    """What PyTorch's allocator rounds them up by."""
    notes: tuple[str, ...] = ()
    stages: tuple[Weights, ...] = ()
    """The same, cut into the stages of a pipeline."""


def measure(
    facts: ModelFacts,
    shape: Shape | None,
    profile: Profile,
    *,
    ranks: int = 1,
    dtype: str | None = None,
    with_mtp: bool = False,
    shared_rows: int = 0,
) -> Weights | None:
    """Weigh a model; None when nothing says how large it is.

    with_mtp: its own prediction layers are loaded. shared_rows: a head whose tables of so many
    rows may be the target's own.
    """
    tensors = facts.weights.tensors
    if not tensors:
        forms = ("pickle", "safetensors", "gguf")
        if files := [file for file in facts.weights.files or () if file.format in forms]:
            # Pickles are not opened; their sizes are near enough for a bound.
            total = sum(file.size for file in files)
            note = "weights are counted by file size"
            return Weights(total, total // 2, total, exact=False, notes=(note,))
        # No file was seen: count what a decoder of this shape has.
        float_bytes, _ = run_bytes(facts, profile, dtype)
        counted = estimate(facts, shape, float_bytes) if shape is not None else None
        if counted is None:
            return None
        total = counted[1] // ranks
        note = f"{facts.ref}: weights are counted from its config, no header was read"
        return Weights(total, total * 95 // 100, total * 110 // 100, exact=False, notes=(note,))
    if facts.gguf is not None:
        return _gguf(facts, tensors, with_mtp=with_mtp)
    size, sure = run_bytes(facts, profile, dtype)
    sizes: list[int] = []
    shared = 0
    for name, tensor in _loaded(facts, tensors, with_mtp=with_mtp):
        stored = tensor.nbytes or 0
        if tensor.dtype in FLOATS and not KEPT.search(name):
            stored = stored // FLOATS[tensor.dtype] * size
        stored = _share(name, tensor, stored, ranks, shape)
        if shared_rows and tensor.shape[:1] == (shared_rows,) and TABLES.search(name):
            shared += stored
            continue
        sizes.append(stored)
    total = sum(sizes)
    exact = sure and ranks == 1 and not shared
    spread = 0 if exact else total // 50
    slack = segments(sizes) - total if profile.allocator else 0
    notes = () if sure else ("the type that the weights are loaded in is not known",)
    # Shared only when it is equal to the target's, which no header tells.
    high = total + spread + shared if sure else total * 2 + shared
    return Weights(total, total - spread, high, exact, slack=max(slack, 0), notes=notes)


def _gguf(facts: ModelFacts, tensors: Mapping[str, Tensor], *, with_mtp: bool) -> Weights:
    tied = "output.weight" not in tensors
    blocks = [int(m[1]) for name in tensors if (m := GGUF_LAYER.match(name))]
    assert facts.gguf is not None
    arch = facts.config.model_type
    own = facts.gguf.keys.get(f"{arch}.nextn_predict_layers", ("", 0))[1]
    count = facts.config.layers or 0
    first = count - own if isinstance(own, int) and 0 < own < count else None
    total = unknown = 0
    for name, tensor in tensors.items():
        match = GGUF_LAYER.match(name)
        # A file of prediction layers alone is loaded for their sake.
        skips = first is not None and not with_mtp and min(blocks, default=0) < first
        if match and skips and int(match[1]) >= (first or 0):
            continue
        if tensor.nbytes is None:
            unknown += math.prod(tensor.shape)
            continue
        if not ON_HOST.match(name) or (tied and name == "token_embd.weight"):
            total += tensor.nbytes
    if unknown:
        note = f"tensors of unknown type ({unknown:,} elements) are counted at 1 to 4 bytes each"
        high = total + 4 * unknown
        return Weights(total + 2 * unknown, total + unknown // 4, high, False, notes=(note,))
    return Weights(total, total, total, exact=True)


def run_bytes(facts: ModelFacts, profile: Profile, dtype: str | None) -> tuple[int, bool]:
    """Find the bytes of the float type that the engine runs in, and whether that is sure."""
    if asked := dtype_bytes(dtype):
        return asked, True
    if stated := dtype_bytes(facts.config.dtype):
        return 2 if profile.halves_float32 else stated, True
    stored = {t.dtype for t in (facts.weights.tensors or {}).values() if t.dtype in FLOATS}
    if profile.halves_float32:
        return 2, True
    return (FLOATS[stored.pop()], True) if len(stored) == 1 else (2, not stored)


def _loaded(
    facts: ModelFacts, tensors: Mapping[str, Tensor], *, with_mtp: bool
) -> Iterator[tuple[str, Tensor]]:
    """The tensors that an engine keeps: tied heads once, prediction layers only if used."""
    layers = facts.config.layers
    promised = bool(facts.config.mtp_layers)
    once = tied(facts)
    for name, tensor in tensors.items():
        if once and HEADS.search(name):
            continue
        if not with_mtp and facts.role in (None, "full"):
            if MTP.search(name):
                continue
            match = LAYER.search(name)
            beyond = promised and match and layers and int(match[1]) >= layers
            if beyond and not ENCODERS.search(name):
                continue
        yield name, tensor


def _share(name: str, tensor: Tensor, stored: int, ranks: int, shape: Shape | None) -> int:
    """What one rank of a tensor-parallel group holds."""
    if ranks == 1:
        return stored
    if HEADS.search(name) or EMBEDDINGS.search(name):
        rows = tensor.shape[0] if tensor.shape else 1
        padded = -(-rows // 64) * 64
        return stored // max(rows, 1) * (padded // ranks)
    if len(tensor.shape) < 2 or WHOLE.search(name):
        return stored
    if KV.search(name) and shape is not None:
        heads = max((layer.kv_heads for layer in shape.layers), default=1) or 1
        return stored // min(ranks, heads)
    return stored // ranks


def packed(facts: ModelFacts, whole: Weights, bits: float) -> Weights | None:
    """The same model quantised to so many bits; None where it has no more than that now.

    Matrices are quantised, of a checkpoint all but the tables of tokens.
    """
    tensors = facts.weights.tensors or {}
    gguf = facts.gguf is not None
    matrices = count = 0
    for name, tensor in tensors.items():
        plain = gguf or (tensor.dtype in FLOATS and not TABLES.search(name))
        if plain and len(tensor.shape) > 1 and tensor.nbytes:
            matrices += tensor.nbytes
            count += math.prod(tensor.shape)
    stored = sum(tensor.nbytes or 0 for tensor in tensors.values())
    if not count or matrices * 8 / count <= bits * 1.05:
        return None
    scale = 1 - (matrices - count * bits / 8) / stored
    return _scaled(whole, scale)


def _scaled(whole: Weights, scale: float) -> Weights:
    low, typical, high = (int(n * scale) for n in (whole.low, whole.nbytes, whole.high))
    stages = tuple(_scaled(stage, scale) for stage in whole.stages)
    return Weights(typical, low, high, exact=False, stages=stages)


def segments(sizes: list[int]) -> int:
    """Count the bytes that PyTorch's caching allocator takes from the driver for these tensors.

    Requests of more than 1 MiB come from segments of 20 MiB, from 10 MiB on from one of their
    own in steps of 2 MiB; smaller ones share segments of 2 MiB (c10/cuda/CUDACachingAllocator).
    """
    taken = small = 0
    left: list[int] = []
    for size in (-(-max(size, 1) // 512) * 512 for size in sizes):
        if size <= MIB:
            small += size
            continue
        spot = min(
            (i for i, free in enumerate(left) if free >= size), key=left.__getitem__, default=-1
        )
        if spot >= 0:
            left[spot] -= size
            continue
        segment = 20 * MIB if size < 10 * MIB else -(-size // SEGMENT) * SEGMENT
        taken += segment
        if segment - size > MIB:
            left = [*sorted(left, reverse=True)[:64], segment - size]
    return taken + -(-small // SEGMENT) * SEGMENT


def estimate(facts: ModelFacts, table: Shape, float_bytes: int) -> tuple[int, int] | None:
    """Parameters and bytes that a decoder of this shape has; None where it has no plain parts."""
    sizes = facts.config.sizes
    if not table.vocab or any(layer.state_kind for layer in table.layers):
        return None
    tables = table.vocab * table.hidden * (1 if tied(facts) else 2)
    linear = small = 0
    dense = _number(sizes, "first_k_dense_replace")
    wide = _number(sizes, "intermediate_size") or table.feed_forward
    each = 3 * table.hidden * (_number(sizes, "moe_intermediate_size") or wide)
    experts = facts.config.experts or 0
    for number, layer in enumerate(table.layers):
        linear += _attention(layer, table, sizes)
        if not experts or number < dense:
            linear += 3 * table.hidden * wide
        else:
            shared = _number(sizes, "n_shared_experts")
            linear += each * (experts + shared) + table.hidden * experts
        small += (4 if table.arch in FOUR_NORMS else 2) * table.hidden
        if table.arch in QK_NORM:
            small += 2 * layer.k
        if table.arch in QKV_BIAS:
            small += table.heads * layer.k + layer.kv_heads * (layer.k + layer.v)
    small += table.hidden
    bits = bits_per_weight(facts.config.quantization, 8 * float_bytes)
    if bits is None:
        return None
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
    if layer.kind == shapes.MLA:
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


def bits_per_weight(quantization: Mapping[str, Any] | None, plain: float) -> float | None:
    """Bits of one quantised weight with its share of scales and zero points; None: not stated."""
    if not quantization:
        return plain
    method = str(quantization.get("quant_method", "")).lower()
    if "fp8" in method or str(quantization.get("quant_algo")).upper().startswith("FP8"):
        return 8.002
    if method == "bitsandbytes":
        return 8.002 if quantization.get("load_in_8bit") else 4.127
    bits = quantised.stated_bits(quantization) or (4 if method in ("awq", "gptq") else None)
    if method == "mxfp4":
        return 4.25
    if method == "modelopt" or quantization.get("format") == "nvfp4-pack-quantized":
        return bits and 4.5
    size = quantization.get("group_size")
    return bits and bits + 20 / (size if isinstance(size, int) and size > 0 else 128)
