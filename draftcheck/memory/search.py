"""The inverse: the longest context, the most sequences, the smallest change that fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from draftcheck.memory import plan
from draftcheck.memory.caches import NotPlanned
from draftcheck.memory.plan import MemoryQuestion
from draftcheck.memory.weights import Weights
from draftcheck.values.memory import DeviceFit, Fit, Gpu, Limits

MOST_SEQUENCES = 1 << 16
LONGEST = 1 << 24
"""Tokens; only models that state no maximum are searched so far."""
Good = Callable[[DeviceFit], bool]


def _typically(device: DeviceFit) -> bool:
    """Whether the typical figure stays within a device."""
    return device.required <= device.available


def _surely(device: DeviceFit) -> bool:
    """Whether the upper end of the range stays within it, too."""
    return device.answer is Fit.FITS


def limits(
    question: MemoryQuestion, ours: Weights, theirs: Weights | None, good: Good = _typically
) -> Limits:
    """Find the longest context at these sequences, and the most sequences at this context."""
    longest = question.target.shape.max_context or LONGEST

    def context(value: int) -> bool:
        return _fits(replace(question, context=value), ours, theirs, good)

    def sequences(value: int) -> bool:
        return _fits(replace(question, sequences=value), ours, theirs, good)

    return Limits(_most(context, longest), _most(sequences, MOST_SEQUENCES))


def _fits(question: MemoryQuestion, ours: Weights, theirs: Weights | None, good: Good) -> bool:
    try:
        return all(good(device) for device, _ in plan.devices(question, ours, theirs))
    except NotPlanned:
        return False


def _most(good: Callable[[int], bool], limit: int) -> int | None:
    """The largest value that is good; memory only grows with it."""
    if not good(1):
        return None
    low, high = 1, max(limit, 1)
    if good(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if good(middle):
            low = middle
        else:
            high = middle
    return low


def changes(
    question: MemoryQuestion, ours: Weights, theirs: Weights | None, *, tight: bool
) -> tuple[str, ...]:
    """List what would make it fit, the smallest first; a tight fit asks for one that is sure."""
    return tuple(_changes(question, ours, theirs, _surely if tight else _typically))


def _changes(
    question: MemoryQuestion, ours: Weights, theirs: Weights | None, good: Good
) -> Iterator[str]:
    smaller = question.profile.smaller_kv
    if smaller and question.kv_dtype is None:
        other = replace(question, kv_dtype=smaller)
        if _fits(other, ours, theirs, good):
            yield f"--kv-dtype {smaller}"
    most = limits(question, ours, theirs, good)
    if most.sequences is not None and most.sequences < question.sequences:
        yield f"--sequences {most.sequences:,}"
    if most.context is not None and most.context < question.context:
        yield f"--context {_round(most.context)}"
    if question.draft is None:
        return
    if len(question.devices) > 1 and question.draft_gpu is None:
        kinds: dict[tuple[Gpu, bool], int] = {}  # GPUs that are alike need one try
        for number, gpu in enumerate(question.devices):
            kinds.setdefault((gpu, number < question.ranks), number)
        for number in kinds.values():
            if _fits(replace(question, draft_gpu=number, draft_ranks=1), ours, theirs, good):
                yield f"--draft-gpu {number}"
                break
    if _fits(question.without_draft(), alone(question, ours), None, good):
        yield "no draft: the target alone fits"


def alone(question: MemoryQuestion, ours: Weights) -> Weights:
    """Weigh the target without its prediction layers; headers are long, so seldom anew."""
    if question.role != "itself":
        return ours
    return plan.weigh(question.without_draft())[0] or ours


def _round(context: int) -> int:
    """A context that people type: a multiple of 256 where there is one."""
    return context // 256 * 256 or context
