"""C and C++ source -> the statements of one named place, without comments and white space.

There is no parser behind it: a place is a name, and behind it a body in braces. That is enough
for functions, methods, structs, enums and tables; a macro that hides braces is not understood.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate

from draftcheck.anchors.lines import WHOLE, CodeLine, digest

_TEXTS = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL
)
_NAME = re.compile(r"\w+(?:::~?\w+)*(?=\s*\()")
_PIECE = re.compile(r"[^;{}]*[;{}]?")
_NO_FUNCTION = {"if", "for", "while", "switch", "return", "catch", "sizeof", "defined"}
_BEHIND = re.compile(r"[\s\w:&*<>.\-]*")
_LISTED = re.compile(r"[\s\w:&*<>,.\-]*")
_PAIRS = {"(": ")", "{": "}"}


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


class CFile:
    """One file; never fails, a name without a body is not found."""

    def __init__(self, text: str) -> None:
        self.text = _TEXTS.sub(lambda m: _blank(m) if m[0][0] == "/" else m[0], text)
        # The same text with the same places, but nothing in quotes: braces there do not count.
        self.bare = _TEXTS.sub(_blank, text)
        self.starts = list(accumulate((len(line) for line in text.splitlines(True)), initial=0))

    def code(self, symbol: str) -> list[CodeLine]:
        """The statements of a function, method, struct, enum or table of this name."""
        return [line for first, last in self._spans(symbol) for line in self._lines(first, last)]

    def symbol_at(self, number: int) -> str | None:
        """The smallest function that holds a line of the file."""
        place = self.starts[number - 1] if 0 < number <= len(self.starts) else 0
        held = [
            (last - first, name)
            for name, first, last in self.functions
            if self._line(first) <= self._line(place) <= self._line(last)
        ]
        return min(held)[1] if held else None

    @cached_property
    def functions(self) -> list[tuple[str, int, int]]:
        found = []
        for match in _NAME.finditer(self.bare):
            no_function = match[0] in _NO_FUNCTION or self._in_list(match.start())
            body = None if no_function else self._body(match.end())
            if body is not None:
                found.append((match[0], match.start(), body))
        return found

    def _spans(self, symbol: str) -> list[tuple[int, int]]:
        if symbol == WHOLE:
            return [(0, len(self.bare))]
        named = re.escape(symbol.rpartition("::")[2])
        shapes = rf"\b(?:struct|class|enum(?:\s+class)?)\s+{named}\b[^;{{}}()]*(?={{)"
        if found := self._braced(shapes):  # before its constructor, which has the same name
            return found
        # A method may be written outside its class, with more names in front.
        end = f"::{symbol}"
        found = [(f, t) for name, f, t in self.functions if name == symbol or name.endswith(end)]
        found = found or self._braced(rf"\b{named}\b\s*(?:\[[^\]]*\]\s*)*=\s*(?={{)")
        defines = re.finditer(rf"(?m)^[ \t]*#[ \t]*define[ \t]+{named}\b[^\n]*", self.bare)
        return found or [match.span() for match in defines]

    def _braced(self, pattern: str) -> list[tuple[int, int]]:
        """From each match to the end of the braces behind it."""
        matches = ((match, self._closing(match.end())) for match in re.finditer(pattern, self.bare))
        return [(match.start(), last) for match, last in matches if last is not None]

    def _in_list(self, place: int) -> bool:
        """Whether a name stands in a constructor's list: behind a comma, or one colon."""
        at = place - 1
        while at >= 0 and self.bare[at].isspace():
            at -= 1
        before = self.bare[max(at - 1, 0) : at + 1]
        return before.endswith((",", ":")) and before != "::"

    def _body(self, place: int) -> int | None:
        """Where the body ends that follows the arguments at this place."""
        start = self.bare.find("(", place)
        closed = self._closing(start)
        if closed is None:
            return None
        # const, override, -> type; or, behind one colon, the list of a constructor.
        match = _BEHIND.match(self.bare, closed)
        at = match.end() if match else closed
        listed = re.search(r"(?<!:):(?!:)", self.bare[closed:at])
        while listed and self.bare[at : at + 1] == "(" and (behind := self._closing(at)):
            match = _LISTED.match(self.bare, behind)
            at = match.end() if match else behind
        return self._closing(at) if self.bare[at : at + 1] == "{" else None

    def _closing(self, place: int) -> int | None:
        """Just behind the bracket that closes the one at this place."""
        one = self.bare[place : place + 1]
        if one not in _PAIRS:
            return None
        depth = 0
        for match in re.compile(rf"[{re.escape(one + _PAIRS[one])}]").finditer(self.bare, place):
            depth += 1 if match[0] == one else -1
            if not depth:
                return match.end()
        return None

    def _lines(self, first: int, last: int) -> list[CodeLine]:
        found = []
        for piece in _PIECE.finditer(self.bare, first, last):
            text = self.text[piece.start() : piece.end()]
            if words := re.sub(r"\s+", "", text):
                start = piece.start() + len(text) - len(text.lstrip())
                found.append(
                    CodeLine(digest(words), self._line(start), self._line(piece.end() - 1))
                )
        return found

    def _line(self, place: int) -> int:
        return bisect_right(self.starts, place)
