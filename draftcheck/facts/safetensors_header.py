"""safetensors headers: length, JSON, offsets; the same demands as the Rust loader. Never data."""

from __future__ import annotations

import json
import struct
from typing import Any, NoReturn

from draftcheck.errors import ReadError
from draftcheck.facts import jsonfile
from draftcheck.sources import Source
from draftcheck.types import Tensor

MAX_HEADER = 100_000_000
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "I16": 16, "U16": 16, "F16": 16,
    "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "F64": 64, "I64": 64, "U64": 64, "C64": 64,
}  # fmt: skip


def read(source: Source, name: str) -> dict[str, Tensor]:
    """Tensors of one file; a ReadError says what is wrong with an unsound one."""
    where = f"{source.label}/{name}"
    size = source.files()[name]
    first = source.read_range(name, 0, 8)
    if first == b"version ":
        raise ReadError(
            f"{where}: a git-lfs pointer, not the weights", hint="Fetch them: git lfs pull."
        )
    if len(first) < 8:
        raise ReadError(f"{where}: {size} bytes is too short for a safetensors file")
    (length,) = struct.unpack("<Q", first)
    if length > MAX_HEADER:
        raise ReadError(
            f"{where}: header claims {length:,} bytes; the loader's limit is 100,000,000"
        )
    if length > size - 8:
        raise ReadError(f"{where}: cut off: header of {length:,} bytes in a file of {size:,}")
    header = _json(source.read_range(name, 8, length), where)
    tensors, end = _tensors(header, name, where)
    if size != 8 + length + end:
        raise ReadError(
            f"{where}: {size:,} bytes, but its header describes {8 + length + end:,}"
            f" ({'cut off' if size < 8 + length + end else 'something follows the tensors'})"
        )
    return tensors


def _json(data: bytes, where: str) -> dict[str, Any]:
    if jsonfile.crowded(data):
        raise ReadError(f"{where}: header of more than {jsonfile.MAX_ITEMS:,} items")
    try:
        header = json.loads(
            str(data, "utf-8"), object_pairs_hook=_object, parse_constant=_no_constant
        )
    except (ValueError, RecursionError, MemoryError) as error:
        raise ReadError(f"{where}: header is not usable JSON: {str(error)[:120]}") from None
    if not isinstance(header, dict):
        raise ReadError(f"{where}: header is a {type(header).__name__}, not an object")
    return header


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A tensor may stand twice, the last one counts; the loader's own words may not."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        for word in ("__metadata__", "dtype", "shape", "data_offsets"):
            if names.count(word) > 1:
                raise ValueError(f"{word} stands twice")
    return found


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _tensors(header: dict[str, Any], file: str, where: str) -> tuple[dict[str, Tensor], int]:
    spans: list[tuple[int, int, str]] = []
    tensors: dict[str, Tensor] = {}
    _metadata(header.get("__metadata__"), where)
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        _encodable(name, where)
        tensor, start, stop = _tensor(name, entry, file, where)
        spans.append((start, stop, name))
        tensors[name] = tensor
    end = 0
    for start, stop, name in sorted(spans):
        if start != end:
            kind = "overlaps the tensor before it" if start < end else "leaves a hole before it"
            raise ReadError(f"{where}: tensor {name[:80]!r} {kind} (byte {start:,}, not {end:,})")
        end = stop
    return tensors, end


def _metadata(entries: Any, where: str) -> None:
    if entries is None:
        return
    if not isinstance(entries, dict) or not all(isinstance(v, str) for v in entries.values()):
        raise ReadError(f"{where}: __metadata__ is not an object of texts")
    for name, value in entries.items():
        _encodable(name + value, where)


def _encodable(text: str, where: str) -> None:
    """The loader's texts are UTF-8: no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ReadError(f"{where}: {text[:80]!r} is not a text") from None


def _tensor(name: str, entry: Any, file: str, where: str) -> tuple[Tensor, int, int]:
    what = f"{where}: tensor {name[:80]!r}"
    if not isinstance(entry, dict):
        raise ReadError(f"{what} is a {type(entry).__name__}, not an object")
    dtype, shape, offsets = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(shape, list) or not isinstance(offsets, list) or len(offsets) != 2:
        raise ReadError(f"{what} lacks a shape or two offsets")
    if not all(type(number) is int and 0 <= number < 2**64 for number in (*shape, *offsets)):
        raise ReadError(f"{what} has impossible shape or offsets")
    if not isinstance(dtype, str) or dtype not in BITS:
        shown = dtype[:40] if isinstance(dtype, str) else type(dtype).__name__
        raise ReadError(f"{what} has unknown dtype {shown!r}")
    start, stop = offsets
    bits = _bits(shape, dtype)
    if bits is None or bits % 8 or bits // 8 != stop - start:
        sides = " x ".join(map(str, shape[:8]))
        raise ReadError(f"{what} of {dtype} [{sides}] does not take {stop - start:,} bytes")
    return Tensor(dtype, tuple(shape), file, stop - start), start, stop


def _bits(shape: list[int], dtype: str) -> int | None:
    """Size in bits; None where the loader's 64-bit product overflows, in its order."""
    count = 1
    for side in (*shape, BITS[dtype]):
        count *= side
        if count >= 2**64:
            return None
    return count
