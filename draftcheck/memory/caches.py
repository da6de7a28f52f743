"""KV caches and recurrent states in bytes, by the way an engine lays them out.

There are five ways (rules/tables/memory.toml: `cache`), one function each: the layers of target
and draft under a load -> bytes on one rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from draftcheck.memory import paged, profiles, shape
from draftcheck.memory.paged import ServedLoad
from draftcheck.memory.profiles import Profile
from draftcheck.memory.shape import LayerShape, Shape


@dataclass(frozen=True, slots=True)
class Cache:
    """Bytes on one rank."""

    target: int
    draft: int
    exact: bool = True
    reserve: int = 0
    """Bytes of the pool that no request gets."""
    note: str = ""


Layers = tuple[LayerShape, ...]
Fold = Callable[[ServedLoad, Shape, Shape | None], Cache]


def cells(load: ServedLoad, target: Shape, draft: Shape | None) -> Cache:
    """llama.cpp: one stream of padded cells per sequence; float32 states, one row each."""
    profile, copies = load.profile, 0
    if load.role in profile.rollback_roles:
        known = profiles.table().rollback.architectures
        copies = load.draft_tokens if target.arch in known else 0
    pad, count = profile.pad, load.sequences
    stream = _up(_up(load.context * count, pad) // count, pad)

    def bytes_of(model: Shape, bits: float, copies: int) -> int:
        return layer_cells(profile, model.layers, stream, count, count, bits, copies, False)

    ours = bytes_of(target, load.bits, copies)
    return Cache(ours, bytes_of(draft, load.draft_bits, 0) if draft else 0)


def layer_cells(
    profile: Profile, layers: Layers, stream: int, streams: int, sequences: int, bits: float,
    copies: int, unified: bool,
) -> int:  # fmt: skip
    """Sum up all layers with `stream` cells per stream; copies: of a state, to roll back to."""
    total = 0
    pad = profile.pad
    for layer in layers:
        # DeepSeek-V4's caches are never shared between sequences.
        one = streams if not layer.ratio else sequences
        shared = sequences if unified and not layer.ratio else 1
        if layer.attends:
            held = stream
            if layer.window is not None:
                held = _up(min(stream, layer.window * shared + profile.batch), pad)
            # The latent lay in K and in V until llama.cpp learned to leave V out.
            v = 0 if layer.kind == shape.MLA and not profile.mla_values else layer.v
            width = _row(layer.kv_heads * layer.k, bits)
            index = _row(layer.index, bits)
            total += held * one * (width + _row(layer.kv_heads * v, bits))
            if layer.ratio > 1:
                total += _up(-(-stream // layer.ratio), pad) * one * (width + index)
            elif index:
                total += stream * one * index
        if layer.state_kind:
            elements = layer.conv * max(layer.kernel - 1, 0) + layer.state
            total += 4 * elements * sequences * (1 + copies)
    return total


def pool(load: ServedLoad, target: Shape, draft: Shape | None) -> Cache:
    """SGLang: one cell per token; states with a copy per draft token."""
    tokens = load.context * load.sequences

    def bytes_of(model: Shape, bits: float, ranks: int) -> int:
        total = 0
        for layer in model.layers:
            heads = 1 if layer.kind == shape.MLA else max(1, layer.kv_heads // ranks)
            width = heads * (layer.k + (0 if layer.kind == shape.MLA else layer.v)) + layer.index
            total += tokens * math.ceil(width * bits / 8)
            if layer.state_kind:
                window = layer.conv // ranks * max(layer.kernel - 1, 0) * model.float_bytes
                state = layer.state // ranks * 4
                total += (window + state) * load.sequences * (1 + load.drafted)
        return total

    ours = bytes_of(target, load.bits, load.ranks)
    theirs = bytes_of(draft, load.bits, load.draft_ranks) if draft else 0
    local = any(layer.window is not None for layer in target.layers)
    note = "windows are counted at full length" if local else ""
    return Cache(ours, theirs, exact=not local and not target.recurrent, note=note)


def growing(load: ServedLoad, target: Shape, draft: Shape | None) -> Cache:
    """transformers: exactly the tokens there are; windows of W - 1; float32 states."""

    def bytes_of(model: Shape) -> int:
        total = 0
        for layer in model.layers:
            tokens = load.context
            if layer.window is not None:
                tokens = min(tokens, max(layer.window - 1, 1))
            width = layer.width
            if layer.kind == shape.MLA and load.profile.mla == "expanded":
                width = layer.expanded + layer.index
            total += tokens * load.sequences * width * model.float_bytes
            if layer.state_kind:
                window = layer.conv * layer.kernel * model.float_bytes
                total += (window + layer.state * 4) * load.sequences
        return total

    theirs = bytes_of(draft) if draft else 0
    return Cache(bytes_of(target), theirs, exact=not target.recurrent)


def pages(load: ServedLoad, target: Shape, draft: Shape | None) -> Cache:
    """ExLlamaV3: whole pages; the draft's cache is as long as the target's."""
    tokens = _up(load.context * load.sequences, load.profile.page)

    def bytes_of(model: Shape, bits: float) -> int:
        total = 0
        for layer in model.layers:
            total += math.ceil(tokens * layer.width * bits / 8)
            if layer.state_kind:
                total += 4 * (layer.conv * layer.kernel + layer.state) * load.sequences
        return total

    exact = not any(layer.state_kind or layer.kind == shape.MLA for layer in target.layers)
    theirs = bytes_of(draft, load.draft_bits) if draft else 0
    return Cache(bytes_of(target, load.bits), theirs, exact)


def pool_of_blocks(load: ServedLoad, target: Shape, draft: Shape | None) -> Cache:
    """vLLM: target and draft share the blocks of one pool."""
    alone = paged.plan((target,), load)
    both = alone if draft is None else paged.plan((target, draft), load)
    total = both.request * load.sequences
    ours = min(alone.request * load.sequences, total)
    exact = load.profile.state_exact or not target.recurrent
    exact = exact and not any(layer.index for layer in target.layers)
    return Cache(ours, total - ours, exact, reserve=both.block_bytes)


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _row(elements: int, bits: float) -> int:
    return math.ceil(elements * bits / 8)


FOLDS: dict[str, Fold] = {
    "cells": cells, "paged": pool_of_blocks, "pool": pool, "growing": growing, "pages": pages,
}  # fmt: skip
