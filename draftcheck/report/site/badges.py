"""A pair in one picture, for a model card: on which engines it works."""

from __future__ import annotations

from html import escape

from draftcheck.report.safe import safe
from draftcheck.report.site.data import SitePair
from draftcheck.rulebook import book
from draftcheck.scan.rows import VerdictRow
from draftcheck.values.words import Verdict

LEFT = "draftcheck"
COLOURS = {Verdict.COMPATIBLE: "#1a7f37", Verdict.DEGRADED: "#9a6700"}
WORDS = {Verdict.COMPATIBLE: "works", Verdict.DEGRADED: "runs, degraded"}
NONE = ("#6e7781", "no engine known")
MOST = 3
"""Engines named."""
LETTER, EDGE = 6.6, 10
"""Width of a letter at this size, and the room beside a text, in pixels."""


def badge(pair: SitePair) -> str:
    """An SVG file."""
    found = [answer for answer in pair.answers if answer.verdict == pair.verdict]
    colour, words = NONE
    if pair.verdict in WORDS:
        named = [_short(answer) for answer in found[:MOST]]
        more = f" +{len(found) - MOST}" if len(found) > MOST else ""
        colour, words = COLOURS[pair.verdict], f"{WORDS[pair.verdict]}: {', '.join(named)}{more}"
    whole = f"{pair.draft} for {pair.target}: {words}"
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


def _short(answer: VerdictRow) -> str:
    """vLLM 0.32, llama.cpp b11312."""
    version = answer.version.removesuffix(".0") if answer.version.count(".") > 1 else answer.version
    known = answer.engine in book.engine_files()
    return f"{book.load(answer.engine).name if known else answer.engine} {version}"
