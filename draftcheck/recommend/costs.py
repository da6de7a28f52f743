"""What a draft costs beside its target, and the acceptance from which it pays.

Where the engine's passes are modelled on the user's GPU (trial/engine_speed), from those, at the
user's load. Elsewhere from the bytes that a step reads: decoding one sequence is bound by them, so
their ratio (over the bandwidths, where the two lie on different devices) is the least that a draft
costs. Nothing here guesses an acceptance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from draftcheck.memory import fit
from draftcheck.trial import speedup
from draftcheck.trial.engine_speed import table, work
from draftcheck.trial.engine_speed.passes import EnginePasses
from draftcheck.trial.engine_speed.work import ModelWork
from draftcheck.trial.speedup import Costs
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.comparison import Comparison
from draftcheck.values.verdicts import EngineVerdict

AT_ONCE = ("medusa", "dflash", "dspark")
"""Heads that draft all their tokens in one pass."""


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
    where: str = ""
    """The engine, version and GPU whose passes were modelled; nothing: bytes were counted."""
    costs: Costs | None = None
    """Of those passes, at the user's load."""

    @property
    def hopeless(self) -> bool:
        """Whether no acceptance pays for it."""
        return self.ratio is not None and self.break_even is None


def price(
    comparison: Comparison, circumstances: Circumstances, engine: EngineVerdict | None = None
) -> DraftPrice:
    target, draft = comparison.target, comparison.drafter
    context = circumstances.context or fit.CONTEXT
    cache = work.cache_bytes(draft, context, circumstances.kv_dtype)
    kept = None if cache is None else cache // context  # layers with a window keep less
    if kept is None or work.cache_bytes(target, 1) is None:
        context = 0  # then weights alone are held against each other
    ours = work.of_model(target, context, circumstances.kv_dtype)
    theirs = work.of_model(draft, context, circumstances.kv_dtype)
    if ours is None or theirs is None or not ours.nbytes:
        return DraftPrice(kv_per_token=kept)
    theirs = replace(theirs, weights=theirs.weights + work.borrowed(target, draft))
    modelled = _modelled(ours, theirs, circumstances, engine)
    if modelled is not None:
        costs = modelled.costs(circumstances.sequences or 1)
        words = f"{modelled.engine} {modelled.version} on {modelled.gpu.name}"
        enough = speedup.break_even(costs)
        return DraftPrice(costs.ratio, enough, kept, where=words, costs=costs)
    fast, near = _bandwidths(circumstances)
    ranks = circumstances.tensor_parallel or 1
    costs = Costs(
        draft_step=theirs.nbytes / (near * (circumstances.draft_tensor_parallel or ranks)),
        target_step=ours.nbytes / (fast * ranks),
        verify={},  # as a step: what is read once serves all tokens that are checked
        how="bytes read",
        at_once=draft.role in AT_ONCE,
    )
    enough = speedup.break_even(costs)
    return DraftPrice(costs.ratio, enough, kept, at_best=bool(ours.experts))


def _modelled(
    target: ModelWork, draft: ModelWork, said: Circumstances, engine: EngineVerdict | None
) -> EnginePasses | None:
    """The engine's passes on the user's GPU, where they are known; all ranks on one kind of it."""
    devices = said.machine.devices if said.machine is not None else ()
    gpu = devices[0] if devices else None
    if engine is None or gpu is None or not gpu.bandwidth or not gpu.flops or said.draft_gpu:
        return None
    rows = table.rows(engine.engine, engine.version, engine.method or "")
    if rows is None:
        return None
    ranks = said.tensor_parallel or 1
    made = EnginePasses(engine.engine, engine.version, *rows, gpu, target, draft, ranks)
    return made if made.known else None


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
