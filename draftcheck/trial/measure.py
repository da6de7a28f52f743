"""Run a trial: texts by the target, traces by the draft, until the answer is sure enough."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from draftcheck.errors import ReadError
from draftcheck.trial import reuse, summary
from draftcheck.trial.backends.backend import (
    Backend,
    BrokenDraft,
    CannotVerify,
    Interrupted,
    TargetText,
    open_backend,
)
from draftcheck.trial.plan import TrialPlan, TrialWork
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.result import Trial
from draftcheck.trial.simulate import answers, passes, statistics
from draftcheck.trial.simulate.traces import Trace, line_up
from draftcheck.trial.simulate.trees import DraftTree

BATCH = 16
WATCHED = 4
"""The draft length whose acceptance decides when there are prompts enough."""
LOADS = (1, 4, 16, 64)
CONTEXT = 1024
VERIFIED = 6
"""Prompts for the real run."""
INTERRUPTED = "interrupted"

Say = Callable[[str], None]


def run(plan: TrialPlan, say: Say = lambda _: None) -> Trial:
    """The whole trial; what was measured before an interruption or a failure is reported."""
    began = time.perf_counter()
    tree = summary.own_tree(plan.tree)  # before anything is loaded: it may be wrong
    options = replace(plan.options, kept=plan.reuse is not None and plan.reuse.exists())
    try:
        backend = open_backend(plan.backend, plan.target, plan.draft, options)
    except BrokenDraft as error:
        return summary.broken(plan, None, str(error), time.perf_counter() - began)
    say(f"loaded on {backend.device}, {backend.dtype}")
    with closing(backend):
        trial = _run(plan, backend, tree, began, say)
    return replace(trial, seconds=time.perf_counter() - began)


def _run(
    plan: TrialPlan, backend: Backend, tree: DraftTree | None, began: float, say: Say
) -> Trial:
    work = TrialWork()
    try:
        _collect(plan, backend, work, began, say)
        _time(plan, backend, work, say)
    except BrokenDraft as error:
        return summary.broken(plan, backend, str(error), time.perf_counter() - began)
    except KeyboardInterrupt:
        if not work.traces:
            raise
        work.incomplete = INTERRUPTED
    except Interrupted as error:
        work.texts += error.texts
        work.traces += error.traces
        if not work.traces:
            raise ReadError(str(error)) from error
        work.incomplete = str(error)
    except ReadError as error:
        if not work.traces:
            raise
        work.incomplete = error.message
    trial = summary.sum_up(plan, backend, work, tree)
    if plan.verify and trial.broken is None and trial.incomplete is None:
        trial = _verify(plan, backend, trial, work, say)
    return trial


def _collect(plan: TrialPlan, backend: Backend, work: TrialWork, began: float, say: Say) -> None:
    """Traces, a batch of prompts at a time, until they suffice."""
    kept = reuse.load(plan.reuse, plan) if plan.reuse else None
    try:
        for at in range(0, len(kept if kept is not None else plan.prompts), BATCH):
            part = slice(at, at + BATCH)
            try:
                batch = _write(plan, backend, at, began) if kept is None else kept[part]
            except Interrupted as error:
                work.texts += error.texts
                work.traces += _read(plan, backend, error.texts)
                raise Interrupted(str(error)) from error
            work.texts += batch
            work.traces += _read(plan, backend, batch)
            width = _width(work.traces)
            tokens = sum(len(trace.tokens) for trace in work.traces)
            say(f"{len(work.traces)} prompts, {tokens:,} tokens")
            if width is not None and width <= plan.precision > 0:
                work.stopped = f"acceptance is known to within {width:.3f}"
                break
            if plan.budget is not None and time.perf_counter() - began > plan.budget:
                work.stopped = f"the budget of {plan.budget:g} s was spent"
                break
    finally:
        if plan.reuse and kept is None and work.texts:
            reuse.save(plan.reuse, plan, work.texts)
    if not any(len(trace.tokens) > 1 for trace in work.traces):
        raise ReadError(
            f"{plan.target}: nothing to measure: {_nothing(backend, work)}",
            hint="Use other --prompts or fewer --tokens.",
        )


def _nothing(backend: Backend, work: TrialWork) -> str:
    notes = "; ".join(summary.notes_of(backend))
    return notes or ("every answer ends at once" if work.texts else "no prompts")


def _write(plan: TrialPlan, backend: Backend, at: int, began: float) -> list[TargetText]:
    """The target's texts for one batch; the seconds that are left bound them."""
    seconds = None
    if plan.budget is not None:
        seconds = max(plan.budget - (time.perf_counter() - began), 1.0)
    options = replace(plan.options, seed=plan.options.seed + at, seconds=seconds)
    found = []
    for temperature, prompts in _by_temperature(plan, at):
        stopped: Interrupted | None = None
        try:
            texts = backend.generate(prompts, replace(options, temperature=temperature))
        except Interrupted as error:
            texts, stopped = error.texts, error
        found += [replace(text, temperature=temperature) for text in texts]
        if stopped is not None:
            raise Interrupted(str(stopped), found) from stopped
    return found


def _by_temperature(plan: TrialPlan, at: int) -> Iterator[tuple[float, list[Prompt]]]:
    """The batch in its greedy and its sampled part, evenly mixed over all prompts."""
    batch = list(enumerate(plan.prompts[at : at + BATCH], start=at))
    share = plan.greedy_share if plan.options.temperature > 0 else 1.0
    greedy = [prompt for i, prompt in batch if int((i + 1) * share) > int(i * share)]
    warm = [prompt for i, prompt in batch if int((i + 1) * share) == int(i * share)]
    yield from ((t, part) for t, part in ((0.0, greedy), (plan.options.temperature, warm)) if part)


def _read(plan: TrialPlan, backend: Backend, texts: Sequence[TargetText]) -> list[Trace]:
    found = []
    for temperature in sorted({text.temperature for text in texts}):
        same = [text for text in texts if text.temperature == temperature]
        stopped: Interrupted | None = None
        try:
            traces = backend.read(same, replace(plan.options, temperature=temperature))
        except Interrupted as error:
            traces, stopped = error.traces, error
        found += [replace(trace, temperature=temperature) for trace in traces]
        if stopped is not None:
            raise Interrupted(str(stopped), traces=found) from stopped
    return found


def _width(traces: Sequence[Trace]) -> float | None:
    """Half the interval of the acceptance so far."""
    if len(traces) < BATCH:
        return None
    counts = passes.lengths(line_up(traces), WATCHED)[WATCHED]
    found = statistics.interval(counts.accepted, counts.drafted)
    return None if found is None else (found[1] - found[0]) / 2


def _time(plan: TrialPlan, backend: Backend, work: TrialWork, say: Say) -> None:
    if not plan.cost:
        return
    limits = [n for name, n in backend.limits().items() if name.endswith("context") and n]
    context = min([CONTEXT, *(n // 2 for n in limits)])
    loads = LOADS if backend.device.startswith("cuda") else LOADS[:1]
    for sequences in loads:
        say(f"timing steps for {sequences} sequence{'s' * (sequences > 1)}")
        costs = backend.costs(sequences, context)
        if costs is None:
            break
        work.costs.append(costs)
    work.floor = backend.floor()


def _verify(plan: TrialPlan, backend: Backend, trial: Trial, work: TrialWork, say: Say) -> Trial:
    """Speculate for real with texts that were measured: greedy ones, which can be compared."""
    say(f"speculating for real with {trial.length} tokens")
    read = {id(trace.tokens): trace for trace in work.traces}
    long = [text for text in work.texts if len(text.tokens) > 1 and id(text.tokens) in read]
    coldest = min(text.temperature for text in long)
    chosen = [text for text in long if text.temperature == coldest][:VERIFIED]
    options = replace(plan.options, temperature=coldest)
    try:
        verified = backend.verify(chosen, trial.length, options)
    except KeyboardInterrupt:
        return replace(trial, incomplete=INTERRUPTED)
    except CannotVerify as error:
        return replace(trial, notes=(*trial.notes, f"not verified: {error}"))
    except (Interrupted, ReadError) as error:
        return replace(trial, incomplete=str(error))
    if verified.predicted is None:
        same = [read[id(text.tokens)] for text in chosen]
        predicted = answers.by_length(same, trial.length, verified.first)[trial.length]
        verified = replace(verified, predicted=predicted.tokens_per_pass)
    notes, broken = trial.notes, trial.broken
    if verified.identical_output is False:
        if backend.dtype == "float32":
            broken = "greedy output with the draft is not the target's own, in float32"
        else:
            notes += (f"greedy output differed somewhere: usual in {backend.dtype}",)
    return replace(trial, verified=verified, notes=notes, broken=broken)
