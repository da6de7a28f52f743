"""Token tables: from {text: id} to texts by id, with ids from hostile files kept in bounds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from draftcheck.errors import ReadError

MAX_ID = 1 << 21
SPARSE = 1 << 16
"""Room for ids beyond the number of entries: real vocabularies have gaps, but small ones."""


def encode(text: str) -> bytes:
    """UTF-8, lone surrogates included: they are legal JSON and must not stop the reader."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def by_id(entries: Mapping[str, Any], where: str) -> list[bytes | None]:
    """Texts in a list indexed by id; None where nobody defines one."""
    ids = list(entries.values())
    plain = not set(map(type, ids)) - {int}
    if plain and len(ids) < MAX_ID and ids == list(range(len(ids))):
        return list(encode_all(entries))
    if not plain or min(ids, default=0) < 0:
        text = next(t for t, number in entries.items() if type(number) is not int or number < 0)
        raise ReadError(f"{where}: token {text[:40]!r} has id {str(entries[text])[:40]!r}")
    return arrange(encode_all(entries), ids, where)


def encode_all(texts: Collection[str]) -> list[bytes]:
    """UTF-8 of many texts, in one go where no text holds the separator."""
    found = encode("\0".join(texts)).split(b"\0")
    return found if len(found) == len(texts) else [encode(text) for text in texts]


def arrange(texts: Sequence[bytes], ids: list[int], where: str) -> list[bytes | None]:
    """Put each text at its id; refuses ids that would only waste memory."""
    highest = max(ids, default=-1)
    if min(ids, default=0) < 0:
        raise ReadError(f"{where}: token id {min(ids)}")
    if highest >= MAX_ID or highest > 16 * len(ids) + SPARSE:
        raise ReadError(f"{where}: token id {highest:,} for {len(ids):,} tokens")
    table: list[bytes | None] = [None] * (highest + 1)
    for number, value in zip(ids, texts, strict=True):
        table[number] = value
    return table


def place(table: list[bytes | None], number: int, text: str, where: str) -> None:
    """Put an added token into the table, which grows when it must."""
    if number >= MAX_ID or number > len(table) + SPARSE:
        raise ReadError(f"{where}: added token {text[:40]!r} has id {number:,}")
    if number >= len(table):
        table.extend([None] * (number + 1 - len(table)))
    table[number] = encode(text)


# GPT-2's printable stand-in for every byte, as str.translate wants it.
_PRINTABLE = (*range(33, 127), *range(161, 173), *range(174, 256))
_OTHERS = (byte for byte in range(256) if byte not in _PRINTABLE)
_ALPHABET = {byte: chr(byte) for byte in _PRINTABLE}
_ALPHABET |= {byte: chr(spare) for spare, byte in enumerate(_OTHERS, 256)}


def byte_level(raw: bytes) -> bytes:
    """Raw token bytes -> the spelling that tokenizer.json and GGUF use for byte-level BPE."""
    return raw.decode("latin-1").translate(_ALPHABET).encode()
