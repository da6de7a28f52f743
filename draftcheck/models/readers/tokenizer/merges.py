"""The merges of a tokenizer.json written as ["a", "b"] pairs, flattened without a JSON parser.

Inside JSON strings a quote is always escaped, so the two separators, which the tokenizers
library writes the same way throughout, can be found with plain byte searches: half the time
of making half a million lists. None where the bytes are laid out otherwise.
"""

from __future__ import annotations

import json
import re

_OPEN = re.compile(rb'[ \t\r\n]*\[[ \t\r\n]*"')
_CLOSE = re.compile(rb'"[ \t\r\n]*\][ \t\r\n]*\Z')
_INNER = re.compile(rb'"[ \t\r\n]*,[ \t\r\n]*"')
_OUTER = re.compile(rb'"[ \t\r\n]*\][ \t\r\n]*,[ \t\r\n]*\[[ \t\r\n]*"')
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{4}(?:\\u[0-9a-fA-F]{4})*|.)")
_SIMPLE = {rb"\"": b'"', b"\\\\": b"\\", rb"\n": b"\n", rb"\t": b"\t", rb"\r": b"\r"}
_CONTROL = bytes(range(32))
_TAIL = 4096
SPACE = "\u0120".encode()
"""llama.cpp's converter writes a space inside a part as the byte-level space sign."""


def flatten(region: bytes) -> bytes | None:
    """All parts in order, one per line."""
    opening = _OPEN.match(region)
    end = _CLOSE.search(region, max(0, len(region) - _TAIL))
    if opening is None or end is None:
        return None
    separators = _separators(region, opening.end() - 1)
    if separators is None:
        return None
    inner, outer = separators
    entries = region[opening.end() : end.start()].replace(outer, b"\0")
    if entries.count(b"\0") + 1 != entries.count(inner):  # each entry has two parts
        return None
    parts = entries.replace(inner, b"\0")
    if not _sound(parts) or b"\\u0000" in parts:  # a NUL of its own would pass for ours
        return None
    try:
        return _plain(parts).replace(b" ", SPACE).replace(b"\0", b"\n")
    except ValueError:
        return None


def _separators(region: bytes, at: int) -> tuple[bytes, bytes] | None:
    """What stands between two parts, and between two entries, read off the first ones."""
    first = _STRING.match(region, at)
    inner = _INNER.match(region, first.end() - 1) if first else None
    second = _STRING.match(region, inner.end() - 1) if inner else None
    outer = _OUTER.match(region, second.end() - 1) if second else None
    return (inner[0], outer[0]) if inner and outer else None


def _sound(parts: bytes) -> bool:
    """No bare quote, no control character but our own, valid UTF-8."""
    if b'"' in parts and b'"' in parts.replace(b"\\\\", b"").replace(b'\\"', b""):
        return False
    bare = parts.replace(b"\0", b"")
    if len(bare.translate(None, _CONTROL)) != len(bare):
        return False
    try:
        bare.decode()
    except UnicodeDecodeError:
        return False
    return True


def _plain(text: bytes) -> bytes:
    return _ESCAPE.sub(_unescape, text) if b"\\" in text else text


def _unescape(match: re.Match[bytes]) -> bytes:
    escape = match[0]
    if escape in _SIMPLE:
        return _SIMPLE[escape]
    plain: str = json.loads(b'"' + escape + b'"')
    return plain.encode("utf-8", "surrogatepass")
