"""Pipelines: the target's layers cut into runs, one per stage; the draft lives on the last."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from draftcheck.memory import weights
from draftcheck.memory.question import MemoryQuestion
from draftcheck.memory.weights import Weights
from draftcheck.values.facts import ModelFacts, Tensor
from draftcheck.values.memory import Gpu

FINAL = re.compile(r"(^|\.)(norm|final_layernorm|ln_f|final_norm|norm_f)\.")


def _last_takes_rest(layers: int, stages: int) -> list[int]:
    each = layers // stages
    return [each] * (stages - 1) + [layers - each * (stages - 1)]


def _middle_first(layers: int, stages: int) -> list[int]:
    sizes = [layers // stages] * stages
    for back in range(2, layers % stages + 2):
        sizes[-back] += 1
    return sizes


def _last_ones(layers: int, stages: int) -> list[int]:
    each, rest = divmod(layers, stages)
    return [each + (number >= stages - rest) for number in range(stages)]


CUTS: dict[str, Callable[[int, int], list[int]]] = {
    "last-takes-rest": _last_takes_rest,
    "middle-first": _middle_first,
    "last-ones": _last_ones,
}


def runs(question: MemoryQuestion) -> list[range]:
    """Cut the layers into stages, as the engine does."""
    assert question.profile.stages is not None
    sizes = CUTS[question.profile.stages](len(question.target.shape.layers), question.stages)
    ends = list(itertools.accumulate(sizes))
    return [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def questions(
    question: MemoryQuestion, weighed: tuple[Weights, ...]
) -> Iterator[tuple[MemoryQuestion, Weights, int]]:
    """Ask the question of every stage: its layers and weights, and the draft on the last one only.

    Neighbours that are alike are asked once, with their number.
    """
    shape = question.target.shape
    cut = runs(question)
    known = shape.floor is not None and len(shape.floor) == len(shape.layers)
    stages = [
        (
            shape.layers[run.start : run.stop],
            shape.floor[run.start : run.stop] if shape.floor is not None and known else None,
            _devices(question, number),
            weighed[number],
            number == len(cut) - 1,
        )
        for number, run in enumerate(cut)
    ]
    for (layers, floor, devices, weights_of_stage, last), alike in itertools.groupby(stages):
        target = replace(question.target, shape=replace(shape, layers=layers, floor=floor))
        stage = replace(question, target=target, stages=1, last=last, devices=devices)
        stage = stage if last else stage.without_draft()
        yield stage, weights_of_stage, len(list(alike))


def _devices(question: MemoryQuestion, number: int) -> tuple[Gpu, ...]:
    own = question.devices[number * question.ranks : (number + 1) * question.ranks]
    return own or question.devices[-1:]


def weigh(question: MemoryQuestion, whole: Weights) -> tuple[Weights, ...]:
    """Weigh every stage; by share where no header lists its tensors."""
    facts = question.target.facts
    cut = runs(question)
    if not facts.weights.tensors:
        total = max(len(question.target.shape.layers), 1)
        return tuple(_share(whole, len(run) / total) for run in cut)
    weighed = []
    for tensors in _spread(facts, cut):
        stage = weights.measure(
            replace(facts, weights=replace(facts.weights, tensors=tensors)),
            question.target.shape, question.profile, ranks=question.ranks,
            dtype=question.dtype, with_mtp=question.role == "itself",
        )  # fmt: skip
        weighed.append(stage or _share(whole, 0.0))
    return tuple(weighed)


def _share(whole: Weights, share: float) -> Weights:
    return replace(
        whole,
        nbytes=int(whole.nbytes * share),
        low=int(whole.low * share * 0.9),
        high=int(whole.high * share * 1.2),
        exact=False,
    )


def _spread(facts: ModelFacts, cut: Sequence[range]) -> list[dict[str, Tensor]]:
    """The tensors that each stage loads: tables of tokens at the ends, tied ones at both."""
    stops = [run.stop for run in cut]
    stages: list[dict[str, Tensor]] = [{} for _ in cut]
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
