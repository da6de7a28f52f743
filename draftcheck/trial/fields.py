"""Fields of a JSON object that somebody may have edited: each read is checked and says where."""

from __future__ import annotations

from typing import Any

from draftcheck.errors import ReadError

LONGEST = 4096
"""Characters of a text."""
LARGEST = 1e15


class SavedFields:
    def __init__(self, found: Any, where: str) -> None:
        if not isinstance(found, dict):
            raise ReadError(f"{where}: not the result of a trial")
        self._found: dict[str, Any] = found
        self._where = where

    def _wrong(self, name: str, wanted: str) -> ReadError:
        return ReadError(f"{self._where}: {name} is missing or not {wanted}")

    def has(self, name: str) -> bool:
        return self._found.get(name) not in (None, {})

    def text(self, name: str) -> str:
        value = self._found.get(name)
        if not isinstance(value, str) or len(value) > LONGEST:
            raise self._wrong(name, "a text")
        return value

    def maybe_text(self, name: str) -> str | None:
        return self.text(name) if self.has(name) else None

    def number(self, name: str) -> float:
        value = self._found.get(name)
        if not isinstance(value, int | float) or not _number(value):
            raise self._wrong(name, "a number from 0 on")
        return value

    def above_zero(self, name: str) -> float:
        if not (value := self.number(name)):
            raise self._wrong(name, "a number above 0")
        return value

    def maybe(self, name: str) -> float | None:
        return self.number(name) if self.has(name) else None

    def whole(self, name: str) -> int:
        value = self._found.get(name)
        if type(value) is not int or abs(value) > LARGEST:
            raise self._wrong(name, "a whole number")
        return value

    def maybe_whole(self, name: str) -> int | None:
        return self.whole(name) if self.has(name) else None

    def maybe_flag(self, name: str) -> bool | None:
        value = self._found.get(name)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def interval(self, name: str) -> tuple[float, float] | None:
        if self._found.get(name) is None:
            return None
        values = self.numbers(name, 2)
        if len(values) != 2 or values[0] > values[1]:
            raise self._wrong(name, "an interval of two numbers")
        return values[0], values[1]

    def numbers(self, name: str, most: int) -> tuple[float, ...]:
        value = self._found.get(name)
        if not isinstance(value, list) or len(value) > most or not all(map(_number, value)):
            raise self._wrong(name, "a list of numbers")
        return tuple(value)

    def texts(self, name: str, most: int) -> tuple[str, ...]:
        value = self._found.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise self._wrong(name, "a list of texts")
        return tuple(SavedFields({name: entry}, self._where).text(name) for entry in value)

    def inside(self, name: str) -> SavedFields:
        value = self._found.get(name)
        if not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return SavedFields(value, f"{self._where}: {name}")

    def rows(self, name: str, most: int) -> list[SavedFields]:
        value = self._found.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise self._wrong(name, "a list of objects")
        return [SavedFields(entry, f"{self._where}: {name}[{i}]") for i, entry in enumerate(value)]

    def named(self, name: str) -> dict[str, SavedFields]:
        inside = self.inside(name)
        return {key[:LONGEST]: inside.inside(key) for key in inside._found}

    def widths(self, name: str, most: int) -> dict[int, float]:
        """Numbers by a whole number that is written as a text."""
        inside = self.inside(name)
        keys = list(inside._found)
        if len(keys) > most or not all(key.isascii() and key.isdigit() for key in keys):
            raise self._wrong(name, "numbers by width")
        return {int(key[:9]): inside.number(key) for key in keys}


def _number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= LARGEST  # which NaN is not
