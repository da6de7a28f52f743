"""Seconds per step: under CUDA graphs on a static cache, or plainly timed elsewhere.

Eager PyTorch on a GPU waits for Python, not for memory: it is 5 to 13 times away from what a
serving engine does, so its timings would say nothing about one.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from transformers import DynamicCache, StaticCache

from draftcheck.trial.speedup import WIDTHS, Costs

REPEATS = 7
GRAPH_REPEATS = 20


Step = Callable[[], object]


def measure(target: Any, draft: Any, device: str, sequences: int, context: int) -> Costs | None:
    """Costs for so many sequences at once; None when they do not fit."""
    timed = _graphs if device.startswith("cuda") else _plain
    small = partial(timed, draft, sequences, context, (1,))
    return _measured(target, lambda: small()[1], device, sequences, context)


def measure_head(
    target: Any, head: Callable[[], Step] | None, device: str, sequences: int, context: int
) -> Costs | None:
    """The same with a step that is no model's; None: the target alone."""

    def small() -> float:
        if head is None:
            return 0.0
        if device.startswith("cuda"):
            return _graph(head(), lambda: None)
        return min(_seconds(head(), lambda: None, REPEATS))

    return _measured(target, small, device, sequences, context)


def _measured(
    target: Any, small: Callable[[], float], device: str, sequences: int, context: int
) -> Costs | None:
    timed = _graphs if device.startswith("cuda") else _plain
    try:
        with torch.inference_mode():
            ours = timed(target, sequences, context, (1, *WIDTHS))
            draft = small()
    except torch.OutOfMemoryError:
        return None
    how = "CUDA graphs" if device.startswith("cuda") else "plain timing"
    step = ours.pop(1)
    return Costs(draft, step, ours, how, sequences=sequences)


def _plain(model: Any, sequences: int, context: int, widths: Sequence[int]) -> dict[int, float]:
    ids = torch.zeros((sequences, context), dtype=torch.long, device=model.device)
    cache = DynamicCache(config=model.config)
    model(ids, past_key_values=cache, logits_to_keep=1)

    def time_one(width: int) -> float:
        step = partial(model, ids[:, :1].expand(sequences, width), past_key_values=cache)
        return min(_seconds(step, partial(cache.crop, -width), REPEATS))  # noise only adds

    return {width: time_one(width) for width in widths}


def _graphs(model: Any, sequences: int, context: int, widths: Sequence[int]) -> dict[int, float]:
    """One cache for all widths. Nothing is read into it: what it holds does not change the time."""
    cache = StaticCache(config=model.config, max_cache_len=context + max(widths))
    ids = torch.zeros((sequences, max(widths)), dtype=torch.long, device=model.device)
    model(ids[:, :1], past_key_values=cache)  # the cache takes its memory now
    return {width: _width(model, cache, ids[:, :width].clone(), context) for width in widths}


def _width(model: Any, cache: StaticCache, new: torch.Tensor, context: int) -> float:
    place = torch.arange(context, context + new.shape[1], device=model.device)[None]

    def rewind() -> None:
        """The cache counts what it holds, on the device and inside the graph."""
        for layer in cache.layers:
            held = getattr(layer, "cumulative_length", None)
            if isinstance(held, torch.Tensor):
                held.fill_(context)
            if hasattr(layer, "cumulative_length_int"):
                layer.cumulative_length_int = context

    return _graph(partial(model, new, past_key_values=cache, position_ids=place), rewind)


def _graph(step: Step, rewind: Callable[[], None]) -> float:
    """Seconds of a step under a CUDA graph; rewind: undoes what it did to a cache."""
    rewind()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
            rewind()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    rewind()

    def replay() -> None:
        graph.replay()
        torch.cuda.synchronize()

    return statistics.median(_seconds(replay, rewind, GRAPH_REPEATS))


def _seconds(step: Step, after: Callable[[], None], repeats: int) -> list[float]:
    """Times of a step; what has to be undone after it is not timed."""
    seconds = []
    for _ in range(repeats + 1):  # the first one warms up
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        before = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - before)
        after()
    return seconds[1:]


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

    # Bytes per second of reading and writing.
    bandwidth = 2 * size / statistics.median(_seconds(copy, lambda: None, 10))
    step, small = (_read_bytes(model) / bandwidth for model in (target, draft))
    return Costs(small, step, dict.fromkeys(WIDTHS, step), "memory-bound floor")


def _read_bytes(model: Any) -> int:
    """Bytes of weights that a step reads: all but an embedding table that is only looked up."""
    table = model.get_input_embeddings().weight
    head = model.get_output_embeddings()
    tied = head is not None and head.weight.data_ptr() == table.data_ptr()
    total = sum(p.numel() * p.element_size() for p in model.parameters())
    return int(total if tied else total - table.numel() * table.element_size())
