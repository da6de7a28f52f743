"""A trial as a picture: speed-up over draft length, acceptance by position and by kind of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from draftcheck.errors import ReadError, UsageError
from draftcheck.report.safe import safe
from draftcheck.trial.result import Interval, SpeculationFigures, Trial

WIDTH, HEIGHT, LEFT, TOP, GAP, FOOT = 300, 200, 50, 56, 70, 60
INK, GREY, COLOURS, PALE = "#222", "#999", ("#2a6fb0", "#b0562a", "#3a8a4a"), "#9cc3e6"
LABELS = 12
"""Names below a panel."""


def write(trial: Trial, file: Path) -> None:
    """Draw into an SVG file, or a PNG where a renderer is installed."""
    if file.suffix.lower() not in (".svg", ".png"):
        raise UsageError(f"--plot {file}: a picture is an .svg or a .png file")
    picture = draw(trial)
    data = picture.encode() if file.suffix.lower() == ".svg" else _png(picture, file)
    try:
        file.write_bytes(data)
    except OSError as error:
        raise ReadError(f"{file}: cannot be written: {error.strerror}") from error


def _png(picture: str, file: Path) -> bytes:
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        raise UsageError(
            f"--plot {file}: a PNG needs resvg-py",
            hint="pip install 'draftcheck-llm[plot]', or name an .svg file.",
        ) from None
    return bytes(svg_to_bytes(svg_string=picture, zoom=2))


def draw(trial: Trial) -> str:
    """The SVG text; everything that comes from a model or a file is escaped."""
    width, height = LEFT + 3 * (WIDTH + GAP), TOP + HEIGHT + FOOT
    title = escape(f"{safe(trial.draft)} for {safe(trial.target)}")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}" font-family="sans-serif" font-size="11"'
            f' fill="{INK}">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            f'<text x="{LEFT}" y="20" font-size="13">{title}</text>',
            *_lengths(trial),
            *_positions(trial),
            *_kinds(trial),
            "</svg>\n",
        ]
    )


def _lengths(trial: Trial) -> Iterator[str]:
    timed = trial.costs is not None
    curves = {
        "draft": trial.lengths,
        "greedy draft": trial.greedy_lengths,
        "encoded anew": trial.reencoded,
    }
    curves = {name: rows for name, rows in curves.items() if rows}
    values = {name: [_value(row, timed) for row in rows] for name, rows in curves.items()}
    highest = max([1.0, *(value for heights in values.values() for value in heights)])
    panel = _Panel(0, highest * 1.05, len(trial.lengths))
    yield from panel.frame("speed-up" if timed else "tokens per pass", "draft tokens")
    one = f"M{panel.left} {panel.y(1.0)}h{WIDTH}"
    yield f'<path d="{one}" stroke="{GREY}" stroke-dasharray="4 3"/>'
    for number, (name, heights) in enumerate(values.items()):
        colour = COLOURS[number]
        yield panel.line(heights, colour)
        if len(values) > 1:
            x, y = panel.left + WIDTH - 80, TOP + HEIGHT - 10 - 14 * number
            yield f'<text x="{x}" y="{y}" fill="{colour}">{name}</text>'
    if trial.row is not None:
        at = trial.lengths.index(trial.row)
        height = _value(trial.row, timed)
        yield f'<circle cx="{panel.x(at)}" cy="{panel.y(height)}" r="4" fill="{COLOURS[0]}"/>'
    yield from panel.names([str(row.settings["draft_tokens"]) for row in trial.lengths])


def _value(row: SpeculationFigures, timed: bool) -> float:
    return (row.speedup or 0.0) if timed else row.tokens_per_pass


def _positions(trial: Trial) -> Iterator[str]:
    counters = trial.counters
    shares = counters.by_position if counters else []
    panel = _Panel(1, 1.0, len(shares))
    yield from panel.frame("accepted by position (line: given the one before)", "position")
    yield from panel.bars(shares)
    if counters:
        yield panel.line(counters.by_position_given_the_last, COLOURS[1])
    yield from panel.names([str(i + 1) for i in range(len(shares))])


def _kinds(trial: Trial) -> Iterator[str]:
    parts = {**trial.categories, **trial.workload}
    panel = _Panel(2, 1.0, len(parts))
    yield from panel.frame("accepted by kind of text, with 95 % intervals", "")
    yield from panel.bars([part.acceptance for part in parts.values()])
    yield from panel.whiskers([part.interval for part in parts.values()])
    yield from panel.names(list(parts))


class _Panel:
    """One diagram of three."""

    def __init__(self, number: int, top: float, count: int) -> None:
        self.left = LEFT + number * (WIDTH + GAP)
        self._top = top
        self._step = WIDTH / max(count, 1)

    def x(self, number: float) -> float:
        return round(self.left + self._step * (number + 0.5), 1)

    def y(self, value: float) -> float:
        return round(TOP + HEIGHT * (1 - value / self._top), 1)

    def frame(self, title: str, below: str) -> Iterator[str]:
        bottom = TOP + HEIGHT
        yield f'<text x="{self.left}" y="{TOP - 8}">{escape(title)}</text>'
        axes = f"M{self.left} {TOP}V{bottom}h{WIDTH}"
        yield f'<path d="{axes}" stroke="{INK}" fill="none"/>'
        for part in range(5):
            value = self._top * part / 4
            yield (
                f'<text x="{self.left - 6}" y="{self.y(value) + 4}"'
                f' text-anchor="end">{value:.2f}</text>'
            )
        middle = self.left + WIDTH / 2
        yield f'<text x="{middle}" y="{bottom + 34}" text-anchor="middle">{escape(below)}</text>'

    def names(self, names: Sequence[str]) -> Iterator[str]:
        every = -(-len(names) // LABELS) or 1
        size = 8 if any(len(name) > 5 for name in names) else 11
        for number, name in enumerate(names):
            if number % every == 0:
                yield (
                    f'<text x="{self.x(number)}" y="{TOP + HEIGHT + 16}"'
                    f' text-anchor="middle" font-size="{size}">'
                    f"{escape(safe(name, 14))}</text>"
                )

    def line(self, values: Sequence[float], colour: str) -> str:
        path = " ".join(f"{self.x(i)},{self.y(value)}" for i, value in enumerate(values))
        return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'

    def bars(self, values: Sequence[float]) -> Iterator[str]:
        for number, value in enumerate(values):
            left, top = self.x(number) - self._step * 0.35, self.y(value)
            yield (
                f'<rect x="{left:.1f}" y="{top}" width="{self._step * 0.7:.1f}"'
                f' height="{TOP + HEIGHT - top:.1f}" fill="{PALE}"/>'
            )

    def whiskers(self, intervals: Sequence[Interval | None]) -> Iterator[str]:
        for number, interval in enumerate(intervals):
            if interval is not None:
                low, high = self.y(interval[0]), self.y(interval[1])
                yield f'<path d="M{self.x(number)} {low}V{high}" stroke="{INK}"/>'
