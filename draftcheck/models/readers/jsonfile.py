"""JSON from untrusted files: bounded, strict about the top level, errors that name the file."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from draftcheck.errors import ReadError
from draftcheck.models.sources.source import ModelSource

MAX_CONFIG = 16 * 1024 * 1024
MAX_TOKENIZER = 64 * 1024 * 1024
MAX_ITEMS = 1 << 22
"""Twice what the largest tokenizers need; an empty list takes thirty times its text in memory."""
HARMLESS = 8 * 1024 * 1024
MAX_DEPTH = 64
STACK = 2000
"""Levels that a browser's stack is sure to hold."""
STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def parse(data: bytes, where: str) -> Any:
    """Decode JSON text; every way it can be bad becomes a ReadError."""
    if data[:4] == b"vers" and data.startswith(b"version https://git-lfs"):
        raise ReadError(
            f"{where}: a git-lfs pointer, not the file itself",
            hint="Fetch the real files: git lfs pull.",
        )
    if crowded(data):
        raise ReadError(f"{where}: more than {MAX_ITEMS:,} items")
    try:
        guard_stack(data)
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass  # json accepts more (NaN, lone surrogates), and says where the rest is broken
    try:
        guard_stack(data)
        # Not json.loads(data): that would let UTF-16 pass, which no engine reads.
        return json.loads(str(data, "utf-8"))
    except RecursionError:
        raise ReadError(f"{where}: nested too deeply to be a model's file") from None
    except MemoryError:
        raise ReadError(f"{where}: too large for the memory of this machine") from None
    except UnicodeDecodeError as error:
        raise ReadError(f"{where}: not UTF-8 text (byte {error.start:,})") from None
    except json.JSONDecodeError as error:
        raise ReadError(
            f"{where}: not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        ) from None
    except ValueError as error:  # integers of more than 4,300 digits
        raise ReadError(f"{where}: not usable JSON: {error}") from None


def read_object(source: ModelSource, name: str, limit: int = MAX_CONFIG) -> dict[str, Any] | None:
    """The JSON object in a file; None when there is no such file."""
    if name not in source.files():
        return None
    where = f"{source.label}/{name}"
    value = parse(source.read(name, limit), where)
    return shallow_object(value, where)


def crowded(data: bytes) -> bool:
    """Whether the text may hold more values than any real file; commas in strings count too."""
    if len(data) <= HARMLESS:
        return False
    return data.count(b",") > MAX_ITEMS or data.count(b"[") + data.count(b"{") > MAX_ITEMS


def guard_stack(data: bytes) -> None:
    """In a browser, a RecursionError before the decoder runs: its own overflow ends Python there.

    Brackets are taken out in pairs, the innermost first, in all of the text and then without its
    strings, which hold brackets of their own.
    """
    if (
        sys.platform == "emscripten"
        and _left(data) > STACK
        and _left(STRINGS.sub(b"", data)) > STACK
    ):
        raise RecursionError("maximum recursion depth exceeded")


def _left(data: bytes) -> int:
    """Opening brackets that do not close within a depth that any real file has."""
    if (most := data.count(b"[") + data.count(b"{")) <= STACK:
        return most
    brackets = data.translate(None, NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return brackets.count(b"[") + brackets.count(b"{")


def shallow_object(value: Any, where: str) -> dict[str, Any]:
    """The value, if it is an object that recursive functions can walk safely."""
    if not isinstance(value, dict):
        raise ReadError(f"{where}: a JSON object was expected, not a {type(value).__name__}")
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not level:
            return value
    raise ReadError(f"{where}: nested too deeply to be a model's file")


def integer(value: Any) -> int | None:
    """A plain non-negative whole number, else None; true is not 1, and 1e30 is not a size."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 2**40 else None


def first_integer(places: Iterable[Mapping[str, Any]], *names: str) -> int | None:
    """The first such number under one of these names, place by place."""
    found = (integer(place.get(name)) for place in places for name in names)
    return next((number for number in found if number is not None), None)


def text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
