"""What the tensors of a head say: names and shapes, and the content of the small id tables.

Tables of ids (d2t, t2d) are read by range from safetensors files; nothing else is.
"""

from __future__ import annotations

import json
import re
import struct
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from draftcheck.errors import ReadError
from draftcheck.models.sources.source import ModelSource
from draftcheck.values.facts import Tensor

MAX_TABLE = 1 << 21
"""Ids in a table; no vocabulary has more."""
WIDTHS = {"I64": "q", "I32": "i", "BOOL": "B", "U8": "B"}
D2T = ("d2t", "model.d2t")
T2D = ("t2d", "model.t2d")
FC = ("fc.weight", "model.fc.weight")
LM_HEAD = ("lm_head.weight", "model.lm_head.weight", "language_model.lm_head.weight")
LAYER = re.compile(r"(?:language_model\.)?model\.(?:language_model\.)?layers\.(\d{1,6})\.")
MTP = re.compile(r"(?:.+\.)?(?:mtp\.layers|mtp_layers|mtp_block)\.(\d{1,6})\..+")
NEXTN = re.compile(r"blk\.(\d{1,6})\.nextn\..+")
SIGNS = ("mtp", "nextn", "eh_proj", "enorm")
MEDUSA = re.compile(r"(?:medusa_heads?\.|heads?\.|blocks\.)?(\d{1,4})\..+")


@dataclass(frozen=True, slots=True)
class IdTable:
    """What the table from the head's own ids to the target's holds; never the ids themselves."""

    fault: str = ""
    sorted: bool | None = None
    last: int | None = None


def find(tensors: Mapping[str, Tensor] | None, names: Sequence[str]) -> Tensor | None:
    return next((tensors[name] for name in names if name in tensors), None) if tensors else None


def length(tensors: Mapping[str, Tensor] | None, names: Sequence[str]) -> int | None:
    """Entries of a table; 0 when the weights are listed and have none, None when not read."""
    if tensors is None:
        return None
    tensor = find(tensors, names)
    if tensor is None:
        return 0
    return tensor.shape[0] if len(tensor.shape) == 1 else None


def mtp_layers(tensors: Mapping[str, Tensor] | None, layers: int | None) -> int | None:
    """Multi-token-prediction layers among the names; None where no known spelling tells."""
    if tensors is None:
        return None
    found = {match[1] for name in tensors if (match := MTP.fullmatch(name) or NEXTN.match(name))}
    if layers is not None:
        numbers = (int(match[1]) for name in tensors if (match := LAYER.match(name)))
        found |= {f"layer {number}" for number in numbers if number >= layers}
    elif not found:
        return None
    if not found and any(sign in name for name in tensors for sign in SIGNS):
        return None
    return len(found)


def medusa_heads(tensors: Mapping[str, Tensor] | None) -> int | None:
    numbers = {match[1] for name in tensors or () if (match := MEDUSA.fullmatch(name))}
    return len(numbers) or None


def table(source: ModelSource, tensors: Mapping[str, Tensor] | None) -> IdTable | None:
    """Read d2t, and t2d where there is one; None when they cannot be read."""
    named = _named(tensors, D2T)
    if named is None or tensors is None:
        return None
    offsets = _numbers(source, tensors, named)
    if offsets is None:
        return None
    other = _named(tensors, T2D)
    return judge(offsets, _numbers(source, tensors, other) if other else None)


def judge(offsets: Sequence[int], kept: Sequence[int] | None) -> IdTable:
    """target id = own id + offset: distinct, not negative, and the ids that t2d marks."""
    ids = [i + offset for i, offset in enumerate(offsets)]
    last = max(ids, default=None)
    bad = next((i for i, number in enumerate(ids) if number < 0), None)
    if bad is not None:
        return IdTable(f"draft id {bad} becomes the target id {ids[bad]}", None, None)
    rising = all(a < b for a, b in pairwise(ids))
    if not rising:
        seen: dict[int, int] = {}
        for i, number in enumerate(ids):
            if seen.setdefault(number, i) != i:
                return IdTable(
                    f"draft ids {seen[number]} and {i} both become {number}", False, last
                )
    if kept is None:
        return IdTable("", rising, last)
    return IdTable(_against(set(ids), kept), rising, last)


def _against(ids: set[int], kept: Sequence[int]) -> str:
    marked = {i for i, flag in enumerate(kept) if flag}
    if extra := ids - marked:
        return f"d2t leads to the target id {min(extra)}, which t2d does not mark"
    if extra := marked - ids:
        return f"t2d marks the target id {min(extra)}, to which d2t does not lead"
    return ""


def _named(tensors: Mapping[str, Tensor] | None, names: Sequence[str]) -> str | None:
    return next((name for name in names if tensors and name in tensors), None)


def _numbers(source: ModelSource, tensors: Mapping[str, Tensor], name: str) -> Sequence[int] | None:
    """A small vector of whole numbers; None for anything else."""
    tensor = tensors[name]
    code = WIDTHS.get(tensor.dtype)
    if code is None or len(tensor.shape) != 1 or tensor.shape[0] > MAX_TABLE:
        return None
    try:
        start = _start(source, tensor.file, name)
        data = source.read_range(tensor.file, start, tensor.nbytes or 0) if start else b""
    except (ReadError, ValueError, TypeError, KeyError, struct.error, RecursionError):
        return None
    numbers = array(code)
    if len(data) != tensor.shape[0] * numbers.itemsize:
        return None
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _start(source: ModelSource, file: str, name: str) -> int:
    """Where the tensor's data begins; the header was found sound when the weights were read."""
    (header,) = struct.unpack("<Q", source.read_range(file, 0, 8))
    entries = json.loads(source.read_range(file, 8, header))
    return 8 + int(header) + int(entries[name]["data_offsets"][0])
