"""How long a GGUF header will be, guessed from how far the parser came.

Where every byte is fetched, a guess that is too short costs a request, one that is too long costs
bytes. Measured on real vocabularies: merges take as many bytes an entry as tokens do, plus one for
the space between the two parts.
"""

from __future__ import annotations

from draftcheck.models.readers.gguf.header import MERGES, TOKENS, TruncatedGguf

STEP = 64 * 1024
GROWTH = 1.3
"""Later tokens are longer than the first ones, on which a guess has to rest."""
MARGIN = 1.01
TENSOR = 76
"""Bytes of a row of the tensor table, rather too many."""
TAIL = 12 * 1024
"""Keys after the vocabulary: ids, chat template."""


def guess(stop: TruncatedGguf, have: int) -> int:
    """How many bytes to have next; always more than now."""
    seen = stop.seen
    rows = TENSOR * (seen.tensors - seen.tensors_done)
    if seen.keys_done:
        return max(stop.need, seen.at + rows + 1024)
    end = seen.at
    if seen.array == TOKENS and not seen.tokens:
        size = (have - seen.start) / max(seen.done, 1)
        # Types follow, and then scores or merges: a guess that is too long is not lost.
        end = seen.start + int(seen.count * size * GROWTH) + 4 * seen.count
        return max(stop.need, end, have + STEP)
    if seen.array == MERGES and seen.done < seen.count:
        end = seen.start + int(seen.count * _merge(stop, have) * MARGIN) + rows + TAIL
    elif seen.array == MERGES or not seen.array:
        end = have + rows + TAIL
    return max(stop.need + STEP, end)


def _merge(stop: TruncatedGguf, have: int) -> float:
    """Bytes of a merge: as a token, until enough merges were read to go by them."""
    seen = stop.seen
    if seen.tokens and seen.done < 0.4 * seen.count:
        return seen.token_bytes / seen.tokens + 1
    return (have - seen.start) / seen.done if seen.done else 18.0
