"""What one pass over a prompt leaves behind: the arrays that all simulations are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from draftcheck.trial.speedup import LONGEST, ratio

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

NEVER = 1 << 40
"""The rank of what is not among the choices."""
CONFIDENCE_TOP = 10
"""Choices that a draft's confidence is shared among: llama.cpp's draft sampler keeps so many."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """One prompt, the target's continuation, and the draft's choices at each of its tokens.

    All arrays have one entry per token of the continuation. Entry i is about token i, seen from
    the prompt and the tokens before it. Token 0 comes out of the prefill: nothing is drafted there.

    A head does not see the same from every place: what it drafts j-th depends on where the pass
    began. Its arrays are tables of place x reading: entry [i, j] is about token i + j, drafted
    behind j others in a pass that begins at token i.
    """

    prompt: Ints
    tokens: Ints
    rank: Ints
    """Place of the target's token among the draft's choices; 0: the draft's first choice."""
    confidence: Floats
    """Probability of the draft's first choice among its CONFIDENCE_TOP best (llama.cpp's p)."""
    category: str = ""
    accept: Floats | None = None
    """Sampled only: min(1, q/p) of the token, the chance that the rejection rule took it."""
    overlap: Floats | None = None
    """Sampled only: sum(min(p, q)), the chance to take whatever the draft samples there."""
    agree: Floats | None = None
    """Sampled only: the target's probability of the draft's first choice."""
    temperature: float = 0.0
    of_length: Mapping[int, Trace] = field(default_factory=dict)
    """Of heads whose drafts depend on how many they make: the same for drafts of other lengths.

    Lengths that are neither here nor the table's own cannot be told."""
    only_hits: bool = False
    """Other ranks and confidences are not known: no threshold and no tree can be told."""


@dataclass(frozen=True, slots=True, eq=False)
class PassCounts:
    """What a way of speculating came to, prompt by prompt."""

    passes: Floats
    """Passes of the target after the prefill."""
    tokens: Floats
    """Tokens that those passes yielded."""
    drafted: Floats
    accepted: Floats
    drafts: Floats
    """Passes that had at least one drafted token."""
    histogram: Floats
    """Passes by the number of drafted tokens they accepted: 0, 1, 2 …"""

    def of(self, chosen: Bools) -> PassCounts:
        """The same for some of the prompts; the histogram stays that of all."""
        names = ("passes", "tokens", "drafted", "accepted", "drafts")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})

    @property
    def tokens_per_pass(self) -> float:
        return ratio(self.tokens.sum(), self.passes.sum())

    @property
    def draft_efficiency(self) -> float:
        """Accepted over drafted."""
        return ratio(self.accepted.sum(), self.drafted.sum())

    @property
    def per_position(self) -> Floats:
        """Passes that accepted at least the first 1, 2, 3 … drafts."""
        return np.asarray(self.histogram[::-1].cumsum()[::-1][1:])

    @property
    def drafted_per_pass(self) -> float:
        return ratio(self.drafted.sum(), self.passes.sum())


@dataclass(frozen=True, slots=True, eq=False)
class JoinedTraces:
    """All traces one behind the other: simulations run over every prompt at once."""

    begins: Ints
    """Where the first pass of each prompt begins: behind the token that the prefill yields."""
    ends: Ints
    room: Ints
    """Tokens that may be drafted at each place: the last one is always the target's own."""
    rank: Ints
    """Place x number in the draft, up to LONGEST: [i, j] is about token i + j of a draft from i."""
    confidence: Floats
    run: Ints
    """How many first choices of the draft are right in a row, from each place on."""
    readings: int
    """Columns that say more than the first: those of an ordinary draft repeat it one place on."""


def line_up(traces: Sequence[Trace], first: int = 1) -> JoinedTraces:
    """Join traces; first: 0 for engines whose prefill already checks drafts."""
    sizes = np.array([len(trace.tokens) for trace in traces], dtype=np.int64)
    ends = sizes.cumsum()
    rank = _table([trace.rank for trace in traces], NEVER)
    return JoinedTraces(
        begins=np.minimum(ends - sizes + first, ends),
        ends=ends,
        room=np.repeat(ends, sizes) - 1 - np.arange(sizes.sum()),
        rank=rank,
        confidence=_table([trace.confidence for trace in traces], 0.0),
        run=leading(rank == 0),
        readings=1 if traces[0].rank.ndim == 1 else max(t.rank.shape[1] for t in traces),
    )


def _table(columns: Sequence[npt.NDArray[Any]], beyond: float) -> npt.NDArray[Any]:
    """One table for all; that of ordinary drafts is a view: one row, seen from each place."""
    if columns[0].ndim == 1:
        line = np.concatenate([*columns, np.full(LONGEST, beyond, columns[0].dtype)])
        return np.lib.stride_tricks.sliding_window_view(line, LONGEST)[:-1]
    wide = [np.full((len(column), LONGEST), beyond, column.dtype) for column in columns]
    for row, column in zip(wide, columns, strict=True):
        row[:, : column.shape[1]] = column[:, :LONGEST]
    return np.concatenate(wide)


def leading(hits: Bools) -> Ints:
    """In each row, how many hits there are before the first miss."""
    return np.asarray(np.logical_and.accumulate(hits, axis=1).sum(axis=1), dtype=np.int64)
