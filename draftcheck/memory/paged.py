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
        """Bytes that one request holds."""
        return self.block_bytes * self.blocks


@dataclass(frozen=True, slots=True)
class Serving:
    """The circumstances that the planner looks at."""

    profile: Profile
    context: int
    kv_bytes: float
    tensor_parallel: int
    batched: int
    """Tokens that one step may process."""
    spec_tokens: int

    @property
    def in_flight(self) -> int:
        """Tokens whose steps may not be done yet."""
        return self.batched * self.profile.in_flight

    @property
    def block(self) -> int:
        """Tokens per block, unless a state needs more."""
        return self.profile.block


def plan(models: tuple[Shape, ...], serve: Serving) -> BlockPlan:
    """Lay out the pool for these models together, the target first."""
    block = _block(models[0], serve)
    page = _state_page(models[0], serve, block)
    specs: list[LayerSpec] = []
    for model in models:
        for layer in model.layers:
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
    size = most if most < fewest * serve.profile.group_ratio else fewest
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


def _blocks(spec: LayerSpec, serve: Serving) -> int:
    """Blocks that one request of the whole context holds of this layer."""
    if spec.kind == STATE:
        return serve.profile.state_copies + serve.spec_tokens
    tokens = serve.context
    if spec.kind == SLIDING:
        tokens = min(spec.window - 1 + serve.in_flight, serve.context)
    elif spec.kind == CHUNKED:
        tokens = min(spec.window + serve.in_flight, serve.context)
    return -(-tokens // spec.block) + (spec.kind == SLIDING)


def _block(model: Shape, serve: Serving) -> int:
    """Tokens per block: more of them where a recurrent state must fit one block."""
    states = [_state(model, layer, serve) for layer in model.layers if layer.state_kind]
    attention = [layer for layer in model.layers if layer.attends]
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


def _state_page(target: Shape, serve: Serving, block: int) -> int:
    """The page that every recurrent state is padded to: that of the target's attention."""
    if not target.recurrent:
        return 0
    tokens = (_token(layer, serve) for layer in target.layers if layer.attends)
    return block * max(tokens, default=0)


def _specs(
    model: Shape, layer: LayerShape, serve: Serving, block: int, page: int
) -> list[LayerSpec]:
    specs = []
    if layer.attends:
        kind = {shape.MLA: LATENT, shape.SLIDING: SLIDING, shape.CHUNKED: CHUNKED}.get(
            layer.kind, FULL
        )
        heads = _heads(layer, serve.tensor_parallel)
        width = block * _token(layer, serve)
        specs.append(LayerSpec(kind, block, width, heads, (layer.k, layer.v), layer.window or 0))
        if layer.index:
            # One key in 8 bits with a float32 scale per 128 elements.
            index = layer.index + layer.index // 128 * 4
            specs.append(LayerSpec(LATENT, block, block * index, 1, (index, 0)))
    if layer.state_kind:
        state = _state(model, layer, serve)
        if page and state > page:
            raise NotPlanned  # a draft's state; vLLM stops at an assertion
        size = (layer.conv, layer.state)
        specs.append(LayerSpec(STATE, block, page or state, layer.kernel, size))
    return specs


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
