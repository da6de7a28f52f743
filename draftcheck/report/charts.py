"""Charts as SVG, drawn by hand: panels with round ticks, lines, bars and a legend that fits.

A colour is a name of the site's style sheet (`ink`, `muted`, `line`, `s1` to `s6` for series) and
is written as `var(--name)`, so that a chart inside a page is light or dark with it.
`document` makes a file of its own out of the same elements: plain colours for programs that know
no style sheets, and a style sheet for those that can be dark. Text from models is escaped here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

from draftcheck.report.safe import safe

SERIES = ("s1", "s2", "s3", "s4", "s5", "s6")
DASHES = ("", "7 3", "7 3 2 3", "2 3", "12 3", "4 2")
"""Lines differ by dashes too, not by colour alone."""
WIDTH, HEIGHT = 360, 240
"""Of a chart in a page, without its legend; as wide as a phone, so that words stay large."""
SMALL, PLAIN, LARGE = 11, 12, 15
"""Sizes of text."""
LETTER = 0.56
"""Width of an average letter in parts of its size; names are cut to what has room."""
ROW = 18
"""Height of a line of the legend, or of a horizontal bar."""
TICKS = 6
POSITIONS = 8
"""Of a draft whose acceptance is drawn, also where shorter ones are best."""
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
    marks = {value: f"{value:g}" for value in from_one(longest)}
    return _curves(lines, title, below, beside, marks, one=one)


def loads(lines: Sequence[ChartLine], title: str) -> str:
    """Speed-up over the sequences at once; doubled loads are equally far apart."""
    doubled = [replace(line, x=[1 + math.log2(x) for x in line.x]) for line in lines]
    last = math.floor(max(line.x[-1] for line in doubled))
    step = math.ceil(last / TICKS)
    marks = {float(at): f"{2 ** (at - 1)}" for at in range(1, last + 1, step)}
    return _curves(doubled, title, "sequences at once", "times faster", marks, one=True)


def _curves(
    lines: Sequence[ChartLine],
    title: str,
    below: str,
    beside: str,
    across: Mapping[float, str],
    *,
    one: bool,
) -> str:
    last = max((line.x[-1] for line in lines), default=2)
    heights = ticks(max([float(one), *(value for line in lines for value in line.y)]))
    panel = Panel(38, 44, WIDTH - 50, HEIGHT - 92, (1, last), (0, heights[-1]))
    parts = list(panel.frame(title, below, beside, (), heights))
    for place, words in across.items():
        parts.append(text(panel.x(place), panel.bottom + 16, words, anchor="middle"))
    if one:
        parts.append(panel.level(1))
        parts.append(text(panel.left + 3, panel.y(1) + 12, "no gain"))
    for line, colour, dash in zip(lines, SERIES, DASHES, strict=False):
        parts.append(panel.curve(line, colour, dash))
    parts += legend(8, HEIGHT, [line.name for line in lines], WIDTH - 8)
    label = f"{title}: {beside} over {below}, {len(lines)} drafts"
    return _inline(parts, HEIGHT + ROW * len(lines), label)


def stacked(
    rows: Mapping[str, Mapping[str, float]], title: str, below: str, limit: tuple[str, float]
) -> str:
    """A bar per row, its parts one behind the other; limit: a line that no bar should cross."""
    name, most = limit
    across = ticks(max(most, *(sum(parts.values()) for parts in rows.values())))
    step = 2 * ROW + 4
    panel = Panel(8, 62, WIDTH - 28, step * len(rows), (0, across[-1]), (0, 1))
    parts = [text(panel.left, 18, title, colour="ink", size=PLAIN, bold=True)]
    for value in across:
        parts.append(stroke(f"M{panel.x(value):.1f} {panel.top}V{panel.bottom:.1f}", "line"))
        parts.append(text(panel.x(value), panel.bottom + 16, f"{value:g}", anchor="middle"))
    parts.append(text((panel.left + panel.right) / 2, panel.bottom + 33, below, anchor="middle"))
    names = list(dict.fromkeys(part for found in rows.values() for part in found))
    for number, (row, found) in enumerate(rows.items()):
        y, start = panel.top + step * number, 0.0
        shown = f"{safe(row, 40)}: {sum(found.values()):.1f}"
        parts.append(text(panel.left, y + 13, shown, colour="ink", size=PLAIN))
        for part, size in found.items():
            wide = panel.x(start + size) - panel.x(start)
            colour = SERIES[names.index(part)]
            parts.append(box(panel.x(start), y + ROW, wide, ROW - 4, colour))
            start += size
    edge = panel.x(most)
    parts.append(stroke(f"M{edge:.1f} {panel.top - 8:.1f}V{panel.bottom:.1f}", "ink", 2, "4 3"))
    words = f"{safe(name, 30)} {most:.1f} {below}"
    left = min(edge, panel.right - text_width(words, PLAIN))
    parts.append(text(left, panel.top - 14, words, colour="ink", size=PLAIN))
    left, foot = panel.left, panel.bottom + 54
    for part, colour in zip(names, SERIES, strict=False):
        parts.append(box(left, foot - 9, 10, 10, colour))
        parts.append(text(left + 15, foot, part, colour="ink", size=PLAIN))
        left += 28 + text_width(part, PLAIN)
    return _inline(parts, foot + 8, f"{title}, in {below}, for {len(rows)} drafts")


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
