"""vLLM's planner: every layer of target and draft in one pool of equal blocks.

What v1/core/kv_cache_utils.py works out from the layers' specs, for one request of the whole
context; a request's blocks times the sequences is what the deployment needs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from draftcheck.memory import shape
from draftcheck.memory.profiles import Profile
from draftcheck.memory.shape import LayerShape, Shape
from draftcheck.values.dtypes import dtype_bytes

FULL, LATENT, SLIDING, CHUNKED, STATE = "full", "latent", "sliding", "chunked", "state"
SPARSE_LATENT = 656
"""Bytes per token of DeepSeek-V3.2's latent, which vLLM keeps in fp8_ds_mla."""


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


@dataclass(frozen=True, slots=True)
class Serving:
    """The circumstances that the planner looks at."""

    context: int
    kv_bytes: float
    tensor_parallel: int
    in_flight: int
    spec_tokens: int
    state_copies: int
    group_ratio: float
    block: int


def serving(
    profile: Profile, context: int, kv_bytes: float, ranks: int, batched: int, spec_tokens: int
) -> Serving:
    return Serving(
        context=context,
        kv_bytes=kv_bytes,
        tensor_parallel=ranks,
        in_flight=batched * profile.in_flight,
        spec_tokens=spec_tokens,
        state_copies=profile.state_copies,
        group_ratio=profile.group_ratio,
        block=profile.block,
    )


def plan(
    models: tuple[Shape, ...], serve: Serving, rows: tuple[tuple[LayerShape, ...], ...]
) -> BlockPlan:
    """The pool for these models together; rows are their layers."""
    block = _block(models[0], rows[0], serve)
    page = _state_page(rows[0], serve, block)
    specs: list[LayerSpec] = []
    for model, layers in zip(models, rows, strict=True):
        for layer in layers:
            specs += _specs(model, layer, serve, block, page)
    if not specs:
        return BlockPlan(0, 0)
    kinds = {spec.kind for spec in specs}
    if kinds <= {FULL, LATENT} or _alike(specs):
        blocks = max(_blocks(spec, serve) for spec in specs)
        return BlockPlan(sum(spec.page for spec in specs), blocks)
    try:
        specs = _unify(specs)
    except NotPlanned:
        # Latents beside sliding layers: all of them are kept at full length instead.
        if LATENT in kinds and SLIDING in kinds and STATE not in kinds:
            full = [replace(spec, kind=FULL, block=block, window=0) for spec in specs]
            return BlockPlan(sum(spec.page for spec in full), _blocks(full[0], serve))
        raise
    return _groups(specs, serve)


def _groups(specs: list[LayerSpec], serve: Serving) -> BlockPlan:
    """Groups of equally many layers; each group holds its own blocks of a request."""
    buckets = Counter(specs)
    fewest, most = min(buckets.values()), max(buckets.values())
    size = most if most < fewest * serve.group_ratio else fewest
    blocks = sum(-(-count // size) * _blocks(spec, serve) for spec, count in buckets.items())
    return BlockPlan(specs[0].page * size, blocks)


def _alike(specs: list[LayerSpec]) -> bool:
    """One kind, one window, one block size: one group, whatever the widths."""
    first = specs[0]
    if first.kind == STATE:
        return len(set(specs)) == 1
    return all(
        (s.kind, s.window, s.block) == (first.kind, first.window, first.block) for s in specs
    )


def _unify(specs: list[LayerSpec]) -> list[LayerSpec]:
    """Every page as large as the largest: by more tokens per block, else by padding."""
    largest = max(spec.page for spec in specs)
    found = []
    for spec in specs:
        if spec.page == largest:
            found.append(spec)
        elif spec.kind == STATE:
            found.append(replace(spec, page=largest))
        elif largest % spec.page == 0:
            found.append(replace(spec, block=spec.block * (largest // spec.page), page=largest))
        elif spec.kind == LATENT:
            raise NotPlanned
        else:
            found.append(replace(spec, page=largest, padded=True))
    return found


def _blocks(spec: LayerSpec, serve: Serving) -> int:
    """Blocks that one request of the whole context holds of this layer."""
    if spec.kind == STATE:
        return serve.state_copies + serve.spec_tokens
    tokens = serve.context
    if spec.kind == SLIDING:
        tokens = min(spec.window - 1 + serve.in_flight, serve.context)
    elif spec.kind == CHUNKED:
        tokens = min(spec.window + serve.in_flight, serve.context)
    return -(-tokens // spec.block) + (spec.kind == SLIDING)


def _block(model: Shape, layers: tuple[LayerShape, ...], serve: Serving) -> int:
    """Tokens per block: more of them where a recurrent state must fit one block."""
    states = [_state(model, layer, serve) for layer in layers if layer.state_kind]
    attention = [layer for layer in layers if layer.attends]
    if not states or not attention:
        return serve.block
    latent = any(layer.kind == shape.MLA for layer in attention)
    step = max(serve.block, 128) if latent else serve.block
    token = max(_token(layer, serve) for layer in attention)
    return max(serve.block, step * -(-max(states) // (step * token)))


def _heads(layer: LayerShape, ranks: int) -> int:
    return 1 if layer.kind == shape.MLA else max(1, layer.kv_heads // ranks)


def _token(layer: LayerShape, serve: Serving) -> int:
    """Bytes of one token in this layer's page, on one rank."""
    if layer.kind == shape.MLA:
        return SPARSE_LATENT if layer.index else int(layer.k * serve.kv_bytes)
    return int(_heads(layer, serve.tensor_parallel) * (layer.k + layer.v) * serve.kv_bytes)


def _state_page(rows: tuple[LayerShape, ...], serve: Serving, block: int) -> int:
    """The page that every recurrent state is padded to: that of the target's attention."""
    if not any(layer.state_kind for layer in rows):
        return 0
    return block * max((_token(layer, serve) for layer in rows if layer.attends), default=0)


def _specs(
    model: Shape, layer: LayerShape, serve: Serving, block: int, page: int
) -> list[LayerSpec]:
    found = []
    if layer.attends:
        kind = {shape.MLA: LATENT, shape.SLIDING: SLIDING, shape.CHUNKED: CHUNKED}.get(
            layer.kind, FULL
        )
        heads = _heads(layer, serve.tensor_parallel)
        width = block * _token(layer, serve)
        found.append(LayerSpec(kind, block, width, heads, (layer.k, layer.v), layer.window or 0))
        if layer.index:
            # One key in 8 bits with a float32 scale per 128 elements.
            index = layer.index + layer.index // 128 * 4
            found.append(LayerSpec(LATENT, block, block * index, 1, (index, 0)))
    if layer.state_kind:
        state = _state(model, layer, serve)
        if page and state > page:
            raise NotPlanned  # a draft's state; vLLM stops at an assertion
        size = (layer.conv, layer.state)
        found.append(LayerSpec(STATE, block, page or state, layer.kernel, size))
    return found


def _state(model: Shape, layer: LayerShape, serve: Serving) -> int:
    """Bytes of one sequence's state on one rank."""
    ranks = serve.tensor_parallel
    size = dtype_bytes(model.state_dtype) or (
        4 if layer.state_kind == shape.KDA else model.float_bytes
    )
    extra = 0 if layer.state_kind == shape.MAMBA1 else serve.spec_tokens
    window = layer.kernel - 1 + extra if layer.kernel else 0
    channels = layer.conv
    if layer.groups and layer.groups % ranks:
        channels += (ranks - layer.groups) * layer.per_group
    return channels // ranks * window * model.float_bytes + layer.state // ranks * size
