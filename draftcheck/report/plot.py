"""A trial as a picture: the curve over the draft length, acceptance by position and by text."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from draftcheck import atomic
from draftcheck.errors import ReadError, UsageError
from draftcheck.report import charts
from draftcheck.report.charts import ChartLine, Panel
from draftcheck.report.layout import plural
from draftcheck.report.safe import safe
from draftcheck.report.trial import answer, speed
from draftcheck.trial.engine_speed.speedups import EngineSpeedup
from draftcheck.trial.result import Interval, SpeculationFigures, Trial

WIDTH = 880
LEFT, GAP = 52, 28
"""Left edge of the axes; room between the edges and what is drawn."""
HALF = WIDTH // 2
CURVES = ("1", "2", "4", "8")
"""Draft lengths that have a curve over the load."""
POSITIONS = 5
"""Bars at least, where drafts were measured so far: one alone says nothing of how they end."""
SHOWN = 12
"""Kinds of text that have a bar."""


def check(file: Path) -> None:
    """Whether such a picture can be drawn here; asked before anything is measured."""
    if file.suffix.lower() not in (".svg", ".png"):
        raise UsageError(f"--plot {file}: a picture is an .svg or a .png file")
    if file.suffix.lower() == ".png" and find_spec("resvg_py") is None:
        raise UsageError(
            f"--plot {file}: a PNG needs resvg-py",
            hint="pip install 'draftcheck-llm[plot]', or name an .svg file.",
        )


def write(trial: Trial, file: Path) -> None:
    """Draw into an SVG file, or a PNG where a renderer is installed."""
    check(file)
    picture = draw(trial)
    try:
        data = picture.encode()
        if file.suffix.lower() == ".png":
            from resvg_py import svg_to_bytes

            data = bytes(svg_to_bytes(svg_string=picture, zoom=2))
        atomic.write(file.resolve(), data)  # what a link points to; the link stays
    except OSError as error:
        raise ReadError(f"{file}: cannot be written: {error.strerror}") from error


def draw(trial: Trial) -> str:
    """The SVG text: what came out in words, one wide panel, and two below it."""
    words = [safe(f"{trial.draft} for {trial.target}", 90), *_summary(trial)]
    parts = [charts.text(GAP, 34, words[0], colour="ink", size=charts.LARGE, bold=True)]
    for number, line in enumerate(words[1:]):
        parts.append(charts.text(GAP, 56 + 18 * number, line, size=charts.PLAIN))
    top = 56 + 18 * (len(words) - 1) + 44
    lengths, bottom = _lengths(trial, top)
    if trial.speeds:
        loads, bottom = _loads(trial.speeds[0], bottom + 52)
        parts += loads
    positions, left_end = _positions(trial, bottom + 52)
    kinds, right_end = _kinds(trial, bottom + 52)
    height = max(left_end, right_end) + 20
    return charts.document([*parts, *lengths, *positions, *kinds], WIDTH, height)


def _summary(trial: Trial) -> list[str]:
    """The answer, and what it rests on."""
    sure = ""
    if trial.interval is not None:
        sure = f" (95 % within {trial.interval[0]:.3f} to {trial.interval[1]:.3f})"
    rests = (
        f"Acceptance {trial.acceptance:.3f}{sure}, {trial.prompts:,} prompts, {trial.tokens:,}"
        f" tokens, {safe(trial.backend, 20)} on {safe(trial.device, 30)}"
    )
    return [*textwrap.wrap(safe(answer(trial), 300), 125), rests]


def _lengths(trial: Trial, top: float) -> tuple[list[str], float]:
    """The gain over the draft length, the chosen length marked; and where the panel ends."""
    timed = trial.best is not None
    greedy, anew = trial.greedy_lengths, trial.reencoded
    ways = {"draft": trial.lengths, "greedy draft": greedy, "encoded anew": anew}
    lines = [
        ChartLine(
            name,
            [row.settings["draft_tokens"] for row in rows],
            [_value(row, timed) for row in rows],
        )
        for name, rows in ways.items()
        if rows
    ]
    longest = max((line.x[-1] for line in lines), default=2)
    between = trial.row.speedup_ci95 if trial.row is not None and timed else None
    highest = max([1.0, *(between or ()), *(value for line in lines for value in line.y)])
    heights = charts.ticks(highest * 1.12)  # room for the words above the mark
    panel = Panel(LEFT, top, WIDTH - LEFT - GAP, 210, (1, longest), (0, heights[-1]))
    across = charts.from_one(longest)
    title, unit = ("Speed-up", "times faster") if timed else ("Tokens per pass", "tokens")
    if timed and trial.costs_origin is not None:
        title += f", {safe(str(trial.costs_origin), 60)}"
    parts = [*panel.frame(title, "draft tokens", unit, across, heights), panel.level(1)]
    if timed:
        parts.append(charts.text(panel.right, panel.y(1) - 5, "no gain", anchor="end"))
    for line, colour, dash in zip(lines, charts.SERIES, charts.DASHES, strict=False):
        parts.append(panel.curve(line, colour, dash))
    if trial.row is not None:
        parts += _mark(panel, trial.length, _value(trial.row, timed), timed, between)
    names = [line.name for line in lines] if len(lines) > 1 else []
    parts += charts.legend(panel.left, panel.bottom + 52, names)
    return parts, panel.bottom + 40 + charts.ROW * len(names)


def _loads(served: EngineSpeedup, top: float) -> tuple[list[str], float]:
    """An engine's gain over the sequences at once, a line for each draft length; doubled loads are
    equally far apart."""
    lengths = [g for g in CURVES if g in served.loads[0].by_length]
    doublings = [math.log2(load.sequences) for load in served.loads]
    lines = [
        ChartLine(
            f"{g} draft {plural(int(g), 'token')}",
            doublings,
            [load.by_length[g] / load.plain_tokens_per_s for load in served.loads],
        )
        for g in lengths
    ]
    heights = charts.ticks(max([1.0, *(value for line in lines for value in line.y)]))
    across = (0, doublings[-1])
    panel = Panel(LEFT, top, WIDTH - LEFT - GAP, 180, across, (0, heights[-1]))
    where = safe(f"{served.engine} {served.version} on {served.gpu}", 60)
    title = f"Speed-up by load, {where}, {served.source}"
    parts = [*panel.frame(title, "sequences at once", "times faster", (), heights), panel.level(1)]
    for load in served.loads:
        if math.log2(load.sequences).is_integer():
            x = panel.x(math.log2(load.sequences))
            parts.append(charts.text(x, panel.bottom + 16, str(load.sequences), anchor="middle"))
    for line, colour, dash in zip(lines, charts.SERIES, charts.DASHES, strict=False):
        parts.append(panel.curve(line, colour, dash))
    parts += charts.legend(panel.left, panel.bottom + 52, [line.name for line in lines])
    return parts, panel.bottom + 40 + charts.ROW * len(lines)


def _value(row: SpeculationFigures, timed: bool) -> float:
    return (row.speedup or 0.0) if timed else row.tokens_per_pass


def _mark(
    panel: Panel, length: int, value: float, timed: bool, between: Interval | None
) -> Iterator[str]:
    """A dot on the curve with its interval, and above it what it stands for."""
    x, y = panel.x(length), panel.y(value)
    yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="var(--s1)"/>'
    if between is not None:
        low, y = (panel.y(end) for end in between)
        ends = f"M{x - 4:.1f} {low:.1f}h8M{x - 4:.1f} {y:.1f}h8"
        yield charts.stroke(f"M{x:.1f} {low:.1f}V{y:.1f}{ends}", "ink", 1.5)
    gain = speed(value, between) if timed else f"{value:.2f} tokens"
    words = f"{gain} with {length} draft {plural(length, 'token')}"
    half = charts.text_width(words, charts.PLAIN) / 2
    middle = min(max(x, panel.left + half), panel.right - half)
    yield charts.text(
        middle, y - 11, words, colour="ink", anchor="middle", size=charts.PLAIN, bold=True
    )


def _positions(trial: Trial, top: float) -> tuple[list[str], float]:
    """How far drafts are accepted, as bars; a line for each token given the one before it."""
    wanted = max(trial.length, POSITIONS)
    row = next((row for row in trial.lengths if row.draft_tokens == wanted), trial.row)
    counters = row.counters if row is not None else None
    if row is None or counters is None or not counters.by_position:
        return [], top
    shares, given = counters.by_position, counters.by_position_given_the_last
    places = range(1, len(shares) + 1)
    across = (0.5, len(shares) + 0.5)
    panel = Panel(LEFT, top, HALF - LEFT - GAP, 180, across, (0, 1))
    marks = charts.from_one(len(shares))
    title = f"Accepted by position, drafts of {row.draft_tokens}"
    parts = list(panel.frame(title, "position in the draft", "share of drafts", marks,
                             charts.ticks(1)))  # fmt: skip
    wide = min((panel.x(2) - panel.x(1)) * 0.7, 60)
    for place, share in zip(places, shares, strict=True):
        high = panel.bottom - panel.y(share)
        parts.append(charts.box(panel.x(place) - wide / 2, panel.y(share), wide, high, "s1"))
    parts.append(panel.curve(ChartLine("", places, given), "s2", charts.DASHES[1]))
    below = panel.bottom + 52
    parts.append(charts.box(panel.left, below - 9, 10, 10, "s1"))
    parts.append(charts.text(panel.left + 16, below, "all up to it", colour="ink"))
    parts.append(charts.stroke(f"M{panel.left + 110:.1f} {below - 4:.1f}h26", "s2", 2, "7 3"))
    parts.append(charts.text(panel.left + 142, below, "given the one before", colour="ink"))
    return parts, below


def _kinds(trial: Trial, top: float) -> tuple[list[str], float]:
    """A bar for everything and one for each kind of text, with 95 % intervals."""
    rows: list[tuple[str, float, Interval | None]] = [
        ("everything", trial.acceptance, trial.interval)
    ]
    for name, part in {**trial.categories, **trial.workload}.items():
        rows.append((safe(name, 18), part.acceptance, part.interval))
    rows = rows[: SHOWN + 1]
    room = max(charts.text_width(name) for name, _, _ in rows) + 10
    left = HALF + GAP + room
    high = max(180.0, (charts.ROW + 4) * len(rows))
    panel = Panel(left, top, WIDTH - left - GAP, high, (0, 1), (len(rows), 0))
    beside = "share of drafted tokens, with 95 % intervals"
    parts = list(panel.frame("Accepted by kind of text", "", beside, charts.ticks(1), ()))
    thick = min(20.0, (panel.y(1) - panel.y(0)) * 0.6)
    for number, (name, share, interval) in enumerate(rows):
        y = panel.y(number + 0.5)
        colour = "s1" if number == 0 else "s3"
        parts.append(charts.text(left - 8, y + 4, name, colour="ink", anchor="end"))
        parts.append(charts.box(left, y - thick / 2, panel.x(share) - left, thick, colour))
        if interval is not None:
            low, top_end = (panel.x(value) for value in interval)
            ends = f"M{low:.1f} {y - 4:.1f}v8M{top_end:.1f} {y - 4:.1f}v8"
            parts.append(charts.stroke(f"M{low:.1f} {y:.1f}H{top_end:.1f}{ends}", "ink", 1.5))
    return parts, panel.bottom + 24
