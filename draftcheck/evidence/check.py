"""Whether the rows of rules/evidence can be true: ranges, definitions, doubles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from msgspec import structs

from draftcheck.evidence import published
from draftcheck.evidence.published import Figure, PublishedFigure, PublishedPair, figure
from draftcheck.rulebook import book

CLOSE = 0.03
"""Of two figures of one row that say the same in two ways."""
AS_PRINTED = "as printed"
"""In a note: the source's own figures do not agree with each other."""
OTHERS = {
    "ik_llama.cpp", "tokenspeed", "dflash-mlx", "rapid-mlx", "mlx-vlm", "vllm-ascend", "xllm",
    "atom",
}  # fmt: skip
"""Engines that have published figures and no rules here."""


def faults() -> Iterator[str]:
    """One line each."""
    rows, pairs = published.figures(), published.pairs()
    for row in rows:
        yield from (f"acceptance.csv {row.id}: {fault}" for fault in of_figures(row))
    for pair in pairs:
        yield from (f"pairs.csv {pair.id}: {fault}" for fault in of_pair(pair))
    ids = defaultdict(list)
    for name, table in (("acceptance", rows), ("pairs", pairs), ("left-out", published.left_out())):
        for entry in table:
            ids[entry.id].append(name)
    yield from (f"{row} stands in {', '.join(where)}" for row, where in ids.items() if where[1:])
    yield from _doubles(rows)
    yield from _doubles(pairs)


def of_figures(row: PublishedFigure) -> Iterator[str]:
    length, rate, speedup = (
        figure(text or "") for text in (row.tokens_per_pass, row.rate, row.speedup)
    )
    if not (length or rate or speedup or row.positions):
        yield "no figure"
    if not row.draft and not row.draft_said:
        yield "no draft, and nothing that says which"
    if row.engine and row.engine not in OTHERS and row.engine not in book.engine_files():
        yield f"an engine called {row.engine!r} is not known here"
    if length and (fault := _outside(length, 1.0, row.tokens and row.tokens + 1.0, row.tree)):
        yield f"tokens per pass {fault}"
    if rate and (fault := _outside(rate, 0.0, 1.0)):
        yield f"rate {fault}"
    if speedup and (fault := _outside(speedup, 0.05, 20.0)):
        yield f"speed-up {fault}"
    if bool(row.speedup) != bool(row.speedup_over):
        yield "speedup and speedup_over go together"
    if bool(row.positions) != bool(row.positions_are):
        yield "positions and positions_are go together"
    yield from _by_position(row, length, rate)


def _by_position(row: PublishedFigure, length: Figure | None, rate: Figure | None) -> Iterator[str]:
    places = row.by_position
    if any(not 0 <= one <= 1 for one in places):
        yield "a rate by position is not between 0 and 1"
    if row.positions_are == "marginal" and any(b > a for a, b in pairwise(places)):
        yield "marginal rates by position grow"
    if AS_PRINTED in row.note or row.tree or row.tokens is None:
        return
    drafted = row.tokens
    if places and len(places) != drafted:
        yield f"{len(places)} positions, {drafted} drafted tokens"
    elif places and row.positions_are == "marginal":
        if length and not _agree(1 + sum(places), length):
            yield f"positions make {1 + sum(places):.2f} tokens per pass, not {length.text}"
        if rate and not _agree(sum(places) / drafted, rate):
            yield f"positions make a rate of {sum(places) / drafted:.3f}, not {rate.text}"
    if length and rate and not _agree(1 + rate.middle * drafted, length):
        yield f"the rate makes {1 + rate.middle * drafted:.2f} tokens per pass, not {length.text}"


def of_pair(pair: PublishedPair) -> Iterator[str]:
    for engine in pair.since.keys() - set(book.engine_files()):
        yield f"an engine called {engine!r} is not known here"


def _outside(found: Figure, low: float, high: float | None, tree: str = "") -> str:
    top = found.low if found.high is None else found.high
    if found.low > top:
        return f"{found.text} ends before it begins"
    if found.low < low or (high is not None and not tree and top > high):
        return f"{found.text} is not between {low:g} and {high or 'more':g}"
    return ""


def _agree(worked_out: float, said: Figure) -> bool:
    high = said.high or worked_out
    return said.low * (1 - CLOSE) - 0.01 <= worked_out <= high * (1 + CLOSE) + 0.01


def _doubles(rows: tuple[PublishedFigure, ...] | tuple[PublishedPair, ...]) -> Iterator[str]:
    seen: dict[PublishedFigure | PublishedPair, str] = {}
    for row in rows:
        same = structs.replace(row, id="X1")
        if same in seen:
            yield f"{row.id} says what {seen[same]} says"
        seen.setdefault(same, row.id)
