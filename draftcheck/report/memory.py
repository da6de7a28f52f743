"""The memory answer: a table with a bar in text, the contract's JSON, markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from draftcheck.report.json import picked
from draftcheck.report.safe import md, safe
from draftcheck.values.memory import DeviceFit, Fit, MemoryFit, MemoryPart
from draftcheck.values.sizes import byte_size
from draftcheck.values.verdicts import EngineVerdict

WIDTH = 60
COLOURS = {
    Fit.FITS: "green",
    Fit.TIGHT: "yellow",
    Fit.DOES_NOT_FIT: "red",
    Fit.CANNOT_TELL: "magenta",
}
LETTERS = {
    ("target", "weights"): "T",
    ("target", "cache"): "t",
    ("draft", "weights"): "D",
    ("draft", "cache"): "d",
}
"""Of the bar; everything else is the engine's own: e."""
LIMITS = ("max_context=context", "max_sequences=sequences")


def shown(engines: Sequence[EngineVerdict]) -> list[MemoryFit]:
    """The answers to show, each once: those with figures first."""
    found = [entry.memory for entry in engines if entry.memory is not None]
    return sorted(found, key=lambda fit: fit.answer is Fit.CANNOT_TELL)


def text(engines: Sequence[EngineVerdict], every: bool) -> str:
    """The first answer with its table, a line for each other engine (or all tables)."""
    fits = shown(engines)
    if not fits:
        return ""
    blocks = ["\n".join(_table(fit)) for fit in (fits if every else fits[:1])]
    rest = [] if every else [_line(fit) for fit in fits[1:]]
    return "\n".join([*blocks, *rest])


def _words(fit: MemoryFit) -> str:
    return fit.answer.replace("-", " ")


def _head(fit: MemoryFit) -> str:
    word = click.style(_words(fit), fg=COLOURS[fit.answer], bold=True)
    return (
        f"memory on {safe(fit.machine, 60)} with {fit.engine} {safe(fit.version, 40)}: {word}"
        f" ({fit.at_once:,} x {fit.context:,} tokens, KV {safe(fit.kv_dtype, 20)})"
    )


def _line(fit: MemoryFit) -> str:
    device = fit.fullest
    used = device and f", {byte_size(device.required)} of {byte_size(device.available)}"
    return _head(fit) + (used or "")


def _table(fit: MemoryFit) -> Iterator[str]:
    yield _head(fit)
    for number, device in enumerate(_distinct(fit)):
        if number or len(fit.devices) > 1:
            yield f"  {safe(device.gpu, 40)}"
        for part in device.parts:
            known = str(part.basis)
            if part.low != part.high:
                known += f", {byte_size(part.low)} to {byte_size(part.high)}"
            known += f", {safe(part.note)}" if part.note else ""
            yield f"    {_name(part):24} {byte_size(part.nbytes):>11}  {known}"
        yield (
            f"    {'in all':24} {byte_size(device.required):>11}  {byte_size(device.low)} to"
            f" {byte_size(device.high)}, of {byte_size(device.available)} to use"
        )
        left = f"{byte_size(abs(device.headroom))} {'left' if device.headroom >= 0 else 'too much'}"
        yield f"    [{bar(device)}] {left}"
    if fit.devices:
        yield "    T target weights, t its cache, D draft weights, d its cache, e engine, . free"
        yield f"    {_limits(fit)}"
    for change in fit.changes:
        yield f"    would fit: {change}"
    for note in fit.notes:
        yield f"    note: {safe(note)}"


def _distinct(fit: MemoryFit) -> list[DeviceFit]:
    """Ranks that hold the same are shown once."""
    return list(dict.fromkeys(fit.devices))


def _name(part: MemoryPart) -> str:
    return part.name if part.owner == "engine" else f"{part.owner} {part.name}"


def bar(device: DeviceFit) -> str:
    """One letter per sixtieth of what the engine may use: T t target, D d draft, e engine."""
    scale = WIDTH / max(device.available, device.required, 1)
    cells, filled = "", 0.0
    for part in sorted(device.parts, key=lambda p: LETTERS.get((p.owner, p.name), "e") == "e"):
        filled += part.nbytes * scale
        letter = LETTERS.get((part.owner, part.name), "e")
        cells += letter * (round(filled) - len(cells))
    return cells[:WIDTH].ljust(WIDTH, ".")


def _limits(fit: MemoryFit) -> str:
    longest, alone = fit.limits, fit.alone
    words = (
        f"longest context {_count(longest.context)};"
        f" {_count(longest.sequences)} at once of {fit.context:,} tokens"
    )
    if longest == alone or alone.context is None:
        return words
    cost = (alone.context or 0) - (longest.context or 0)
    words += f"; without the draft {_count(alone.context)} and {_count(alone.sequences)}"
    return words + (f": the draft costs {cost:,} tokens" if cost > 0 else "")


def _count(value: int | None) -> str:
    return "none" if value is None else f"{value:,}"


def markdown(engines: Sequence[EngineVerdict]) -> list[str]:
    """A table of the first answer; one line for each other."""
    fits = shown(engines)
    if not fits:
        return []
    fit = fits[0]
    lines = [
        f"#### Memory on {md(fit.machine)} with {md(fit.engine)} {md(fit.version)}: {_words(fit)}",
        "",
    ]
    if fit.devices:
        lines += ["| device | part | bytes | known |", "|---|---|---:|---|"]
        for device in _distinct(fit):
            for part in device.parts:
                lines.append(
                    f"| {md(device.gpu)} | {_name(part)} | {part.nbytes:,} | {part.basis} |"
                )
            lines.append(
                f"| {md(device.gpu)} | **in all**, of {device.available:,} | {device.required:,}"
                f" | {device.low:,} to {device.high:,} |"
            )
        lines += ["", _limits(fit) + "."]
    lines += [f"- would fit: {md(change)}" for change in fit.changes]
    lines += [f"- note: {md(note)}" for note in fit.notes]
    lines += [f"- {md(click.unstyle(_line(other)))}" for other in fits[1:]]
    return [*lines, ""]


def body(fit: MemoryFit) -> dict[str, Any]:
    """The contract's object: bytes on the fullest device, and everything behind them."""
    device = fit.fullest
    fits = None if fit.answer is Fit.CANNOT_TELL else fit.answer is not Fit.DOES_NOT_FIT
    return {
        **picked(
            fit, "gpu=machine", "engine", "version", "context", "sequences", "at_once", "kv_dtype",
            "draft_tokens", "answer",
        ),
        "fits": fits,
        "available_bytes": device.available if device else None,
        "required_bytes": device.required if device else None,
        "range_bytes": [device.low, device.high] if device else None,
        "headroom_bytes": device.headroom if device else None,
        **picked(fit.limits, *LIMITS),
        "without_draft": picked(fit.alone, *LIMITS),
        "bytes_per_token": {"target": fit.per_token[0], "draft": fit.per_token[1]},
        "target": _side(device, "target"),
        "draft": _side(device, "draft"),
        "overhead_bytes": device
        and device.required - sum(device.total(name, owner) for owner, name in LETTERS),
        "devices": [
            {
                **picked(one, "gpu", "available_bytes=available", "required_bytes=required"),
                "range_bytes": [one.low, one.high],
                "answer": one.answer,
                "parts": [_part(part) for part in one.parts],
            }
            for one in fit.devices
        ],
        "changes": fit.changes,
        "notes": fit.notes,
    }  # fmt: skip


def _side(device: DeviceFit | None, owner: str) -> dict[str, Any]:
    names = {"weights_bytes": "weights", "kv_bytes": "cache"}
    return {key: device and device.total(name, owner) for key, name in names.items()}


def _part(part: MemoryPart) -> dict[str, Any]:
    return {
        **picked(part, "name", "owner", "bytes=nbytes"),
        "range_bytes": [part.low, part.high],
        "basis": part.basis,
        "note": part.note or None,
    }
