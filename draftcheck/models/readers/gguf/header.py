"""Read the header of a GGUF file: keys, string arrays, tensor table. Never tensor data.

Knows the container only; what llama.cpp makes of the keys is in llama/vocab.py.
Every length is held against the bytes that are left before anything is allocated.
Limits follow ggml/src/gguf.cpp where it has them.

Where every byte is fetched, one has to guess how long the header will be, from how far the parser
came: too short a guess costs a request, too long a one costs bytes. Measured on real vocabularies:
merges take as many bytes an entry as tokens do, plus one for the space between the two parts.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from draftcheck.values.facts import GgufArray

Buffer = bytes | mmap.mmap
"""The first bytes of a file, or a whole one mapped into memory; slices of both are bytes."""

MAX_KEYS = 100_000
MAX_TENSORS = 1 << 17
MAX_STRING = 64 * 1024 * 1024
MAX_ITEMS = 1 << 21
"""Elements of an array that is kept, and strings of any: several times the largest vocabulary."""
MAX_KEPT = 4096
"""Numeric arrays up to this length are kept whole (layer ids, per-layer head counts)."""
TOKENS, MERGES = "tokenizer.ggml.tokens", "tokenizer.ggml.merges"
WANTED = frozenset({TOKENS, "tokenizer.ggml.token_type", MERGES})

SCALARS = {
    0: ("uint8", "B", 1), 1: ("int8", "b", 1), 2: ("uint16", "H", 2), 3: ("int16", "h", 2),
    4: ("uint32", "I", 4), 5: ("int32", "i", 4), 6: ("float32", "f", 4), 7: ("bool", "?", 1),
    10: ("uint64", "Q", 8), 11: ("int64", "q", 8), 12: ("float64", "d", 8),
}  # fmt: skip
STRING, ARRAY = 8, 9
# A copy of the gguf package's table (a test holds them equal), because importing that package
# costs numpy and more time than the whole verdict. 42 is newer than the package
# (ggml/include/ggml.h at b11312), 31 to 33 and 36 were taken out again at b4282.
TENSOR_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292), 16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136), 24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4),
    27: ("I64", 1, 8), 28: ("F64", 1, 8), 29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2),
    31: ("Q4_0_4_4", 32, 18), 32: ("Q4_0_4_8", 32, 18), 33: ("Q4_0_8_8", 32, 18),
    34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 36: ("IQ4_NL_4_4", 32, 18),
    39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18), 42: ("Q2_0", 64, 18),
}  # fmt: skip
"""Id -> name, elements per block, bytes per block."""
STEP = 64 * 1024
GROWTH = 1.3
"""Later tokens are longer than the first ones, on which a guess has to rest."""
MARGIN = 1.01
TENSOR = 76
"""Bytes of a row of the tensor table, rather too many."""
TAIL = 12 * 1024
"""Keys after the vocabulary: ids, chat template."""


class BadGguf(Exception):
    """The bytes are not a sound GGUF header; the text says what and where."""


@dataclass(slots=True)
class HeaderProgress:
    """How far the parser came: enough to guess where the header ends."""

    tensors: int = 0
    """How many the file has."""
    keys_done: bool = False
    tensors_done: int = 0
    at: int = 0
    array: str = ""
    """The array of strings that it was in."""
    count: int = 0
    done: int = 0
    start: int = 0
    """Strings of that array, how many were read, and where it starts."""
    tokens: int = 0
    token_bytes: int = 0
    """Of tokenizer.ggml.tokens, once it was read."""


class TruncatedGguf(BadGguf):
    """The header goes on behind the end of the buffer."""

    def __init__(self, what: str, need: int, seen: HeaderProgress | None = None) -> None:
        super().__init__(f"ends inside {what} (needs byte {need:,})")
        self.need = need
        self.seen = seen or HeaderProgress()


@dataclass(frozen=True, slots=True)
class TensorInfo:
    name: str
    dims: tuple[int, ...]
    """In the file's order: the row length first."""
    type: int
    offset: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    version: int
    keys: Mapping[str, tuple[str, Any]]
    tensors: tuple[TensorInfo, ...]
    data_start: int
    alignment: int = 32
    duplicate_key: str | None = None


class _Cursor:
    """A position in the buffer that refuses to run past its end."""

    def __init__(self, data: Buffer) -> None:
        self.data = data
        self.size = len(data)
        self.at = 0
        self.seen = HeaderProgress()

    def take(self, count: int, what: str) -> int:
        """Move over count bytes; return where they start."""
        start = self.at
        if count > self.size - start:
            self.seen.at = start
            raise TruncatedGguf(what, start + count, self.seen)
        self.at = start + count
        return start

    def number(self, code: str, size: int, what: str) -> Any:
        return struct.unpack_from("<" + code, self.data, self.take(size, what))[0]

    def string(self, what: str) -> bytes:
        length = self.number("Q", 8, what)
        if length > MAX_STRING:
            raise BadGguf(f"{what} claims {length:,} bytes")
        start = self.take(length, what)
        return self.data[start : start + length]


def parse(data: Buffer) -> GgufHeader:
    """Parse the header at the start of data; raise Truncated when it goes on behind it."""
    cursor = _Cursor(data)
    magic = data[:4]
    if len(magic) < 4:
        raise TruncatedGguf("the magic", 4)
    if magic != b"GGUF":
        raise BadGguf(f"is not a GGUF file (starts with {magic!r})")
    cursor.at = 4
    version = cursor.number("I", 4, "the version")
    if version and version & 0xFFFF == 0:
        raise BadGguf("is a big-endian GGUF, which llama.cpp does not load on this kind of machine")
    if version not in (2, 3):
        raise BadGguf(f"is GGUF version {version}; versions 2 and 3 can be read")
    n_tensors = cursor.number("Q", 8, "the tensor count")
    n_keys = cursor.number("Q", 8, "the key count")
    if n_tensors > MAX_TENSORS:
        raise BadGguf(f"claims {n_tensors:,} tensors")
    if n_keys > MAX_KEYS:
        raise BadGguf(f"claims {n_keys:,} keys")
    cursor.seen.tensors = n_tensors
    keys: dict[str, tuple[str, Any]] = {}
    names: set[str] = set()
    duplicate = None
    for number in range(n_keys):
        name, value = _key(cursor, number)
        if name in names:
            duplicate = duplicate or name
        names.add(name)
        # Names are compared whole when the file is opened, but looked up as C strings.
        keys.setdefault(name.partition("\0")[0], value)
    cursor.seen.keys_done = True
    tensors = tuple(_tensor(cursor, number) for number in range(n_tensors))
    kind, alignment = keys.get("general.alignment", ("uint32", 32))
    if kind != "uint32" or alignment <= 0 or alignment & (alignment - 1):
        raise BadGguf(f"general.alignment is {kind} {alignment!r}, not a power of two in uint32")
    data_start = (cursor.at + alignment - 1) // alignment * alignment
    return GgufHeader(version, keys, tensors, data_start, alignment, duplicate)


def _key(cursor: _Cursor, number: int) -> tuple[str, tuple[str, Any]]:
    raw = cursor.string(f"key {number}")
    if not raw:
        raise BadGguf(f"key {number} has no name")
    # Invalid UTF-8 in a key is legal for llama.cpp, which compares bytes.
    name = raw.decode("utf-8", "surrogateescape")
    kind = cursor.number("I", 4, f"the type of key {name!r}")
    if kind == ARRAY:
        return name, _array(cursor, name)
    if kind == STRING:
        return name, ("string", cursor.string(f"key {name!r}"))
    if kind not in SCALARS:
        raise BadGguf(f"key {name!r} has unknown type {kind}")
    label, code, size = SCALARS[kind]
    if code == "?":  # any non-zero byte is true, as in C
        return name, (label, cursor.number("B", 1, f"key {name!r}") != 0)
    return name, (label, cursor.number(code, size, f"key {name!r}"))


def _array(cursor: _Cursor, name: str) -> tuple[str, Any]:
    kind = cursor.number("I", 4, f"array {name!r}")
    count = cursor.number("Q", 8, f"array {name!r}")
    if kind == STRING:
        if count > MAX_ITEMS:
            raise BadGguf(f"array {name!r} claims {count:,} strings")
        cursor.seen.array, cursor.seen.count = name, count
        cursor.seen.start, cursor.seen.done = cursor.at, 0
        if name == MERGES:  # up to half a million strings that nothing needs one by one
            lines = b"\n".join(_strings(cursor, name, count)).replace(b" ", b"\n")
            digest = hashlib.sha256(lines).hexdigest()
            return "array[string]", GgufArray("string", count, digest)
        if name in WANTED or count <= 64:
            return "array[string]", _strings(cursor, name, count)
        _skip_strings(cursor, name, count)
        return "array[string]", GgufArray("string", count)
    if kind not in SCALARS:
        raise BadGguf(f"array {name!r} has elements of unknown type {kind}")
    label, code, size = SCALARS[kind]
    if count > (MAX_ITEMS if name in WANTED else MAX_STRING):
        raise BadGguf(f"array {name!r} claims {count:,} elements")
    start = cursor.take(count * size, f"array {name!r}")
    if name not in WANTED and count > MAX_KEPT:
        return f"array[{label}]", GgufArray(label, count)
    values = array("B" if code == "?" else code)
    values.frombytes(cursor.data[start : start + count * size])
    return f"array[{label}]", values


def _strings(cursor: _Cursor, name: str, count: int) -> list[bytes]:
    """All strings of an array; the hot loop of the whole program."""
    data, at, size = cursor.data, cursor.at, cursor.size
    unpack = struct.Struct("<Q").unpack_from
    out: list[bytes] = []
    keep = out.append
    try:
        for _ in range(count):
            start = at + 8
            at = start + unpack(data, at)[0]
            if at > size:
                break
            keep(data[start:at])
    except struct.error:
        at = size
    if len(out) < count:
        cursor.seen.done, cursor.seen.at = len(out), size
        raise TruncatedGguf(f"string {len(out):,} of array {name!r}", at + 8, cursor.seen)
    if name == TOKENS:
        cursor.seen.tokens, cursor.seen.token_bytes = count, at - cursor.at
    cursor.at = at
    return out


def _skip_strings(cursor: _Cursor, name: str, count: int) -> None:
    data, at, size = cursor.data, cursor.at, cursor.size
    unpack = struct.Struct("<Q").unpack_from
    try:
        for _ in range(count):
            at += 8 + unpack(data, at)[0]
    except (struct.error, OverflowError):  # behind the end, or behind any end
        at = max(at, size) + 1
    if at > size:
        raise TruncatedGguf(f"a string of array {name!r}", at, cursor.seen)
    cursor.at = at


def _tensor(cursor: _Cursor, number: int) -> TensorInfo:
    name = cursor.string(f"tensor {number}").decode("utf-8", "surrogateescape")
    count = cursor.number("I", 4, f"tensor {name!r}")
    if count > 4:
        raise BadGguf(f"tensor {name!r} has {count:,} dimensions")
    dims = tuple(cursor.number("Q", 8, f"tensor {name!r}") for _ in range(count))
    kind = cursor.number("I", 4, f"tensor {name!r}")
    offset = cursor.number("Q", 8, f"tensor {name!r}")
    cursor.seen.tensors_done = number + 1
    return TensorInfo(name, dims, kind, offset)


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
        # Bytes of a merge: as a token, until enough merges were read to go by them.
        merge = (have - seen.start) / seen.done if seen.done else 18.0
        if seen.tokens and seen.done < 0.4 * seen.count:
            merge = seen.token_bytes / seen.tokens + 1
        end = seen.start + int(seen.count * merge * MARGIN) + rows + TAIL
    elif seen.array == MERGES or not seen.array:
        end = have + rows + TAIL
    return max(stop.need + STEP, end)
