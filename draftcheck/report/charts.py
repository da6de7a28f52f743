"""Charts as SVG, drawn by hand: panels with round ticks, lines, bars and a legend that fits.

A colour is a name of the site's style sheet (`ink`, `muted`, `line`, `s1` to `s6` for series, a
verdict) and is written as `var(--name)`, so that a chart inside a page is light or dark with it.
`document` makes a file of its own out of the same elements: plain colours for programs that know
no style sheets, and a style sheet for those that can be dark. Text from models is escaped here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from draftcheck.judge.decide import BEST_FIRST
from draftcheck.report.safe import safe
from draftcheck.values.words import Verdict

SERIES = ("s1", "s2", "s3", "s4", "s5", "s6")
DASHES = ("", "7 3", "7 3 2 3", "2 3", "12 3", "4 2")
"""Lines differ by dashes too, not by colour alone."""
WIDTH, HEIGHT = 480, 270
"""Of a chart in a page, without its legend."""
SMALL, PLAIN, LARGE = 11, 12, 15
"""Sizes of text."""
LETTER = 0.56
"""Width of an average letter in parts of its size; names are cut to what has room."""
ROW = 18
"""Height of a line of the legend, or of a horizontal bar."""
TICKS = 6
LIGHT = {
    "bg": "#ffffff", "ink": "#1b1d20", "muted": "#5a6069", "line": "#dfe1e4",
    "s1": "#1b5ba5", "s2": "#b35400", "s3": "#16774a", "s4": "#7d3fa3",
}  # fmt: skip
DARK = {
    "bg": "#121416", "ink": "#e6e8ea", "muted": "#9da4ad", "line": "#2e3338",
    "s1": "#82b6f2", "s2": "#f0a35e", "s3": "#4fc48b", "s4": "#c79be8",
}  # fmt: skip
_COLOUR = re.compile(r'(fill|stroke)="var\(--(\w+)\)"')


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One curve."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


# ---- elements ----


def text(
    x: float,
    y: float,
    words: str,
    *,
    colour: str = "muted",
    anchor: str = "start",
    size: int = SMALL,
    bold: bool = False,
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="var(--{colour})" font-size="{size}"'
        f' text-anchor="{anchor}"{weight}>{escape(words)}</text>'
    )


def stroke(path: str, colour: str, width: float = 1, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<path d="{path}" fill="none" stroke="var(--{colour})" stroke-width="{width:g}"{dashes}/>'
    )


def box(x: float, y: float, width: float, height: float, colour: str) -> str:
    size = f'width="{width:.1f}" height="{height:.1f}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="var(--{colour})"/>'


def text_width(words: str, size: int = SMALL) -> float:
    return len(words) * size * LETTER


def ticks(high: float, *, whole: bool = False) -> list[float]:
    """Round numbers from 0 up to high or just above, 1, 2 or 5 times a power of ten apart."""
    high = max(high, 1e-9)
    power = 10.0 ** math.floor(math.log10(high / TICKS))
    step = next(m * power for m in (1, 2, 5, 10) if high / (m * power) <= TICKS)
    if whole:
        step = max(1, step)
    return [round(number * step, 10) for number in range(math.ceil(high / step - 1e-9) + 1)]


def from_one(last: float) -> list[float]:
    """Ticks for things that are counted: 1, and round numbers up to the last one."""
    return [1, *(value for value in ticks(last, whole=True) if 1 < value <= last)]


class Panel:
    """The area of one diagram inside its axes; x and y turn figures into places."""

    def __init__(
        self,
        left: float,
        top: float,
        width: float,
        height: float,
        across: tuple[float, float],
        up: tuple[float, float],
    ) -> None:
        self.left, self.top, self.right, self.bottom = left, top, left + width, top + height
        self._across, self._up = across, up

    def x(self, value: float) -> float:
        low, high = self._across
        return self.left + (self.right - self.left) * (value - low) / ((high - low) or 1)

    def y(self, value: float) -> float:
        low, high = self._up
        return self.bottom - (self.bottom - self.top) * (value - low) / ((high - low) or 1)

    def frame(
        self, title: str, below: str, beside: str, across: Iterable[float], up: Iterable[float]
    ) -> Iterator[str]:
        """Title, grid, ticks and what the axes are; what would stand outside is left out."""
        yield text(self.left, self.top - 26, title, colour="ink", size=PLAIN, bold=True)
        yield text(self.left, self.top - 10, beside)
        for value in up:
            yield stroke(f"M{self.left:.1f} {self.y(value):.1f}H{self.right:.1f}", "line")
            yield text(self.left - 6, self.y(value) + 4, f"{value:g}", anchor="end")
        for value in across:
            yield text(self.x(value), self.bottom + 16, f"{value:g}", anchor="middle")
        yield text((self.left + self.right) / 2, self.bottom + 33, below, anchor="middle")

    def curve(self, line: ChartLine, colour: str, dash: str = "") -> str:
        places = zip(line.x, line.y, strict=True)
        points = " L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in places)
        return stroke(f"M{points}", colour, 2, dash)

    def level(self, value: float) -> str:
        """A dashed line across."""
        path = f"M{self.left:.1f} {self.y(value):.1f}H{self.right:.1f}"
        return stroke(path, "muted", 1, "4 4")


def legend(left: float, top: float, names: Sequence[str], width: float = math.inf) -> Iterator[str]:
    """A line each, as the curves are drawn."""
    for number, (name, colour, dash) in enumerate(zip(names, SERIES, DASHES, strict=False)):
        y = top + ROW * number
        yield stroke(f"M{left:.1f} {y:.1f}h26", colour, 2, dash)
        longest = int(min(64, (width - 34) / (PLAIN * LETTER)))
        yield text(left + 34, y + 4, safe(name, longest), colour="ink", size=PLAIN)


# ---- charts inside a page ----


def curves(lines: Sequence[ChartLine], title: str, below: str, beside: str, *, one: bool) -> str:
    """Up to six curves over small whole numbers; one: mark where nothing is gained."""
    longest = max((line.x[-1] for line in lines), default=2)
    heights = ticks(max([float(one), *(value for line in lines for value in line.y)]))
    panel = Panel(44, 44, WIDTH - 64, HEIGHT - 92, (1, longest), (0, heights[-1]))
    parts = list(panel.frame(title, below, beside, from_one(longest), heights))
    if one:
        parts.append(panel.level(1))
    for line, colour, dash in zip(lines, SERIES, DASHES, strict=False):
        parts.append(panel.curve(line, colour, dash))
    parts += legend(panel.left, HEIGHT, [line.name for line in lines], WIDTH - panel.left)
    label = f"{title}: {beside} over {below}, {len(lines)} drafts"
    return _inline(parts, HEIGHT + ROW * len(lines), label)


def verdicts(counts: Mapping[str, Mapping[Verdict, int]], title: str) -> str:
    """A bar per engine: how many pairs got which verdict."""
    widest = max((text_width(safe(name, 24), PLAIN) for name in counts), default=0)
    most = max((sum(found.values()) for found in counts.values()), default=0) or 1
    across = ticks(most, whole=True)
    high = (ROW + 4) * len(counts)
    panel = Panel(14 + widest, 44, WIDTH - widest - 40, high, (0, across[-1]), (0, 1))
    parts = list(panel.frame(title, "pairs", "", across, ()))
    for value in across:
        parts.append(stroke(f"M{panel.x(value):.1f} {panel.top}V{panel.bottom:.1f}", "line"))
    for number, (name, found) in enumerate(counts.items()):
        y, start = panel.top + (ROW + 4) * number + 3, 0
        parts.append(
            text(panel.left - 8, y + 12, safe(name, 24), colour="ink", anchor="end", size=PLAIN)
        )
        for verdict in BEST_FIRST:
            count = found.get(verdict, 0)
            if count:
                width = panel.x(start + count) - panel.x(start)
                parts.append(box(panel.x(start), y, width, ROW - 2, verdict))
            start += count
    left, below = 8.0, panel.bottom + 52
    for verdict in BEST_FIRST:
        parts.append(box(left, below - 9, 10, 10, verdict))
        parts.append(text(left + 15, below, verdict, colour="ink", size=PLAIN))
        left += 34 + text_width(verdict, PLAIN)
    return _inline(parts, below + 8, f"{title}, by verdict, for {len(counts)} engines")


def _inline(parts: Iterable[str], height: float, label: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" class="chart"'
        f' role="img" aria-label="{escape(label)}" stroke-linejoin="round">{"".join(parts)}</svg>'
    )


# ---- a picture of its own ----


def document(parts: Iterable[str], width: int, height: float) -> str:
    """A whole SVG file on a background of its own, dark where the viewer wants it dark."""
    body = "\n".join([box(0, 0, width, height, "bg"), *parts])
    used = sorted(set(_COLOUR.findall(body)))
    dark = "".join(f".{kind}-{name}{{{kind}:{DARK[name]}}}" for kind, name in used)
    plain = _COLOUR.sub(lambda m: f'{m[1]}="{LIGHT[m[2]]}" class="{m[1]}-{m[2]}"', body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}"'
        f' width="{width}" height="{height:.0f}" font-family="system-ui, sans-serif"'
        ' stroke-linejoin="round">\n'
        f"<style>@media (prefers-color-scheme: dark){{{dark}}}</style>\n{plain}\n</svg>\n"
    )
