"""Sets of ids as short texts: 0-255,300."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from draftcheck.errors import ReadError
from draftcheck.models.readers.tokenizer.vocabulary import MAX_ID


def pack(numbers: Iterable[int]) -> str:
    """Ascending ranges, as 3-5,9."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in found)


def spans(text: str, where: str, below: int = MAX_ID) -> list[range]:
    """The ranges again; a ReadError for anything that pack() does not write."""
    found: list[range] = []
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash) and len(part) < 40):
            raise ReadError(f"{where}: {part[:40]!r} is no range")
        low, high = int(first), int(last) if dash else int(first)
        if high < low or high >= below:
            raise ReadError(f"{where}: the range {part} is not sensible")
        if found and low < found[-1].stop:
            raise ReadError(f"{where}: the ranges {text[:40]!r} do not ascend")
        found.append(range(low, high + 1))
    return found


def unpack(text: str, where: str, below: int = MAX_ID) -> list[int]:
    """The numbers again, each smaller than `below`."""
    return list(chain.from_iterable(spans(text, where, below)))
