"""A trial for people: the answer first, then the curve, then where it comes from."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import click

from draftcheck.evidence.usual import UsualRange, usual
from draftcheck.report import known
from draftcheck.report.json import HEAD, dumps
from draftcheck.report.layout import indented, plural
from draftcheck.report.safe import md, safe
from draftcheck.trial import offered_ways
from draftcheck.trial.engine_speed.speedups import EngineSpeedup
from draftcheck.trial.result import Interval, SpeculationFigures, Trial
from draftcheck.values.verdicts import EngineVerdict

BAR = 32
SHOWN = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24)
"""Draft lengths in the picture."""
KINDS = {"draft_model": "drafts of", "tree": "the tree", "ngram": "copied", "threshold": "drafts"}


SOURCES = {
    "steps": "its steps timed one by one",
    "measured": "measured in it",
    "modelled": "modelled, not measured",
}


def code(trial: Trial) -> int:
    """The contract's exit code."""
    if trial.broken:
        return 1
    if trial.incomplete:
        return 130 if trial.incomplete == "interrupted" else 3
    return 0


def answer(trial: Trial) -> str:
    """The result in a sentence."""
    told = _answer(trial)
    if trial.incomplete is None or trial.broken:
        return told
    word = "interrupted" if trial.incomplete == "interrupted" else "incomplete"
    return f"{word}: {told}"


def _answer(trial: Trial) -> str:
    if trial.broken:
        return f"broken: {trial.broken}"
    figures = f"{trial.acceptance:.0%} of {trial.length}-token drafts accepted"
    if trial.translation:
        figures += ", translated"
    if not trial.lengths:  # no draft but the text itself
        copied = max((row.tokens_per_pass for row in trial.ngram), default=1.0)
        figures = f"copied drafts give {copied:.2f} tokens per pass at best"
    if trial.speeds and trial.lost_for_real is None:
        return f"{_served(trial.speeds[0])} ({figures})"
    row, origin = trial.headline, trial.costs_origin
    gain = way = where = unsure = ""
    if row is not None:
        gain = speed(row.speedup, row.speedup_ci95)
        way = f" with {KINDS.get(row.method, row.method)} {row.name}"
    if origin is not None:
        # A library's generation takes more than its steps do.
        where = f" by the steps of {origin}" if origin.source == "steps" else f" in {origin}"
        if trial.head is not None and trial.head.engine != origin.engine:
            where += f" (not of {trial.head.engine}, where such heads run)"
        if origin.warning:
            unsure = f"; do not decide by it: {origin.warning.partition('; ')[0]}"
    ran, real = "", trial.verified
    by = str(origin) if origin and origin.engine == trial.verified_by else trial.verified_by
    if real is not None and real.speedup is not None:
        drafts = f"{real.draft_tokens} {plural(real.draft_tokens, 'token')}"
        ran = f"a real run with drafts of {drafts} gave {speed(real.speedup)}"
    if trial.lost_for_real is not None:
        steps = f"; the steps alone: {gain}{way}" if gain else ""
        return f"not worth it in {by}: {ran} ({figures}){steps}{unsure}"
    if trial.best is None:
        return f"{ran} in {by} ({figures})" if ran else f"{figures}; step costs were not measured"
    if ran:
        figures += f"; {ran} in {by}"
    if not trial.pays:
        return f"not worth it{where}: {gain} at best,{way} ({figures}){unsure}"
    return f"{gain}{where}{way} ({figures}){unsure}"


def _served(one: EngineSpeedup) -> str:
    """An engine's answer in a sentence."""
    at = "" if one.sequences == 1 else f" with {one.sequences} sequences at once"
    where = f"in {one.engine} {one.version} on {one.gpu}{at}"
    gain = speed(one.speedup, one.speedup_ci95)
    drafts = f"drafts of {one.draft_tokens} {plural(one.draft_tokens, 'token')}"
    how = SOURCES.get(one.source, one.source)
    if one.pays:
        return f"{gain} {where} with {drafts}, {how}"
    return f"not worth it {where}: {gain} at best, with {drafts}, {how}"


def _engines(speeds: Sequence[EngineSpeedup]) -> Iterator[str]:
    """One row for each engine, then the first one load by load."""
    if not speeds:
        return
    width = max(len(f"{one.engine} {one.version}") for one in speeds)
    yield f"  {'engine'.ljust(width)}  best draft  speed-up  (95 %)         pays"
    for one in speeds:
        pays = "at all loads" if one.stops_paying_at is None else f"below {one.stops_paying_at}"
        if not one.pays:
            pays = "no"
        low, high = one.speedup_ci95 or (one.speedup, one.speedup)
        name = f"{one.engine} {one.version}".ljust(width)
        yield (
            f"  {safe(name)}  {one.draft_tokens:10d}  {one.speedup:7.2f}x"
            f"  {low:.2f} to {high:.2f}  {pays}"
        )
    first = speeds[0]
    name = f"{first.engine} {first.version} on {first.gpu}"
    yield f"  {safe(name)}, by sequences at once:"
    yield "  sequences  best draft  speed-up  tokens/s  without  ms/token"
    for load in first.loads:
        yield (
            f"  {load.sequences:9d}  {load.draft_tokens or 'none':>10}  {load.speedup:7.2f}x"
            f"  {load.tokens_per_s:8,.0f}  {load.plain_tokens_per_s:7,.0f}"
            f"  {load.ms_per_token:8.2f}"
        )
    if first.schedule is not None:
        yield f"  as {safe(first.engine)} takes it: {safe(first.schedule)}"
    elif first.pays and first.stops_paying_at is not None:
        yield f"  speculate below {first.stops_paying_at} sequences at once, not above"
    if not first.measured:
        yield f"  passes of {safe(first.engine)} {safe(first.version)} were read, not timed"


def _unknown(engines: Sequence[str]) -> Iterator[str]:
    if engines:
        names = ", ".join(safe(name) for name in engines)
        yield f"  not known, neither timed nor modelled here: {names}"


def speed(value: float | None, between: Interval | None = None) -> str:
    """A speed-up, and its interval where that is known."""
    ends = f" ({between[0]:.2f} to {between[1]:.2f})" if between is not None else ""
    return f"{value or 0.0:.2f}x{ends}"


def _colour(trial: Trial) -> str:
    gains = bool(trial.speeds or trial.pays) and not trial.worthless
    return "red" if trial.broken else "green" if gains else "yellow"


def short(trial: Trial) -> str:
    """A block for a report about something else."""
    colour = _colour(trial)
    lines = [click.style("trial: ", bold=True) + click.style(safe(answer(trial)), fg=colour)]
    lines += [_measured(trial), *_figures(trial), *_foot(trial)]
    return "\n".join(lines)


def _usual(trial: Trial) -> UsualRange | None:
    """The trial's own length beside what was published of the pair."""
    row = trial.row
    if row is None or trial.broken or trial.greedy_share:
        return None
    draft = None if trial.draft == trial.target else trial.draft
    return usual(trial.target, draft, trial.length, row.tokens_per_pass)


def text(trial: Trial, ready: EngineVerdict | None = None) -> str:
    """ready: the verdict whose setup switches it on."""
    return "\n\n".join(block for block in _blocks(trial, ready) if block)


def _blocks(trial: Trial, ready: EngineVerdict | None) -> Iterator[str]:
    colour = _colour(trial)
    yield click.style(safe(answer(trial)), fg=colour, bold=True)
    if trial.incomplete:
        yield click.style(f"ended before it was done: {safe(trial.incomplete)}", fg="yellow")
    drafts = safe(trial.draft)
    if trial.head is not None:
        own = trial.draft == trial.target
        kind = safe(trial.head.kind)
        drafts = f"{kind} layers of its own" if own else f"{drafts} ({kind})"
    head = [f"  target      {safe(trial.target)}", f"  draft       {drafts}"]
    head.append(_measured(trial))
    if trial.interval:
        low, high = trial.interval
        head.append(
            f"  acceptance  {trial.acceptance:.3f}, 95 % within {low:.3f} to {high:.3f};"
            f" holds in every engine{_that_runs_it_so(trial)}"
        )
    head += known.usual_lines(_usual(trial))
    if (origin := trial.costs_origin) is not None:
        sure = "" if origin.spread is None else f", known to within {origin.spread:.0%}"
        source = SOURCES.get(origin.source, origin.source)
        head.append(f"  speed       {safe(str(origin))}, {safe(source)}{sure}; no other engine's")
    yield "\n".join([*head, *_figures(trial)])
    if trial.lengths:
        yield _curve("draft tokens", trial.lengths, trial)
        if trial.greedy_lengths:
            yield _curve("greedy draft", trial.greedy_lengths, trial)
        if trial.reencoded:
            yield _curve("encoded anew", trial.reencoded, trial)
        yield "\n".join(_positions(trial))
        yield _kinds(trial)
    if trial.ngram:
        yield "\n".join(_other_ways(trial))
    if trial.speeds or trial.speeds_unknown:
        yield "\n".join([*_engines(trial.speeds), *_unknown(trial.speeds_unknown)])
    if len(trial.loads) > 1:
        lines = ["  sequences at once  best draft  speed-up"]
        for load in trial.loads:
            gain = speed(load.speedup, load.speedup_ci95)
            lines.append(f"  {load.sequences:17d}  {load.draft_tokens:10d}     {gain}")
        losing = [load.sequences for load in trial.loads if load.speedup <= 1.0]
        if trial.pays and losing:
            lines.append(f"  from {losing[0]} sequences at once it no longer pays")
        yield "\n".join(lines)
    yield "\n".join(_foot(trial))
    if ready is not None and ready.setup is not None:
        where = f"{ready.engine} {ready.version}, {ready.method}"
        yield f"to switch it on ({where}):\n{indented(ready.setup)}"
    elif (step := next_step(trial)) is not None:
        engine = f" --engine {step.engine}" if step.engine else ""
        pair = " ".join(shlex.quote(safe(name)) for name in step.models)
        yield f"to switch it on: draftcheck pair {pair}{engine} --draft-tokens {step.length}"


@dataclass(frozen=True, slots=True)
class TrialNextStep:
    """What to switch on, where drafts pay."""

    models: tuple[str, ...]
    engine: str
    """With its version; empty: none was asked for."""
    length: int


def next_step(trial: Trial) -> TrialNextStep | None:
    drafts_pay = trial.pays and trial.best is not None and trial.best.method == "draft_model"
    sure = bool(drafts_pay and not (trial.costs_origin and trial.costs_origin.warning))
    length, engine = trial.length, ""
    if trial.speeds:
        first = trial.speeds[0]
        sure, length = first.pays, first.draft_tokens
        engine = f"{first.engine}@{first.version}"
    if not sure or trial.lost_for_real is not None:
        return None
    own = trial.head is not None and trial.draft == trial.target
    return TrialNextStep((trial.target,) if own else (trial.target, trial.draft), engine, length)


def _that_runs_it_so(trial: Trial) -> str:
    return "" if trial.head is None else f" that runs the head as {safe(trial.head.engine)} does"


def _measured(trial: Trial) -> str:
    mixed = f", {trial.greedy_share:.0%} of it greedy" if trial.workload else ""
    return (
        f"  measured    {trial.prompts} prompts, {trial.tokens:,} tokens in {trial.seconds:.1f} s"
        f" on {safe(trial.device)} ({safe(trial.backend)}, {safe(trial.dtype)},"
        f" temperature {trial.temperature:g}{mixed}); {safe(trial.stopped)}"
    )


def _figures(trial: Trial) -> Iterator[str]:
    """The classic figures by their names."""
    row = trial.row
    if row is None:
        return
    words = [
        f"acceptance rate {trial.acceptance:.2f}",
        f"block efficiency {row.tokens_per_pass:.2f}",
        f"draft efficiency {row.draft_efficiency:.2f}",
    ]
    if row.mbsu is not None:
        words.append(f"MBSU {row.mbsu:.2f}")
    if trial.token_rate_ratio is not None:
        words.append(f"token rate ratio {trial.token_rate_ratio:.2f}")
    drafts = f"{trial.length} draft {plural(trial.length, 'token')}"
    yield f"  figures     {', '.join(words)} (with {drafts})"


def _curve(title: str, lengths: Sequence[SpeculationFigures], trial: Trial) -> str:
    """Speed-up, or tokens per pass where no costs are known, over the draft length."""
    rows = [row for row in lengths if row.settings["draft_tokens"] in SHOWN]
    timed = trial.best is not None
    values = [(row.speedup or 0.0) if timed else row.tokens_per_pass for row in rows]
    top = max(values, default=1.0) or 1.0
    by_steps = trial.costs_origin is not None and trial.costs_origin.source == "steps"
    what = f"speed-up{' by steps' * by_steps}" if timed else ""
    lines = [f"  {title:12s}  tokens/pass  {what}".rstrip()]
    for row, value in zip(rows, values, strict=True):
        gain = f"{value:7.2f}x " if timed else ""
        g = row.settings["draft_tokens"]
        mark = " ←" if g == trial.length and lengths is trial.lengths else ""
        lines.append(f"  {g:12d}  {row.tokens_per_pass:11.2f}  {gain} {_bar(value / top)}{mark}")
    return "\n".join(lines)


def _bar(share: float) -> str:
    return "█" * max(1, round(BAR * share))


def _positions(trial: Trial) -> Iterator[str]:
    counters = trial.counters
    if counters is None:
        return
    yield "  accepted by position  given the one before"
    pairs = zip(counters.by_position, counters.by_position_given_the_last, strict=True)
    for number, (share, given) in enumerate(pairs, start=1):
        yield f"  {number:11d}  {share:7.2f}  {given:20.2f}  {_bar(share)}"
    yield (
        f"  vLLM would count {counters.num_drafts:,.0f} drafts,"
        f" {counters.num_draft_tokens:,.0f} draft tokens,"
        f" {counters.num_accepted_tokens:,.0f} accepted"
    )


def _kinds(trial: Trial) -> str:
    """Kinds of text, and the parts of a mixed workload."""
    parts = {**trial.categories, **trial.workload}
    width = max((len(safe(name, 20)) for name in parts), default=0)
    lines = [f"  {'kind'.ljust(width)}  accepted"]
    for name, part in parts.items():
        low, high = part.interval or (0.0, 0.0)
        sure = f"{low:.2f} to {high:.2f}" if part.interval else "one prompt  "
        lines.append(
            f"  {safe(name, 20).ljust(width)}  {part.acceptance:8.2f}  {sure}"
            f"  {_bar(part.acceptance)}"
        )
    return "\n".join(lines)


def _other_ways(trial: Trial) -> Iterator[str]:
    """The best of each other kind."""
    yield "  other ways"
    for rows in filter(None, (trial.thresholds, trial.trees, trial.ngram)):
        row = max(rows, key=lambda row: row.speedup or row.tokens_per_pass)
        gain = f", {speed(row.speedup)}" if row.speedup is not None else ""
        figures = f"{row.tokens_per_pass:.2f} tokens/pass{gain}"
        if (origin := trial.costs_origin) and not offered_ways.of(origin.engine).offers(row):
            figures += f", not offered by {safe(origin.engine)}"
        yield f"    {safe(row.method):10s} {safe(row.name)}: {figures}"


def _foot(trial: Trial) -> Iterator[str]:
    if (costs := trial.costs) is not None and trial.lengths:
        yield (
            f"  a draft step costs {costs.draft_step * 1e3:.2f} ms, a target step"
            f" {costs.target_step * 1e3:.2f} ms ({safe(costs.how)}; ratio {costs.ratio:.2f})"
        )
        if trial.break_even is None:
            yield "  no acceptance would make it pay"
        elif trial.length and trial.row is not None and (passes := trial.row.break_even):
            # Accepted of drafted, as in the first line: the chance of each token is another figure.
            share = (passes - 1) / (trial.row.drafted_per_pass or trial.length)
            yield (
                f"  with {trial.length} it pays from {passes:.2f} tokens per pass on: "
                + (f"{share:.0%} of them accepted" if share <= 1 else "more than it can give")
            )
        else:
            yield f"  it pays where each token is accepted with a chance of {trial.break_even:.2f}"
    if trial.floor_speedup is not None:
        yield (
            f"  memory would allow {trial.floor_speedup:.2f}x, if reading the weights were all that"
            " steps take: no engine's figure"
        )
    if (real := trial.verified) is not None:
        same = {True: ", the same text", False: ", not always the same text", None: ""}
        predicted = ""
        if real.predicted is not None:
            predicted = f" ({real.predicted:.2f} predicted for the same texts)"
        gain = f", {real.speedup:.2f}x" if real.speedup is not None else ""
        where = f" in {safe(real.engine)}" if real.engine is not None else ""
        yield (
            f"  for real{where} with {real.draft_tokens} draft"
            f" {plural(real.draft_tokens, 'token')}: {real.tokens_per_pass:.2f} tokens"
            f" per pass{predicted}{gain}{same[real.identical_output]}"
        )
    yield from (f"  note: {safe(note)}" for note in trial.notes)


def _markdown(trial: Trial) -> Iterator[str]:
    yield from (f"### draftcheck trial: {md(answer(trial))}", "")
    yield from ("| draft tokens | tokens per pass | speed-up |", "|---|---|---|")
    for row in trial.lengths:
        gain = "not measured" if row.speedup is None else speed(row.speedup, row.speedup_ci95)
        yield f"| {row.settings['draft_tokens']} | {row.tokens_per_pass:.2f} | {gain} |"


FORMATS: Mapping[str, Callable[[Trial], str]] = {
    "text": text,
    "json": lambda trial: dumps(
        {**HEAD, **trial.to_dict(), "published": known.usual_json(_usual(trial))}
    ),
    "markdown": lambda trial: "\n".join(_markdown(trial)),
}
