"""A pair in one picture, for a model card: on which engines it works."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from draftcheck.report.safe import safe
from draftcheck.rulebook import book
from draftcheck.values.words import Verdict

LEFT = "draftcheck"
COLOURS = {Verdict.COMPATIBLE: "#1a7f37", Verdict.DEGRADED: "#9a6700"}
WORDS = {Verdict.COMPATIBLE: "works", Verdict.DEGRADED: "runs, degraded"}
NONE = ("#6e7781", "no engine known")
MOST = 3
"""Engines named."""
LETTER, EDGE = 6.6, 10
"""Width of a letter at this size, and the room beside a text, in pixels."""


def svg(
    target: str, draft: str | None, verdict: Verdict, engines: Sequence[tuple[str, str]]
) -> str:
    """An SVG file; engines: name and version of those that have this verdict."""
    colour, words = NONE
    if verdict in WORDS:
        named = [_short(*engine) for engine in engines[:MOST]]
        more = f" +{len(engines) - MOST}" if len(engines) > MOST else ""
        colour, words = COLOURS[verdict], f"{WORDS[verdict]}: {', '.join(named)}{more}"
    whole = f"{draft} for {target}: {words}" if draft else f"{target} by itself: {words}"
    left, right = (len(text) * LETTER + 2 * EDGE for text in (LEFT, words))
    size = f'width="{left + right:.0f}" height="20"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
        f"<title>{escape(safe(whole))}</title>"
        f'<rect width="{left:.0f}" height="20" fill="#24292f"/>'
        f'<rect x="{left:.0f}" width="{right:.0f}" height="20" fill="{colour}"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="{EDGE}" y="14">{LEFT}</text>'
        f'<text x="{left + EDGE:.0f}" y="14">{escape(safe(words))}</text></g></svg>\n'
    )


def _short(engine: str, version: str) -> str:
    """vLLM 0.32, llama.cpp b11312."""
    shown = version.removesuffix(".0") if version.count(".") > 1 else version
    known = engine in book.engine_files()
    return f"{book.load(engine).name if known else engine} {shown}"
