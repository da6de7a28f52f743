"""A trial for people: the answer first, then the curve, then where it comes from."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

import click

from draftcheck import __version__
from draftcheck.report.json import SCHEMA_VERSION, dumps
from draftcheck.report.safe import markdown as md
from draftcheck.report.safe import safe
from draftcheck.trial.result import Row, Trial, body

BAR = 32
SHOWN = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24)
"""Draft lengths in the picture."""


def render(trial: Trial, form: str) -> str:
    if form == "json":
        head = {"schema_version": SCHEMA_VERSION, "draftcheck_version": __version__}
        models = {"target": {"ref": trial.target}, "draft": {"ref": trial.draft}}
        return dumps({**head, **models, **body(trial)})
    if form == "markdown":
        return "\n".join(_markdown(trial))
    return "\n\n".join(block for block in _blocks(trial) if block)


def answer(trial: Trial) -> str:
    """The result in a sentence."""
    if trial.broken:
        return f"broken: {trial.broken}"
    figures = f"{trial.acceptance:.0%} of {trial.length}-token drafts accepted"
    if trial.best is None:
        return f"{figures}; step costs were not measured"
    if not trial.pays:
        top = max((row.speedup or 0.0 for row in trial.lengths), default=0.0)
        return f"do not speculate: {figures}, and the best length gives {top:.2f}x"
    return f"{trial.best.speedup:.2f}x faster with {_way(trial.best)} ({figures})"


def _way(row: Row) -> str:
    kinds = {
        "draft_model": "drafts of",
        "tree": "the tree",
        "ngram": "copied",
        "threshold": "drafts",
    }
    return f"{kinds.get(row.method, row.method)} {row.name}"


def _blocks(trial: Trial) -> Iterator[str]:
    colour = "red" if trial.broken else "green" if trial.pays else "yellow"
    yield click.style(safe(answer(trial)), fg=colour, bold=True)
    yield "\n".join(_head(trial))
    if trial.lengths:
        yield _curve(trial)
        yield _positions(trial)
        yield _rows("other ways", _others(trial))
    if trial.loads:
        yield "\n".join(_loads(trial))
    yield "\n".join(_foot(trial))


def _head(trial: Trial) -> Iterator[str]:
    yield f"  target      {safe(trial.target)}"
    yield f"  draft       {safe(trial.draft)}"
    yield (
        f"  measured    {trial.prompts} prompts, {trial.tokens:,} tokens in {trial.seconds:.1f} s"
        f" on {trial.device} ({trial.backend}, {trial.dtype}, temperature {trial.temperature:g});"
        f" {trial.stopped}"
    )
    if trial.interval:
        low, high = trial.interval
        yield f"  acceptance  {trial.acceptance:.3f}, 95 % within {low:.3f} to {high:.3f}"
    kinds = ", ".join(f"{safe(name)} {value:.2f}" for name, value in trial.categories.items())
    if kinds:
        yield f"  by kind     {kinds}"


def _curve(trial: Trial) -> str:
    """Speed-up, or tokens per pass where no costs are known, over the draft length."""
    rows = [row for row in trial.lengths if row.settings["draft_tokens"] in SHOWN]
    timed = trial.costs is not None
    values = [(row.speedup or 0.0) if timed else row.tokens_per_pass for row in rows]
    top = max(values, default=1.0) or 1.0
    lines = [f"  draft tokens  tokens/pass  {'speed-up' if timed else ''}"]
    for row, value in zip(rows, values, strict=True):
        bar = "█" * max(1, round(BAR * value / top))
        gain = f"{value:7.2f}x " if timed else ""
        g = row.settings["draft_tokens"]
        mark = " ←" if g == trial.length else ""
        lines.append(f"  {g:12d}  {row.tokens_per_pass:11.2f}  {gain} {bar}{mark}")
    return "\n".join(lines)


def _positions(trial: Trial) -> str:
    shares = " ".join(f"{share:.2f}" for share in trial.by_position)
    given = " ".join(f"{share:.2f}" for share in trial.by_position_given_the_last)
    return (
        f"  accepted by position  {shares}\n"
        f"  given the one before  {given}\n"
        f"  draft efficiency      {trial.acceptance:.2f} at {trial.length} tokens"
    )


def _others(trial: Trial) -> list[Row]:
    """The best of each other kind."""
    found = []
    for rows in (trial.thresholds, trial.trees, trial.ngram):
        if rows:
            found.append(max(rows, key=lambda row: row.speedup or row.tokens_per_pass))
    return found


def _rows(title: str, rows: Sequence[Row]) -> str:
    lines = [f"  {title}"]
    for row in rows:
        gain = f", {row.speedup:.2f}x" if row.speedup is not None else ""
        lines.append(
            f"    {row.method:10s} {row.name}: {row.tokens_per_pass:.2f} tokens/pass{gain}"
        )
    return "\n".join(lines)


def _loads(trial: Trial) -> Iterator[str]:
    yield "  sequences at once  best draft  speed-up"
    for load in trial.loads:
        yield f"  {load.sequences:17d}  {load.draft_tokens:10d}  {load.speedup:7.2f}x"
    stops = next((load.sequences for load in trial.loads if load.speedup <= 1.0), None)
    if stops is not None:
        yield f"  from {stops} sequences at once it no longer pays"


def _foot(trial: Trial) -> Iterator[str]:
    if trial.costs is not None:
        costs = trial.costs
        yield (
            f"  a draft step costs {costs.draft_step * 1e3:.2f} ms, a target step"
            f" {costs.target_step * 1e3:.2f} ms ({costs.how}; ratio {costs.ratio:.2f})"
        )
        if trial.break_even is None:
            yield "  no acceptance would make it pay"
        else:
            yield f"  it pays from an acceptance of {trial.break_even:.2f} on"
    if trial.floor_speedup is not None:
        yield f"  {trial.floor_speedup:.2f}x where reading the weights is all that a step costs"
    if trial.verified is not None:
        found = trial.verified
        words = "the same text" if found.identical_output else "not always the same text"
        predicted = f" ({found.predicted:.2f} predicted)" if found.predicted is not None else ""
        gain = f", {found.speedup:.2f}x" if found.speedup is not None else ""
        yield (
            f"  for real with {found.draft_tokens} tokens: {found.tokens_per_pass:.2f} tokens per"
            f" pass{predicted}{gain}, {words}"
        )
    yield from (f"  note: {safe(note)}" for note in trial.notes)
    if trial.pays and trial.best is not None and trial.best.method == "draft_model":
        pair = " ".join(shlex.quote(safe(name)) for name in (trial.target, trial.draft))
        yield f"  to switch it on: draftcheck pair {pair} --draft-tokens {trial.length}"


def _markdown(trial: Trial) -> Iterator[str]:
    yield from (f"### draftcheck trial: {md(answer(trial))}", "")
    yield from ("| draft tokens | tokens per pass | speed-up |", "|---|---|---|")
    for row in trial.lengths:
        gain = f"{row.speedup:.2f}x" if row.speedup is not None else "not measured"
        yield f"| {row.settings['draft_tokens']} | {row.tokens_per_pass:.2f} | {gain} |"
