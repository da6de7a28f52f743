"""What a scan changed, as text, JSON and Markdown; and its exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sized
from typing import Any

import click

from draftcheck.report.json import HEAD, dumps, picked
from draftcheck.report.layout import plural
from draftcheck.report.safe import md, safe
from draftcheck.scan.changes import USABLE, WORSE
from draftcheck.scan.rows import ChangeRow
from draftcheck.scan.run import ScanSummary

SHOWN = 40
"""Changes that the text names; JSON has all."""
ORDER = ("broke", "unclear", "gone", "worse", "new", "works", "better")
COLOURS = {"broke": "red", "unclear": "magenta", "gone": "red", "worse": "yellow"}
HEADS = {
    "broke": "no longer work",
    "unclear": "can no longer be decided",
    "gone": "are gone",
    "worse": "work less well",
    "new": "are new",
    "works": "work now",
    "better": "work better",
}


def code(summary: ScanSummary, *, strict: bool) -> int:
    """1: a pinned pair does not work; 3: something could not be decided, or time ran out."""
    good = ("compatible",) if strict else USABLE
    if any(pin.verdict not in (*good, "undecided") for pin in summary.pins):
        return 1
    doubtful = any(pin.verdict == "undecided" for pin in summary.pins)
    unread = any(target.problem for target in summary.targets)
    return 3 if doubtful or unread else 0


def body(summary: ScanSummary) -> dict[str, Any]:
    return {
        **HEAD,
        "scan": {
            **picked(summary.scan, "number", "state"),
            "resumed": summary.resumed,
            **picked(summary.scan, "started", "finished", "seconds", "counts"),
        },
        "targets": [
            {
                **picked(target, "ref", "source", "problem"),
                "usable_drafts": summary.usable.get(target.ref, 0),
                "gated": target.ref in summary.gated,
            }
            for target in summary.targets
        ],
        "changes": [
            picked(
                change, "kind", "target", "draft", "engine", "version", "method", "before", "after",
                "cause", "why", "pinned",
            )
            | {"gated": not summary.gated.isdisjoint((change.target, change.draft))}
            for change in summary.changes
        ],
        "pins": [
            picked(
                pin, "target=pin.target", "draft=pin.draft", "engines=pin.engines", "verdict",
                "worse", "why",
            )
            | {"gated": not summary.gated.isdisjoint((pin.pin.target, pin.pin.draft))}
            for pin in summary.pins
        ],
        "problems": [
            picked(model, "model=ref", "status", "saw=problem") for model in summary.problems
        ],
    }  # fmt: skip


def _sorted(changes: tuple[ChangeRow, ...]) -> list[ChangeRow]:
    return sorted(changes, key=lambda c: (not c.pinned, ORDER.index(c.kind)))


def _answer(summary: ScanSummary) -> str:
    """The first line: what somebody must look at; else what changed, if anything did."""
    pins: dict[str, dict[str, list[str]]] = {}
    for change in _sorted(summary.changes):
        if change.pinned and change.kind in WORSE:
            how = pins.setdefault(_pair(summary, change.target, change.draft), {})
            how.setdefault(change.after or "gone", []).append(change.engine)
    if pins:
        pair, how = next(iter(pins.items()))
        words = "; ".join(f"{after} on {_named(engines)}" for after, engines in how.items())
        return f"{_count(pins, 'pinned pair')} got worse: {pair} ({words}){_more(pins)}"
    if broken := [pin for pin in summary.pins if pin.verdict not in USABLE]:
        pair = _pair(summary, broken[0].pin.target, broken[0].pin.draft)
        verb = "does not work" if len(broken) == 1 else "do not work"
        words = f"{pair} ({broken[0].verdict})"
        return f"{_count(broken, 'pinned pair')} {verb}: {words}{_more(broken)}"
    if unread := [target for target in summary.targets if target.problem]:
        first = f"{safe(unread[0].ref)}: {safe(unread[0].problem or '')}"
        return f"{_count(unread, 'target')} could not be read: {first}{_more(unread)}"
    listed = summary.scan.counts.get("listed", 0)
    repos = f" in {listed:,} {plural(listed, 'repo')}" if listed else ""
    if summary.changes:
        kinds = Counter(change.kind for change in _sorted(summary.changes))
        each = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
        return f"{_count(summary.changes, 'verdict')} changed{repos}: {each}"
    if summary.scan.number > 1:
        return f"nothing changed{repos}"
    count = sum(summary.usable.values())
    drafts = f"{count:,} usable {plural(count, 'draft')}" if count else "no usable draft"
    return f"the first scan: {drafts} for {_count(summary.targets, 'target')}{repos}"


def _count(things: Sized, word: str) -> str:
    return f"{len(things):,} {plural(len(things), word)}"


def _more(things: Sized) -> str:
    return f"; {len(things) - 1:,} more" if len(things) > 1 else ""


def _named(engines: list[str]) -> str:
    return ", ".join(engines) if len(engines) < 4 else f"{len(engines)} engines"


def _pair(summary: ScanSummary, target: str, draft: str | None) -> str:
    ours = _model(summary, target)
    return f"{ours} + {_model(summary, draft)}" if draft else f"{ours} by itself"


def _model(summary: ScanSummary, ref: str) -> str:
    return safe(ref) + (" (gated)" if ref in summary.gated else "")


def _figures(summary: ScanSummary) -> str:
    scan = summary.scan
    counts = scan.counts
    figures = ", ".join(
        f"{counts[name]:,} {words}"
        for name, words in (
            ("listed", "repos listed"),
            ("candidates", "looked at"),
            ("read", "read"),
            ("pairs", "pairs"),
            ("verdicts", "verdicts new"),
            ("trials", "trials"),
            ("requests", "requests"),
        )
        if counts.get(name)
    )
    words = {"partial": "stopped for want of time; the next run goes on", "running": "not ended"}
    state = words.get(scan.state, "complete")
    return f"scan {scan.number}: {state}; {figures or 'nothing new'}"


def _text(summary: ScanSummary) -> Iterator[str]:
    yield _answer(summary)
    yield _figures(summary)
    for target in summary.targets:
        trouble = f"  not read: {safe(target.problem)}" if target.problem else ""
        count = summary.usable.get(target.ref, 0)
        yield f"  {_model(summary, target.ref)}: {count:,} usable {plural(count, 'draft')}{trouble}"
    for pin in summary.pins:
        good = pin.verdict in USABLE
        colour = "yellow" if good and pin.worse else "green" if good else "red"
        word = click.style(pin.verdict, fg=colour, bold=not good)
        worse = f", worse on {_named(list(pin.worse))}" if pin.worse else ""
        pair = _pair(summary, pin.pin.target, pin.pin.draft)
        yield f"pinned {pair}: {word}{worse} ({safe(pin.why)})"
    last = None
    for number, change in enumerate(_sorted(summary.changes)):
        if number == SHOWN:
            yield f"  and {len(summary.changes) - SHOWN:,} more (--format json has all)"
            break
        if change.kind != last:
            last = change.kind
            yield click.style(f"pairs that {HEADS[change.kind]}:", fg=COLOURS.get(change.kind))
        was = f"{change.before or '-'} -> {change.after or '-'}"
        where = f"{change.engine} {safe(change.version)}"
        pair = _pair(summary, change.target, change.draft)
        yield f"  {pair} on {where}: {was}; {safe(change.why)}"


def _markdown(summary: ScanSummary) -> Iterator[str]:
    yield from (f"## {md(_answer(summary))}", "", md(_figures(summary)), "")
    if summary.pins:
        yield from ("| pinned target | draft | verdict | why |", "|---|---|---|---|")
        for pin in summary.pins:
            mark = "" if pin.verdict in USABLE else "**"
            pair = f"{md(pin.pin.target)} | {md(pin.pin.draft)}"
            worse = f", worse on {md(_named(list(pin.worse)))}" if pin.worse else ""
            yield f"| {pair} | {mark}{pin.verdict}{mark}{worse} | {md(pin.why)} |"
        yield ""
    yield from ("| target | usable drafts | problem |", "|---|---|---|")
    for target in summary.targets:
        count = summary.usable.get(target.ref, 0)
        yield f"| {md(target.ref)} | {count:,} | {md(target.problem or '')} |"
    yield ""
    if not summary.changes:
        return
    yield from ("| change | target | draft | engine | before | after | why |", "|---" * 7 + "|")
    for change in _sorted(summary.changes)[: 5 * SHOWN]:
        row = (
            change.kind, md(change.target), md(change.draft or "(none)"),
            f"{change.engine} {md(change.version)}", change.before or "", change.after or "",
            md(change.why),
        )  # fmt: skip
        yield f"| {' | '.join(row)} |"
    if len(summary.changes) > 5 * SHOWN:
        yield f"\nand {len(summary.changes) - 5 * SHOWN:,} more"


FORMATS: Mapping[str, Callable[[ScanSummary], str]] = {
    "text": lambda summary: "\n".join(_text(summary)),
    "json": lambda summary: dumps(body(summary)),
    "markdown": lambda summary: "\n".join(_markdown(summary)),
}
