"""What a pass of a model has to do: bytes to read, numbers to multiply, layers to launch.

Counted from headers and shapes; no engine is asked. How long an engine takes for it: passes.py.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

from draftcheck.errors import ReadError
from draftcheck.memory import fit, plan
from draftcheck.memory.from_config import ShapeUnknown
from draftcheck.memory.weights import EMBEDDINGS, ENCODERS, FLOATS, HEADS, MTP, tied
from draftcheck.values.dtypes import dtype_bytes
from draftcheck.values.facts import ModelFacts, Tensor

EXPERTS = re.compile(r"\.experts\.|_exps\.|\.block_sparse_moe\.experts")
GGUF_TABLE = re.compile(r"^token_embd\.")
KV_BYTES = {"fp8": 1.0, "int8": 1.0, "q8_0": 34 / 32, "q4_0": 18 / 32, "f32": 4.0, "float32": 4.0}


@dataclass(frozen=True, slots=True)
class ModelWork:
    weights: int
    """Bytes that every pass reads."""
    experts: int = 0
    """Bytes of all experts."""
    used: float = 1.0
    """Share of the experts that one token is sent to."""
    cache: int = 0
    """Keys and values of one sequence."""
    layers: int = 0
    bytes_each: float = 2.0
    """Of a parameter, on average."""
    output: int = 0
    """Bytes of the output layer among the weights, which chosen tokens alone go through."""

    def read(self, tokens: float = 1) -> float:
        """Bytes of weights for a pass over so many tokens, whose experts are not all the same."""
        return self.weights + self.experts * (1 - math.pow(1 - self.used, tokens))

    @property
    def nbytes(self) -> float:
        """Of a step of one sequence."""
        return self.read() + self.cache

    @property
    def parameters(self) -> float:
        """That a token is multiplied with."""
        return self.read() / self.bytes_each


@lru_cache(maxsize=4)  # a target is held against many drafts
def of_model(facts: ModelFacts, context: int, kv_dtype: str | None = None) -> ModelWork | None:
    """None when the files do not tell."""
    tensors = facts.weights.tensors
    if not tensors:
        return None
    plain = experts = output = 0
    whole = facts.role in (None, "full")
    looked_up = "output.weight" in tensors if facts.gguf is not None else not tied(facts)
    looked_up = looked_up or not whole  # a head's own tables are never one matrix
    for name, tensor in tensors.items():
        if ENCODERS.search(name) or (whole and MTP.search(name)):
            continue
        table = GGUF_TABLE.match(name) if facts.gguf is not None else EMBEDDINGS.search(name)
        if table and looked_up:  # one row of it is read
            continue
        if HEADS.search(name) and facts.gguf is None and not looked_up:
            continue  # the same matrix a second time
        if EXPERTS.search(name):
            experts += _bytes(facts, tensor)
        else:
            plain += _bytes(facts, tensor)
            if table or HEADS.search(name) or name == "output.weight":
                output += _bytes(facts, tensor)
    used, count = facts.config.experts_used, facts.config.experts
    if experts and not (used and count):
        return None
    share = min(used / count, 1.0) if used and count else 1.0
    everything = sum(_bytes(facts, tensor) for tensor in tensors.values())
    each = everything / facts.weights.parameters if facts.weights.parameters else 2.0
    cache = cache_bytes(facts, context, kv_dtype) or 0
    layers = facts.config.layers or 0
    if facts.head is not None and facts.head.layers is not None:
        layers = facts.head.layers
    return ModelWork(plain, experts, share, cache, layers, each, output)


def cache_bytes(facts: ModelFacts, context: int, kv_dtype: str | None = None) -> int | None:
    """Count the keys and values of one sequence of this length."""
    if facts.role in plan.NO_CACHE:
        return 0
    try:
        shape = fit.table(facts)
    except (ShapeUnknown, ReadError):
        return None
    size = KV_BYTES.get((kv_dtype or "").lower().partition("_e")[0], 2.0)
    seen = sum(layer.width * min(context, layer.window or context) for layer in shape.layers)
    return math.ceil(seen * size)


def borrowed(target: ModelFacts, draft: ModelFacts) -> int:
    """Bytes of the target's output layer, where a head has none of its own."""
    if draft.role in (None, "full") or draft.head is None or draft.head.lm_head is not False:
        return 0
    tensors = target.weights.tensors or {}
    heads = [t for name, t in tensors.items() if HEADS.search(name)]
    tables = [t for name, t in tensors.items() if EMBEDDINGS.search(name)]
    return max((_bytes(target, tensor) for tensor in heads or tables), default=0)


def _bytes(facts: ModelFacts, tensor: Tensor) -> int:
    """As it is read while running: floats in the type that the config names."""
    nbytes = tensor.nbytes or 0
    size = dtype_bytes(facts.config.dtype)
    if size and tensor.dtype in FLOATS and facts.gguf is None:
        return nbytes // FLOATS[tensor.dtype] * size
    return nbytes
