"""Weights in bytes on the device: stored spans, less what an engine leaves elsewhere."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from draftcheck.memory import parameters
from draftcheck.memory.profiles import MIB, Profile
from draftcheck.memory.shape import Shape
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


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes of one model on one rank."""

    nbytes: int
    low: int
    high: int
    exact: bool
    encoders: int = 0
    """Of these, vision and audio parts."""
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
        return _by_files(facts) or _by_config(facts, shape, profile, ranks, dtype)
    if facts.gguf is not None:
        return _gguf(facts, tensors, with_mtp=with_mtp)
    size, sure = run_bytes(facts, profile, dtype)
    sizes: list[int] = []
    encoders = shared = 0
    for name, tensor in _loaded(facts, tensors, with_mtp=with_mtp):
        stored = tensor.nbytes or 0
        if tensor.dtype in FLOATS and not KEPT.search(name):
            stored = stored // FLOATS[tensor.dtype] * size
        stored = _share(name, tensor, stored, ranks, shape)
        if shared_rows and tensor.shape[:1] == (shared_rows,) and TABLES.search(name):
            shared += stored
            continue
        sizes.append(stored)
        if ENCODERS.search(name):
            encoders += stored
    total = sum(sizes)
    exact = sure and ranks == 1 and not shared
    spread = 0 if exact else total // 50
    slack = segments(sizes) - total if profile.allocator else 0
    notes = () if sure else ("the type that the weights are loaded in is not known",)
    # Shared only when it is equal to the target's, which no header tells.
    high = total + spread + shared if sure else total * 2 + shared
    return Weights(total, total - spread, high, exact, encoders, slack=max(slack, 0), notes=notes)


def _by_files(facts: ModelFacts) -> Weights | None:
    """Pickles are not opened; their sizes are near enough for a bound."""
    files = [f for f in facts.weights.files or () if f.format in ("pickle", "safetensors", "gguf")]
    if not files:
        return None
    total = sum(file.size for file in files)
    return Weights(
        total, total // 2, total, exact=False, notes=("weights are counted by file size",)
    )


def _by_config(
    facts: ModelFacts, shape: Shape | None, profile: Profile, ranks: int, dtype: str | None
) -> Weights | None:
    """No file was seen: count what a decoder of this shape has."""
    if shape is None:
        return None
    estimate = parameters.estimate(facts, shape, run_bytes(facts, profile, dtype)[0])
    if estimate is None:
        return None
    total = estimate[1] // ranks
    note = f"{facts.ref}: weights are counted from its config, no header was read"
    return Weights(total, total * 95 // 100, total * 110 // 100, exact=False, notes=(note,))


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
    once = parameters.tied(facts)
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
