"""Traces and costs -> every answer of the trial, and how sure it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from msgspec import structs

from draftcheck.trial import offered_ways, speedup
from draftcheck.trial.result import (
    AcceptanceRate,
    CategoryFigures,
    Interval,
    LoadFigures,
    SpeculationFigures,
    VllmCounters,
)
from draftcheck.trial.simulate import ngram, trees
from draftcheck.trial.simulate import passes as simulate
from draftcheck.trial.simulate.traces import (
    Floats,
    JoinedTraces,
    PassCounts,
    Trace,
    line_up,
)
from draftcheck.trial.speedup import LONGEST, USUAL, Costs, ratio

P_MIN = (0.0, 0.25, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95)
P_MIN_LENGTHS = (4, 8, 16)
BUDGETS = (4, 8, 16, 32, 64)
RESAMPLES = 1000
LOOKUPS = (
    ngram.NgramLookup(1, 2, 10),  # transformers' prompt_lookup_num_tokens=10
    ngram.NgramLookup(1, 4, 5),
    ngram.NgramLookup(2, 4, 5),  # vLLM, as its documentation has it
    ngram.NgramLookup(3, 5, 10),
)
NO = SpeculationFigures(
    method="none",
    name="no speculation",
    draft_tokens=0,
    tokens_per_pass=1.0,
    draft_efficiency=0.0,
    drafted_per_pass=0.0,
    speedup=1.0,
)


class Bootstrap:
    """The same prompts drawn again and again: one set of draws for all figures of a trial.

    Over prompts, because tokens of one text are not independent.
    """

    def __init__(self, prompts: int, seed: int = 0) -> None:
        draws = RESAMPLES if prompts > 1 else 0
        even = np.full(prompts, 1 / max(prompts, 1))
        times = np.random.default_rng(seed).multinomial(prompts, even, draws)
        self._times = times.astype(np.float32)  # small whole numbers: exact, and half the memory
        """How often each draw holds each prompt."""

    def interval(self, over: Floats, under: Floats) -> Interval | None:
        """95 % interval of sum(over) / sum(under); None without two prompts to draw from."""
        both = np.stack([over, under], axis=1).astype(np.float32)
        above, below = (self._times @ both).T
        ratios = np.sort(above[below > 0] / below[below > 0])
        if not len(ratios):
            return None
        tail = round(0.025 * (len(ratios) - 1))
        return float(ratios[tail]), float(ratios[-1 - tail])


def interval(over: Floats, under: Floats, seed: int = 0) -> Interval | None:
    """The interval of a single figure."""
    return Bootstrap(len(over), seed).interval(over, under)


Figures = Iterator[SpeculationFigures]
ByLength = Mapping[int, PassCounts]
"""Draft length -> what it came to."""


@dataclass(frozen=True, slots=True)
class TrialAnswers:
    """All ways of speculating, for one sequence at a time."""

    by_length: ByLength
    lengths: tuple[SpeculationFigures, ...]
    greedy_lengths: tuple[SpeculationFigures, ...]
    thresholds: tuple[SpeculationFigures, ...]
    trees: tuple[SpeculationFigures, ...]
    ngram: tuple[SpeculationFigures, ...]
    best: SpeculationFigures | None
    length: int
    """The one that single figures are about: the best, or the usual one."""


def answer(
    traces: Sequence[Trace],
    cost: Costs | None,
    longest: int = LONGEST,
    tree: trees.DraftTree | None = None,
    measured: Mapping[int, float] | None = None,
    engine: str | None = None,
) -> TrialAnswers:
    """Every way of speculating; without costs no speed-up and no best way.

    longest: tokens that the draft can propose; 0: there is no draft, and only copying is left.
    measured: speed-ups of real runs, by draft length; they count before those from costs.
    engine: whose speed it is; a way that it does not offer is never the best.
    """
    make = _FiguresMaker(Bootstrap(len(traces)), cost)
    line = line_up(traces)
    counts = by_length(traces, longest) if longest else {}
    lengths = tuple(make.lengths(counts))
    if measured:
        lengths = tuple(
            structs.replace(row, speedup=gain, break_even=gain and row.tokens_per_pass / gain)
            for row, gain in zip(lengths, map(measured.get, counts), strict=True)
        )
    other: tuple[SpeculationFigures, ...] = ()
    if longest and _draft_samples(traces):  # otherwise a greedy draft is the same draft
        greedy = by_length(traces, longest, samples=False)
        other = tuple(make.lengths(greedy, ", greedy draft"))
    ranked = longest and not any(trace.only_hits for trace in traces)
    thresholds = tuple(make.thresholds(line, longest)) if ranked else ()
    shapes = tuple(make.trees(line, tree)) if ranked else ()
    grams = tuple(make.ngrams(line, ngram.NgramTexts(traces)))
    timed, best = cost is not None or bool(measured), None
    if timed:
        ways = offered_ways.of(engine)
        every = (*lengths, *(other if ways.greedy_draft else ()), *thresholds, *shapes, *grams)
        best = max(filter(ways.offers, every), key=lambda row: row.speedup or 0.0, default=NO)
        best = best if (best.speedup or 0.0) > speedup.GAIN else NO
    length = min(USUAL, max(counts, default=USUAL))
    if timed and lengths:
        length = max(lengths, key=lambda row: row.speedup or 0.0).draft_tokens or USUAL
    return TrialAnswers(counts, lengths, other, thresholds, shapes, grams, best, length)


def length_rows(counts: ByLength, cost: Costs | None) -> Figures:
    """Rows for draft lengths that were counted elsewhere."""
    prompts = len(next(iter(counts.values())).passes)
    return _FiguresMaker(Bootstrap(prompts), cost).lengths(counts)


def by_length(
    traces: Sequence[Trace], longest: int, first: int = 1, *, samples: bool | None = None
) -> dict[int, PassCounts]:
    """Fixed draft lengths; first: as in line_up; samples: the draft does too, None: if it can."""
    if samples is None:
        samples = _draft_samples(traces)
    if not any(trace.of_length for trace in traces):
        if samples:
            return simulate.sampled_lengths(traces, longest, first)
        return simulate.lengths(line_up(traces, first), longest)
    known = {longest}.union(*(trace.of_length for trace in traces))
    found = {}
    for g in sorted(g for g in known if g <= longest):
        own = [
            replace(t.of_length.get(g, t), of_length={}, temperature=t.temperature) for t in traces
        ]
        found[g] = by_length(own, g, first, samples=samples)[g]
    return found


def _draft_samples(traces: Sequence[Trace]) -> bool:
    return any(trace.accept is not None for trace in traces)


@dataclass(frozen=True, slots=True)
class _FiguresMaker:
    """Makes figures of counts, with the costs and the draws that all of them share."""

    bootstrap: Bootstrap
    cost: Costs | None

    def figures(
        self, method: str, name: str, counts: PassCounts, drafts_in: float, **settings: Any
    ) -> SpeculationFigures:
        """drafts_in: draft steps that one pass waits for."""
        gain = between = mbsu = break_even = None
        tokens, drafted = counts.tokens_per_pass, counts.drafted_per_pass
        of_tokens = self.bootstrap.interval(counts.tokens, counts.passes)
        if self.cost is not None:
            gain = speedup.of_pass(tokens, drafted, self.cost, drafts_in)
            between = speedup.interval(gain, tokens, of_tokens, self.cost)
            if g := settings.get("draft_tokens") if method == "draft_model" else None:
                # Checking costs what one step costs, a draft step costs c of it.
                mbsu = tokens / (self.cost.ratio * (1 if self.cost.at_once else g) + 1)
                break_even = 1 / speedup.of_pass(1.0, drafted, self.cost, drafts_in)
        return SpeculationFigures(
            method=method,
            name=name,
            tokens_per_pass=tokens,
            draft_efficiency=counts.draft_efficiency,
            drafted_per_pass=drafted,
            speedup=gain,
            speedup_ci95=between,
            interval=of_tokens,
            mbsu=mbsu,
            break_even=break_even,
            counters=counters(counts),
            **settings,
        )

    def lengths(self, by_length: ByLength, more: str = "") -> Figures:
        for g, counts in by_length.items():
            name = f"{g} token{'s' * (g > 1)}{more}"
            yield self.figures("draft_model", name, counts, counts.drafted_per_pass, draft_tokens=g)

    def thresholds(self, line: JoinedTraces, longest: int) -> Figures:
        lengths = [g for g in P_MIN_LENGTHS if g <= longest] or [longest]
        grid = [(p_min, g) for p_min in P_MIN for g in lengths]
        ways = [simulate.stop_when_unsure(line, p_min, g) for p_min, g in grid]
        found = simulate.walk(line, ways)
        for (p_min, g), counts in zip(grid, found, strict=True):
            name = f"up to {g} tokens, p_min {p_min:g}"
            # The token that falls short of p_min had to be drafted to see that it does.
            waits = min(counts.drafted_per_pass + (p_min > 0), g)
            yield self.figures("threshold", name, counts, waits, p_min=p_min, draft_tokens=g)

    def trees(self, line: JoinedTraces, own: trees.DraftTree | None) -> Figures:
        shapes = trees.best_of_each(line, BUDGETS)
        shapes += [] if own is None else [own]
        found = simulate.walk(line, [trees.drafts(line, tree) for tree in shapes])
        for tree, counts in zip(shapes, found, strict=True):
            sizes = {"nodes": tree.nodes, "levels": tree.levels}
            yield self.figures("tree", tree.name, counts, tree.levels, **sizes)

    def ngrams(self, line: JoinedTraces, texts: ngram.NgramTexts) -> Iterator[SpeculationFigures]:
        rules: tuple[ngram.NgramLookup | ngram.SimpleNgram, ...] = (*LOOKUPS, ngram.SimpleNgram())
        found = simulate.walk(line, [ngram.drafts(line, texts, rule) for rule in rules])
        for rule, counts in zip(rules, found, strict=True):
            sizes = {"min": rule.min, "max": rule.max, "draft_tokens": rule.draft_tokens}
            yield self.figures(rule.method, rule.name, counts, 0, **sizes)


def counters(counts: PassCounts) -> VllmCounters:
    """vLLM's counters for the same work."""
    return VllmCounters(
        num_drafts=float(counts.drafts.sum()),
        num_draft_tokens=float(counts.drafted.sum()),
        num_accepted_tokens=float(counts.accepted.sum()),
        num_accepted_tokens_per_pos=tuple(counts.per_position.tolist()),
    )


def loads(by_length: ByLength, costs: Sequence[Costs]) -> Iterator[LoadFigures]:
    """The best length for each number of sequences at once."""
    for cost in costs if by_length else ():
        g, gain, between = _best(by_length, cost)
        yield LoadFigures(cost.sequences, g, gain, cost.target_step, between)


def _best(by_length: ByLength, cost: Costs) -> tuple[int, float, Interval | None]:
    """The length that gains most, what it gains, and the interval of that."""
    gains = {
        g: speedup.of_pass(counts.tokens_per_pass, counts.drafted_per_pass, cost)
        for g, counts in by_length.items()
    }
    g = max(gains, key=lambda length: gains[length])
    tokens = interval(by_length[g].tokens, by_length[g].passes)
    between = speedup.interval(gains[g], by_length[g].tokens_per_pass, tokens, cost)
    return g, gains[g], between


def parts(
    names: Sequence[str], by_length: ByLength, length: int, cost: Costs | None
) -> dict[str, CategoryFigures]:
    """The figures of each group of prompts; names: the group of each prompt."""
    found = {}
    for name in dict.fromkeys(names if by_length else ()):
        chosen = np.array(names) == name
        mine = {g: counts.of(chosen) for g, counts in by_length.items()}
        counts = mine[length]
        g, gain, between = _best(mine, cost) if cost is not None else (length, None, None)
        rate = interval(counts.accepted, counts.drafted)
        found[name] = CategoryFigures(
            prompts=int(chosen.sum()),
            tokens=int(counts.tokens.sum()),
            acceptance_rate=AcceptanceRate(counts.draft_efficiency, rate),
            tokens_per_pass=counts.tokens_per_pass,
            draft_tokens=g,
            speedup=gain,
            speedup_ci95=between,
        )
    return found


def mean(columns: Sequence[Floats | None]) -> float | None:
    """The mean of a column of traces over all tokens that could be drafted; None: it is missing."""
    known = [column[1:] if column.ndim == 1 else column[1:, 0] for column in columns
             if column is not None]  # fmt: skip
    total = sum(len(column) for column in known)
    return ratio(sum(column.sum() for column in known), total) if total else None
