"""Traces and costs -> every answer of the trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from draftcheck.trial import speedup
from draftcheck.trial.result import (
    AcceptanceRate,
    CategoryFigures,
    LoadFigures,
    SpeculationFigures,
    VllmCounters,
)
from draftcheck.trial.simulate import ngram, trees
from draftcheck.trial.simulate import passes as simulate
from draftcheck.trial.simulate.statistics import Bootstrap
from draftcheck.trial.simulate.traces import Bools, Floats, JoinedTraces, PassCounts, Trace, line_up
from draftcheck.trial.speedup import Costs, ratio

USUAL = 4
"""Draft length of single figures where no costs say which is best."""
P_MIN = (0.0, 0.25, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95)
P_MIN_LENGTHS = (4, 8, 16)
BUDGETS = (4, 8, 16, 32, 64)
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


@dataclass(frozen=True, slots=True)
class TrialAnswers:
    """All ways of speculating, for one sequence at a time."""

    by_length: Mapping[int, PassCounts]
    lengths: tuple[SpeculationFigures, ...]
    greedy_lengths: tuple[SpeculationFigures, ...]
    thresholds: tuple[SpeculationFigures, ...]
    trees: tuple[SpeculationFigures, ...]
    ngram: tuple[SpeculationFigures, ...]
    best: SpeculationFigures | None
    length: int


def answer(
    traces: Sequence[Trace],
    cost: Costs | None,
    longest: int = simulate.LONGEST,
    tree: trees.DraftTree | None = None,
) -> TrialAnswers:
    """Every way of speculating; without costs no speed-up and no best way."""
    make = _FiguresMaker(Bootstrap(len(traces)), cost)
    line = line_up(traces)
    counts = by_length(traces, longest)
    lengths = tuple(make.lengths(counts))
    other: tuple[SpeculationFigures, ...] = ()
    if _draft_samples(traces):  # otherwise a greedy draft is the same draft
        other = tuple(make.lengths(simulate.lengths(line, longest), ", greedy draft"))
    thresholds = tuple(make.thresholds(line, longest))
    shapes = tuple(make.trees(line, tree))
    grams = tuple(make.ngrams(line, ngram.NgramTexts(traces)))
    best = _best([*lengths, *other, *thresholds, *shapes, *grams]) if cost else None
    return TrialAnswers(
        counts, lengths, other, thresholds, shapes, grams, best, best_length(lengths, cost)
    )


def length_rows(
    counts: Mapping[int, PassCounts], cost: Costs | None
) -> Iterator[SpeculationFigures]:
    """Rows for draft lengths that were counted elsewhere."""
    prompts = len(next(iter(counts.values())).passes)
    return _FiguresMaker(Bootstrap(prompts), cost).lengths(counts)


def by_length(traces: Sequence[Trace], longest: int, first: int = 1) -> dict[int, PassCounts]:
    """Fixed draft lengths; the draft samples too where its chances are known. first: line_up."""
    if _draft_samples(traces):
        return simulate.sampled_lengths(traces, longest, first)
    return simulate.lengths(line_up(traces, first), longest)


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
        gain = mbsu = None
        if self.cost is not None:
            gain = speedup.of_pass(
                counts.tokens_per_pass, counts.drafted_per_pass, self.cost, drafts_in
            )
            if g := settings.get("draft_tokens") if method == "draft_model" else None:
                mbsu = speedup.memory_bound(counts.tokens_per_pass, g, self.cost.ratio)
        return SpeculationFigures(
            method=method,
            name=name,
            tokens_per_pass=counts.tokens_per_pass,
            draft_efficiency=counts.draft_efficiency,
            drafted_per_pass=counts.drafted_per_pass,
            speedup=gain,
            interval=self.bootstrap.interval(counts.tokens, counts.passes),
            mbsu=mbsu,
            counters=counters(counts),
            **settings,
        )

    def lengths(
        self, by_length: Mapping[int, PassCounts], more: str = ""
    ) -> Iterator[SpeculationFigures]:
        for g, counts in by_length.items():
            name = f"{g} token{'s' * (g > 1)}{more}"
            yield self.figures("draft_model", name, counts, counts.drafted_per_pass, draft_tokens=g)

    def thresholds(self, line: JoinedTraces, longest: int) -> Iterator[SpeculationFigures]:
        grid = [(p_min, g) for p_min in P_MIN for g in P_MIN_LENGTHS if g <= longest]
        ways = [simulate.stop_when_unsure(line, p_min, g) for p_min, g in grid]
        found = simulate.walk(line, ways)
        for (p_min, g), counts in zip(grid, found, strict=True):
            name = f"up to {g} tokens, p_min {p_min:g}"
            # The token that falls short of p_min had to be drafted to see that it does.
            waits = min(counts.drafted_per_pass + (p_min > 0), g)
            yield self.figures("threshold", name, counts, waits, p_min=p_min, draft_tokens=g)

    def trees(
        self, line: JoinedTraces, own: trees.DraftTree | None
    ) -> Iterator[SpeculationFigures]:
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


def _best(rows: Sequence[SpeculationFigures]) -> SpeculationFigures:
    found = max(rows, key=lambda row: row.speedup or 0.0)
    return found if (found.speedup or 0.0) > 1.0 else NO


def best_length(lengths: Sequence[SpeculationFigures], cost: Costs | None) -> int:
    """The length that single figures are about: the best one, or the usual one."""
    if cost is None:
        return min(USUAL, len(lengths))
    top = max(lengths, key=lambda row: row.speedup or 0.0)
    return top.draft_tokens or USUAL


def loads(by_length: Mapping[int, PassCounts], costs: Sequence[Costs]) -> Iterator[LoadFigures]:
    """The best length for each number of sequences at once."""
    for cost in costs:
        gains = {g: _gain(counts, cost) for g, counts in by_length.items()}
        g = max(gains, key=lambda length: gains[length])
        yield LoadFigures(cost.sequences, g, gains[g], cost.target_step)


def _gain(counts: PassCounts, cost: Costs) -> float:
    return speedup.of_pass(counts.tokens_per_pass, counts.drafted_per_pass, cost)


def parts(
    names: Sequence[str], by_length: Mapping[int, PassCounts], length: int, cost: Costs | None
) -> dict[str, CategoryFigures]:
    """The figures of each group of prompts; names: the group of each prompt."""
    array = np.array(names)
    return {
        str(name): _part(array == name, by_length, length, cost) for name in dict.fromkeys(names)
    }


def _part(
    chosen: Bools, by_length: Mapping[int, PassCounts], length: int, cost: Costs | None
) -> CategoryFigures:
    mine = {g: counts.of(chosen) for g, counts in by_length.items()}
    counts, g, gain = mine[length], length, None
    if cost is not None:
        gains = {g: _gain(mine[g], cost) for g in mine}
        g = max(gains, key=lambda length: gains[length])
        gain = gains[g]
    return CategoryFigures(
        prompts=int(chosen.sum()),
        tokens=int(counts.tokens.sum()),
        acceptance_rate=AcceptanceRate(
            counts.draft_efficiency,
            Bootstrap(len(counts.passes)).interval(counts.accepted, counts.drafted),
        ),
        tokens_per_pass=counts.tokens_per_pass,
        draft_tokens=g,
        speedup=gain,
    )


def mean(columns: Sequence[Floats | None]) -> float | None:
    """The mean of a column of traces over all tokens that could be drafted; None: it is missing."""
    known = [column[1:] for column in columns if column is not None]
    total = sum(len(column) for column in known)
    return ratio(sum(column.sum() for column in known), total) if total else None
