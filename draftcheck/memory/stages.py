"""Pipelines: the target's layers cut into runs, one per stage; the draft lives on the last."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from draftcheck.memory import weights
from draftcheck.memory.question import MemoryQuestion
from draftcheck.memory.weights import Weights
from draftcheck.values.facts import ModelFacts
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


def questions(question: MemoryQuestion) -> Iterator[MemoryQuestion]:
    """Ask the question of every stage: its layers, and the draft on the last one only."""
    shape = question.target.shape
    cut = runs(question)
    for number, run in enumerate(cut):
        last = number == len(cut) - 1
        floor = shape.floor
        if floor is not None:
            floor = floor[run.start : run.stop] if len(floor) == len(shape.layers) else None
        part = replace(shape, layers=shape.layers[run.start : run.stop], floor=floor)
        target = replace(question.target, shape=part)
        stage = replace(
            question, target=target, stages=1, last=last,
            devices=_devices(question, number),
        )  # fmt: skip
        yield stage if last else stage.without_draft()


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
    for number, run in enumerate(cut):
        part = _part(facts, run, first=number == 0, last=number == len(cut) - 1)
        stage = weights.measure(
            part, question.target.shape, question.profile, ranks=question.ranks,
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


def _part(facts: ModelFacts, run: range, *, first: bool, last: bool) -> ModelFacts:
    """The model as one stage loads it: tables of tokens at the ends, tied ones at both."""
    tied = bool(facts.config.tied)
    kept = {}
    for name, tensor in (facts.weights.tensors or {}).items():
        layer = weights.LAYER.search(name)
        if layer and not weights.ENCODERS.search(name):
            here = int(layer[1]) in run or (last and int(layer[1]) >= run.stop)
        elif weights.EMBEDDINGS.search(name):
            here = first or (tied and last)
        else:
            ends = weights.HEADS.search(name) or FINAL.search(name) or weights.MTP.search(name)
            here = last if ends else first
        if here:
            kept[name] = tensor
    return replace(facts, weights=replace(facts.weights, tensors=kept))
