"""What lies on each device: weights, caches, workspace, the engine's reserve; and what it has.

A MemoryQuestion is all that this depends on: two models, an engine's habits, devices and
circumstances. Weights and caches are shared out (by ranks, or by free memory where an engine
splits by layers); on top comes what the engine itself needs, one function for each of the five
ways of caching. In a pipeline the target's layers are cut into runs, one per stage; the draft
lives on the last.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import operator
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from draftcheck.memory import caches, profiles, weights
from draftcheck.memory.caches import Cache, ServedLoad
from draftcheck.memory.profiles import GIB, MIB, Profile, Range
from draftcheck.memory.shape import Shape
from draftcheck.memory.weights import Weights
from draftcheck.values.facts import ModelFacts, Tensor
from draftcheck.values.memory import Basis, DeviceFit, Gpu, MemoryPart

FINAL = re.compile(r"(^|\.)(norm|final_layernorm|ln_f|final_norm|norm_f)\.")
TARGET, DRAFT, ENGINE = "target", "draft", "engine"
WEIGHTS, CACHE, WORKSPACE = "weights", "cache", "workspace"
NO_CACHE = ("medusa", "mlp_speculator")


@dataclass(frozen=True, slots=True)
class PlannedModel:
    facts: ModelFacts
    shape: Shape


@dataclass(frozen=True, slots=True)
class MemoryQuestion:
    """Everything that the plan depends on."""

    profile: Profile
    devices: tuple[Gpu, ...]
    target: PlannedModel
    draft: PlannedModel | None
    role: str
    """Of the draft: full, eagle3 …; itself: the target's own prediction layers; empty: none."""
    context: int
    sequences: int
    kv_dtype: str | None
    dtype: str | None
    ranks: int
    draft_ranks: int
    draft_tokens: int
    fraction: float | None
    draft_gpu: int | None
    sequences_said: bool
    stages: int = 1
    """Of a pipeline: the target's layers, cut into so many runs."""
    last: bool = True
    """Whether this is the stage that makes the logits and holds the draft."""

    def without_draft(self) -> MemoryQuestion:
        return replace(self, draft=None, role="", draft_gpu=None)


@dataclass(frozen=True, slots=True)
class LoadedDevice:
    """A device with its share of both models: what an engine's overhead depends on."""

    question: MemoryQuestion
    gpu: Gpu
    cache: Cache
    ours: Weights
    theirs: Weights | None
    share: float


def load_of(question: MemoryQuestion) -> ServedLoad:
    """Say what is to be served, in the terms of the caches."""
    profile = question.profile
    _, bits = profile.kv_bits(question.kv_dtype, question.target.shape.float_bytes)
    draft_dtype = question.kv_dtype if profile.kv_of_draft else None
    draft_bytes = question.draft.shape.float_bytes if question.draft else 2
    _, draft_bits = profile.kv_bits(draft_dtype, draft_bytes)
    batched = 2048
    if rows := profile.batched_tokens:
        name = question.devices[0].name.lower()
        small = any(word in name for word in profile.small_batch)
        memory = min(gpu.memory for gpu in question.devices)
        batched = rows[0][0] if small else profiles.step(rows, memory)
    return ServedLoad(
        profile=profile,
        context=question.context,
        sequences=question.sequences,
        bits=bits,
        draft_bits=draft_bits,
        ranks=question.ranks,
        draft_ranks=question.draft_ranks,
        draft_tokens=question.draft_tokens,
        role=question.role,
        batched=batched,
    )


def cache_of(question: MemoryQuestion, *, floor: bool = False) -> Cache:
    """Lay out both caches; floor: what they are at least where the files leave layers open."""

    def layers_of(shape: Shape) -> Shape:
        least = shape.floor if floor else None
        return shape if least is None else replace(shape, layers=least)

    fold = caches.FOLDS[question.profile.cache]
    cached = question.draft is not None and question.role not in NO_CACHE
    draft = layers_of(question.draft.shape) if question.draft and cached else None
    return fold(load_of(question), layers_of(question.target.shape), draft)


def weigh(question: MemoryQuestion) -> tuple[Weights | None, Weights | None]:
    """Weigh both models on one rank."""
    target, draft, itself = question.target, question.draft, question.role == "itself"
    measure = functools.partial(weights.measure, profile=question.profile, dtype=question.dtype)
    ours = measure(target.facts, target.shape, ranks=question.ranks, with_mtp=itself)
    if ours is not None and question.stages > 1:
        ours = replace(ours, stages=_weigh_stages(question, ours))
    if draft is None or itself:
        return ours, None
    shares = question.role in question.profile.shares_head_tables
    rows = target.shape.vocab if shares else 0
    ranks = question.draft_ranks
    return ours, measure(draft.facts, draft.shape, ranks=ranks, with_mtp=True, shared_rows=rows)


def devices(
    question: MemoryQuestion, ours: Weights, theirs: Weights | None
) -> Iterator[tuple[DeviceFit, int]]:
    """The parts on every device, stage by stage: neighbours that are alike once, and how many."""
    if question.stages == 1:
        yield from _devices(question, ours, theirs)
        return
    for stage, weighed, count in stage_questions(question, ours.stages):
        fits = list(_devices(stage, weighed, theirs if stage.last else None))
        for _ in range(count):
            yield from fits


def _devices(
    question: MemoryQuestion, ours: Weights, theirs: Weights | None
) -> Iterator[tuple[DeviceFit, int]]:
    cache = cache_of(question)
    low = cache_of(question, floor=True)
    more = 0
    if question.profile.split == "tensor":
        # Ranks behind the last device that is named are alike: one stands for all of them.
        shares = [1.0] * min(question.ranks, len(question.devices) + 1)
        more = question.ranks - len(shares)
    else:
        free = [max(gpu.available, 1) for gpu in question.devices]
        alone = question.draft_gpu
        if alone is not None and theirs is not None:
            free[alone] = max(free[alone] - theirs.nbytes - cache.draft, 1)
        shares = [one / sum(free) for one in free]
    apart = question.draft_gpu  # the only device that holds the draft
    if apart is None and question.draft_ranks == 1 and question.ranks > 1:
        apart = 0
    loads = [
        (
            question.devices[min(number, len(question.devices) - 1)],
            share,
            share if apart is None else float(number == apart),
        )
        for number, share in enumerate(shares)
    ]
    counts = [1] * (len(loads) - 1) + [1 + more]
    overhead = OVERHEADS[question.profile.cache]
    fraction = question.profile.fraction if question.fraction is None else question.fraction
    if question.profile.cache == "pool":
        fraction = 1.0  # its fraction is a reserve, counted as a part
    groups = itertools.groupby(zip(loads, counts, strict=True), key=operator.itemgetter(0))
    for (gpu, share, draft_share), alike in groups:
        parts = [
            _weights(ours, TARGET, share),
            _cache(cache.target, low.target, cache, TARGET, share),
        ]
        if question.role:
            if theirs is not None:
                parts.append(_weights(theirs, DRAFT, draft_share))
            parts.append(_cache(cache.draft, low.draft, cache, DRAFT, draft_share))
        parts += overhead(LoadedDevice(question, gpu, cache, ours, theirs, share))
        there = tuple(part for part in parts if part.high > 0)
        available, slack = int(gpu.usable * fraction), (0, 0)
        if gpu.free is not None:
            available = min(available, gpu.free)
        else:
            low_held, held, high_held = gpu.held_back
            slack = high_held - held, held - low_held
        yield DeviceFit(gpu.name, available, there, slack), sum(count for _, count in alike)


def _part(name: str, owner: str, size: float, basis: Basis, low: float, high: float) -> MemoryPart:
    return MemoryPart(name, owner, int(size), basis, int(low), int(high))


def _weights(model: Weights, owner: str, share: float) -> MemoryPart:
    whole = share in (0.0, 1.0)
    basis = Basis.EXACT if model.exact and whole else Basis.MODELLED
    spread = 0.0 if whole else 0.03
    return _part(
        WEIGHTS, owner, model.nbytes * share, basis, model.low * share * (1 - spread),
        model.high * share * (1 + spread),
    )  # fmt: skip


def _cache(size: int, low: int, cache: Cache, owner: str, share: float) -> MemoryPart:
    whole = share in (0.0, 1.0)
    exact = cache.exact and whole and low == size
    spread = 0.0 if cache.exact and whole else 0.1
    return MemoryPart(
        CACHE,
        owner,
        int(size * share),
        Basis.EXACT if exact else Basis.MODELLED,
        int(min(low, size) * share * (1 - spread)),
        int(size * share * (1 + spread)),
        cache.note,
    )


def _constant(name: str, mib: Range) -> MemoryPart:
    low, typical, high = mib
    return MemoryPart(name, ENGINE, typical * MIB, Basis.CONSTANT, low * MIB, high * MIB)


def _widths(shape: Shape) -> int:
    """Elements of activations that one token needs at once, in one layer."""
    return 3 * shape.feed_forward + 4 * shape.hidden


def _cells_overhead(device: LoadedDevice) -> Iterator[MemoryPart]:
    """llama.cpp: one compute buffer per context and device."""
    question, profile = device.question, device.question.profile
    pad, batch = profile.pad, profile.batch
    held = -(-question.context // pad) * pad
    rows = batch
    if profile.outputs == "drafts":
        rows = min(2048, question.sequences * (1 + question.draft_tokens * bool(question.role)))

    def buffer(shape: Shape, outputs: int) -> int:
        layers = batch * (4 * _widths(shape) + 2 * held + 24)
        logits = outputs * shape.vocab * 4 + batch * (8 * shape.hidden + 4)
        return int(max(layers, logits))

    sides = [(question.target.shape, TARGET, rows)]
    if question.draft is not None:
        few = question.sequences if profile.outputs == "drafts" else batch
        sides.append((question.draft.shape, DRAFT, few))
    for shape, owner, outputs in sides:
        size = buffer(shape, outputs)
        unsure = shape.moe or shape.recurrent
        low, high = (0.4, 3.0) if unsure else (0.9, 1.5)
        yield _part(WORKSPACE, owner, size, Basis.MODELLED, size * low, size * high)
    yield _constant("driver context", question.profile.context_mib)


def _paged_overhead(device: LoadedDevice) -> Iterator[MemoryPart]:
    """vLLM: the profile run, the sampler's logits, CUDA graphs, one block for nobody."""
    question, reserve = device.question, device.cache.reserve
    shape, load = question.target.shape, load_of(question)
    rows = question.sequences if question.sequences_said else question.profile.sequences
    size = load.batched * _widths(shape) * shape.float_bytes / question.ranks
    logits = rows * shape.vocab * 4 * 2.5 * question.last
    low, typical, high = question.profile.workspace
    yield _part(
        WORKSPACE, ENGINE, (size + logits) * typical, Basis.MODELLED, (size + logits) * low,
        (size + logits) * high,
    )  # fmt: skip
    yield _constant("CUDA graphs", question.profile.graphs_mib)
    yield _constant("driver context", question.profile.context_mib)
    if reserve:
        yield _part("null block", ENGINE, reserve, Basis.EXACT, reserve, reserve)


def _pool_overhead(device: LoadedDevice) -> Iterator[MemoryPart]:
    """SGLang: what mem_fraction_static leaves free for activations and graphs."""
    question, gpu, theirs = device.question, device.gpu, device.theirs
    usable = gpu.usable
    if question.fraction is not None:
        reserve = int(usable * (1 - question.fraction))
    else:
        profile = question.profile
        row = profile.reserve
        assert row is not None
        tokens = max(profiles.step(profile.chunked_prefill, gpu.memory), row.tokens)
        mib = row.base_mib + tokens * row.per_token_kib / 1024
        mib += row.parallel_mib * question.ranks
        mib += row.graph_mib * profiles.step(profile.graph_batch, gpu.memory)
        if usable > row.large_gib * GIB:
            mib = max(mib, row.large_mib)
        reserve = int(mib * MIB)
        if theirs is not None:
            extra = profile.draft_reserve_mib
            more = (extra.full if question.role == "full" else extra.head) * MIB
            reserve += max(0, more - theirs.nbytes)
    yield _part("reserve", ENGINE, reserve, Basis.MODELLED, reserve * 0.9, reserve * 1.1)
    yield _constant("driver context", question.profile.context_mib)


def _growing_overhead(device: LoadedDevice) -> Iterator[MemoryPart]:
    """transformers: the allocator's rounding, and prefill or the copy of growing caches.

    The blocks of the prefill's activations are what the caches grow into afterwards: every
    step copies each layer's keys and values into a slightly larger tensor. Checking several
    drafted tokens at once needs a mask, and with one the keys and values of a layer are
    repeated for every query head.
    """
    question, cache, share = device.question, device.cache, device.share
    slack = (device.ours.slack + (device.theirs.slack if device.theirs else 0)) * share
    yield _part("allocator rounding", ENGINE, slack, Basis.MODELLED, 0, slack * 2)
    shape = question.target.shape
    tokens = question.context * question.sequences
    prefill = tokens * (_widths(shape) * shape.float_bytes + 4 * shape.head_dim + 16)
    copies = cache.target + cache.draft
    heads = max((layer.kv_heads for layer in shape.layers), default=0)
    repeated = 0
    if question.role and 0 < heads < shape.heads:
        repeated = tokens * 2 * shape.heads * shape.head_dim * shape.float_bytes
    size = max(prefill, copies) * share + repeated
    held = tokens * sum(
        layer.width for layer in shape.layers if layer.window is not None
    ) * shape.float_bytes  # fmt: skip
    yield _part(
        WORKSPACE, ENGINE, size, Basis.MODELLED, min(prefill, copies) * share * 0.7,
        (prefill + copies + held) * share * 1.05 + repeated,
    )  # fmt: skip
    yield _constant("cuBLAS workspace", question.profile.blas_mib)
    yield _constant("driver context", question.profile.context_mib)


def _pages_overhead(device: LoadedDevice) -> Iterator[MemoryPart]:
    """ExLlamaV3: activations of a 2048-token chunk inside its reserve per device."""
    question = device.question
    shape = question.target.shape
    size = 2048 * _widths(shape) * 2
    reserve = question.profile.reserve_mib * MIB
    low, typical, high = question.profile.workspace
    yield _part(
        WORKSPACE, ENGINE, max(size * typical, reserve), Basis.MODELLED, size * low,
        max(size * high, reserve),
    )  # fmt: skip
    yield _constant("driver context", question.profile.context_mib)


OVERHEADS = {
    "cells": _cells_overhead, "paged": _paged_overhead, "pool": _pool_overhead,
    "growing": _growing_overhead, "pages": _pages_overhead,
}  # fmt: skip


def cut(habit: str, layers: int, stages: int) -> list[int]:
    """Find how many layers each stage has; habits differ in who gets those that are left over."""
    each, rest = divmod(layers, stages)
    extra = {
        "last-takes-rest": [0] * (stages - 1) + [rest],
        "middle-first": [0] * (stages - rest - 1) + [1] * rest + [0],
        "last-ones": [0] * (stages - rest) + [1] * rest,
    }
    return [each + more for more in extra[habit]]


def runs(question: MemoryQuestion) -> list[range]:
    """Cut the layers into stages, as the engine does."""
    assert question.profile.stages is not None
    sizes = cut(question.profile.stages, len(question.target.shape.layers), question.stages)
    ends = list(itertools.accumulate(sizes))
    return [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def stage_questions(
    question: MemoryQuestion, weighed: tuple[Weights, ...]
) -> Iterator[tuple[MemoryQuestion, Weights, int]]:
    """Ask the question of every stage: its layers and weights, and the draft on the last one only.

    Neighbours that are alike are asked once, with their number.
    """
    shape = question.target.shape
    stage_runs, ranks = runs(question), question.ranks
    known = shape.floor is not None and len(shape.floor) == len(shape.layers)
    stages = [
        (
            shape.layers[run.start : run.stop],
            shape.floor[run.start : run.stop] if shape.floor is not None and known else None,
            question.devices[number * ranks : (number + 1) * ranks] or question.devices[-1:],
            weighed[number],
            number == len(stage_runs) - 1,
        )
        for number, run in enumerate(stage_runs)
    ]
    for (layers, floor, devices, weights_of_stage, last), alike in itertools.groupby(stages):
        target = replace(question.target, shape=replace(shape, layers=layers, floor=floor))
        stage = replace(question, target=target, stages=1, last=last, devices=devices)
        stage = stage if last else stage.without_draft()
        yield stage, weights_of_stage, len(list(alike))


def _weigh_stages(question: MemoryQuestion, whole: Weights) -> tuple[Weights, ...]:
    """Weigh every stage; by share where no header lists its tensors."""
    facts = question.target.facts
    stage_runs = runs(question)
    if not facts.weights.tensors:
        total = max(len(question.target.shape.layers), 1)
        return tuple(_share_of(whole, len(run) / total) for run in stage_runs)
    weighed = []
    for tensors in _spread(facts, stage_runs):
        stage = weights.measure(
            replace(facts, weights=replace(facts.weights, tensors=tensors)),
            question.target.shape, question.profile, ranks=question.ranks,
            dtype=question.dtype, with_mtp=question.role == "itself",
        )  # fmt: skip
        weighed.append(stage or _share_of(whole, 0.0))
    return tuple(weighed)


def _share_of(whole: Weights, share: float) -> Weights:
    return replace(
        whole,
        nbytes=int(whole.nbytes * share),
        low=int(whole.low * share * 0.9),
        high=int(whole.high * share * 1.2),
        exact=False,
    )


def _spread(facts: ModelFacts, stage_runs: Sequence[range]) -> list[dict[str, Tensor]]:
    """The tensors that each stage loads: tables of tokens at the ends, tied ones at both."""
    stops = [run.stop for run in stage_runs]
    stages: list[dict[str, Tensor]] = [{} for _ in stage_runs]
    first, last = stages[0], stages[-1]
    for name, tensor in (facts.weights.tensors or {}).items():
        layer = weights.LAYER.search(name)
        if layer and not weights.ENCODERS.search(name):
            number = bisect.bisect_right(stops, int(layer[1]))
            stages[min(number, len(stages) - 1)][name] = tensor
        elif weights.EMBEDDINGS.search(name):
            first[name] = tensor
            if facts.config.tied:
                last[name] = tensor
        elif weights.HEADS.search(name) or FINAL.search(name) or weights.MTP.search(name):
            last[name] = tensor
        else:
            first[name] = tensor
    return stages
