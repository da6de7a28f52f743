"""Draft lengths at a temperature, when the draft samples too.

Let p be the target's distribution and q the draft's. The rejection rule takes a drafted token x
with min(1, p(x)/q(x)), and replaces a refused one so that what comes out is distributed as p. Seen
from the output, token x at place i was a taken draft with the chance

    a(i) = q(x) min(1, p(x)/q(x)) / p(x) = min(1, q(x)/p(x)),

whatever happened before. So, given the text, a pass is a small Markov chain: k drafts deep at
place i it goes on with a(i), or ends there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from draftcheck.trial.simulate.passes import LONGEST
from draftcheck.trial.simulate.traces import Floats, Ints, PassCounts, Trace


def lengths(
    traces: Sequence[Trace], longest: int = LONGEST, first: int = 1
) -> dict[int, PassCounts]:
    """Expected counts for fixed draft lengths 1 … longest; first: as in line_up."""
    accept, ends = _stack(traces)
    return {g: expected(accept, ends, g, first) for g in range(1, longest + 1)}


def _stack(traces: Sequence[Trace]) -> tuple[Floats, Ints]:
    """Chances of all traces side by side, and how long each is."""
    ends = np.array([len(trace.tokens) for trace in traces])
    accept = np.zeros((len(traces), max(ends, default=0)))
    for row, trace in zip(accept, traces, strict=True):
        row[: len(trace.tokens)] = chances(trace)
    return accept, ends


def chances(trace: Trace) -> Floats:
    """The chance of each token to be a taken draft; a greedy target leaves nothing to chance."""
    if trace.accept is not None:
        return trace.accept
    if trace.temperature > 0:
        raise ValueError("the trace was sampled, but not held against the target's probabilities")
    return np.asarray(trace.rank == 0, dtype=np.float64)


def expected(accept: Floats, ends: Ints, g: int, first: int = 1) -> PassCounts:
    """Expected passes, drafts and accepted drafts for drafts of g tokens, prompt by prompt."""
    prompts = len(ends)
    depth = np.zeros((prompts, g + 1))  # chance that the pass under way is k drafts deep
    passes, drafted, accepted, drafts = (np.zeros(prompts) for _ in range(4))
    histogram = np.zeros(g + 1)
    begins = (ends > first).astype(float)
    for i in range(first, accept.shape[1]):
        room = np.clip(ends - 1 - i, 0, g)  # the last token is always the target's own
        depth[:, 0] = begins
        passes += begins
        drafted += begins * room
        drafts += begins * (room > 0)
        taken = depth * (accept[:, i] * (i < ends - 1))[:, None]
        taken[:, g] = 0.0  # nothing is drafted behind the last draft
        ended = depth - taken
        histogram += ended.sum(axis=0)
        accepted += taken.sum(axis=1)
        begins = ended.sum(axis=1) * (i + 1 < ends)
        depth = np.roll(taken, 1, axis=1)
    histogram[0] -= (passes - drafts).sum()
    tokens = np.maximum(ends - first, 0).astype(float)
    return PassCounts(passes, tokens, drafted, accepted, drafts, histogram)
