"""Tensor tables folded by pattern: one row for model.layers.0-79.mlp.up_proj.weight.

Nothing is lost but the file that each tensor lies in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from draftcheck.errors import ReadError
from draftcheck.judge.condensed import id_ranges
from draftcheck.values.facts import Tensor

NUMBER = re.compile(r"(?<=\.)(0|[1-9]\d{0,6})(?=\.|$)")
MOST = 1 << 21


def fold(tensors: Mapping[str, Tensor]) -> list[list[Any]]:
    """[pattern, [ranges per number …], dtype, shape, bytes where they are not what dtype says]"""
    groups: dict[tuple[Any, ...], list[tuple[int, ...]]] = {}
    for name, tensor in tensors.items():
        numbers = tuple(int(n) for n in NUMBER.findall(name))
        pattern = NUMBER.sub("*", name.replace("*", "**"))
        key = (pattern, tensor.dtype, tensor.shape, tensor.nbytes)
        groups.setdefault(key, []).append(numbers)
    rows = []
    for (pattern, dtype, shape, nbytes), found in groups.items():
        for block in _blocks(found):
            sides = [id_ranges.pack(side) for side in block]
            rows.append([pattern, sides, dtype, list(shape), nbytes])
    return rows


def _blocks(found: list[tuple[int, ...]]) -> list[list[list[int]]]:
    """Products of sets of numbers that together are what was found."""
    if not found[0]:
        return [[]] * len(found)
    if len(found[0]) == 1:
        return [[sorted(number for (number,) in found)]]
    # Rows with the same rest share a block: experts 0-255 of layers 3-60.
    rests: dict[int, list[tuple[int, ...]]] = {}
    for first, *rest in found:
        rests.setdefault(first, []).append(tuple(rest))
    same: dict[frozenset[tuple[int, ...]], list[int]] = {}
    for first, others in rests.items():
        same.setdefault(frozenset(others), []).append(first)
    return [
        [sorted(firsts), *block]
        for others, firsts in same.items()
        for block in _blocks(sorted(others))
    ]


class FoldedTensors(Mapping[str, Tensor]):
    """The tensors again, spelled out when they are first looked at."""

    def __init__(self, rows: list[list[Any]], where: str) -> None:
        self._rows, self._where = rows, where
        self._count = sum(_count(row, where) for row in rows)
        if self._count > MOST:
            raise ReadError(f"{where}: {self._count:,} tensors are not sensible")
        self._whole: dict[str, Tensor] | None = None

    def _tensors(self) -> dict[str, Tensor]:
        if self._whole is None:
            self._whole = dict(pair for row in self._rows for pair in _spelled(row, self._where))
        return self._whole

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors())

    def __len__(self) -> int:
        return self._count


def unfold(rows: object, where: str) -> FoldedTensors:
    if not isinstance(rows, list):
        raise ReadError(f"{where}: not a list of tensors")
    return FoldedTensors(rows, where)


def _count(row: object, where: str) -> int:
    sound = (
        isinstance(row, list)
        and len(row) == 5
        and isinstance(row[0], str)
        and isinstance(row[1], list)
        and isinstance(row[2], str)
        and isinstance(row[3], list)
        and all(type(side) is int and 0 <= side < 1 << 60 for side in row[3])
        and len(row[3]) <= 64
        and (row[4] is None or (type(row[4]) is int and 0 <= row[4] < 1 << 80))
    )
    if not sound or not isinstance(row, list):
        raise ReadError(f"{where}: {str(row)[:80]!r} is no row of tensors")
    if len(row[1]) != len(_stars(row[0])):
        raise ReadError(f"{where}: {row[0][:80]!r} and its ranges do not fit")
    return math.prod(len(id_ranges.unpack(side, where, MOST)) for side in row[1])


def _stars(pattern: str) -> list[str]:
    return re.findall(r"(?<!\*)\*(?!\*)", pattern)


def _spelled(row: list[Any], where: str) -> Iterator[tuple[str, Tensor]]:
    pattern, sides, dtype, shape, nbytes = row
    tensor = Tensor(dtype, tuple(shape), "", nbytes)
    parts = [part.replace("**", "*") for part in re.split(r"(?<!\*)\*(?!\*)", pattern)]
    for numbers in product(*(id_ranges.unpack(side, where, MOST) for side in sides)):
        words = [parts[0]]
        for number, part in zip(numbers, parts[1:], strict=True):
            words += [str(number), part]
        yield "".join(words), tensor
