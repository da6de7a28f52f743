"""Traces and costs -> every answer of the trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from draftcheck.trial import ngram, sampled, simulate, speedup, statistics, trees
from draftcheck.trial.backend import Backend
from draftcheck.trial.result import Load, Row, Trial
from draftcheck.trial.speedup import Costs
from draftcheck.trial.traces import Counts, Line, Trace, line_up, ratio

if TYPE_CHECKING:
    from draftcheck.trial.measure import Plan

BROKEN = 1.05
"""Tokens per pass up to here are not a bad draft but a broken pair."""
USUAL = 4
"""Draft length of single figures where no costs say which is best."""
P_MIN = (0.0, 0.25, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95)
P_MIN_LENGTHS = (4, 8, 16)
BUDGETS = (4, 8, 16, 32, 64)
LOOKUPS = (
    ngram.Lookup(1, 2, 10),  # transformers' prompt_lookup_num_tokens=10
    ngram.Lookup(1, 4, 5),
    ngram.Lookup(2, 4, 5),  # vLLM, as its documentation has it
    ngram.Lookup(3, 5, 10),
)
NO = Row("none", "no speculation", 1.0, 0.0, 0.0, 1.0, {"draft_tokens": 0})


def answer(plan: Plan, backend: Backend, traces: Sequence[Trace], costs: Sequence[Costs]) -> Trial:
    """The trial's figures for one sequence at a time."""
    cost = costs[0] if costs else None
    line = line_up(traces)
    longest = _longest(backend, traces)
    by_length = _by_length(plan, traces, longest)
    lengths = tuple(_lengths(by_length, cost))
    thresholds = tuple(_thresholds(line, longest, cost))
    shapes, grams = tuple(_trees(plan, line, cost)), tuple(_ngrams(traces, cost))
    best = _best([*lengths, *thresholds, *shapes, *grams]) if cost else None
    length = _length(best, lengths)
    counts = by_length[length]
    return Trial(
        target=plan.target,
        draft=plan.draft,
        backend=backend.name,
        device=backend.device,
        dtype=backend.dtype,
        temperature=plan.options.temperature,
        seed=plan.options.seed,
        prompts=len(traces),
        tokens=int(sum(len(trace.tokens) for trace in traces)),
        seconds=0.0,
        stopped="",
        length=length,
        acceptance=counts.draft_efficiency,
        interval=statistics.interval(counts.accepted, counts.drafted),
        by_position=tuple(counts.by_position),
        by_position_given_the_last=tuple(counts.by_position_given_the_last),
        categories=_categories(traces, counts),
        lengths=lengths,
        counters=_counters(counts),
        histogram=tuple(counts.histogram.tolist()),
        overlap=_mean(traces, "overlap"),
        greedy_draft=_mean(traces, "agree"),
        costs=cost,
        break_even=speedup.break_even(cost) if cost else None,
        best=best,
        broken=_broken(backend, lengths),
        thresholds=thresholds,
        trees=shapes,
        ngram=grams,
    )


def broken(plan: Plan, backend: Backend, why: str, seconds: float) -> Trial:
    """A trial that ended before there was anything to count."""
    return Trial(
        target=plan.target, draft=plan.draft, backend=backend.name, device=backend.device,
        dtype=backend.dtype, temperature=plan.options.temperature, seed=plan.options.seed,
        prompts=0, tokens=0, seconds=seconds, stopped=why, length=USUAL, acceptance=0.0,
        interval=None, by_position=(), by_position_given_the_last=(), categories={}, lengths=(),
        thresholds=(), trees=(), ngram=(), counters={}, histogram=(), broken=why,
    )  # fmt: skip


def loads(traces: Sequence[Trace], costs: Sequence[Costs]) -> Iterator[Load]:
    """The best length for each number of sequences at once."""
    counts = simulate.lengths(line_up(traces)) if costs else {}
    for cost in costs:
        rows = list(_lengths(counts, cost))
        best = max(rows, key=lambda row: row.speedup or 0.0)
        yield Load(cost.sequences, best.settings["draft_tokens"], best.speedup or 0.0,
                   cost.target_step)  # fmt: skip


def with_floor(trial: Trial, traces: Sequence[Trace]) -> Trial:
    """The best speed-up if reading weights were all that a step costs."""
    if trial.floor is None or not traces:
        return trial
    found = list(loads(traces, [trial.floor]))
    return replace(trial, floor_speedup=found[0].speedup)


def _longest(backend: Backend, traces: Sequence[Trace]) -> int:
    """Draft lengths as far as the context allows."""
    limits = [n for name, n in backend.limits().items() if name.endswith("context") and n]
    return max(1, min([simulate.LONGEST, *(int(n) - 1 for n in limits)]))


def _by_length(plan: Plan, traces: Sequence[Trace], longest: int) -> dict[int, Counts]:
    if plan.options.temperature > 0:
        return sampled.lengths(traces, longest)
    return simulate.lengths(line_up(traces), longest)


def _row(
    method: str, name: str, counts: Counts, drafts_in: float, cost: Costs | None, **settings: Any
) -> Row:
    """drafts_in: draft steps that one pass waits for."""
    checked = ratio(counts.drafted.sum(), counts.passes.sum())
    gain = None
    if cost is not None:
        seconds = drafts_in * cost.draft_step
        gain = speedup.of_pass(counts.tokens_per_pass, seconds, checked, cost)
    return Row(
        method, name, counts.tokens_per_pass, counts.draft_efficiency, checked, gain, settings
    )


def _lengths(by_length: dict[int, Counts], cost: Costs | None) -> Iterator[Row]:
    for g, counts in by_length.items():
        steps = ratio(counts.drafted.sum(), counts.passes.sum())
        yield _row("draft_model", f"{g} tokens", counts, steps, cost, draft_tokens=g)


def _thresholds(line: Line, longest: int, cost: Costs | None) -> Iterator[Row]:
    for p_min in P_MIN:
        for g in P_MIN_LENGTHS:
            if g <= longest:
                counts = simulate.threshold(line, p_min, g)
                steps = ratio(counts.drafted.sum(), counts.passes.sum())
                name = f"up to {g} tokens, p_min {p_min:g}"
                # The token that falls short of p_min had to be drafted to see that it does.
                waits = min(steps + (p_min > 0), g)
                yield _row("threshold", name, counts, waits, cost, p_min=p_min, draft_tokens=g)


def _trees(plan: Plan, line: Line, cost: Costs | None) -> Iterator[Row]:
    shapes = [trees.best(line, nodes) for nodes in BUDGETS]
    if plan.tree is not None:
        shapes.append(trees.load(plan.tree))
    for tree in shapes:
        counts = trees.simulate(line, tree)
        yield _row("tree", tree.name, counts, tree.levels, cost, nodes=tree.nodes,
                   levels=tree.levels)  # fmt: skip


def _ngrams(traces: Sequence[Trace], cost: Costs | None) -> Iterator[Row]:
    for rule in LOOKUPS:
        counts = ngram.simulate(traces, rule)
        name = f"{rule.min} to {rule.max}-grams, {rule.draft_tokens} tokens"
        yield _row("ngram", name, counts, 0, cost, min=rule.min, max=rule.max,
                   draft_tokens=rule.draft_tokens)  # fmt: skip
    simple = ngram.Simple()
    counts = ngram.simulate(traces, simple)
    yield _row("ngram-simple", f"{simple.size_n}-grams, {simple.size_m} tokens", counts, 0, cost,
               min=simple.size_n, max=simple.size_n, draft_tokens=simple.size_m)  # fmt: skip


def _best(rows: Sequence[Row]) -> Row:
    found = max(rows, key=lambda row: row.speedup or 0.0)
    return found if (found.speedup or 0.0) > 1.0 else NO


def _length(best: Row | None, lengths: Sequence[Row]) -> int:
    """The length that single figures are about: the best one, or the usual one."""
    if best is None:
        return min(USUAL, len(lengths))
    top = max(lengths, key=lambda row: row.speedup or 0.0)
    return int(top.settings["draft_tokens"])


def _categories(traces: Sequence[Trace], counts: Counts) -> dict[str, float]:
    names = np.array([trace.category for trace in traces])
    return {
        str(name): ratio(counts.accepted[names == name].sum(), counts.drafted[names == name].sum())
        for name in dict.fromkeys(names)
    }


def _counters(counts: Counts) -> dict[str, Any]:
    """vLLM's counters for the same work."""
    reached = counts.histogram[::-1].cumsum()[::-1]
    return {
        "num_drafts": float(counts.drafts.sum()),
        "num_draft_tokens": float(counts.drafted.sum()),
        "num_accepted_tokens": float(counts.accepted.sum()),
        "num_accepted_tokens_per_pos": reached[1:].tolist(),
    }


def _mean(traces: Sequence[Trace], name: str) -> float | None:
    arrays = [getattr(trace, name) for trace in traces]
    if not arrays or any(array is None for array in arrays):
        return None
    return float(np.concatenate([array[1:] for array in arrays]).mean())


def _broken(backend: Backend, lengths: Sequence[Row]) -> str | None:
    top = max((row.tokens_per_pass for row in lengths), default=0.0)
    if top > BROKEN:
        return None
    limits = backend.limits()
    words = f"{top:.2f} tokens per pass: nearly every draft is rejected"
    if limits["target_rows"] != limits["draft_rows"]:
        words += (
            f"; the vocabularies have {limits['target_rows']:,} and {limits['draft_rows']:,} rows"
        )
    return words + "; most likely the draft speaks another vocabulary or its weights are broken"
