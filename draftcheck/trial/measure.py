"""The run of a trial, from a plan to a result.

1. A backend loads target and draft.
2. Batch by batch the target answers prompts (texts), and the draft reads what it wrote (traces:
   what the draft would have proposed at each token). Texts may come from a file instead.
3. That ends when the acceptance is known well enough, the prompts are used up, or the budget is.
4. Steps of both models are timed, for several numbers of sequences at once.
5. summary.py turns traces and costs into the result; nothing is generated for that any more.
6. If asked for, the backend speculates for real, and the result says how well that was foretold.

A draft that cannot be used is a result too (broken). What was measured before an interruption or a
failure is summed up all the same, and the result says that it is incomplete.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from msgspec import structs

from draftcheck.errors import ReadError
from draftcheck.trial import reuse, summary
from draftcheck.trial.backends.backend import Backend, BrokenDraft, CannotVerify, open_backend
from draftcheck.trial.plan import TrialPlan, TrialWork
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.result import Trial
from draftcheck.trial.simulate import answers, passes, statistics
from draftcheck.trial.simulate.traces import Trace, line_up

BATCH = 16
WATCHED = 4
"""The draft length whose acceptance decides when there are prompts enough."""
LOADS = (1, 4, 16, 64)
CONTEXT = 1024
VERIFIED = 6
"""Prompts for the real run."""
INTERRUPTED = "interrupted"

Say = Callable[[str], None]


def run(plan: TrialPlan, say: Say) -> Trial:
    """The whole trial; say: is told the progress."""
    began = time.perf_counter()
    try:
        backend = open_backend(plan.backend, plan.target, plan.draft, plan.options)
    except BrokenDraft as error:
        return summary.broken_trial(plan, None, str(error), time.perf_counter() - began)
    say(f"loaded on {backend.device}, {backend.dtype}")
    with closing(backend):
        trial = _run_loaded(plan, backend, began, say)
    return structs.replace(trial, seconds=time.perf_counter() - began)


def _run_loaded(plan: TrialPlan, backend: Backend, began: float, say: Say) -> Trial:
    work = TrialWork()
    try:
        _collect_traces(plan, backend, work, began, say)
        _time_steps(plan, backend, work, say)
    except BrokenDraft as error:
        return summary.broken_trial(plan, backend, str(error), time.perf_counter() - began)
    except KeyboardInterrupt:
        if not work.traces:
            raise
        work.incomplete = INTERRUPTED
    except ReadError as error:
        if not work.traces:
            raise
        work.incomplete = error.message
    trial = summary.sum_up(plan, backend, work)
    if plan.verify and trial.broken is None and trial.incomplete is None:
        trial = _speculate_for_real(plan, backend, trial, work, say)
    return trial


def _collect_traces(
    plan: TrialPlan, backend: Backend, work: TrialWork, began: float, say: Say
) -> None:
    """Traces, a batch of prompts at a time, until they suffice."""
    kept = reuse.load(plan.reuse, plan) if plan.reuse else None
    try:
        for at in range(0, len(kept if kept is not None else plan.prompts), BATCH):
            before = len(work.texts)
            try:
                if kept is None:
                    _write_texts(plan, backend, work, at, began)
                else:
                    work.texts += kept[at : at + BATCH]
            except ReadError:
                _read_texts(plan, backend, work, before)
                raise
            _read_texts(plan, backend, work, before)
            width = _uncertainty(work.traces)
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
        nothing = "every answer ends at once" if work.texts else "no prompts"
        raise ReadError(
            f"{plan.target}: nothing to measure: {'; '.join(backend.notes) or nothing}",
            hint="Use other --prompts or fewer --tokens.",
        )


def _write_texts(plan: TrialPlan, backend: Backend, work: TrialWork, at: int, began: float) -> None:
    """The target's texts for one batch; the seconds that are left bound them."""
    seconds = None
    if plan.budget is not None:
        seconds = max(plan.budget - (time.perf_counter() - began), 1.0)
    options = replace(plan.options, seed=plan.options.seed + at, seconds=seconds)
    for temperature, prompts in _by_temperature(plan, at):
        for text in backend.generate(prompts, replace(options, temperature=temperature)):
            work.texts.append(replace(text, temperature=temperature))


def _by_temperature(plan: TrialPlan, at: int) -> Iterator[tuple[float, list[Prompt]]]:
    """The batch in its greedy and its sampled part, evenly mixed over all prompts."""
    batch = list(enumerate(plan.prompts[at : at + BATCH], start=at))
    share = plan.greedy_share if plan.options.temperature > 0 else 1.0
    greedy = [prompt for i, prompt in batch if int((i + 1) * share) > int(i * share)]
    warm = [prompt for i, prompt in batch if int((i + 1) * share) == int(i * share)]
    yield from ((t, part) for t, part in ((0.0, greedy), (plan.options.temperature, warm)) if part)


def _read_texts(plan: TrialPlan, backend: Backend, work: TrialWork, first: int) -> None:
    """What the draft would have proposed along the texts from the first new one on."""
    texts = work.texts[first:]
    for temperature in sorted({text.temperature for text in texts}):
        same = [text for text in texts if text.temperature == temperature]
        for trace in backend.read(same, replace(plan.options, temperature=temperature)):
            work.traces.append(replace(trace, temperature=temperature))


def _uncertainty(traces: Sequence[Trace]) -> float | None:
    """Half the interval of the acceptance so far; None: too few prompts to say."""
    if len(traces) < BATCH:
        return None
    counts = passes.lengths(line_up(traces), WATCHED)[WATCHED]
    interval = statistics.interval(counts.accepted, counts.drafted)
    return None if interval is None else (interval[1] - interval[0]) / 2


def _time_steps(plan: TrialPlan, backend: Backend, work: TrialWork, say: Say) -> None:
    if not plan.cost:
        return
    context = min([CONTEXT, *(size // 2 for size in backend.limits().contexts)])
    loads = LOADS if backend.device.startswith("cuda") else LOADS[:1]
    for sequences in loads:
        say(f"timing steps for {sequences} sequence{'s' * (sequences > 1)}")
        costs = backend.costs(sequences, context)
        if costs is None:
            break
        work.costs.append(costs)
    work.floor = backend.floor()


def _speculate_for_real(
    plan: TrialPlan, backend: Backend, trial: Trial, work: TrialWork, say: Say
) -> Trial:
    """With texts that were measured: greedy ones, if any, whose output can be compared."""
    say(f"speculating for real with {trial.length} tokens")
    read = {id(trace.tokens): trace for trace in work.traces}
    long = [text for text in work.texts if len(text.tokens) > 1 and id(text.tokens) in read]
    coldest = min(text.temperature for text in long)
    chosen = [text for text in long if text.temperature == coldest][:VERIFIED]
    options = replace(plan.options, temperature=coldest)
    try:
        verified = backend.verify(chosen, trial.length, options)
    except KeyboardInterrupt:
        return structs.replace(trial, incomplete=INTERRUPTED)
    except CannotVerify as error:
        return structs.replace(trial, notes=(*trial.notes, f"not verified: {error}"))
    except ReadError as error:
        return structs.replace(trial, incomplete=error.message)
    if verified.predicted is None:
        same = [read[id(text.tokens)] for text in chosen]
        predicted = answers.by_length(same, trial.length, verified.first)[trial.length]
        verified = structs.replace(verified, predicted=predicted.tokens_per_pass)
    notes, broken = trial.notes, trial.broken
    if verified.identical_output is False:
        if backend.dtype == "float32":
            broken = "greedy output with the draft is not the target's own, in float32"
        else:
            notes += (f"greedy output differed somewhere: usual in {backend.dtype}",)
    return structs.replace(trial, verified=verified, notes=notes, broken=broken)
