"""Recorded trials held against the minimums of the manifest."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftcheck.errors import ReadError

LARGEST = 16 << 20
CIRCUMSTANCES = ("backend", "device", "dtype", "temperature", "prompts", "tokens")


@dataclass(frozen=True, slots=True)
class TrialDemand:
    """What the manifest asks of a pair."""

    acceptance: float | None = None
    speedup: float | None = None
    trial: str | None = None
    """File of `draftcheck trial --format json`."""
    draft_tokens: int | None = None
    temperature: float | None = None
    backend: str | None = None

    @property
    def anything(self) -> bool:
        return self.acceptance is not None or self.speedup is not None


def read(path: Path, shown: str) -> dict[str, Any]:
    """The figures of a trial file that a lock keeps."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise ReadError(f"{shown}: {error.strerror}") from error
    if len(data) > LARGEST:
        raise ReadError(f"{shown}: more than {LARGEST:,} bytes is no trial")
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ReadError(f"{shown}: not the JSON of a trial: {str(error)[:120]}") from None
    if not isinstance(body, dict):
        raise ReadError(f"{shown}: not the JSON of a trial")
    if isinstance(body.get("trial"), dict):  # of `draftcheck pair --trial`
        body = {**body["trial"], "target": body.get("target"), "draft": body.get("draft")}
    if "acceptance_rate" not in body or "backend" not in body:
        raise ReadError(f"{shown}: not the JSON of `draftcheck trial --format json`")
    return {**_figures(body, shown), "file": shown, "sha256": hashlib.sha256(data).hexdigest()}


def _figures(body: Mapping[str, Any], shown: str) -> dict[str, Any]:
    rate = body["acceptance_rate"]
    best = body.get("best")
    rows = body.get("lengths")
    figures: dict[str, Any] = {
        "target": _model(body.get("target")),
        "draft": _model(body.get("draft")),
        "length": _number(body.get("length"), shown),
        "acceptance_rate": _number(rate.get("value") if isinstance(rate, dict) else rate, shown),
        "speedup": _number(best.get("speedup") if isinstance(best, dict) else None, shown),
        "broken": _words(body.get("broken")),
        "incomplete": _words(body.get("incomplete")),
        "lengths": [
            [
                _number(row.get(name), shown)
                for name in ("draft_tokens", "draft_efficiency", "speedup")
            ]
            for row in (rows if isinstance(rows, list) else [])
            if isinstance(row, dict)
        ],
    }
    for name in CIRCUMSTANCES:
        value = body.get(name)
        figures[name] = value if isinstance(value, str) else _number(value, shown)
    return figures


def _words(value: Any) -> str | None:
    return value[:400] if isinstance(value, str) and value else None


def _model(side: Any) -> dict[str, Any]:
    if not isinstance(side, dict):
        return {}
    return {name: side[name] for name in ("ref", "revision") if isinstance(side.get(name), str)}


def _number(value: Any, shown: str) -> float | int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ReadError(f"{shown}: {str(value)[:40]!r} is not a figure of a trial")
    return value


def differences(
    figures: Mapping[str, Any], wanted: TrialDemand, names: Mapping[str, tuple[str, str | None]]
) -> Iterator[str]:
    """How the trial's circumstances differ from the pair's; names: side -> reference, revision."""
    for side, (reference, revision) in names.items():
        made = figures.get(side) or {}
        ref = made.get("ref")
        if ref is not None and not _same(ref, reference):
            yield f"its {side} is {ref}, not {reference}"
        elif revision and made.get("revision") and made["revision"] != revision:
            yield f"its {side} is revision {made['revision'][:12]}, not {revision[:12]}"
    for name in ("temperature", "backend"):
        asked = getattr(wanted, name)
        if asked is not None and figures.get(name) != asked:
            yield f"its {name} is {figures.get(name)}, not {asked}"


def _same(ref: str, reference: str) -> bool:
    """The same model; a trial may have been made elsewhere, and names its commit apart."""
    name, ours = ref.partition("@")[0].removeprefix("./"), reference.partition("@")[0]
    return name == ours or name.endswith(f"/{ours}")


def held(figures: Mapping[str, Any], wanted: TrialDemand) -> Iterator[tuple[str, str]]:
    """What falls short: a rule of the gate and the evidence; GAT010 where nothing was measured."""
    if figures.get("broken"):
        yield "GAT008", f"the trial found the pair broken: {str(figures['broken'])[:200]}"
        return
    if figures.get("incomplete"):
        yield (
            "GAT010",
            f"{figures.get('file', 'the trial')} was not finished: {figures['incomplete']}",
        )
        return
    acceptance, speedup, at = _at(figures, wanted.draft_tokens)
    for rule, name, found, least in (
        ("GAT008", "acceptance", acceptance, wanted.acceptance),
        ("GAT009", "speed-up", speedup, wanted.speedup),
    ):
        if least is None:
            continue
        if found is None:
            yield "GAT010", f"{figures.get('file', 'the trial')} has no {name}{at}"
        elif found < least:
            yield rule, f"{name} {found:.3g}{at}, the minimum is {least:g}"


def _at(
    figures: Mapping[str, Any], draft_tokens: int | None
) -> tuple[float | None, float | None, str]:
    """Acceptance and speed-up at the draft length of the pair, or the trial's own best."""
    if draft_tokens is None:
        length = figures.get("length")
        at = f" at {length} draft tokens" if length else ""
        return figures.get("acceptance_rate"), figures.get("speedup"), at
    for row in figures.get("lengths", ()):
        if row[0] == draft_tokens:
            return row[1], row[2], f" at {draft_tokens} draft tokens"
    return None, None, f" at {draft_tokens} draft tokens"
