"""Seconds per step: under CUDA graphs on a static cache, or plainly timed elsewhere.

Eager PyTorch on a GPU waits for Python, not for memory: its timings would say nothing about the
models. What comes out holds for these kernels alone; no serving engine has them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import transformers
from msgspec import structs
from transformers import DynamicCache, StaticCache

from draftcheck.trial import speedup
from draftcheck.trial.speedup import WIDTHS, Costs

ROUNDS = 5
REPEATS, GRAPH_REPEATS = 12, 4
"""Of every step in a round, one after the other: what else the machine does hits all of them."""
ROUND_SECONDS = 1.0
"""After which a round is not repeated any more."""
COPIES = 10
DRAFT = 0
"""The draft's step among those of the target, which go by their width."""

Step = Callable[[], object]


@dataclass(frozen=True, slots=True)
class RewoundStep:
    """A step that can be made again and again."""

    run: Step
    rewind: Callable[[], object]
    """Undoes what it did to a cache; not timed."""
    kept: object = None
    """A graph reads its tensors where they lay when it was made: they must not be freed."""


def measure(target: Any, draft: Any, device: str, sequences: int, context: int) -> Costs | None:
    """Costs for so many sequences at once; None when they do not fit."""
    prepare = _graphs if device.startswith("cuda") else _plain
    small = partial(prepare, draft, sequences, context, (1,))
    return _measured(target, lambda: small()[1], device, sequences, context)


def measure_head(
    target: Any,
    head: Callable[[], Step] | None,
    device: str,
    sequences: int,
    context: int,
    *,
    at_once: bool = False,
) -> Costs | None:
    """The same with a step that is no model's; None: the target alone."""
    prepare = _graph if device.startswith("cuda") else RewoundStep
    small = None if head is None else lambda: prepare(head(), _nothing)
    return _measured(target, small, device, sequences, context, at_once)


def _nothing() -> None:
    pass


def _measured(
    target: Any,
    small: Callable[[], RewoundStep] | None,
    device: str,
    sequences: int,
    context: int,
    at_once: bool = False,
) -> Costs | None:
    on_gpu = device.startswith("cuda")
    try:
        with torch.inference_mode():
            steps = (_graphs if on_gpu else _plain)(target, sequences, context, (1, *WIDTHS))
            if small is not None:
                steps[DRAFT] = small()
            for step in steps.values():
                _seconds(step)  # warms up
            repeats = GRAPH_REPEATS if on_gpu else REPEATS
            rounds = [timed_round(steps, repeats) for _ in range(ROUNDS)]
    except torch.OutOfMemoryError:
        return None

    def costs(times: Mapping[int, Sequence[float]]) -> Costs:
        # Other programs only add to what a step takes; a GPU's own clock goes both ways.
        typical = statistics.median if on_gpu else min
        taken = {name: typical(seconds) for name, seconds in times.items()}
        draft, step = taken.pop(DRAFT, 0.0), taken.pop(1)
        how = "CUDA graphs" if on_gpu else "plain timing"
        return Costs(
            draft,
            step,
            taken,
            how,
            at_once,
            engine="transformers",
            version=transformers.__version__,
            source="steps",
            sequences=sequences,
        )

    whole = {name: [taken for one in rounds for taken in one[name]] for name in steps}
    return structs.replace(costs(whole), spread=speedup.spread([costs(one) for one in rounds]))


def timed_round(steps: Mapping[int, RewoundStep], repeats: int) -> dict[int, list[float]]:
    """Seconds of every step, all of them in turn."""
    times: dict[int, list[float]] = {name: [] for name in steps}
    began = time.perf_counter()
    for _ in range(repeats):
        for name, step in steps.items():
            times[name].append(_seconds(step))
        if time.perf_counter() - began > ROUND_SECONDS:
            break
    return times


def _seconds(step: RewoundStep) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    before = time.perf_counter()
    step.run()
    taken = time.perf_counter() - before
    step.rewind()
    return taken


def _plain(
    model: Any, sequences: int, context: int, widths: Sequence[int]
) -> dict[int, RewoundStep]:
    ids = torch.zeros((sequences, context), dtype=torch.long, device=model.device)
    cache = DynamicCache(config=model.config)
    model(ids, past_key_values=cache, logits_to_keep=1)
    return {
        width: RewoundStep(
            partial(model, ids[:, :1].expand(sequences, width), past_key_values=cache),
            partial(cache.crop, -width),
        )
        for width in widths
    }


def _graphs(
    model: Any, sequences: int, context: int, widths: Sequence[int]
) -> dict[int, RewoundStep]:
    """One cache for all widths. Nothing is read into it: what it holds does not change the time."""
    cache = StaticCache(config=model.config, max_cache_len=context + max(widths))
    ids = torch.zeros((sequences, max(widths)), dtype=torch.long, device=model.device)
    model(ids[:, :1], past_key_values=cache)  # the cache takes its memory now
    pool = torch.cuda.graph_pool_handle()  # nobody reads what came out: all write to one place

    def rewind() -> None:
        """The cache counts what it holds, on the device and inside the graph."""
        for layer in cache.layers:
            held = getattr(layer, "cumulative_length", None)
            if isinstance(held, torch.Tensor):
                held.fill_(context)
            if hasattr(layer, "cumulative_length_int"):
                layer.cumulative_length_int = context

    def captured(width: int) -> RewoundStep:
        new = ids[:, :width].clone()
        place = torch.arange(context, context + width, device=model.device)[None]
        step = partial(model, new, past_key_values=cache, position_ids=place)
        return _graph(step, rewind, pool)

    return {width: captured(width) for width in widths}


def _graph(step: Step, rewind: Callable[[], object], pool: Any = None) -> RewoundStep:
    """The step under a CUDA graph."""
    rewind()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
            rewind()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        step()
    rewind()

    def replay() -> None:
        graph.replay()
        torch.cuda.synchronize()

    return RewoundStep(replay, rewind, step)


def floor(target: Any, draft: Any, device: str) -> Costs | None:
    """What a step costs when it only reads the weights once, at the bandwidth measured here."""
    if not device.startswith("cuda"):
        return None
    size = 1 << 30
    source = torch.empty(size, dtype=torch.uint8, device="cuda")
    copied = torch.empty_like(source)

    def copy() -> None:
        copied.copy_(source)
        torch.cuda.synchronize()

    times = [_seconds(RewoundStep(copy, _nothing)) for _ in range(1 + COPIES)]
    # Bytes per second of reading and writing; the first time warms up.
    bandwidth = 2 * size / statistics.median(times[1:])
    step, small = (_read_bytes(model) / bandwidth for model in (target, draft))
    return Costs(small, step, dict.fromkeys(WIDTHS, step), "memory-bound floor")


def _read_bytes(model: Any) -> int:
    """Bytes of weights that a step reads: all but an embedding table that is only looked up."""
    table = model.get_input_embeddings().weight
    head = model.get_output_embeddings()
    tied = head is not None and head.weight.data_ptr() == table.data_ptr()
    total = sum(p.numel() * p.element_size() for p in model.parameters())
    return int(total if tied else total - table.numel() * table.element_size())
