"""Every draft length and confidence threshold, from one trace per prompt.

A drafted token is accepted when it is the token that the target itself produces. So along the
accepted path the draft always sees the target's own text, and what it would have drafted there
is known from one reading of that text:

    pass at i:   the draft proposes d tokens, the first a of them are the target's,
                 the target adds one of its own, the next pass begins at i + a + 1.

At each place a is the number of hits in a row that begin there, at most d. That holds when the
target chooses greedily, and just as well when it samples and the draft always proposes its first
choice: the rejection rule then keeps a draft exactly when it comes out as the target's token.

When the draft samples too, let p be the target's distribution and q the draft's. The rejection rule
takes a drafted token x with min(1, p(x)/q(x)), and replaces a refused one so that what comes out is
distributed as p. Seen from the output, token x at place i was a taken draft with the chance

    a(i) = q(x) min(1, p(x)/q(x)) / p(x) = min(1, q(x)/p(x)),

whatever happened before. So, given the text, a pass is a small Markov chain: k drafts deep at
place i it goes on with a(i), or ends there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from draftcheck.trial.simulate.traces import (
    Floats,
    Ints,
    JoinedTraces,
    PassCounts,
    Trace,
    leading,
)
from draftcheck.trial.speedup import LONGEST


@dataclass(frozen=True, slots=True, eq=False)
class Drafts:
    """A way of drafting: what a pass would come to, at whichever place it began."""

    accepted: Ints
    drafted: Ints | Floats
    longest: int


def lengths(line: JoinedTraces, longest: int = LONGEST) -> dict[int, PassCounts]:
    """Fixed draft lengths 1 … longest."""
    ways = []
    for g in range(1, longest + 1):  # so many tokens, however sure the draft is of them
        drafted = np.minimum(g, line.room)
        ways.append(Drafts(np.minimum(line.run, drafted), drafted, g))
    return dict(enumerate(walk(line, ways), start=1))


def stop_when_unsure(line: JoinedTraces, p_min: float, longest: int, shortest: int = 0) -> Drafts:
    """llama.cpp's rule: stop drafting at the first choice less probable than p_min.

    shortest (n_min): shorter drafts are thrown away. What is accepted is exact without n_min. How
    far the draft would have gone on after a wrong token of its own is not seen in one reading:
    there each further token is taken to pass the threshold as often as the others do.
    """
    sure = line.confidence[:, :longest] >= p_min
    share = float(sure[:, : line.readings].mean()) if len(sure) else 0.0
    run, room = line.run, np.minimum(longest, line.room)
    reach = np.minimum(leading(sure), room)
    # Of a draft whose token number `run` is wrong: that one, and what is expected to follow.
    further = np.maximum(room - run - 1, 0)
    more = further if share >= 1.0 else share * (1 - share**further) / (1 - share)
    drafted = np.where(run < reach, run + 1 + more, reach)
    kept = drafted >= shortest
    accepted = np.where(kept, np.minimum(run, reach), 0)
    return Drafts(accepted, np.where(kept, drafted, 0.0), longest)


def walk(line: JoinedTraces, ways: Sequence[Drafts]) -> list[PassCounts]:
    """Go through all continuations, in all ways at once, pass by pass, to their ends."""
    accepted = np.stack([way.accepted for way in ways])
    drafted = np.stack([np.asarray(way.drafted, dtype=np.float64) for way in ways])
    shape, deepest = (len(ways), len(line.ends)), max(way.longest for way in ways) + 1
    passes, proposed, taken, drafts = (np.zeros(shape) for _ in range(4))
    histogram = np.zeros(len(ways) * deepest)
    way, prompt = np.nonzero(np.broadcast_to(line.begins < line.ends, shape))  # not at their end
    place = line.begins[prompt]
    while len(place):
        steps, sizes = accepted[way, place], drafted[way, place]
        passes[way, prompt] += 1.0
        proposed[way, prompt] += sizes
        taken[way, prompt] += steps
        some = np.asarray(sizes > 0, dtype=np.float64)
        drafts[way, prompt] += some
        histogram += np.bincount(way * deepest + steps, weights=some, minlength=len(histogram))
        place = place + steps + 1
        going = place < line.ends[prompt]
        way, prompt, place = way[going], prompt[going], place[going]
    depths = histogram.reshape(len(ways), deepest)
    tokens = (line.ends - line.begins).astype(np.float64)
    return [
        PassCounts(passes[i], tokens, proposed[i], taken[i], drafts[i], depths[i, : w.longest + 1])
        for i, w in enumerate(ways)
    ]


def sampled_lengths(
    traces: Sequence[Trace], longest: int = LONGEST, first: int = 1
) -> dict[int, PassCounts]:
    """Expected counts for fixed draft lengths 1 … longest; first: as in line_up."""
    ends = np.array([len(trace.tokens) for trace in traces])
    # Chance to take token i as draft number k of a pass: of ordinary drafts the same for all k.
    by_number = any(_chance(trace).ndim > 1 for trace in traces)
    accept = np.zeros((len(traces), max(ends, default=0), longest if by_number else 1))
    for row, trace in zip(accept, traces, strict=True):
        chance, size = _chance(trace), len(trace.tokens)
        if chance.ndim == 1:
            row[:size] = chance[:, None]
            continue
        for k in range(min(chance.shape[1], longest)):
            row[k:size, k] = chance[: size - k, k]
    return {g: _expected(accept, ends, g, first) for g in range(1, longest + 1)}


def _chance(trace: Trace) -> Floats:
    if trace.accept is not None:
        return trace.accept
    if trace.temperature > 0:
        raise ValueError("a trace was sampled, but not held against the target's probabilities")
    return np.asarray(trace.rank == 0, dtype=np.float64)  # a greedy target leaves nothing to chance


def _expected(accept: Floats, ends: Ints, g: int, first: int) -> PassCounts:
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
        taken = np.zeros_like(depth)  # nothing is drafted behind the last draft
        taken[:, :g] = depth[:, :g] * accept[:, i, :g] * (i < ends - 1)[:, None]
        ended = depth - taken
        histogram += ended.sum(axis=0)
        accepted += taken.sum(axis=1)
        begins = ended.sum(axis=1) * (i + 1 < ends)
        depth = np.roll(taken, 1, axis=1)
    histogram[0] -= (passes - drafts).sum()
    tokens = np.maximum(ends - first, 0).astype(float)
    return PassCounts(passes, tokens, drafted, accepted, drafts, histogram)
