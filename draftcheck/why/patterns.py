"""Texts with … for anything, matched by plain search: no log can make that slow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from draftcheck.errors import RuleError

SHORTEST = 4
"""Letters of the word by which a pattern is found; a shorter one stands in any log."""
LONG, LONGEST = 10, 256
_NUMBER = re.compile(r"-?\d+(?:\.\d+)*")
_GAP = re.compile(r"…(?:\{([a-z][a-z_ ]*)\})?")
_QUOTES = str.maketrans(dict.fromkeys('"`‘’“”', "'"))
_WORD = re.compile(rb"[A-Za-z_]+")
_SHAPE = bytes(
    byte if byte == 10 or chr(byte) == "_" or (byte < 128 and chr(byte).isalpha()) else 32
    for byte in range(256)
)


def shape(text: bytes) -> bytes:
    """Keep letters only: other characters become blanks, digits vanish, line ends stay.

    If a line contains a text, the line's shape contains the text's shape.
    """
    return text.translate(_SHAPE, b"0123456789")


def plain(line: str) -> str:
    """Write a line with one kind of quotes, those of JSON strings too."""
    return line.replace('\\"', "'").translate(_QUOTES)


@dataclass(frozen=True, slots=True)
class Pattern:
    """One message of an engine; `…` stands for anything, `…{name}` keeps it under a name."""

    text: str
    pieces: tuple[str, ...]
    names: tuple[str | None, ...]
    word: bytes
    """The longest word of the literal text: a line without it cannot match."""
    shapes: tuple[bytes, ...]
    """The shapes of the literal parts, quotes apart, in their order."""

    def fits(self, line: bytes) -> bool:
        """Whether a line of this shape may match."""
        start = 0
        for part in self.shapes:
            start = line.find(part, start)
            if start < 0:
                return False
            start += len(part)
        return True

    def match(self, line: str) -> dict[str, str] | None:
        """Find what the named gaps hold, or None; the line must be plain.

        Taking the first place of each part in turn is enough: if any match exists, this finds one.
        """
        first = self.pieces[0]
        start = line.find(first)
        if start < 0:
            return None
        gap = start + len(first)
        values: dict[str, str] = {}
        for number, piece in enumerate(self.pieces[1:]):
            end = line.find(piece, gap) if piece else len(line)
            if end < 0:
                return None
            if number == 0 and piece:  # the nearest start makes the tightest gap
                gap = line.rfind(first, 0, end) + len(first)
            name = self.names[number]
            if name is not None:
                values[name] = line[gap:end][:LONGEST].strip(" '")
                if not piece and (found := _NUMBER.match(values[name])):
                    values[name] = found[0]  # at the end: where it stops being a number
            gap = end + len(piece)
        return values


def compile_text(text: str, names: tuple[str, ...] = ()) -> Pattern:
    """Make a pattern; names given apart are for the gaps of texts that have none of their own."""
    gaps = tuple(gap[1] for gap in _GAP.finditer(text))
    # "a … b" also means "a b": what stands there may be nothing at all.
    split = _GAP.split(text.replace(" … ", " …"))[::2]
    pieces = tuple(plain(piece) for piece in split)
    if not pieces[0] or "" in pieces[1:-1]:
        raise RuleError(f"{text!r}: literal text must stand before and between the gaps")
    if len(names) > len(gaps):
        raise RuleError(f"{text!r}: {len(names)} names for {len(gaps)} gaps")
    parts = [part.encode() for piece in pieces for part in piece.split("'") if part]
    word = max(_words(pieces), key=len, default=b"")
    if len(word) < SHORTEST:
        raise RuleError(f"{text!r}: no word of {SHORTEST} letters to look for")
    named = tuple(names[i] or None if i < len(names) else name for i, name in enumerate(gaps))
    return Pattern(text, pieces, named, word, tuple(shape(part) for part in parts))


def _words(pieces: tuple[str, ...]) -> Iterator[bytes]:
    """Words that stand alone in every line that matches: none that a gap might lengthen."""
    for number, piece in enumerate(pieces):
        letters = shape(piece.encode())
        for found in _WORD.finditer(letters):
            after_gap = found.start() == 0 and number > 0
            before_gap = found.end() == len(letters) and number < len(pieces) - 1
            if not after_gap and not before_gap:
                yield found[0]


def shadows(one: Pattern, other: Pattern) -> bool:
    """Whether every line that matches one matches the other too, one saying more."""
    literal = plain(_GAP.sub("…", one.text))
    return one.pieces != other.pieces and other.match(literal) is not None


def shared(one: Pattern, other: Pattern) -> bool:
    """Whether both have a long part in common: two wordings of one message."""
    return any(len(piece) >= LONG and piece in other.pieces for piece in one.pieces)
