"""Sets of ids and runs of numbers as short texts: 0-255,300."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from draftcheck.errors import ReadError

MOST = 1 << 24
"""More ids than any vocabulary or list of tensors has."""


def pack(numbers: Iterable[int]) -> str:
    """Ascending ranges, as 3-5,9."""
    parts: list[str] = []
    first = last = None
    for number in sorted(set(numbers)):
        if last is not None and number == last + 1:
            last = number
            continue
        if first is not None and last is not None:
            parts.append(_part(first, last))
        first = last = number
    if first is not None and last is not None:
        parts.append(_part(first, last))
    return ",".join(parts)


def _part(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def unpack(text: object, where: str, most: int = MOST) -> list[int]:
    """The numbers again; a ReadError for anything that pack() does not write."""
    if not isinstance(text, str):
        raise ReadError(f"{where}: {str(text)[:40]!r} is no list of ranges")
    found: list[int] = []
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash) and len(part) < 40):
            raise ReadError(f"{where}: {part[:40]!r} is no range")
        low, high = int(first), int(last) if dash else int(first)
        if high < low or high >= MOST or len(found) + high - low >= most:
            raise ReadError(f"{where}: the range {part} is not sensible")
        if found and low <= found[-1]:
            raise ReadError(f"{where}: the ranges {text[:40]!r} do not ascend")
        found.extend(range(low, high + 1))
    return found


def pack_runs(values: Sequence[int]) -> list[list[int]]:
    """[[value, how often], …]"""
    runs: list[list[int]] = []
    for value in values:
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([value, 1])
    return runs


def unpack_runs(runs: object, where: str) -> list[int]:
    """The values again."""
    found: list[int] = []
    if not isinstance(runs, list):
        raise ReadError(f"{where}: not a list of runs")
    for run in runs:
        if not (isinstance(run, list) and len(run) == 2 and all(type(n) is int for n in run)):
            raise ReadError(f"{where}: {str(run)[:40]!r} is no run")
        value, count = run
        if not 0 < count <= MOST - len(found) or not -(1 << 31) <= value < 1 << 31:
            raise ReadError(f"{where}: the run {run} is not sensible")
        found += [value] * count
    return found
