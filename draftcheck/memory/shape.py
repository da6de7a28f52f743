"""The table that every engine folds: what each layer keeps of a token and of a sequence."""

from __future__ import annotations

from dataclasses import dataclass

from draftcheck.errors import ReadError

FULL, SLIDING, CHUNKED, MLA, NONE = "full", "sliding", "chunked", "mla", "none"
MAMBA1, MAMBA2, DELTA, KDA, CONV, LINEAR, RWKV = (
    "mamba-1", "mamba-2", "delta-net", "kda", "short-conv", "linear", "rwkv",
)  # fmt: skip
MAX_LAYERS = 2000
MAX_SIDE = 1 << 24
MAX_WINDOW = 1 << 40


@dataclass(frozen=True, slots=True)
class LayerShape:
    """One layer; counts are elements, engines choose the type that holds them."""

    kind: str = FULL
    kv_heads: int = 0
    k: int = 0
    """Elements of a key per head and token; for MLA the latent and its rotary part."""
    v: int = 0
    """Elements of a value; for MLA what engines kept that stored the latent twice."""
    window: int | None = None
    expanded: int = 0
    """MLA: elements per token where an engine keeps full keys and values instead."""
    index: int = 0
    """Elements per token of the keys of a sparse-attention indexer."""
    ratio: int = 0
    """DeepSeek-V4: tokens that one further, compressed entry stands for; 1: it has none."""
    state_kind: str = ""
    """mamba-2, delta-net …: set where the layer keeps a recurrent state."""
    conv: int = 0
    """Channels of the convolution's window."""
    kernel: int = 0
    state: int = 0
    """Elements of the recurrent state of one sequence."""
    groups: int = 0
    per_group: int = 0
    """Mamba-2: channels of conv per group; tensor parallel copies groups that it cannot split."""

    @property
    def attends(self) -> bool:
        """Whether it keeps keys of its own."""
        return bool(self.k)

    @property
    def width(self) -> int:
        """Elements per token that lie in a KV cache (latent once)."""
        return self.kv_heads * (self.k + (0 if self.kind == MLA else self.v)) + self.index


@dataclass(frozen=True, slots=True)
class Shape:
    """One model, as far as memory is concerned."""

    layers: tuple[LayerShape, ...]
    hidden: int
    heads: int
    feed_forward: int
    """Widest feed-forward that one token goes through."""
    vocab: int
    max_context: int | None
    head_dim: int = 0
    float_bytes: int = 2
    """Bytes of the type that the model computes in."""
    state_dtype: str | None = None
    """What the config says about the type of recurrent states."""
    moe: bool = False
    arch: str = ""
    floor: tuple[LayerShape, ...] | None = None
    """What the layers may be instead, at least, where the files leave it open."""
    notes: tuple[str, ...] = ()

    @property
    def recurrent(self) -> bool:
        return any(layer.state_kind for layer in self.layers)


def bad(where: str, field: str, value: object) -> ReadError:
    """Refuse a number that no model can have, by the field's name."""
    return ReadError(f"{where}: {field} is {str(value)[:40]}, not a number that a model can have")
