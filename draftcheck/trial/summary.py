"""What a trial measured -> its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from draftcheck.errors import DraftcheckError
from draftcheck.trial import model_places, prompts, speedup
from draftcheck.trial.backends.backend import Backend
from draftcheck.trial.plan import TrialPlan, TrialWork
from draftcheck.trial.result import AcceptanceRate, MeasuredModel, SpeculationFigures, Trial
from draftcheck.trial.simulate import answers, passes, statistics

BROKEN = 1.05
"""Tokens per pass up to here are not a bad draft but a broken pair."""
FEWEST = 24
"""Tokens that could be drafted; of fewer even a fair draft may miss all by chance."""


def sum_up(plan: TrialPlan, backend: Backend, work: TrialWork) -> Trial:
    """The result of whatever was measured."""
    traces = work.traces
    cost = work.costs[0] if work.costs else None
    # Draft lengths as far as the context allows.
    longest = min([passes.LONGEST, *(size - 1 for size in backend.limits().contexts)])
    ways = answers.answer(traces, cost, max(1, longest), plan.tree)
    counts = ways.by_length[ways.length]
    loads = tuple(answers.loads(ways.by_length, work.costs))
    floor = list(answers.loads(ways.by_length, [work.floor] if work.floor else []))
    sampled = [trace for trace in traces if trace.temperature > 0]
    drafted = int(sum(max(len(trace.tokens) - 1, 0) for trace in traces))
    broken, few = _why_broken(backend, ways.lengths, drafted)
    written = [text for text in work.texts if len(text.tokens)]
    reencoded = backend.reencoded(written, len(ways.lengths), 1)
    kinds = ["sampled" if trace.temperature > 0 else "greedy" for trace in traces]
    return Trial(
        **_circumstances(plan, backend),
        prompts=len(traces),
        tokens=int(sum(len(trace.tokens) for trace in traces)),
        seconds=0.0,
        stopped=work.stopped if work.incomplete is None else work.incomplete,
        incomplete=work.incomplete,
        length=ways.length,
        acceptance_rate=AcceptanceRate(
            counts.draft_efficiency, statistics.interval(counts.accepted, counts.drafted)
        ),
        lengths=ways.lengths,
        thresholds=ways.thresholds,
        trees=ways.trees,
        ngram=ways.ngram,
        greedy_lengths=ways.greedy_lengths,
        categories=answers.parts(
            [trace.category for trace in traces], ways.by_length, ways.length, cost
        ),
        workload=answers.parts(kinds, ways.by_length, ways.length, cost)
        if len(set(kinds)) > 1
        else {},
        overlap=answers.mean([trace.overlap for trace in sampled]),
        greedy_draft=answers.mean([trace.agree for trace in sampled]),
        costs=cost,
        floor=work.floor,
        floor_speedup=floor[0].speedup if floor else None,
        loads=loads,
        break_even=speedup.break_even(cost) if cost else None,
        best=ways.best,
        reencoded=tuple(answers.length_rows(reencoded, cost)) if reencoded else (),
        broken=broken,
        notes=(*backend.notes, *few, *_copies(ways)),
    )


def broken_trial(plan: TrialPlan, backend: Backend | None, why: str, seconds: float) -> Trial:
    """A trial that ended before there was anything to count; backend: None if none was opened."""
    return Trial(
        **_circumstances(plan, backend),
        prompts=0,
        tokens=0,
        seconds=seconds,
        stopped=why,
        length=answers.USUAL,
        acceptance_rate=AcceptanceRate(0.0),
        broken=why,
        notes=() if backend is None else tuple(backend.notes),
    )


def _circumstances(plan: TrialPlan, backend: Backend | None) -> dict[str, Any]:
    """What was asked, and with what."""
    options = plan.options
    models: Mapping[str, MeasuredModel] = {} if backend is None else backend.models
    return {
        "target_model": models.get("target") or _identify(plan.target),
        "draft_model": models.get("draft") or _identify(plan.draft),
        "backend": (plan.backend or "none") if backend is None else backend.name,
        "device": "none" if backend is None else backend.device,
        "dtype": options.dtype or "unknown" if backend is None else backend.dtype,
        "temperature": options.temperature,
        "seed": options.seed,
        "prompts_digest": prompts.digest(plan.prompts) if plan.prompts else None,
        "tokens_per_prompt": options.tokens,
        "greedy_share": plan.greedy_share,
        "translation": None if backend is None else backend.translation,
        "shared": None if backend is None else backend.shared,
    }


def _identify(text: str) -> MeasuredModel:
    try:
        return model_places.identify(text)
    except DraftcheckError:  # a name that only the backend knows
        return MeasuredModel(text)


def _copies(found: answers.TrialAnswers) -> tuple[str, ...]:
    """A note where the draft adds nothing to what copying earlier text gives for free."""
    best = max((row.tokens_per_pass for row in found.lengths), default=0.0)
    copied = max((row.tokens_per_pass for row in found.ngram), default=0.0)
    if not BROKEN < best <= copied:
        return ()
    return (
        f"{best:.2f} tokens per pass at best, n-grams copied from the text alone give {copied:.2f}:"
        " if this draft should know better, its weights or its vocabulary are damaged",
    )


def _why_broken(
    backend: Backend, lengths: Sequence[SpeculationFigures], tokens: int
) -> tuple[str | None, tuple[str, ...]]:
    """Why the pair is broken, and a note where the sample is too small to say so."""
    top = max((row.tokens_per_pass for row in lengths), default=0.0)
    if top > BROKEN:
        return None, ()
    words = f"{top:.2f} tokens per pass: nearly every draft is rejected"
    if tokens < FEWEST:
        return None, (f"{words}, but {tokens} tokens are too few to call the pair broken",)
    likely = "most likely the draft speaks another vocabulary or its weights are broken"
    ours, theirs = backend.limits().target_rows, backend.limits().draft_rows
    if ours and theirs and ours != theirs:
        likely = f"the vocabularies have {ours:,} and {theirs:,} rows; {likely}"
    return f"{words}; {backend.cause() or likely}", ()
