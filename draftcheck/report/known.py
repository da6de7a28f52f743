"""What is published of a target and its drafts, as text, Markdown and JSON."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from draftcheck.evidence.known import KnownWay, NamedEngine
from draftcheck.evidence.profiles import SpeculationProfile
from draftcheck.evidence.published import (
    NO_DRAFT,
    OWN,
    LeftOut,
    PublishedFigure,
    figure,
)
from draftcheck.evidence.usual import UsualRange
from draftcheck.report.json import HEAD, dumps, picked
from draftcheck.report.layout import fenced, padded, plural, table_row, wrapped
from draftcheck.report.safe import md, safe
from draftcheck.rulebook import book

WORKS = ("code", "maths", "chat", "long")
SHOWN = 12
"""Ways in the table; the JSON has all."""
FEW = 8
"""Figures of one way."""
NAMED = {OWN: "its own layers", NO_DRAFT: "no draft"}


PACKED = {
    "name": "by name, another packing of",
    "base model": "by its publisher's word, another packing of",
}
"""How rows of another id came to be taken."""


@dataclass(frozen=True)
class KnownAnswer:
    """What was asked, and the ways that are known, best first."""

    target: str
    draft: str | None
    work: str | None
    ways: Sequence[KnownWay]


def answer(found: KnownAnswer) -> str:
    """The first line."""
    of = found.target if found.draft is None else f"{found.target} with {found.draft}"
    if not found.ways:
        return safe(f"nothing is published here of {of}")
    first = found.ways[0]
    best = first.best(found.work)
    named = f"{NAMED.get(first.draft, first.draft)} ({first.method})"
    figures = f": {best.words}" if best is not None else ""
    if found.draft is not None:
        return safe(f"{of}{figures or ': named as a pair, no acceptance published'}")
    count = len(found.ways)
    told = f"{count} {plural(count, 'way')} known" if count > 1 else "one way known"
    return safe(f"{of}: {told}, first {named}{figures}")


def usual_lines(found: UsualRange | None) -> Iterator[str]:
    """Whether a figure is what others got, and why it may not be."""
    if found is None:
        return
    span = f"{found.low:.2f}" + (f" to {found.high:.2f}" if found.high > found.low else "")
    count = len(found.figures)
    yield wrapped(
        "  published   ",
        f"{found.place}: {span} tokens per pass with {found.tokens} drafted"
        f" ({count} {plural(count, 'figure')}, draftcheck known has the sources)",
    )
    for cause in found.causes:
        yield wrapped("    perhaps ", f"{cause.text} {cause.fix}")


def usual_json(found: UsualRange | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        **picked(found, "place", "low", "high", "draft_tokens=tokens"),
        "figures": [row.id for row in found.figures],
        "causes": [picked(cause, "text", "fix") for cause in found.causes],
    }


def _text(found: KnownAnswer) -> str:
    return "\n".join(_lines(found))


def _lines(found: KnownAnswer) -> Iterator[str]:
    yield click.style(answer(found), bold=True)
    if not found.ways:
        yield ""
        yield f"to find drafts for it: draftcheck recommend {safe(found.target)}"
        return
    yield ""
    head = ("draft, head or method", "method", *WORKS, "drafted", "named by")
    rows = [head, *(_row(way) for way in found.ways[:SHOWN])]
    yield from ("  " + "  ".join(row).rstrip() for row in padded(rows))
    if len(found.ways) > SHOWN:
        yield f"  and {len(found.ways) - SHOWN} more (--format json has all)"
    yield "  numbers: most tokens per pass published for such work, the target's own counted"
    first = found.ways[0]
    yield ""
    yield from _way(first)
    for how, words in PACKED.items():
        others = sorted({name for way in found.ways if way.how == how for name in way.targets})
        if others:
            yield wrapped("note: ", safe(f"{words} {', '.join(others)}"), hang=6)
    yield ""
    draft = "" if first.draft in NAMED else f" {first.draft}"
    yield (
        safe(f"to check it: draftcheck pair {found.target}{draft}")
        if first.public
        else (f"to find drafts for it: draftcheck recommend {safe(found.target)}")
    )


def _row(way: KnownWay) -> tuple[str, ...]:
    best = [way.best(work) for work in WORKS]
    cells = [row.length.words if row is not None and row.length else "" for row in best]
    drafted = {row.tokens for row in best if row is not None and row.tokens}
    drafted |= {pair.tokens for pair in way.pairs if pair.tokens} if not drafted else set()
    span = [str(n) for n in (min(drafted), max(drafted))] if drafted else []
    kinds = dict.fromkeys(pair.kind for pair in way.pairs)
    name = NAMED.get(way.draft, way.draft) + ("" if way.public else " (not public)")
    return (
        safe(name, 60),
        safe(way.method),
        *cells,
        "-".join(dict.fromkeys(span)),
        ", ".join(kinds) or "measured only",
    )


def _way(way: KnownWay) -> Iterator[str]:
    yield safe(f"{NAMED.get(way.draft, way.draft)}, {way.method}")
    for one in way.engines:
        name = book.load(one.engine).name
        since = f" {one.since} or newer" if one.since else ""
        told = f"{name}{since}: {one.row.setting or 'no setting given'} ({one.row.source})"
        yield wrapped("  ", safe(told), hang=4)
        if one.refused:
            yield wrapped("    but ", safe(one.refused), hang=8)
    for row in way.figures[:FEW]:
        where = ", ".join(word for word in (row.engine, row.version, row.hardware) if word)
        speedup = f", {made.words}x" if (made := figure(row.speedup or "")) else ""
        where = f"; {where}" if where else ""
        yield wrapped("  ", safe(f"{_said(row)}{speedup}{where} ({row.source})"), hang=4)
    if len(way.figures) > FEW:
        yield f"  and {len(way.figures) - FEW} more figures (--format json has all)"


def _said(row: PublishedFigure) -> str:
    if row.length or row.rate:
        return row.words
    on = f" on {row.dataset}" if row.dataset else ""
    return f"speed-up{on}" + (f" with {row.tokens} drafted" if row.tokens else "")


def _markdown(found: KnownAnswer) -> str:
    lines = [f"**{md(answer(found))}**"]
    if found.ways:
        head = ["draft, head or method", "method", *WORKS, "drafted", "named by"]
        lines += ["", table_row(head), table_row(["---"] * len(head))]
        lines += [table_row(map(md, _row(way))) for way in found.ways]
    return "\n".join(lines)


def _json(found: KnownAnswer) -> str:
    body = {**HEAD, **picked(found, "target", "draft", "work")}
    body["answer"] = answer(found)
    body["known"] = [_way_json(way) for way in found.ways]
    return dumps(body)


def _way_json(way: KnownWay) -> dict[str, Any]:
    return {
        **picked(way, "draft", "method", "public"),
        "match": "same" if way.how == "id" else "packing",
        "matched_by": way.how,
        "targets": sorted(way.targets),
        "engines": [_engine_json(one) for one in way.engines],
        "pairs": [
            picked(
                row,
                "id",
                "target",
                "draft",
                "tokens",
                "engines=since",
                "setting",
                "thinking",
                "kind",
                "source",
                "date",
                "note",
            )
            for row in way.pairs
        ],
        "figures": [figure_json(row) for row in way.figures],
    }


def _engine_json(one: NamedEngine) -> dict[str, Any]:
    return {
        **picked(one, "engine"),
        "since": one.since or None,
        "refused": one.refused or None,
        **picked(one.row, "id", "tokens", "setting", "thinking", "kind", "source", "date", "note"),
    }


def figure_json(row: PublishedFigure) -> dict[str, Any]:
    body = picked(
        row, "id", "target", "target_form", "draft", "draft_form", "draft_said", "method",
        "draft_tokens=tokens", "tree", "work", "dataset", "thinking", "temperature", "sampling",
        "drafting", "engine", "version", "hardware", "at_once", "source", "date", "second_hand",
        "note",
    )  # fmt: skip
    for name in ("tokens_per_pass", "rate", "speedup"):
        made = figure(getattr(row, name) or "")
        body[name] = made and {"low": made.low, "high": made.high, "as_said": made.text}
    body["speedup_over"] = row.speedup_over
    body["by_position"] = row.by_position or None
    body["by_position_is"] = row.positions_are
    return body


def _profile_text(read: SpeculationProfile, file: str) -> str:
    said = f"{read.tokens_per_pass:.2f} tokens per pass with {read.tokens} drafted"
    who = " for ".join(name for name in (read.draft, read.target) if name)
    rows = [
        ("of all passes", read.marginal),
        ("of those that came so far", read.conditional),
    ]
    lines = [click.style(safe(f"{who or file}: {said}"), bold=True)]
    lines += [f"  {name}: {' '.join(f'{rate:.3f}' for rate in rates)}" for name, rates in rows]
    synthetic = shlex.quote(dumps(read.vllm(), indent=None))
    whole = read.draft and read.target
    serve = f"vllm serve {shlex.quote(read.target or '')} " if whole else ""
    lines += ["", "to have vLLM (0.20.0 or newer) accept so much, whatever the draft says:"]
    lines += [f"  {safe(f'{serve}--speculative-config {synthetic}', 2000)}"]
    lines += ["for AIConfigurator:", f"  {read.aiconfigurator()}"]
    return "\n".join(lines)


def _profile_json(read: SpeculationProfile, file: str) -> str:
    return dumps(
        {
            **HEAD,
            "profile": read.to_dict(),
            "vllm_speculative_config": read.vllm(),
            "aiconfigurator": read.aiconfigurator(),
        }
    )


PROFILE: Mapping[str, Callable[[SpeculationProfile, str], str]] = {
    "text": _profile_text,
    "json": _profile_json,
    "markdown": lambda read, file: fenced(click.unstyle(_profile_text(read, file))),
}

FORMATS: Mapping[str, Callable[[KnownAnswer], str]] = {
    "text": _text,
    "json": _json,
    "markdown": _markdown,
}


def left_out(rows: Sequence[LeftOut]) -> str:
    lines = [f"{len(rows)} collected rows are left out"]
    lines += [
        wrapped("  ", safe(f"{r.id} {r.what}: {r.reason} ({r.source})"), hang=4) for r in rows
    ]
    return "\n".join(lines)
