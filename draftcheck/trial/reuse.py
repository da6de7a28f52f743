"""The target's texts in a file, so that trying ten drafts costs one run of the target."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from draftcheck.errors import ReadError
from draftcheck.trial.backends.backend import TargetText
from draftcheck.trial.plan import TrialPlan

FORMAT = "draftcheck texts 2"
MAX_BYTES = 1 << 30


def load(file: Path, plan: TrialPlan) -> list[TargetText] | None:
    """The texts, when the file is there; an error when they were made otherwise."""
    if not file.exists():
        return None
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ReadError(f"{file}: more than {MAX_BYTES:,} bytes")
        body = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ReadError(f"{file}: not a file of texts: {error}") from error
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise ReadError(f"{file}: not a file of texts")
    for name, wanted in _circumstances(plan).items():
        if body.get(name) != wanted:
            raise ReadError(
                f"{file}: was made with {name} {body.get(name)!r}, not {wanted!r}",
                hint="Use another file, or the same settings.",
            )
    try:
        return [_text(row, plan.options.temperature) for row in body["texts"]]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ReadError(f"{file}: a text in it is broken: {error}") from error


def _text(row: Any, warmest: float) -> TargetText:
    prompt = np.array(row["prompt"], dtype=np.int64)
    tokens = np.array(row["tokens"], dtype=np.int64)
    if prompt.ndim != 1 or tokens.ndim != 1 or (tokens < 0).any() or (prompt < 0).any():
        raise ValueError("ids are lists of whole numbers")
    if not len(prompt):
        raise ValueError("an empty prompt")
    if row["temperature"] not in (0.0, warmest):
        raise ValueError("another temperature than the file's")
    return TargetText(str(row["category"]), prompt, tokens, float(row["temperature"]))


def save(file: Path, plan: TrialPlan, texts: Sequence[TargetText]) -> None:
    body = {
        "format": FORMAT,
        **_circumstances(plan),
        "texts": [
            {
                "category": text.category,
                "temperature": text.temperature,
                "prompt": text.prompt.tolist(),
                "tokens": text.tokens.tolist(),
            }
            for text in texts
        ],
    }
    try:
        file.write_text(json.dumps(body), encoding="utf-8")
    except OSError as error:
        raise ReadError(f"{file}: cannot be written: {error.strerror}") from error


def _circumstances(plan: TrialPlan) -> dict[str, Any]:
    return {
        "target": plan.target,
        "tokens": plan.options.tokens,
        "temperature": plan.options.temperature,
        "seed": plan.options.seed,
        "greedy_share": plan.greedy_share,
    }
