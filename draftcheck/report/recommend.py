"""Recommended drafts: a table, the winner's setup, and why the others were turned away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import click

from draftcheck.recommend.ranking import RankedDraft, nbytes
from draftcheck.recommend.run import Recommendation, uses_own_layers
from draftcheck.report.json import HEAD, dumps, picked
from draftcheck.report.known import figure_json
from draftcheck.report.layout import fenced, indented, padded, plural, wrapped
from draftcheck.report.pair import model
from draftcheck.report.safe import md, safe
from draftcheck.report.text import COLOURS
from draftcheck.values.verdicts import EngineVerdict

SHOWN = 8
"""Models that were turned away, told one by one."""
COLUMNS = ("", "draft", "kind", "verdict", "size", "pays from", "cache/token", "speed-up")


def _joined(
    form: Callable[[Recommendation, bool], Iterable[str]],
    answers: Sequence[Recommendation],
    pairs: bool,
    verbose: bool,
) -> str:
    """Blocks of all answers; pairs: everything on this disk was paired, maybe in vain."""
    if pairs and not any(answer.drafts for answer in answers):
        blocks = ["no two models on this disk go together", *_leftover(answers, verbose)]
    else:
        blocks = [block for answer in answers for block in form(answer, verbose)]
    return "\n\n".join(filter(None, blocks))


def body(answer: Recommendation) -> dict[str, Any]:
    """The contract's JSON."""
    engines = list(answer.plan.engines)
    return {
        **HEAD,
        "target": model(answer.target),
        "engine": engines[0] if len(engines) == 1 else engines or None,
        "candidates": [_candidate(row, rank) for rank, row in enumerate(answer.drafts, 1)],
        "without_draft": [
            {
                **picked(entry, "engine", "version", "method"),
                "own_layers": uses_own_layers(entry),
                **picked(entry, "verdict", "reaction", "setup"),
            }
            for entry in answer.alone
        ],
        "rejected": [
            picked(row, "draft", "revision", "source", "rule", "saw", "verdict")
            for row in answer.rejected
        ],
        **picked(answer, "more", "unseen", "notes"),
    }


def _pairs(answers: Sequence[Recommendation]) -> dict[str, Any]:
    return {
        **HEAD,
        "target": None,
        "pairs": [
            {key: value for key, value in body(answer).items() if key in PAIR_KEYS}
            for answer in answers
            if answer.drafts
        ],
        "unread": [
            picked(row, "model=draft", "saw")
            for answer in answers
            if not answer.drafts
            for row in answer.rejected
        ],
    }


PAIR_KEYS = ("target", "engine", "candidates", "without_draft", "rejected")


def _candidate(row: RankedDraft, rank: int) -> dict[str, Any]:
    judged = row.judged
    return {
        "rank": rank,
        **picked(
            judged, "draft=candidate.ref", "revision", "verdict", "reaction=engine.reaction",
            "params=parameters", "size_ratio",
        ),
        **picked(row, "break_even_acceptance=break_even", "speedup", "why"),
        **picked(
            judged, "setup=engine.setup", "kind=role", "engine=engine.engine",
            "version=engine.version", "method=engine.method", "engines", "relation",
            "cost_ratio=price.ratio", "kv_bytes_per_token=price.kv_per_token",
        ),
        "acceptance": row.record.acceptance if row.record else None,
        "published": figure_json(row.published) if row.published else None,
        **picked(judged.candidate, "source", "path", "downloads", "likes"),
    }  # fmt: skip


def _cells(row: RankedDraft, rank: int) -> tuple[str, ...]:
    judged = row.judged
    kept = judged.price.kv_per_token
    return (
        str(rank),
        safe(judged.candidate.ref, 60),
        safe(judged.role, 20),
        str(judged.verdict),
        "?" if judged.size_ratio is None else f"{judged.size_ratio:.1%}",
        "?" if row.break_even is None else f"{row.break_even:.0%}",
        "?" if kept is None else nbytes(kept),
        "not measured" if row.speedup is None else f"{row.speedup:.2f}x",
    )


def _blocks(answer: Recommendation, verbose: bool) -> Iterator[str]:
    if not answer.target.ref:
        yield from _leftover([answer], verbose)
        return
    target = safe(answer.target.ref)
    if not answer.drafts:
        yield click.style(f"no draft for {target} was found", fg="red", bold=True)
    else:
        total = len(answer.drafts) + answer.more
        found = f"{total} {plural(total, 'draft')} for {target}"
        yield click.style(found, fg="green", bold=True)
        lines = padded([COLUMNS, *(_cells(row, rank) for rank, row in enumerate(answer.drafts, 1))])
        for line, row in zip(lines[1:], answer.drafts, strict=True):
            line[3] = click.style(line[3], fg=COLOURS[row.judged.verdict])
        yield "\n".join("  " + "  ".join(line).rstrip() for line in lines)
        yield "\n".join(
            wrapped(f"  {rank}. ".ljust(5), safe(row.why, 600))
            for rank, row in enumerate(answer.drafts, 1)
        )
    yield _without(answer.alone)
    yield "\n".join(_turned_away(answer, verbose))
    yield _setup(answer)


def _without(alone: Sequence[EngineVerdict]) -> str:
    """Methods that need no draft, each with the engines that have it."""
    own = [entry for entry in alone if uses_own_layers(entry)]
    rest = [entry for entry in alone if entry not in own]
    lines = []
    for words, entries in (("with layers of its own", own), ("without any draft", rest)):
        by_method: dict[str, list[str]] = {}
        for entry in entries:
            by_method.setdefault(entry.method or "-", []).append(entry.engine)
        methods = [f"{method} ({', '.join(engines)})" for method, engines in by_method.items()]
        if methods:
            text = f"{words}: {'; '.join(methods)}"
            lines.append(wrapped("", text, hang=2))
    return "\n".join(lines)


def _turned_away(answer: Recommendation, verbose: bool) -> Iterator[str]:
    rows = [row for row in answer.rejected if verbose or row.rule != "listing"]
    shown = rows if verbose else rows[:SHOWN]
    if answer.rejected:
        yield f"turned away: {len(answer.rejected):,}"
    for row in shown:
        word = "" if row.verdict.value == "incompatible" else f" ({row.verdict})"
        yield f"  {safe(row.draft, 80)}{word}: {safe(row.rule, 40)}: {safe(row.saw, 200)}"
    rest = Counter(row.rule for row in answer.rejected if row not in shown)
    if rest:
        words = ", ".join(f"{number:,} by {safe(rule, 40)}" for rule, number in rest.most_common())
        yield f"  and {words} (--verbose lists them)"
    if answer.unseen:
        yield f"not looked at: {answer.unseen:,} listed models that are further away"


def _leftover(answers: Sequence[Recommendation], verbose: bool) -> Iterator[str]:
    rows = [row for answer in answers for row in answer.rejected]
    if rows:
        shown = rows if verbose else rows[:SHOWN]
        lines = [f"not read: {len(rows):,}"]
        lines += [f"  {safe(row.draft, 80)}: {safe(row.saw, 200)}" for row in shown]
        yield "\n".join(lines)


def _setup(answer: Recommendation) -> str:
    first = answer.drafts[0].judged.engine if answer.drafts else None
    ready = first or min(
        answer.alone,
        key=lambda entry: (not uses_own_layers(entry), (entry.setup or "").count("\n")),
        default=None,
    )
    if ready is None or ready.setup is None:
        return ""
    where = f"{ready.engine} {ready.version}, {ready.method}"
    return f"to switch it on ({where}):\n{indented(ready.setup)}"


def _sections(answer: Recommendation, verbose: bool) -> Iterator[str]:
    if not answer.target.ref:
        return
    yield f"### Drafts for {md(answer.target.ref)}"
    if answer.drafts:
        rows = [_cells(row, rank) for rank, row in enumerate(answer.drafts, 1)]
        heads = ("#", *COLUMNS[1:], "why")
        lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
        for cells, row in zip(rows, answer.drafts, strict=True):
            lines.append(f"| {' | '.join(map(md, (*cells, row.why)))} |")
        yield "\n".join(lines)
    else:
        yield "No draft was found."
    if words := _without(answer.alone):
        yield md(words.replace("\n  ", " ")).replace("\n", "\n\n")
    shown = answer.rejected if verbose else answer.rejected[:SHOWN]
    rejected = [f"- {md(row.draft)}: {md(row.rule)}: {md(row.saw)}" for row in shown]
    yield "\n".join(rejected) or "Nothing was turned away."
    first = answer.drafts[0].judged.engine if answer.drafts else None
    if first is not None and first.setup:
        where = f"{md(first.engine)} {md(first.version)}"
        yield f"To switch it on ({where}):\n\n{fenced(first.setup)}"


FORMATS: Mapping[str, Callable[[Sequence[Recommendation], bool, bool], str]] = {
    "text": partial(_joined, _blocks),
    "json": lambda answers, pairs, _: dumps(_pairs(answers) if pairs else body(answers[0])),
    "markdown": partial(_joined, _sections),
}
"""Form -> answers; pairs: there was no target, everything on this disk was paired; verbose."""
