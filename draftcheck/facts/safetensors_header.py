"""safetensors headers: length, JSON, offsets; the same demands as the Rust loader. Never data."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

from draftcheck.errors import ReadError
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
    try:
        header = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ReadError(f"{where}: header is not usable JSON: {str(error)[:120]}") from None
    if not isinstance(header, dict):
        raise ReadError(f"{where}: header is a {type(header).__name__}, not an object")
    return header


def _tensors(header: dict[str, Any], file: str, where: str) -> tuple[dict[str, Tensor], int]:
    spans: list[tuple[int, int, str]] = []
    tensors: dict[str, Tensor] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
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


def _tensor(name: str, entry: Any, file: str, where: str) -> tuple[Tensor, int, int]:
    try:
        dtype, shape, (start, stop) = entry["dtype"], entry["shape"], entry["data_offsets"]
        numbers = [*shape, start, stop]
    except (TypeError, KeyError, ValueError):
        raise ReadError(f"{where}: tensor {name[:80]!r} lacks dtype, shape or offsets") from None
    if not all(type(number) is int and 0 <= number < 2**63 for number in numbers):
        raise ReadError(f"{where}: tensor {name[:80]!r} has impossible shape or offsets")
    if dtype not in BITS:
        raise ReadError(f"{where}: tensor {name[:80]!r} has unknown dtype {str(dtype)[:40]!r}")
    bits = math.prod(shape) * BITS[dtype]
    if bits % 8 or bits // 8 != stop - start:
        raise ReadError(
            f"{where}: tensor {name[:80]!r} of {dtype} {shape} does not take {stop - start:,} bytes"
        )
    return Tensor(dtype, tuple(shape), file, stop - start), start, stop
