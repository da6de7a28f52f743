"""safetensors headers: length, JSON, offsets; the same demands as the Rust loader. Never data."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, NoReturn

from draftcheck.errors import PointerError, ReadError
from draftcheck.models.readers import jsonfile
from draftcheck.models.sources.source import ModelSource
from draftcheck.values.facts import Tensor

MAX_HEADER = 100_000_000
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "I16": 16, "U16": 16, "F16": 16,
    "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "F64": 64, "I64": 64, "U64": 64, "C64": 64,
}  # fmt: skip
WORDS = ("__metadata__", "dtype", "shape", "data_offsets")
"""Words of the format itself: the loader refuses them twice in one object."""


class UnsoundSafetensors(ReadError):
    """The bytes prove that no loader takes this file; says what, and what could be read."""

    def __init__(
        self,
        where: str,
        says: str,
        kind: str = "header",
        tensor: str | None = None,
        tensors: Mapping[str, Tensor] | None = None,
    ) -> None:
        super().__init__(f"{where}: {says}")
        self.says, self.kind, self.tensor, self.tensors = says, kind, tensor, tensors


def read(source: ModelSource, name: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of one file; Unsound says what is wrong where no loader takes it."""
    where = f"{source.label}/{name}"
    size = source.files()[name]
    try:
        first = source.read_range(name, 0, 8)
    except PointerError:
        first = b"version "
    if first == b"version ":
        raise UnsoundSafetensors(where, "a git-lfs pointer, not the weights", "pointer")
    if len(first) < 8:
        raise UnsoundSafetensors(
            where, f"{size} bytes is too short for a safetensors file", "cut-off"
        )
    (length,) = struct.unpack("<Q", first)
    if length > MAX_HEADER:
        raise UnsoundSafetensors(
            where, f"header claims {length:,} bytes; the loader's limit is 100,000,000"
        )
    if length > size - 8:
        says = f"cut off: header of {length:,} bytes in a file of {size:,}"
        raise UnsoundSafetensors(where, says, "cut-off")
    header = _json(source.read_range(name, 8, length), where)
    metadata = header.pop("__metadata__", None)
    metadata = {} if metadata is None else metadata
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise UnsoundSafetensors(where, "__metadata__ is not an object of texts")
    for key, value in metadata.items():
        _encodable(key + value, where)
    tensors, end = _tensors(header, name, where)
    told = 8 + length + end
    if size != told:
        cut = size < told
        says = f"{size:,} bytes, but its header describes {told:,} ("
        says += f"cut off, {told - size:,} missing)" if cut else "something follows the tensors)"
        raise UnsoundSafetensors(where, says, "cut-off" if cut else "trailing", tensors=tensors)
    return tensors, metadata


def _json(data: bytes, where: str) -> dict[str, Any]:
    if jsonfile.crowded(data):
        raise ReadError(f"{where}: header of more than {jsonfile.MAX_ITEMS:,} items")
    try:
        jsonfile.guard_stack(data)
        header = json.loads(str(data, "utf-8"), parse_constant=_no_constant)
        if isinstance(header, dict) and _doubled(header, data):
            json.loads(data, object_pairs_hook=_object)
    except (ValueError, RecursionError, MemoryError) as error:
        raise UnsoundSafetensors(where, f"header is not usable JSON: {str(error)[:120]}") from None
    if not isinstance(header, dict):
        raise UnsoundSafetensors(where, f"header is a {type(header).__name__}, not an object")
    if b"\\u" in data:  # the only way to write half a character
        for name in header:
            _encodable(name, where)
    return header


def _doubled(header: dict[str, Any], data: bytes) -> bool:
    """Whether one of the format's words may stand twice in one object; then it is looked up."""
    most = len(header) - ("__metadata__" in header)
    return data.count(b'"__metadata__"') > 1 or any(
        data.count(f'"{word}"'.encode()) > most for word in WORDS[1:]
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A tensor may stand twice, the last one counts; the loader's own words may not."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        for word in WORDS:
            if names.count(word) > 1:
                raise ValueError(f"{word} stands twice")
    return found


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _tensors(header: dict[str, Any], file: str, where: str) -> tuple[dict[str, Tensor], int]:
    """The hot loop of a model with many experts: plain entries first, odd ones with care."""
    spans: list[tuple[int, int, str]] = []
    tensors: dict[str, Tensor] = {}
    bits_of = BITS.get
    for name, entry in header.items():
        try:
            dtype, shape = entry["dtype"], entry["shape"]
            start, stop = entry["data_offsets"]
            bits = bits_of(dtype, 0)
            for side in shape:
                bits = bits * side if type(side) is int and side > 0 else -1
            plain = type(shape) is list and type(start) is int and type(stop) is int
            plain = plain and start >= 0 and 0 < bits == (stop - start) * 8 and stop < 2**61
        except (TypeError, ValueError, KeyError):
            plain = False
        if plain:
            tensors[name] = Tensor(dtype, tuple(shape), file, stop - start)
        else:
            tensors[name], start, stop = _tensor(name, entry, file, where)
        spans.append((start, stop, name))
    spans.sort()
    end, before = 0, ""
    for start, stop, name in spans:
        if start != end:
            kind = "overlaps the tensor before it" if start < end else "leaves a hole before it"
            says = f"tensor {name[:80]!r} {kind} (byte {start:,}, not {end:,}"
            says += f", where {before[:80]!r} ends)" if before else ")"
            raise UnsoundSafetensors(where, says, "span", name, tensors)
        end, before = stop, name
    return tensors, end


def _encodable(text: str, where: str) -> None:
    """The loader's texts are UTF-8: no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnsoundSafetensors(where, f"{text[:80]!r} is not a text") from None


def _tensor(name: str, entry: Any, file: str, where: str) -> tuple[Tensor, int, int]:
    def unsound(says: str) -> NoReturn:
        raise UnsoundSafetensors(where, f"tensor {name[:80]!r} {says}", "header", name)

    if not isinstance(entry, dict):
        unsound(f"is a {type(entry).__name__}, not an object")
    dtype, shape, offsets = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(shape, list) or not isinstance(offsets, list) or len(offsets) != 2:
        unsound("lacks a shape or two offsets")
    if not all(type(number) is int and 0 <= number < 2**64 for number in (*shape, *offsets)):
        unsound("has impossible shape or offsets")
    if not isinstance(dtype, str) or dtype not in BITS:
        shown = dtype[:40] if isinstance(dtype, str) else type(dtype).__name__
        unsound(f"has unknown dtype {shown!r}")
    start, stop = offsets
    bits = 1
    for side in (*shape, BITS[dtype]):
        bits *= side
        if bits >= 2**64:  # here the loader's product overflows
            bits = -1
            break
    if bits < 0 or bits % 8 or bits // 8 != stop - start:
        sides = " x ".join(map(str, shape[:8]))
        unsound(f"of {dtype} [{sides}] does not take {stop - start:,} bytes")
    return Tensor(dtype, tuple(shape), file, stop - start), start, stop
