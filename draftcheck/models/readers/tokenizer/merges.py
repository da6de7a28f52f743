"""The merges of a tokenizer.json flattened without a JSON parser.

They are written as "a b" texts or as ["a", "b"] pairs. Inside JSON strings a quote is always
escaped, so the separators, which the tokenizers library writes the same way throughout, can be
found with plain byte searches: half the time of making half a million lists. None where the
bytes are laid out otherwise.
"""

from __future__ import annotations

import json
import re

_OPEN = re.compile(rb'[ \t\r\n]*\[[ \t\r\n]*(\[[ \t\r\n]*)?"')
_CLOSE_TEXTS = re.compile(rb'"[ \t\r\n]*\][ \t\r\n]*\Z')
_CLOSE_PAIRS = re.compile(rb'"[ \t\r\n]*\][ \t\r\n]*\][ \t\r\n]*\Z')
_INNER = re.compile(rb'"[ \t\r\n]*,[ \t\r\n]*"')
_OUTER = re.compile(rb'"[ \t\r\n]*\][ \t\r\n]*,[ \t\r\n]*\[[ \t\r\n]*"')
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{4}(?:\\u[0-9a-fA-F]{4})*|.)")
_SIMPLE = {rb"\"": b'"', b"\\\\": b"\\", rb"\n": b"\n", rb"\t": b"\t", rb"\r": b"\r"}
_CONTROL = bytes(range(1, 32))
_LINES = bytes.maketrans(b"\0", b"\n")
_WORD_LINES = bytes.maketrans(b"\0 ", b"\n\n")
_TAIL = 4096
_SLICE = 24_000
"""Below 30,000 bytes CPython looks for a short pattern without preparing tables first."""
SPACE = "\u0120".encode()
"""llama.cpp's converter writes a space inside a part as the byte-level space sign."""


def flatten(array: bytes) -> bytes | None:
    """All parts of the JSON array in order, one per line."""
    opening = _OPEN.match(array)
    if opening is None:
        return None
    close = _CLOSE_PAIRS if opening[1] else _CLOSE_TEXTS
    end = close.search(array, max(0, len(array) - _TAIL))
    first = _STRING.match(array, opening.end() - 1)
    inner = _INNER.match(array, first.end() - 1) if first else None
    if end is None or inner is None:
        return None
    body = array[opening.end() : end.start()]
    parts = _parts(array, body, inner) if opening[1] else _replaced(body, inner[0])
    if parts is None or not _sound(parts) or b"\\u0000" in parts:  # a NUL would pass for ours
        return None
    try:
        plain = _plain(parts)
    except ValueError:
        return None
    return (
        plain.replace(b" ", SPACE).translate(_LINES) if opening[1] else plain.translate(_WORD_LINES)
    )


def _parts(array: bytes, body: bytes, inner: re.Match[bytes]) -> bytes | None:
    """The texts of all pairs with a NUL between them; each pair must have two."""
    second = _STRING.match(array, inner.end() - 1)
    outer = _OUTER.match(array, second.end() - 1) if second else None
    if outer is None:
        return None
    entries = _replaced(body, outer[0])
    parts = _replaced(entries, inner[0])
    pairs = (len(body) - len(entries)) // (len(outer[0]) - 1) + 1
    return parts if (len(entries) - len(parts)) // (len(inner[0]) - 1) == pairs else None


def _replaced(data: bytes, separator: bytes) -> bytes:
    """data.replace(separator, NUL), slice by slice: twice as fast."""
    done = []
    start = 0
    while len(data) - start > _SLICE:
        end = data.rfind(separator, start, start + _SLICE)
        if end <= start:  # a very long text
            break
        done.append(data[start:end].replace(separator, b"\0"))
        start = end
    done.append(data[start:].replace(separator, b"\0"))
    return b"".join(done)


def _sound(parts: bytes) -> bool:
    """No bare quote, no control character but our own, valid UTF-8."""
    if b'"' in parts and b'"' in parts.replace(b"\\\\", b"").replace(b'\\"', b""):
        return False
    if len(parts.translate(None, _CONTROL)) != len(parts):
        return False
    try:
        parts.decode()
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
