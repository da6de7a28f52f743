"""KV caches and recurrent states in bytes, by the way an engine lays them out.

There are five ways (rules/tables/memory.toml: `cache`), one function each: the layers of target
and draft under a load -> bytes on one rank. The most involved is vLLM's planner, which puts every
layer of both into one pool of equal blocks: what v1/core/kv_cache_utils.py works out from the
layers' specs, for one request of the whole context; a request's blocks times the sequences is
what the deployment needs.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

from draftcheck.memory import profiles, shape
from draftcheck.memory.profiles import Profile
from draftcheck.memory.shape import LayerShape, Shape
from draftcheck.values.dtypes import dtype_bytes

FULL, LATENT, SLIDING, CHUNKED, STATE = "full", "latent", "sliding", "chunked", "state"
SPARSE_LATENT = 656
"""Bytes per token of DeepSeek-V3.2's latent, which vLLM keeps in fp8_ds_mla."""


@dataclass(frozen=True, slots=True)
class ServedLoad:
    """What is to be served, and how the engine does it."""

    profile: Profile
    context: int
    sequences: int
    bits: float
    """Per element of the KV cache."""
    draft_bits: float
    ranks: int = 1
    draft_ranks: int = 1
    draft_tokens: int = 0
    role: str = ""
    """full, eagle3, mtp …; empty: no draft."""
    batched: int = 2048
    """Tokens that one step may process."""

    @property
    def drafted(self) -> int:
        """Tokens that a draft proposes at once."""
        return self.draft_tokens if self.role else 0

    @property
    def in_flight(self) -> int:
        """Tokens whose steps may not be done yet."""
        return self.batched * self.profile.in_flight


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
    profile: Profile,
    layers: Layers,
    stream: int,
    streams: int,
    sequences: int,
    bits: float,
    copies: int,
    unified: bool,
) -> int:
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
            heads = _heads(layer, ranks)
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
    alone = plan_blocks((target,), load)
    both = alone if draft is None else plan_blocks((target, draft), load)
    total = both.request * load.sequences
    ours = min(alone.request * load.sequences, total)
    exact = load.profile.state_exact or not target.recurrent
    exact = exact and not any(layer.index for layer in target.layers)
    return Cache(ours, total - ours, exact, reserve=both.block_bytes)


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _row(elements: int, bits: float) -> int:
    return math.ceil(elements * bits / 8)


FOLDS = {
    "cells": cells, "paged": pool_of_blocks, "pool": pool, "growing": growing, "pages": pages,
}  # fmt: skip


class NotPlanned(Exception):
    """vLLM itself refuses to lay out this mix of layers."""


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """What the planner knows of one layer."""

    kind: str
    block: int
    page: int
    heads: int = 0
    size: tuple[int, int] = (0, 0)
    window: int = 0
    padded: bool = False


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """Bytes of one block of the pool, and how many one request holds."""

    block_bytes: int
    blocks: int

    @property
    def request(self) -> int:
        return self.block_bytes * self.blocks


def plan_blocks(models: tuple[Shape, ...], load: ServedLoad) -> BlockPlan:
    """Lay out the pool for these models together, the target first."""
    block = _block(models[0], load)
    page = 0  # what every recurrent state is padded to: the page of the target's attention
    if models[0].recurrent:
        tokens = (_token(layer, load) for layer in models[0].layers if layer.attends)
        page = block * max(tokens, default=0)
    specs: list[LayerSpec] = []
    for model in models:
        for layer in model.layers:
            specs += _specs(model, layer, load, block, page)
    if not specs:
        return BlockPlan(0, 0)
    kinds = {spec.kind for spec in specs}
    # One kind, one window, one block size: one group, whatever the widths.
    groups = {
        spec if spec.kind == STATE else (spec.kind, spec.window, spec.block) for spec in specs
    }
    if kinds <= {FULL, LATENT} or len(groups) == 1:
        blocks = max(_blocks(spec, load) for spec in specs)
        return BlockPlan(sum(spec.page for spec in specs), blocks)
    try:
        specs = _unify(specs)
    except NotPlanned:
        # Latents beside sliding layers: all of them are kept at full length instead.
        if LATENT in kinds and SLIDING in kinds and STATE not in kinds:
            full = [replace(spec, kind=FULL, block=block, window=0) for spec in specs]
            return BlockPlan(sum(spec.page for spec in full), _blocks(full[0], load))
        raise
    # Groups of equally many layers; each group holds its own blocks of a request.
    buckets = Counter(specs)
    fewest, most = min(buckets.values()), max(buckets.values())
    size = most if most < fewest * load.profile.group_ratio else fewest
    blocks = sum(-(-count // size) * _blocks(spec, load) for spec, count in buckets.items())
    return BlockPlan(specs[0].page * size, blocks)


def _unify(specs: list[LayerSpec]) -> list[LayerSpec]:
    """Every page as large as the largest: by more tokens per block, else by padding."""
    largest = max(spec.page for spec in specs)
    unified = []
    for spec in specs:
        if spec.page == largest:
            unified.append(spec)
        elif spec.kind == STATE:
            unified.append(replace(spec, page=largest))
        elif largest % spec.page == 0:
            unified.append(replace(spec, block=spec.block * (largest // spec.page), page=largest))
        elif spec.kind == LATENT:
            raise NotPlanned
        else:
            unified.append(replace(spec, page=largest, padded=True))
    return unified


def _blocks(spec: LayerSpec, load: ServedLoad) -> int:
    """Blocks that one request of the whole context holds of this layer."""
    if spec.kind == STATE:
        return load.profile.state_copies + load.drafted
    tokens = load.context
    if spec.kind == SLIDING:
        tokens = min(spec.window - 1 + load.in_flight, load.context)
    elif spec.kind == CHUNKED:
        tokens = min(spec.window + load.in_flight, load.context)
    return -(-tokens // spec.block) + (spec.kind == SLIDING)


def _block(model: Shape, load: ServedLoad) -> int:
    """Tokens per block: more of them where a recurrent state must fit one block."""
    states = [_state(model, layer, load) for layer in model.layers if layer.state_kind]
    attention = [layer for layer in model.layers if layer.attends]
    if not states or not attention:
        return load.profile.block
    latent = any(layer.kind == shape.MLA for layer in attention)
    step = max(load.profile.block, 128) if latent else load.profile.block
    token = max(_token(layer, load) for layer in attention)
    return max(load.profile.block, step * -(-max(states) // (step * token)))


def _heads(layer: LayerShape, ranks: int) -> int:
    return 1 if layer.kind == shape.MLA else max(1, layer.kv_heads // ranks)


def _token(layer: LayerShape, load: ServedLoad) -> int:
    """Bytes of one token in this layer's page, on one rank."""
    if layer.kind == shape.MLA:
        return SPARSE_LATENT if layer.index else int(layer.k * load.bits / 8)
    return int(_heads(layer, load.ranks) * (layer.k + layer.v) * load.bits / 8)


def _specs(
    model: Shape, layer: LayerShape, load: ServedLoad, block: int, page: int
) -> list[LayerSpec]:
    specs = []
    if layer.attends:
        kind = {shape.MLA: LATENT, shape.SLIDING: SLIDING, shape.CHUNKED: CHUNKED}.get(
            layer.kind, FULL
        )
        heads = _heads(layer, load.ranks)
        width = block * _token(layer, load)
        specs.append(LayerSpec(kind, block, width, heads, (layer.k, layer.v), layer.window or 0))
        if layer.index:
            # One key in 8 bits with a float32 scale per 128 elements.
            index = layer.index + layer.index // 128 * 4
            specs.append(LayerSpec(LATENT, block, block * index, 1, (index, 0)))
    if layer.state_kind:
        state = _state(model, layer, load)
        if page and state > page:
            raise NotPlanned  # a draft's state; vLLM stops at an assertion
        size = (layer.conv, layer.state)
        specs.append(LayerSpec(STATE, block, page or state, layer.kernel, size))
    return specs


def _state(model: Shape, layer: LayerShape, load: ServedLoad) -> int:
    """Bytes of one sequence's state on one rank."""
    ranks = load.ranks
    size = dtype_bytes(model.state_dtype) or (
        4 if layer.state_kind == shape.KDA else model.float_bytes
    )
    extra = 0 if layer.state_kind == shape.MAMBA1 else load.drafted
    window = layer.kernel - 1 + extra if layer.kernel else 0
    channels = layer.conv
    if layer.groups and layer.groups % ranks:
        channels += (ranks - layer.groups) * layer.per_group
    return channels // ranks * window * model.float_bytes + layer.state // ranks * size
