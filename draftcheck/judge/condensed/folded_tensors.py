"""Tensor tables folded by pattern: one row for model.layers.0-79.mlp.up_proj.weight.

Nothing is lost but the file that each tensor lies in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import chain, product
from typing import Annotated, Any

from msgspec import Meta, Struct

from draftcheck.errors import ReadError
from draftcheck.judge.condensed import decode, id_spans, pack_ids
from draftcheck.values.facts import Tensor

NUMBER = re.compile(r"(?<=\.)(0|[1-9]\d{0,6})(?=\.|$)")
HIGHEST = 10**7
"""One more than the largest number that NUMBER finds."""
STAR = re.compile(r"(?<!\*)\*(?!\*)")
MOST = 1 << 19
"""Tensors of one model: more than twice as many as the largest known."""
MOST_LETTERS = 1 << 27
"""Of all their names together."""


class TensorRow(Struct, array_like=True, forbid_unknown_fields=True):
    """Tensors whose names differ in numbers only; a star of the pattern stands for each number."""

    pattern: str
    ranges: list[str]
    dtype: str
    shape: Annotated[tuple[Annotated[int, Meta(ge=0, lt=1 << 60)], ...], Meta(max_length=64)]
    nbytes: Annotated[int, Meta(ge=0, lt=1 << 62)] | None


def fold(tensors: Mapping[str, Tensor]) -> list[list[Any]]:
    """Rows as TensorRow reads them."""
    groups: dict[tuple[Any, ...], list[tuple[int, ...]]] = {}
    for name, tensor in tensors.items():
        numbers = tuple(int(n) for n in NUMBER.findall(name))
        pattern = NUMBER.sub("*", name.replace("*", "**"))
        key = (pattern, tensor.dtype, tensor.shape, tensor.nbytes)
        groups.setdefault(key, []).append(numbers)
    rows = []
    for (pattern, dtype, shape, nbytes), found in groups.items():
        for block in _blocks(found):
            sides = [pack_ids(side) for side in block]
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

    def __init__(self, entry: object, where: str) -> None:
        self._rows: list[tuple[TensorRow, list[list[range]]]] = []
        self._count = letters = 0
        for row in decode(entry, list[TensorRow], f"{where}: tensors"):
            sides = [id_spans(side, where, HIGHEST) for side in row.ranges]
            if len(sides) != len(STAR.findall(row.pattern)) or not all(sides):
                raise ReadError(f"{where}: {row.pattern[:80]!r} and its ranges do not fit")
            count = math.prod(sum(map(len, side)) for side in sides)
            self._count += count
            letters += count * len(row.pattern)
            if self._count > MOST or letters > MOST_LETTERS:
                raise ReadError(f"{where}: so many tensors, or such long names, are not sensible")
            self._rows.append((row, sides))

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        whole = {}
        for row, sides in self._rows:
            tensor = Tensor(row.dtype, row.shape, "", row.nbytes)
            first, *parts = (part.replace("**", "*") for part in STAR.split(row.pattern))
            for numbers in product(*(chain.from_iterable(side) for side in sides)):
                words = (f"{number}{part}" for number, part in zip(numbers, parts, strict=True))
                whole[first + "".join(words)] = tensor
        return whole

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return self._count
