"""Recommended drafts: a table, the winner's setup, and why the others were turned away."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import click

from draftcheck.recommend.methods import RankedMethod
from draftcheck.recommend.ranking import RankedDraft, nbytes
from draftcheck.recommend.run import Recommendation
from draftcheck.report.json import HEAD, dumps, picked
from draftcheck.report.known import figure_json
from draftcheck.report.layout import fenced, indented, narrowed, plural, table_row, wrapped
from draftcheck.report.pair import model
from draftcheck.report.safe import md, safe
from draftcheck.report.text import COLOURS
from draftcheck.rulebook import book
from draftcheck.values.verdicts import EngineVerdict
from draftcheck.values.words import Verdict

SHOWN = 8
"""Models that were turned away, told one by one."""
COLUMNS = ("", "draft", "kind", "verdict", "size", "pays from", "cache/token", "speed-up")
SPARE = [COLUMNS.index(name) for name in ("cache/token", "kind", "size")]
"""Told below the table, too, so a narrow terminal does without them."""


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
        "methods": [method_json(row, rank) for rank, row in enumerate(answer.methods, 1)],
        "candidates": [_candidate(row, rank) for rank, row in enumerate(answer.drafts, 1)],
        "without_draft": [
            {
                **picked(entry, "engine", "version", "method"),
                "own_layers": book.uses_own_layers(entry.engine, entry.method),
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


PAIR_KEYS = ("target", "engine", "methods", "candidates", "without_draft", "rejected")


def method_json(row: RankedMethod, rank: int) -> dict[str, Any]:
    figure = row.published
    return {
        "rank": rank,
        **picked(row, "method=name", "draft", "known_by", "verdict", "speedup", "engines"),
        "break_even_acceptance": row.break_even,
        "published": figure_json(figure) if figure is not None else None,
        "named_by": named_by(row),
    }


def named_by(row: RankedMethod) -> list[str]:
    """Kinds of those who give it as a pair."""
    pairs = row.way.pairs if row.way is not None else ()
    return list(dict.fromkeys(pair.kind for pair in pairs))


def method_words(row: RankedMethod) -> str:
    """What a method's place rests on."""
    if row.known_by == "measured":
        return "measured" if row.speedup is None else f"measured, {row.speedup:.2f}x"
    if row.known_by == "published":
        figure = row.published
        named = f"named by {', '.join(named_by(row))}" if named_by(row) else ""
        return f"published, {figure.words}" if figure is not None else named or "published"
    if row.break_even is not None:
        return f"modelled, pays from {row.break_even:.0%} acceptance on"
    return "nothing measured or published"


def _losing(answer: Recommendation) -> bool:
    """Every draft was measured, and none is faster than no draft."""
    gains = [row.speedup for row in answer.drafts]
    return bool(gains) and all(gain is not None and gain <= 1 for gain in gains)


def first_line(answer: Recommendation) -> str:
    """What to use, with which engine, and what that rests on; or that nothing is worth it."""
    target = answer.target.called
    best = answer.methods[0] if answer.methods else None
    if _losing(answer) and (best is None or best.known_by != "measured" or best.draft is not None):
        gain, draft = max((row.speedup or 0.0, row.judged.candidate.ref) for row in answer.drafts)
        count = len(answer.drafts)
        which = "the only one measured" if count == 1 else f"the best of {count} measured"
        return safe(f"no draft pays for {target}: {which} is {gain:.2f}x ({draft})", 400)
    own = any(book.uses_own_layers(entry.engine, entry.method) for entry in answer.alone)
    if best is None or (best.draft is None and not own):
        without = f"; without one: {best.name} with {best.engines[0]}" if best is not None else ""
        read = [row for row in answer.rejected if row.rule != "listing"]
        if read and all(row.verdict is Verdict.UNDECIDED for row in read):
            first = f"{read[0].draft}: {read[0].rule}: {read[0].saw}"
            return safe(f"undecided: no draft for {target} could be judged ({first}){without}", 400)
        return safe(f"no draft for {target} was found{without}", 400)
    what = f"{best.draft} ({best.name})" if best.draft is not None else best.name
    engine = f" with {best.setup.engine}" if best.setup is not None else ""
    line = f"use {what}{engine} for {target}: {method_words(best)}"
    models = " ".join(shlex.quote(name) for name in (target, best.draft) if name is not None)
    if best.verdict is None:
        line += "; its files were not read here"
    elif best.known_by != "measured":
        line += f"; not measured here: draftcheck trial {models}"
    return safe(line, 600)


def method_cells(row: RankedMethod) -> tuple[str, ...]:
    draft = safe(row.draft, 60) if row.draft is not None else "none needed"
    return (
        row.name,
        draft,
        "not read" if row.verdict is None else str(row.verdict),
        row.known_by,
        _worth(row),
    )


def _worth(row: RankedMethod) -> str:
    """The figure in a few words; the first line has the whole of the first."""
    figure = row.published
    if row.speedup is not None:
        return f"{row.speedup:.2f}x"
    if figure is not None and figure.length is not None:
        drafted = f" of {figure.tokens + 1}" if figure.tokens else ""
        return safe(f"{figure.length.text}{drafted} tokens per pass", 40)
    if named := named_by(row):
        return f"named by {', '.join(named)}"
    return "" if row.break_even is None else f"pays from {row.break_even:.0%} acceptance on"


METHOD_COLUMNS = ("method", "draft or head", "verdict", "known by", "worth")


def _methods(answer: Recommendation) -> str:
    rows = [METHOD_COLUMNS, *map(method_cells, answer.methods)]
    known_by = METHOD_COLUMNS.index("known by")
    return "\n".join("  " + "  ".join(line).rstrip() for line in narrowed(rows, [known_by]))


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
        **picked(judged.candidate, "source", "path", "downloads", "likes", "gated"),
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
    good = bool(answer.drafts) and not _losing(answer)
    yield click.style(first_line(answer), fg=None if good else "yellow", bold=True)
    if answer.methods:
        yield _methods(answer)
    if answer.drafts:
        total = len(answer.drafts) + answer.more
        found = f"{total} {plural(total, 'draft')} for {target}"
        yield found
        rows = [_cells(row, rank) for rank, row in enumerate(answer.drafts, 1)]
        lines = narrowed([COLUMNS, *rows], SPARE)
        verdict = [cell.strip() for cell in lines[0]].index("verdict")
        for line, row in zip(lines[1:], answer.drafts, strict=True):
            line[verdict] = click.style(line[verdict], fg=COLOURS[row.judged.verdict])
        yield "\n".join("  " + "  ".join(line).rstrip() for line in lines)
        yield "\n".join(
            wrapped(f"  {rank}. ".ljust(5), safe(row.why, 600))
            for rank, row in enumerate(answer.drafts, 1)
        )
    yield _without(answer.alone)
    yield "\n".join(_turned_away(answer, verbose))
    if not _losing(answer):
        yield _setup(answer)


def _without(alone: Sequence[EngineVerdict]) -> str:
    """Methods that need no draft, each with the engines that have it."""
    own = [entry for entry in alone if book.uses_own_layers(entry.engine, entry.method)]
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
    ready = _ready(answer)
    unread = answer.methods[0] if answer.methods and answer.methods[0].verdict is None else None
    check = ""
    if unread is not None:
        check = safe(f"to check it: draftcheck pair {answer.target.called} {unread.draft}", 400)
    if ready is None or ready.setup is None:
        return check
    what = "meanwhile" if unread is not None else "to switch it on"
    where = f"{ready.engine} {ready.version}, {ready.method}"
    setup = f"{what} ({where}):\n{indented(ready.setup)}"
    return f"{check}\n\n{setup}" if check else setup


def _ready(answer: Recommendation) -> EngineVerdict | None:
    """How to switch the first method on that was read."""
    return next((row.setup for row in answer.methods if row.setup is not None), None)


def _sections(answer: Recommendation, verbose: bool) -> Iterator[str]:
    if not answer.target.ref:
        return
    yield f"### Drafts for {md(answer.target.ref)}"
    yield f"**{md(first_line(answer))}**"
    if answer.methods:
        rows = [METHOD_COLUMNS, ["---"] * len(METHOD_COLUMNS)]
        rows += [tuple(map(md, method_cells(row))) for row in answer.methods]
        yield "\n".join(map(table_row, rows))
    if answer.drafts:
        rows = [_cells(row, rank) for rank, row in enumerate(answer.drafts, 1)]
        heads = ("#", *COLUMNS[1:], "why")
        lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
        for cells, row in zip(rows, answer.drafts, strict=True):
            lines.append(f"| {' | '.join(map(md, (*cells, row.why)))} |")
        yield "\n".join(lines)
    if words := _without(answer.alone):
        yield md(words.replace("\n  ", " ")).replace("\n", "\n\n")
    shown = answer.rejected if verbose else answer.rejected[:SHOWN]
    rejected = [f"- {md(row.draft)}: {md(row.rule)}: {md(row.saw)}" for row in shown]
    yield "\n".join(rejected) or "Nothing was turned away."
    first = _ready(answer)
    if answer.drafts and not _losing(answer) and first is not None and first.setup:
        where = f"{md(first.engine)} {md(first.version)}"
        yield f"To switch it on ({where}):\n\n{fenced(first.setup)}"


FORMATS: Mapping[str, Callable[[Sequence[Recommendation], bool, bool], str]] = {
    "text": partial(_joined, _blocks),
    "json": lambda answers, pairs, _: dumps(_pairs(answers) if pairs else body(answers[0])),
    "markdown": partial(_joined, _sections),
}
"""Form -> answers; pairs: there was no target, everything on this disk was paired; verbose."""
