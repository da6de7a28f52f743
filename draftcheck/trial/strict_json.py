"""Reads JSON files that somebody may have edited: a wrong one is told in a line, by file and key.

The shape of a file is a type that msgspec checks; the types below bound texts and numbers, so that
NaN, infinity and nonsense stay outside.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Never, TypeVar

import msgspec
from msgspec import Meta

from draftcheck.errors import ReadError

LARGEST = 10**15
Text = Annotated[str, Meta(max_length=4096)]
Whole = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]
Number = Annotated[int, Meta(ge=0, le=LARGEST)] | Annotated[float, Meta(ge=0, le=LARGEST)]
AboveZero = Annotated[int, Meta(gt=0, le=LARGEST)] | Annotated[float, Meta(gt=0, le=LARGEST)]

T = TypeVar("T")


def load(file: Path, what: str, max_bytes: int) -> Any:
    """What the file holds, of any shape; what: names the kind of file in errors."""
    try:
        with file.open("rb") as handle:
            raw = handle.read(max_bytes + 1)
    except OSError as error:
        raise ReadError(f"{file}: {error.strerror}") from error
    if len(raw) > max_bytes:
        raise ReadError(f"{file}: more than {max_bytes:,} bytes: not {what}")
    try:
        text = raw.decode(json.detect_encoding(raw))
        found = json.loads(text, parse_constant=_refuse)
        if "\\ud" in text or "\\uD" in text:  # perhaps half a character, which nobody can print
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except (ValueError, RecursionError) as error:
        raise ReadError(f"{file}: not {what}: not JSON: {error}") from error


def convert(found: Any, shape: type[T], where: str, what: str) -> T:
    """The same as an object of that shape."""
    try:
        return msgspec.convert(found, shape, str_keys=True)
    except (msgspec.ValidationError, RecursionError) as error:
        # "Expected … - at `$.notes[1]`" -> "notes[1]: expected …"
        words, _, place = str(error).replace("`", "").partition(" - at ")
        words = words[:1].lower() + words[1:]
        if place := place.replace("$.", "").removeprefix("$"):
            words = f"{place}: {words}"
        raise ReadError(f"{where}: not {what}: {words}") from error


def _refuse(constant: str) -> Never:
    raise ValueError(f"{constant} is not a number")
