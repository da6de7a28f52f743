"""Run a trial: texts by the target, traces by the draft, until the answer is sure enough."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from draftcheck.trial import answers, reuse, simulate, statistics
from draftcheck.trial.backend import Backend, BrokenDraft, Options, Text, open_backend
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.result import Trial
from draftcheck.trial.speedup import Costs
from draftcheck.trial.traces import Trace, line_up

BATCH = 16
WATCHED = 4
"""The draft length whose acceptance decides when there are prompts enough."""
LOADS = (1, 4, 16, 64)
CONTEXT = 1024
VERIFIED = 6
"""Prompts for the real run."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked of a trial."""

    target: str
    draft: str
    prompts: Sequence[Prompt]
    backend: str = "transformers"
    options: Options = field(default_factory=Options)
    precision: float = 0.03
    budget: float | None = None
    cost: bool = True
    verify: bool = False
    reuse: Path | None = None
    tree: Path | None = None


def run(plan: Plan, say: Say = lambda _: None) -> Trial:
    """The whole trial."""
    began = time.perf_counter()
    backend = open_backend(plan.backend, plan.target, plan.draft, plan.options)
    say(f"loaded on {backend.device}, {backend.dtype}")
    try:
        traces, texts, stopped = _collect(plan, backend, began, say)
    except BrokenDraft as error:
        return answers.broken(plan, backend, str(error), time.perf_counter() - began)
    costs = _costs(plan, backend, say)
    trial = answers.answer(plan, backend, traces, costs[:1])
    trial = replace(
        trial,
        stopped=stopped,
        loads=tuple(answers.loads(traces, costs)) if plan.cost else (),
        floor=backend.floor() if plan.cost else None,
    )
    trial = answers.with_floor(trial, traces)
    if plan.verify and trial.broken is None:
        trial = _verify(plan, backend, trial, traces, texts, say)
    return replace(trial, seconds=time.perf_counter() - began)


def _collect(
    plan: Plan, backend: Backend, began: float, say: Say
) -> tuple[list[Trace], list[Text], str]:
    """Traces, a batch of prompts at a time, until they suffice."""
    kept = reuse.load(plan.reuse, plan) if plan.reuse else None
    texts: list[Text] = []
    traces: list[Trace] = []
    stopped = "all prompts were used"
    source = kept if kept is not None else plan.prompts
    for at in range(0, len(source), BATCH):
        if kept is not None:
            batch = kept[at : at + BATCH]
        else:
            options = replace(plan.options, seed=plan.options.seed + at)
            batch = backend.generate(plan.prompts[at : at + BATCH], options)
        texts += batch
        traces += backend.read(batch, plan.options)
        width = _width(traces)
        say(f"{len(traces)} prompts, {sum(len(t.tokens) for t in traces):,} tokens")
        if width is not None and width <= plan.precision:
            stopped = f"acceptance is known to within {width:.3f}"
            break
        if plan.budget is not None and time.perf_counter() - began > plan.budget:
            stopped = f"the budget of {plan.budget:g} s was spent"
            break
    if plan.reuse and kept is None:
        reuse.save(plan.reuse, plan, texts)
    return traces, texts, stopped


def _width(traces: Sequence[Trace]) -> float | None:
    """Half the interval of the acceptance so far."""
    if len(traces) < BATCH:
        return None
    counts = simulate.lengths(line_up(traces), WATCHED)[WATCHED]
    found = statistics.interval(counts.accepted, counts.drafted)
    return None if found is None else (found[1] - found[0]) / 2


def _costs(plan: Plan, backend: Backend, say: Say) -> list[Costs]:
    if not plan.cost:
        return []
    limits = [n for name, n in backend.limits().items() if name.endswith("context") and n]
    context = min([CONTEXT, *(n // 2 for n in limits)])
    loads = LOADS if backend.device.startswith("cuda") else LOADS[:1]
    found = []
    for sequences in loads:
        say(f"timing steps for {sequences} sequence{'s' * (sequences > 1)}")
        costs = backend.costs(sequences, context)
        if costs is None:
            break
        found.append(costs)
    return found


def _verify(
    plan: Plan,
    backend: Backend,
    trial: Trial,
    traces: Sequence[Trace],
    texts: Sequence[Text],
    say: Say,
) -> Trial:
    say(f"speculating for real with {trial.length} tokens")
    chosen = [text for text in texts if len(text.tokens) > 1][:VERIFIED]
    verified = backend.verify(chosen, trial.length, plan.options)
    read = {id(trace.tokens): trace for trace in traces}
    same = [read[id(text.tokens)] for text in chosen]
    predicted = simulate.lengths(line_up(same, first=0), trial.length)[trial.length]
    verified = replace(verified, predicted=predicted.tokens_per_pass)
    notes, broken = trial.notes, trial.broken
    if not verified.identical_output and plan.options.temperature == 0:
        if backend.dtype == "float32":
            broken = "greedy output with the draft is not the target's own, in float32"
        else:
            notes += (f"greedy output differed somewhere: usual in {backend.dtype}",)
    return replace(trial, verified=verified, notes=notes, broken=broken)
