"""The run of a trial, from a plan to a result.

1. A backend loads target and draft.
2. Batch by batch the target answers prompts (texts), and the draft reads what it wrote (traces:
   what the draft would have proposed at each token). Texts may come from a file instead.
3. That ends when the acceptance is known well enough, the prompts are used up, or the budget is.
4. Steps of both models are timed, for several numbers of sequences at once.
5. sum_up turns traces and costs into the result; nothing is generated for that any more.
6. If asked for, the backend speculates for real, and the result says how well that was foretold.

A draft that cannot be used is a result too (broken). What was measured before an interruption or a
failure is summed up all the same, and the result says that it is incomplete.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

from msgspec import structs

from draftcheck.errors import DraftcheckError, ReadError
from draftcheck.trial import model_places, speedup
from draftcheck.trial import prompts as prompt_files
from draftcheck.trial.backends.backend import (
    Backend,
    BrokenDraft,
    CannotVerify,
    StoppedWriting,
    choose,
    instead_of,
    open_backend,
)
from draftcheck.trial.plan import TrialPlan, TrialWork, load_texts, save_texts
from draftcheck.trial.result import (
    AcceptanceRate,
    CostsOrigin,
    MeasuredModel,
    SpeculationFigures,
    Trial,
)
from draftcheck.trial.simulate import answers
from draftcheck.trial.speedup import Costs
from draftcheck.values.progress import FleetingText, time_span

BATCH = 16
EVERY = 0.5
"""Seconds between two words about the progress."""
WATCHED = 4
"""The draft length whose acceptance decides when there are prompts enough."""
LOADS = (1, 4, 16, 64)
CONTEXT = 1024
VERIFIED = 6
"""Prompts for the real run."""
INTERRUPTED = "interrupted"
BROKEN = 1.05
"""Tokens per pass up to here are not a bad draft but a broken pair."""
UNSURE_STEPS, UNSURE_WIDTH = 0.15, 0.2
"""A speed-up says nothing when steps are not known to within this (relative), or when its interval
is wider than this and holds gain and loss."""
FEWEST = 24
"""Tokens that could be drafted; of fewer even a fair draft may miss all by chance."""

Say = Callable[[str], None]


def run(plan: TrialPlan, say: Say) -> Trial:
    """The whole trial; say: is told the progress."""
    began = time.perf_counter()
    chosen = plan.backend or choose(plan.target, plan.draft, plan.options)
    say(f"measuring with {chosen}{instead_of(chosen, plan.target)}; loading the models")
    try:
        backend = open_backend(chosen, plan.target, plan.draft, plan.options)
    except BrokenDraft as error:
        return broken_trial(plan, None, str(error), time.perf_counter() - began)
    say(FleetingText(f"loaded on {backend.device}, {backend.dtype}{_patience(plan)}"))
    with closing(backend):
        trial = _run_loaded(plan, backend, began, say)
    return structs.replace(trial, seconds=time.perf_counter() - began)


def _run_loaded(plan: TrialPlan, backend: Backend, began: float, say: Say) -> Trial:
    work = TrialWork()
    try:
        _collect_traces(plan, backend, work, began, say)
        _time_steps(plan, backend, work, say)
    except BrokenDraft as error:
        return broken_trial(plan, backend, str(error), time.perf_counter() - began)
    except (KeyboardInterrupt, ReadError) as error:
        if not work.measurable:
            raise
        work.incomplete = error.message if isinstance(error, ReadError) else INTERRUPTED
    trial = sum_up(plan, backend, work)
    if plan.verify and trial.broken is None and trial.incomplete is None:
        trial = _speculate_for_real(plan, backend, trial, work, say)
    return trial


def _collect_traces(
    plan: TrialPlan, backend: Backend, work: TrialWork, began: float, say: Say
) -> None:
    """Traces, a batch of prompts at a time, until they suffice."""
    kept = load_texts(plan.reuse, plan) if plan.reuse else None
    pace = TrialPace(plan, began, say)
    try:
        for at in range(0, len(kept if kept is not None else plan.prompts), BATCH):
            before = len(work.texts)
            try:
                if kept is None:
                    _write_texts(plan, backend, work, at, pace)
                else:
                    work.texts += kept[at : at + BATCH]
            except (ReadError, KeyboardInterrupt):
                _read_texts(plan, backend, work, before)
                raise
            _read_texts(plan, backend, work, before)
            width = None  # half the interval of the acceptance so far, if there are enough prompts
            if len(work.traces) >= BATCH and backend.limits().longest:
                longest = min(WATCHED, backend.limits().longest)
                counts = answers.by_length(work.traces, longest, samples=False)[longest]
                interval = answers.interval(counts.accepted, counts.drafted)
                width = None if interval is None else (interval[1] - interval[0]) / 2
            if width is not None and width <= plan.precision > 0:
                work.stopped = f"acceptance is known to within {width:.3f}"
                break
            if plan.budget is not None and time.perf_counter() - began > plan.budget:
                work.stopped = f"the budget of {plan.budget:g} s was spent"
                break
    finally:
        if plan.reuse and kept is None and work.texts:
            save_texts(plan.reuse, plan, work.texts)
    if not work.measurable:
        spent = time.perf_counter() - began
        if plan.budget is not None and spent > plan.budget:
            raise ReadError(
                f"{plan.target}: nothing was measured: {plan.budget:g} s were spent before two"
                " tokens of an answer were written",
                hint=f"Give --budget {math.ceil(4 * spent / 60) * 60} or fewer --tokens.",
            )
        nothing = "every answer ends at once" if work.texts else "no prompts"
        raise ReadError(
            f"{plan.target}: nothing to measure: {'; '.join(backend.notes) or nothing}",
            hint="Use other --prompts or fewer --tokens.",
        )


class TrialPace:
    """How far the target's answers are, and how long the rest may take at most."""

    def __init__(self, plan: TrialPlan, began: float, say: Say) -> None:
        self._prompts, self._budget, self._say = len(plan.prompts), plan.budget, say
        self._began, self._first = began, time.perf_counter()
        self._next = 0.0

    @property
    def budget_left(self) -> float | None:
        if self._budget is None:
            return None
        return max(self._budget - (time.perf_counter() - self._began), 1.0)

    def tell(self, prompts: float, before: int = 0) -> None:
        """How many prompts are answered, parts of answers included; so many were before."""
        prompts += before
        now = time.perf_counter()
        if now < self._next or not prompts:
            return
        self._next = now + EVERY
        left = (now - self._first) / prompts * (self._prompts - prompts)
        left = min(left, self.budget_left or left)
        words = f"{int(prompts):,} of {self._prompts:,} prompts"
        self._say(FleetingText(f"{words}, at most about {time_span(left)} left"))


def _patience(plan: TrialPlan) -> str:
    return "" if plan.budget is None else f"; at most {time_span(plan.budget)} (--budget)"


def _write_texts(
    plan: TrialPlan, backend: Backend, work: TrialWork, at: int, pace: TrialPace
) -> None:
    """The target's texts for one batch; the seconds that are left bound them."""
    first = len(work.texts)
    options = replace(plan.options, seed=plan.options.seed + at, seconds=pace.budget_left)
    # The greedy and the sampled part of the batch, evenly mixed over all prompts.
    batch = list(enumerate(plan.prompts[at : at + BATCH], start=at))
    share = plan.greedy_share if plan.options.temperature > 0 else 1.0
    greedy = [prompt for i, prompt in batch if int((i + 1) * share) > int(i * share)]
    warm = [prompt for i, prompt in batch if int((i + 1) * share) == int(i * share)]
    for temperature, prompts in ((0.0, greedy), (plan.options.temperature, warm)):
        if not prompts:
            continue
        done = at + len(work.texts) - first
        options = replace(options, temperature=temperature, wrote=partial(pace.tell, before=done))
        try:
            for text in backend.generate(prompts, options):
                work.texts.append(replace(text, temperature=temperature))
                pace.tell(at + len(work.texts) - first)
        except StoppedWriting as stopped:
            work.texts += [replace(text, temperature=temperature) for text in stopped.texts]
            raise


def _read_texts(plan: TrialPlan, backend: Backend, work: TrialWork, first: int) -> None:
    """What the draft would have proposed along the texts from the first new one on."""
    texts = work.texts[first:]
    for temperature in sorted({text.temperature for text in texts}):
        same = [text for text in texts if text.temperature == temperature]
        for trace in backend.read(same, replace(plan.options, temperature=temperature)):
            work.traces.append(replace(trace, temperature=temperature))


def _time_steps(plan: TrialPlan, backend: Backend, work: TrialWork, say: Say) -> None:
    if not plan.cost:
        return
    work.busy = _busy()
    context = min([CONTEXT, *(size // 2 for size in backend.limits().contexts)])
    loads = LOADS if backend.device.startswith("cuda") else LOADS[:1]
    for sequences in loads:
        say(FleetingText(f"timing steps for {sequences} sequence{'s' * (sequences > 1)}"))
        costs = backend.costs(sequences, context)
        if costs is None:
            break
        work.costs.append(costs)
    work.floor = backend.floor()


def _busy() -> str | None:
    """Said where more wants to run than there are cores."""
    try:
        load, cores = os.getloadavg()[0], os.cpu_count() or 1
    except (AttributeError, OSError):  # not every system tells
        return None
    if load <= cores:
        return None
    return f"the machine was busy (load {load:.1f} on {cores} core{'s' * (cores > 1)})"


def _speculate_for_real(
    plan: TrialPlan, backend: Backend, trial: Trial, work: TrialWork, say: Say
) -> Trial:
    """With texts that were measured: greedy ones, if any, whose output can be compared."""
    say(FleetingText(f"speculating for real with {trial.length} tokens"))
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
        g = verified.draft_tokens  # where the engine cannot make another number
        predicted = answers.by_length(same, g, verified.first, samples=verified.samples)[g]
        verified = structs.replace(verified, predicted=predicted.tokens_per_pass)
    notes, broken = trial.notes, trial.broken
    if verified.identical_output is False:
        if backend.dtype == "float32":
            broken = "greedy output with the draft is not the target's own, in float32"
        else:
            notes += (f"greedy output differed somewhere: usual in {backend.dtype}",)
    return structs.replace(trial, verified=verified, notes=notes, broken=broken)


def sum_up(plan: TrialPlan, backend: Backend, work: TrialWork) -> Trial:
    """The result of whatever was measured."""
    traces = work.traces
    cost = work.costs[0] if work.costs else None
    # Draft lengths as far as the context allows.
    limits = backend.limits()
    longest = min([limits.longest, *(max(size - 1, 1) for size in limits.contexts)])
    origin = _origin(backend, cost)
    engine = None if origin is None else origin.engine
    ways = answers.answer(traces, cost, longest, plan.tree, backend.speedups, engine)
    rate = AcceptanceRate(0.0)
    if counts := ways.by_length.get(ways.length):
        interval = answers.interval(counts.accepted, counts.drafted)
        rate = AcceptanceRate(counts.draft_efficiency, interval)
    floor = list(answers.loads(ways.by_length, [work.floor] if work.floor else []))
    sampled = [trace for trace in traces if trace.temperature > 0]
    drafted = int(sum(max(len(trace.tokens) - 1, 0) for trace in traces))
    broken, few = _why_broken(backend, ways.lengths, drafted)
    written = [text for text in work.texts if len(text.tokens)]
    reencoded = backend.reencoded(written, len(ways.lengths), 1)
    names = [trace.category for trace in traces]
    kinds = ["sampled" if trace.temperature > 0 else "greedy" for trace in traces]
    mixed = answers.parts(kinds, ways.by_length, ways.length, cost) if len(set(kinds)) > 1 else {}
    trial = Trial(
        **_circumstances(plan, backend),
        prompts=len(traces),
        tokens=int(sum(len(trace.tokens) for trace in traces)),
        seconds=0.0,
        stopped=work.stopped if work.incomplete is None else work.incomplete,
        incomplete=work.incomplete,
        length=ways.length,
        acceptance_rate=rate,
        lengths=ways.lengths,
        thresholds=ways.thresholds,
        trees=ways.trees,
        ngram=ways.ngram,
        greedy_lengths=ways.greedy_lengths,
        categories=answers.parts(names, ways.by_length, ways.length, cost),
        workload=mixed,
        overlap=answers.mean([trace.overlap for trace in sampled]),
        greedy_draft=answers.mean([trace.agree for trace in sampled]),
        costs=cost,
        costs_origin=origin,
        floor=work.floor,
        floor_speedup=floor[0].speedup if floor else None,
        loads=tuple(answers.loads(ways.by_length, work.costs)),
        break_even=speedup.break_even(cost) if cost else None,
        best=ways.best,
        reencoded=tuple(answers.length_rows(reencoded, cost)) if reencoded else (),
        broken=broken,
        notes=(*backend.notes, *few, *_copies(ways)),
    )
    return _warned(trial, origin, work.busy) if origin is not None else trial


def _origin(backend: Backend, cost: Costs | None) -> CostsOrigin | None:
    if cost is not None and cost.engine:
        return CostsOrigin(cost.engine, cost.version or None, cost.source, cost.spread)
    if backend.speedups and (head := backend.head_run) is not None:  # whole runs were timed
        return CostsOrigin(head.engine, head.version, "measured", None)
    return None


def _warned(trial: Trial, origin: CostsOrigin, busy: str | None) -> Trial:
    """With a warning where nobody should decide by the speed-ups."""
    reasons = [busy] if busy else []
    if origin.spread is not None and origin.spread > UNSURE_STEPS:
        apart = f"is known to within {origin.spread:.0%} only"
        if origin.spread >= 1:
            apart = "differed several times over from round to round"
        reasons.append(f"what steps take {apart}")
    low, high = (trial.headline and trial.headline.speedup_ci95) or (0.0, 0.0)
    if low < 1 < high and high - low > UNSURE_WIDTH:
        reasons.append(f"between {low:.2f}x and {high:.2f}x gain and loss are both possible")
    if not reasons:
        return trial
    origin = structs.replace(origin, warning="; ".join(reasons))
    note = f"do not decide by these speed-ups: {origin.warning}"
    return structs.replace(trial, costs_origin=origin, notes=(*trial.notes, note))


def broken_trial(plan: TrialPlan, backend: Backend | None, why: str, seconds: float) -> Trial:
    """A trial that ended before there was anything to count; backend: None if none was opened."""
    return Trial(
        **_circumstances(plan, backend),
        prompts=0,
        tokens=0,
        seconds=seconds,
        stopped=why,
        length=speedup.USUAL,
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
        "draft_model": models.get("draft") or _identify(plan.draft or plan.target),
        "head": None if backend is None else backend.head_run,
        "backend": (plan.backend or "none") if backend is None else backend.name,
        "device": "none" if backend is None else backend.device,
        "dtype": options.dtype or "unknown" if backend is None else backend.dtype,
        "temperature": options.temperature,
        "seed": options.seed,
        "prompts_digest": prompt_files.digest(plan.prompts) if plan.prompts else None,
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
    if top > BROKEN or not lengths:
        return None, ()
    words = f"{top:.2f} tokens per pass: nearly every draft is rejected"
    if tokens < FEWEST:
        return None, (f"{words}, but {tokens} tokens are too few to call the pair broken",)
    likely = "most likely the draft speaks another vocabulary or its weights are broken"
    ours, theirs = backend.limits().target_rows, backend.limits().draft_rows
    if ours and theirs and ours != theirs:
        likely = f"the vocabularies have {ours:,} and {theirs:,} rows; {likely}"
    return f"{words}; {backend.cause() or likely}", ()
