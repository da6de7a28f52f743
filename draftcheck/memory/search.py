"""The inverse: the longest context, the most sequences, the smallest change that fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from draftcheck.memory import plan
from draftcheck.memory.paged import NotPlanned
from draftcheck.memory.question import MemoryQuestion
from draftcheck.memory.weights import Weights
from draftcheck.values.memory import Fit, Limits

MOST_SEQUENCES = 1 << 16
LONGEST = 1 << 24
"""Tokens; only models that state no maximum are searched so far."""


Good = Callable[[MemoryQuestion, Weights, Weights | None], bool]


def limits(
    question: MemoryQuestion, ours: Weights, theirs: Weights | None, good: Good | None = None
) -> Limits:
    """The longest context at these sequences, and the most sequences at this context."""
    longest = question.target.shape.max_context or LONGEST
    holds = good or fits

    def context(value: int) -> bool:
        return holds(replace(question, context=value), ours, theirs)

    def sequences(value: int) -> bool:
        return holds(replace(question, sequences=value), ours, theirs)

    return Limits(_most(context, longest), _most(sequences, MOST_SEQUENCES))


def fits(question: MemoryQuestion, ours: Weights, theirs: Weights | None) -> bool:
    """Whether the typical figure stays within every device."""
    try:
        found = plan.devices(question, ours, theirs)
    except NotPlanned:
        return False
    return all(device.required <= device.available for device in found)


def fits_surely(question: MemoryQuestion, ours: Weights, theirs: Weights | None) -> bool:
    """Whether the upper end of the range stays within every device, too."""
    try:
        found = plan.devices(question, ours, theirs)
    except NotPlanned:
        return False
    return all(device.answer is Fit.FITS for device in found)


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
    """What would make it fit, the smallest first; a tight fit asks for one that is sure."""
    return tuple(_changes(question, ours, theirs, fits_surely if tight else fits))


def _changes(
    question: MemoryQuestion, ours: Weights, theirs: Weights | None, good: Good
) -> Iterator[str]:
    smaller = question.profile.smaller_kv
    if smaller and question.kv_dtype is None:
        other = replace(question, kv_dtype=smaller)
        if good(other, ours, theirs):
            yield f"--kv-dtype {smaller}"
    found = limits(question, ours, theirs, good)
    if found.sequences is not None and found.sequences < question.sequences:
        yield f"--sequences {found.sequences:,}"
    if found.context is not None and found.context < question.context:
        yield f"--context {_round(found.context)}"
    if question.draft is None:
        return
    if len(question.devices) > 1 and question.draft_gpu is None:
        for number in range(len(question.devices)):
            if good(replace(question, draft_gpu=number, draft_ranks=1), ours, theirs):
                yield f"--draft-gpu {number}"
                break
    if good(question.without_draft(), alone(question, ours), None):
        yield "no draft: the target alone fits"


def alone(question: MemoryQuestion, ours: Weights) -> Weights:
    """The target's weights without its prediction layers; headers are long, so seldom anew."""
    if question.role != "itself":
        return ours
    return plan.weigh(question.without_draft())[0] or ours


def _round(context: int) -> int:
    """A context that people type: a multiple of 256 where there is one."""
    return context // 256 * 256 or context
