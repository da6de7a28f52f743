"""What a step of target and draft reads, and the acceptance from which a draft pays.

Bytes come from headers and shapes. Decoding one sequence is bound by what a step reads, so the
cost of a draft beside its target is the ratio of these bytes (over the bandwidths, where the two
lie on different devices). Nothing here guesses an acceptance.
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
from draftcheck.trial import speedup
from draftcheck.trial.speedup import Costs
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.comparison import Comparison
from draftcheck.values.dtypes import dtype_bytes
from draftcheck.values.facts import ModelFacts, Tensor

EXPERTS = re.compile(r"\.experts\.|_exps\.|\.block_sparse_moe\.experts")
GGUF_TABLE = re.compile(r"^token_embd\.")
KV_BYTES = {"fp8": 1.0, "int8": 1.0, "q8_0": 34 / 32, "q4_0": 18 / 32, "f32": 4.0, "float32": 4.0}
AT_ONCE = ("medusa", "dflash", "dspark")
"""Heads that draft all their tokens in one pass."""


@dataclass(frozen=True, slots=True)
class StepBytes:
    weights: int
    experts: float = 0.0
    """Of those experts that one token is sent to."""
    cache: int = 0
    """Keys and values of the context."""

    @property
    def nbytes(self) -> float:
        return self.weights + self.experts + self.cache


@dataclass(frozen=True, slots=True)
class DraftPrice:
    """What a draft costs beside its target; None: not known."""

    ratio: float | None = None
    """A step of the draft over a step of the target."""
    break_even: float | None = None
    """The share of drafts that must be accepted; None with a ratio: no share is enough."""
    kv_per_token: int | None = None
    """Bytes of cache that the draft has for every token."""
    at_best: bool = False
    """The target has experts: checking several tokens reads more of them than one step does."""

    @property
    def hopeless(self) -> bool:
        """Whether no acceptance pays for it."""
        return self.ratio is not None and self.break_even is None


def price(comparison: Comparison, circumstances: Circumstances) -> DraftPrice:
    target, draft = comparison.target, comparison.drafter
    context = circumstances.context or fit.CONTEXT
    cache = cache_bytes(draft, context, circumstances.kv_dtype)
    kept = None if cache is None else cache // context  # layers with a window keep less
    if kept is None or cache_bytes(target, 1) is None:
        context = 0  # then weights alone are held against each other
    ours = step(target, context, circumstances.kv_dtype)
    theirs = step(draft, context, circumstances.kv_dtype)
    if ours is None or theirs is None or not ours.nbytes:
        return DraftPrice(kv_per_token=kept)
    fast, near = _bandwidths(circumstances)
    ranks = circumstances.tensor_parallel or 1
    costs = Costs(
        draft_step=(theirs.nbytes + _borrowed(target, draft))
        / (near * (circumstances.draft_tensor_parallel or ranks)),
        target_step=ours.nbytes / (fast * ranks),
        verify={},  # as a step: what is read once serves all tokens that are checked
        how="bytes read",
        at_once=draft.role in AT_ONCE,
    )
    enough = speedup.break_even(costs)
    return DraftPrice(costs.ratio, enough, kept, at_best=bool(ours.experts))


@lru_cache(maxsize=4)  # a target is held against many drafts
def step(facts: ModelFacts, context: int, kv_dtype: str | None = None) -> StepBytes | None:
    """Count what a step of one model reads; None when the files do not tell."""
    tensors = facts.weights.tensors
    if not tensors:
        return None
    plain = experts = 0
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
    used, count = facts.config.experts_used, facts.config.experts
    if experts and not (used and count):
        return None
    share = min(used / count, 1.0) if used and count else 1.0
    return StepBytes(plain, experts * share, cache_bytes(facts, context, kv_dtype) or 0)


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


def _bytes(facts: ModelFacts, tensor: Tensor) -> int:
    """As it is read while running: floats in the type that the config names."""
    nbytes = tensor.nbytes or 0
    size = dtype_bytes(facts.config.dtype)
    if size and tensor.dtype in FLOATS and facts.gguf is None:
        return nbytes // FLOATS[tensor.dtype] * size
    return nbytes


def _borrowed(target: ModelFacts, draft: ModelFacts) -> int:
    """A head without an output layer of its own reads the target's."""
    if draft.role in (None, "full") or draft.head is None or draft.head.lm_head is not False:
        return 0
    tensors = target.weights.tensors or {}
    heads = [t for name, t in tensors.items() if HEADS.search(name)]
    tables = [t for name, t in tensors.items() if EMBEDDINGS.search(name)]
    return max((_bytes(target, tensor) for tensor in heads or tables), default=0)


def _bandwidths(circumstances: Circumstances) -> tuple[float, float]:
    """Of the device of the target, and of the draft's; 1 where only their ratio matters."""
    devices = circumstances.machine.devices if circumstances.machine is not None else ()
    chosen = circumstances.draft_gpu
    if chosen is None or not 0 <= chosen < len(devices):
        return 1.0, 1.0
    mine = devices[chosen].bandwidth
    others = [gpu.bandwidth for i, gpu in enumerate(devices) if i != chosen]
    known = [other for other in others if other is not None]
    if mine is None or not known or len(known) < len(others):
        return 1.0, 1.0
    return float(min(known)), float(mine)
