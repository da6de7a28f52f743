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

from threading import Lock
from typing import TypeVar

import msgspec

from draftcheck.errors import ReadError

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
