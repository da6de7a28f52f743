"""Facts in a few kilobytes, from which every verdict can still be worked out.

For the gate's lock and the scan's store: digests and fingerprints instead of vocabularies, tensor
names folded by pattern (facts.py). What only both vocabularies together tell is kept per pair, as
notes (pairs.py). It belongs to the judge because it keeps exactly what checks look at; facts in
full are written by models/stored.py.

Locks and stores are files that anybody may have written. Every part of them is decoded into a
type of its own (`decode`), and a number in them never decides alone how much work is done: what
it stands for is counted against a limit before it is spelled out.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from threading import Lock
from typing import TypeVar

import msgspec

from draftcheck.errors import ReadError
from draftcheck.models.readers.tokenizer.vocabulary import MAX_ID

T = TypeVar("T")
_DECODING = Lock()
"""msgspec works out what a type holds at its first use; two threads at once would crash there."""


def decode(entry: object, kind: type[T], where: str) -> T:
    """JSON as an object of this type; a ReadError in one line for anything else."""
    try:
        with _DECODING:
            return msgspec.convert(entry, kind)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:  # a lone surrogate
        says = " ".join(str(error)[:200].split())
        raise ReadError(f"{where}: not in the form that draftcheck writes: {says}") from None


def pack_ids(numbers: Iterable[int]) -> str:
    """A set of ids as a short text of ascending ranges: 3-5,9."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in found)


def id_spans(text: str, where: str, below: int = MAX_ID) -> list[range]:
    """The ranges again; a ReadError for anything that pack_ids() does not write."""
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


def unpack_ids(text: str, where: str, below: int = MAX_ID) -> list[int]:
    """The numbers again, each smaller than `below`."""
    return list(chain.from_iterable(id_spans(text, where, below)))
