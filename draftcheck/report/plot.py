"""A trial as one SVG: speed-up over draft length, acceptance by position and by kind of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from draftcheck.errors import ReadError
from draftcheck.report.safe import safe
from draftcheck.trial.result import Trial

WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 200, 50, 40, 70
INK, LINE, PALE = "#222", "#2a6fb0", "#9cc3e6"


def write(trial: Trial, file: Path) -> None:
    try:
        file.write_text(draw(trial), encoding="utf-8")
    except OSError as error:
        raise ReadError(f"{file}: cannot be written: {error.strerror}") from error


def draw(trial: Trial) -> str:
    timed = trial.costs is not None
    gains = [(row.speedup or 0.0) if timed else row.tokens_per_pass for row in trial.lengths]
    lengths = [str(row.settings["draft_tokens"]) for row in trial.lengths]
    places = [str(i + 1) for i in range(len(trial.by_position))]
    kinds = list(trial.categories)
    shares = [part.acceptance for part in trial.categories.values()]
    panels = [
        _panel(0, "speed-up" if timed else "tokens per pass", "draft tokens", lengths, gains, True),
        _panel(1, "accepted by position", "position", places, trial.by_position, False),
        _panel(2, "accepted by kind of text", "", kinds, shares, False),
    ]
    width = LEFT + 3 * (WIDTH + GAP)
    title = escape(f"{safe(trial.draft)} for {safe(trial.target)}")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT + 100}"'
            f' font-family="sans-serif" font-size="11" fill="{INK}">',
            f'<rect width="{width}" height="{HEIGHT + 100}" fill="white"/>',
            f'<text x="{LEFT}" y="18" font-size="13">{title}</text>',
            *("\n".join(panel) for panel in panels),
            "</svg>\n",
        ]
    )


def _panel(
    number: int,
    title: str,
    below: str,
    names: Sequence[str],
    values: Sequence[float],
    joined: bool,
) -> Iterator[str]:
    left, bottom = LEFT + number * (WIDTH + GAP), TOP + HEIGHT
    top = max([*values, 1.0]) * 1.05
    step = WIDTH / max(len(values), 1)
    yield f'<text x="{left}" y="{TOP - 6}">{escape(title)}</text>'
    yield f'<path d="M{left} {TOP}V{bottom}H{left + WIDTH}" stroke="{INK}" fill="none"/>'
    for part in range(5):
        value = top * part / 4
        y = bottom - HEIGHT * part / 4
        yield f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{value:.2f}</text>'
    points = [
        (left + step * (i + 0.5), bottom - HEIGHT * value / top) for i, value in enumerate(values)
    ]
    if joined:
        one = bottom - HEIGHT / top
        yield f'<path d="M{left} {one:.1f}H{left + WIDTH}" stroke="#999" stroke-dasharray="4 3"/>'
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline points="{path}" fill="none" stroke="{LINE}" stroke-width="2"/>'
    else:
        for x, y in points:
            yield (
                f'<rect x="{x - step * 0.35:.1f}" y="{y:.1f}" width="{step * 0.7:.1f}"'
                f' height="{bottom - y:.1f}" fill="{PALE}"/>'
            )
    every = max(1, len(names) // 12)
    for i, (name, (x, _)) in enumerate(zip(names, points, strict=True)):
        if i % every == 0:
            label = escape(safe(name, 14))
            yield f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{label}</text>'
    yield f'<text x="{left + WIDTH / 2}" y="{bottom + 32}" text-anchor="middle">{below}</text>'
