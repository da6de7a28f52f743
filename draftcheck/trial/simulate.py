"""Every draft length and confidence threshold, from one trace per prompt.

A drafted token is accepted when it is the token that the target itself produces. So along the
accepted path the draft always sees the target's own text, and what it would have drafted there
is known from one reading of that text:

    pass at i:   the draft proposes d tokens, the first a of them are the target's,
                 the target adds one of its own, the next pass begins at i + a + 1.

At each place a is the number of hits in a row that begin there, at most d. That holds when the
target chooses greedily, and just as well when it samples and the draft always proposes its first
choice: the rejection rule then keeps a draft exactly when it comes out as the target's token.
"""

from __future__ import annotations

import numpy as np

from draftcheck.trial.traces import Bools, Counts, Floats, Ints, Line

LONGEST = 24
"""Longest draft that is looked at."""


def lengths(line: Line, longest: int = LONGEST) -> dict[int, Counts]:
    """Fixed draft lengths 1 … longest."""
    run = runs(line.rank == 0)
    found = {}
    for g in range(1, longest + 1):
        drafted = np.minimum(g, line.room)
        found[g] = walk(line, np.minimum(run, drafted), drafted, g)
    return found


def threshold(line: Line, p_min: float, longest: int, shortest: int = 0) -> Counts:
    """llama.cpp's rule: stop drafting at the first choice less probable than p_min.

    shortest (n_min): shorter drafts are thrown away. What is accepted is exact without n_min. How
    far the draft would have gone on after a wrong token of its own is not seen in one reading:
    there each further token is taken to pass the threshold as often as the others do.
    """
    sure = line.confidence >= p_min
    share = float(sure.mean()) if len(sure) else 0.0
    run, room = runs(line.rank == 0), np.minimum(longest, line.room)
    reach = np.minimum(runs(sure), room)
    drafted = np.where(run < reach, _astray(run, room, share), reach)
    kept = drafted >= shortest
    accepted = np.where(kept, np.minimum(run, reach), 0)
    return walk(line, accepted, np.where(kept, drafted, 0.0), longest)


def _astray(run: Ints, room: Ints, share: float) -> Floats:
    """Expected length of a draft whose token number `run` is wrong: that one, and what follows."""
    further = np.maximum(room - run - 1, 0)
    more = further if share >= 1.0 else share * (1 - share**further) / (1 - share)
    return np.asarray(run + 1 + more, dtype=np.float64)


def runs(hit: Bools) -> Ints:
    """At each place, how many hits follow one another from there on."""
    places = np.arange(len(hit))
    misses = np.where(hit, len(hit), places)
    next_miss = np.minimum.accumulate(misses[::-1])[::-1]
    return np.asarray(next_miss - places, dtype=np.int64)


def walk(line: Line, accepted: Ints, drafted: Ints | Floats, longest: int) -> Counts:
    """Go through all continuations at once, pass by pass, to their ends."""
    passes, proposed, taken, drafts = (np.zeros(len(line.ends)) for _ in range(4))
    histogram = np.zeros(longest + 1)
    prompt = np.flatnonzero(line.begins < line.ends)  # those that are not at their end
    place = line.begins[prompt]
    while len(prompt):
        steps, sizes = accepted[place], drafted[place]
        passes[prompt] += 1
        proposed[prompt] += sizes
        taken[prompt] += steps
        drafts[prompt] += sizes > 0
        histogram += np.bincount(steps[sizes > 0], minlength=longest + 1)
        place = place + steps + 1
        going = place < line.ends[prompt]
        prompt, place = prompt[going], place[going]
    tokens = (line.ends - line.begins).astype(np.float64)
    return Counts(passes, tokens, proposed, taken, drafts, histogram)
