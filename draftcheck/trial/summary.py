"""What a trial measured -> its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from draftcheck.errors import DraftcheckError
from draftcheck.trial import model_places, prompts
from draftcheck.trial.backends.backend import Backend
from draftcheck.trial.plan import TrialPlan, TrialWork
from draftcheck.trial.result import CategoryFigures, MeasuredModel, SpeculationFigures, Trial
from draftcheck.trial.simulate import answers, passes, statistics, trees
from draftcheck.trial.simulate.traces import PassCounts
from draftcheck.trial.speed import speedup
from draftcheck.trial.speed.speedup import Costs

BROKEN = 1.05
"""Tokens per pass up to here are not a bad draft but a broken pair."""
FEWEST = 24
"""Tokens that could be drafted; of fewer even a fair draft may miss all by chance."""


def own_tree(file: Path | None) -> trees.DraftTree | None:
    return None if file is None else trees.load(file)


def sum_up(
    plan: TrialPlan, backend: Backend, work: TrialWork, tree: trees.DraftTree | None
) -> Trial:
    """The result of whatever was measured."""
    traces = work.traces
    cost = work.costs[0] if work.costs else None
    found = answers.answer(traces, cost, _longest(backend), tree)
    counts = found.by_length[found.length]
    loads = tuple(answers.loads(found.by_length, work.costs))
    floor = list(answers.loads(found.by_length, [work.floor] if work.floor else []))
    sampled = [trace for trace in traces if trace.temperature > 0]
    drafted = int(sum(max(len(trace.tokens) - 1, 0) for trace in traces))
    broken_by, few = _broken(backend, found.lengths, drafted)
    return Trial(
        **_circumstances(plan, backend),
        prompts=len(traces),
        tokens=int(sum(len(trace.tokens) for trace in traces)),
        seconds=0.0,
        stopped=work.stopped if work.incomplete is None else work.incomplete,
        incomplete=work.incomplete,
        length=found.length,
        acceptance=counts.draft_efficiency,
        interval=statistics.interval(counts.accepted, counts.drafted),
        lengths=found.lengths,
        thresholds=found.thresholds,
        trees=found.trees,
        ngram=found.ngram,
        greedy_lengths=found.greedy_lengths,
        categories=answers.parts(
            [trace.category for trace in traces], found.by_length, found.length, cost
        ),
        workload=_workload(work, found.by_length, found.length),
        overlap=answers.mean(sampled, "overlap"),
        greedy_draft=answers.mean(sampled, "agree"),
        costs=cost,
        floor=work.floor,
        floor_speedup=floor[0].speedup if floor else None,
        loads=loads,
        break_even=speedup.break_even(cost) if cost else None,
        best=found.best,
        reencoded=_reencoded(backend, work, found, cost),
        broken=broken_by,
        notes=(*notes_of(backend), *few, *_copies(found)),
    )


def broken(plan: TrialPlan, backend: Backend | None, why: str, seconds: float) -> Trial:
    """A trial that ended before there was anything to count."""
    return Trial(
        **_circumstances(plan, backend), prompts=0, tokens=0, seconds=seconds, stopped=why,
        length=answers.USUAL, acceptance=0.0, interval=None, broken=why,
        notes=tuple(notes_of(backend)),
    )  # fmt: skip


def _circumstances(plan: TrialPlan, backend: Backend | None) -> dict[str, Any]:
    options = plan.options
    models: Mapping[str, MeasuredModel] | None = getattr(backend, "models", None)
    if not models:
        models = {"target": _identify(plan.target), "draft": _identify(plan.draft)}
    return {
        "target": plan.target,
        "draft": plan.draft,
        "backend": (plan.backend or "none") if backend is None else backend.name,
        "device": "none" if backend is None else backend.device,
        "dtype": options.dtype or "unknown" if backend is None else backend.dtype,
        "temperature": options.temperature,
        "seed": options.seed,
        "models": models,
        "prompts_digest": prompts.digest(plan.prompts) if plan.prompts else None,
        "tokens_per_prompt": options.tokens,
        "greedy_share": plan.greedy_share,
        "translation": getattr(backend, "translation", None),
        "shared": getattr(backend, "shared", None),
    }


def _identify(text: str) -> MeasuredModel:
    try:
        return model_places.identify(text)
    except DraftcheckError:  # a name that only the backend knows
        return MeasuredModel(text)


def notes_of(backend: Backend | None) -> list[str]:
    """What the backend has to say about the prompts and models it was given."""
    return list(getattr(backend, "notes", ()))


def _reencoded(
    backend: Backend, work: TrialWork, found: answers.TrialAnswers, cost: Costs | None
) -> tuple[SpeculationFigures, ...]:
    """Of a translated draft: lengths when the text is encoded anew for each side."""
    if getattr(backend, "translation", None) is None or not hasattr(backend, "reencoded"):
        return ()
    texts = [text for text in work.texts if len(text.tokens)]
    counts = backend.reencoded(texts, len(found.lengths), 1)
    return tuple(answers.length_rows(counts, cost))


def _longest(backend: Backend) -> int:
    """Draft lengths as far as the context allows."""
    limits = [n for name, n in backend.limits().items() if name.endswith("context") and n]
    return max(1, min([passes.LONGEST, *(int(n) - 1 for n in limits)]))


def _workload(
    work: TrialWork, by_length: Mapping[int, PassCounts], length: int
) -> dict[str, CategoryFigures]:
    """The two parts of a mixed workload; nothing where all prompts were answered one way."""
    names = ["sampled" if trace.temperature > 0 else "greedy" for trace in work.traces]
    if len(set(names)) < 2:
        return {}
    return answers.parts(names, by_length, length, work.costs[0] if work.costs else None)


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


def _broken(
    backend: Backend, lengths: Sequence[SpeculationFigures], tokens: int
) -> tuple[str | None, tuple[str, ...]]:
    """Why the pair is broken, and a note where the sample is too small to say so."""
    top = max((row.tokens_per_pass for row in lengths), default=0.0)
    if top > BROKEN:
        return None, ()
    words = f"{top:.2f} tokens per pass: nearly every draft is rejected"
    if tokens < FEWEST:
        return None, (f"{words}, but {tokens} tokens are too few to call the pair broken",)
    cause = getattr(backend, "cause", None)
    found = cause() if cause is not None else None
    if found is None:
        limits = backend.limits()
        rows = limits.get("target_rows"), limits.get("draft_rows")
        sizes = f"{rows[0]:,} and {rows[1]:,} rows" if all(rows) and rows[0] != rows[1] else None
        found = "most likely the draft speaks another vocabulary or its weights are broken"
        found = f"the vocabularies have {sizes}; {found}" if sizes else found
    return f"{words}; {found}", ()
