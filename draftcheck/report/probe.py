"""What a probe found, as text, JSON and Markdown; texts of the server are escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from draftcheck.probe.readings import ProbeResult, ProbeState, ServerCounts
from draftcheck.report import known
from draftcheck.report.json import HEAD, dumps, picked
from draftcheck.report.layout import wrapped
from draftcheck.report.safe import md, safe

STATES = {
    ProbeState.SPECULATING: (0, "green", "{who} is speculating"),
    ProbeState.CONFIGURED: (
        3, "yellow", "{who} is set up to speculate, but nothing shows that drafts are accepted",
    ),
    ProbeState.NOT_ACCEPTING: (1, "red", "{who} drafts, and accepts next to nothing"),
    ProbeState.NOT_SPECULATING: (1, "red", "{who} is not speculating"),
    ProbeState.UNKNOWN: (3, "magenta", "whether {who} is speculating cannot be told"),
}  # fmt: skip
"""Exit code, colour and sentence."""
LITTLE = 0.2
"""A position that fewer drafts reach hardly pays."""


def code(probe: ProbeResult) -> int:
    """The contract's exit code."""
    return STATES[probe.state][0]


def _who(probe: ProbeResult) -> str:
    if probe.server is None:
        return f"the server at {probe.url}"
    name = f"{probe.server.engine} {probe.server.version or ''}".strip()
    return f"{name} at {probe.url}"


def _answer(probe: ProbeResult) -> str:
    """The sentence of the state; where figures tell more, they come first."""
    told = STATES[probe.state][2].format(who=_who(probe))
    counts = next((counts for _, counts in _figures(probe)), None)
    if probe.state is not ProbeState.SPECULATING or counts is None:
        return told
    parts = _shares(counts)
    return f"{', '.join(parts)} ({_who(probe)})" if parts else told


def _shares(counts: ServerCounts) -> list[str]:
    parts = []
    if counts.acceptance_rate is not None:
        parts.append(f"{100 * counts.acceptance_rate:.0f} % accepted")
    if counts.mean_length is not None:
        parts.append(f"{counts.mean_length:.2f} tokens per pass")
    if counts.rates and counts.rates[-1] < LITTLE:
        at = next(at for at, rate in enumerate(counts.rates, 1) if rate < LITTLE)
        parts.append(f"position {at} only {100 * counts.rates[at - 1]:.0f} %")
    return parts


def _facts(probe: ProbeResult) -> Iterator[tuple[str, str]]:
    """What is known apart from the figures."""
    if probe.server is not None:
        version = probe.server.version or "version not told"
        yield "server", f"{probe.server.engine}, {version} (by {probe.server.seen})"
    if probe.reading is not None:
        for name in ("model", "method", "draft", "says"):
            if (value := getattr(probe.reading, name)) is not None:
                yield name, value


def _figures(probe: ProbeResult) -> list[tuple[str, ServerCounts]]:
    last = (f"last {probe.seconds or 0:.3g} s", probe.interval)
    spans = (("this prompt", probe.prompt), last, ("since start", probe.since_start))
    return [(name, counts) for name, counts in spans if counts is not None]


def _sentence(counts: ServerCounts) -> str:
    """The figures of one span in a line; what is not told is left out."""
    parts = []
    if counts.none_drafted:
        parts.append("nothing drafted")
    elif counts.drafted is not None and counts.accepted is not None:
        parts.append(f"{counts.accepted:,} of {counts.drafted:,} drafted tokens accepted")
    elif counts.drafted is not None:
        parts.append(f"{counts.drafted:,} tokens drafted")
    if counts.acceptance_rate is not None:
        parts.append(f"rate {_percent(counts.acceptance_rate)}")
    if counts.mean_length is not None:
        parts.append(f"mean length {counts.mean_length:.2f}")
    if counts.drafts:
        parts.append(f"{counts.drafts:,} drafts")
    if counts.generated is not None:
        parts.append(f"{counts.generated:,} tokens generated")
    return ", ".join(parts) or "nothing counted"


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.1f}%"


def _text(probe: ProbeResult) -> str:
    word = click.style(str(probe.state), fg=STATES[probe.state][1], bold=True)
    blocks = [f"{word}: {safe(_answer(probe))}"]
    blocks.append("\n".join(f"  {name.ljust(12)}{safe(value)}" for name, value in _facts(probe)))
    blocks += [_span(name, counts) for name, counts in _figures(probe)]
    blocks.append("\n".join(known.usual_lines(probe.published)))
    for cause in probe.causes:
        fields = (("likely", cause.text), ("  fix", cause.fix))
        blocks.append(
            "\n".join(
                wrapped(title.ljust(7), safe(words, 1000), break_words=True)
                for title, words in fields
            )
        )
    blocks.append("\n".join(f"note: {safe(note)}" for note in probe.notes))
    return "\n\n".join(block for block in blocks if block)


def _span(name: str, counts: ServerCounts) -> str:
    lines = [f"  {name.ljust(12)}{_sentence(counts)}"]
    if counts.rates:
        rows = {
            "position": [str(at + 1) for at in range(len(counts.rates))],
            "accepted": [_percent(rate) for rate in counts.rates],
            "conditional": [_percent(rate) for rate in counts.conditional_rates],
        }
        for at in range(0, len(counts.rates), 12):
            for title, cells in rows.items():
                shown = "".join(cell.rjust(7) for cell in cells[at : at + 12])
                lines.append(f"    {title.ljust(12)}{shown}")
    return "\n".join(lines)


def first_line(probe: ProbeResult) -> str:
    return _text(probe).partition("\n")[0]


def line(probe: ProbeResult, at: str) -> str:
    """What happened since the line before, for somebody who watches."""
    word = click.style(str(probe.state), fg=STATES[probe.state][1])
    counts = probe.interval
    if probe.server is None:
        told = next((cause.text for cause in probe.causes), "")
    elif counts is None:
        told = "no counters to compare (a restart?)"
    elif counts.says_nothing:
        idle = counts.generated is not None
        told = f"nothing drafted, {counts.generated:,} tokens generated" if idle else "idle"
    else:
        told = ", ".join([*_shares(counts), f"{counts.drafted or 0:,} tokens drafted"])
    return f"{at}  {word}: {safe(told, 300)}"


def json_line(probe: ProbeResult, at: str) -> str:
    return dumps({"time": at, **_object(probe)}, indent=None)


def _markdown(probe: ProbeResult) -> str:
    lines = [f"### draftcheck probe: {probe.state}", ""]
    lines += [md(_answer(probe)) + ".", ""]
    facts = [f"- {name}: {md(value)}" for name, value in _facts(probe)]
    lines += [*facts, ""] if facts else []
    for name, counts in _figures(probe):
        lines += [f"**{name}**: {_sentence(counts)}", ""]
        if counts.rates:
            rates = zip(counts.rates, counts.conditional_rates, strict=True)
            lines += ["| position | accepted | conditional |", "|---|---|---|"]
            lines += [
                f"| {at} | {_percent(a)} | {_percent(b)} |" for at, (a, b) in enumerate(rates, 1)
            ]
            lines.append("")
    lines += [f"- {md(line.strip())}" for line in known.usual_lines(probe.published)]
    lines += [f"- likely: {md(cause.text)} Fix: {md(cause.fix)}" for cause in probe.causes]
    lines += [f"- note: {md(note)}" for note in probe.notes]
    return "\n".join(lines).rstrip()


def _object(probe: ProbeResult) -> dict[str, Any]:
    server, reading = probe.server, probe.reading
    return {
        **HEAD,
        **picked(probe, "url", "state"),
        "engine": server.engine if server else None,
        "version": server.version if server else None,
        "recognised_by": server.seen if server else None,
        **{
            name: getattr(reading, name) if reading else None
            for name in ("model", "method", "draft", "switch", "says")
        },
        "since_start": probe.since_start and picked(probe.since_start, *COUNTS),
        "interval": probe.interval
        and {"seconds": probe.seconds, **picked(probe.interval, *COUNTS)},
        "prompt": probe.prompt and picked(probe.prompt, *COUNTS),
        "published": known.usual_json(probe.published),
        "causes": [picked(cause, "id", "text", "fix", "source") for cause in probe.causes],
        "notes": probe.notes,
        "asked": [{"path": path, "status": status} for path, status in probe.asked],
    }


COUNTS = (
    "drafts", "drafted_tokens=drafted", "accepted_tokens=accepted", "generated_tokens=generated",
    "acceptance_rate", "mean_accepted_length=mean_length", "acceptance_by_position=rates",
    "conditional_by_position=conditional_rates",
)  # fmt: skip


FORMATS: Mapping[str, Callable[[ProbeResult], str]] = {
    "text": _text,
    "json": lambda probe: dumps(_object(probe)),
    "markdown": _markdown,
}
