"""Reads a trial's JSON back: measured once, used by every command that asks later.

People edit such files, so reading is strict. The classes of result.py check what they are made of;
then the result is written again, and the keys of the file must be those that were written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from draftcheck.errors import ReadError
from draftcheck.trial import strict_json
from draftcheck.trial.result import Trial

MAX_BYTES = 16 << 20
WHAT = "the result of a trial"
HEAD = ("schema_version", "draftcheck_version")
"""Keys that the report of a trial adds."""


def load(file: Path) -> Trial:
    """The result in a file of `trial --format json`, or under "trial" in one of `pair`."""
    found = strict_json.load(file, WHAT, MAX_BYTES)
    if isinstance(found, dict) and "engines" in found:
        if found.get("trial") is None:
            raise ReadError(f"{file}: the result of pair without a trial")
        found = found["trial"]
    return parse(found, str(file))


def parse(found: Any, where: str) -> Trial:
    """The result itself; an error names the key that is wrong."""
    trial = strict_json.convert(found, Trial, where, WHAT)
    body = {name: value for name, value in found.items() if name not in HEAD}
    for problem in _other_keys(body, trial.to_dict(), ""):
        raise ReadError(f"{where}: not {WHAT}: {problem}")
    return trial


def _other_keys(found: Any, written: Any, place: str) -> Iterator[str]:
    """Keys of the file that we would not write, and those we would write with a value.

    Also figures that follow from others and come out beyond all bounds.
    """
    if isinstance(found, dict) and isinstance(written, dict) and written:
        before = f"{place}." if place else ""
        for name in found:
            if name not in written:
                yield f"unknown key {before}{name:.80}"
        for name, value in written.items():
            if name in found:
                yield from _other_keys(found[name], value, before + name)
            elif value is not None:
                yield f"missing key {before}{name}"
    elif isinstance(found, list) and isinstance(written, list):
        for number, (one, other) in enumerate(zip(found, written, strict=False)):
            yield from _other_keys(one, other, f"{place}[{number}]")
    elif isinstance(written, float) and not math.isfinite(written):
        yield f"{place}: no number comes of these figures"
