"""Texts that know where each of their characters stands in the file.

A script in a YAML block, a word behind quotes, a value taken over from a variable: all are views,
so that whatever is found in them has an exact place.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from draftcheck.deploy.syntax import templates
from draftcheck.values.findings import FilePlace

MAX_PIECES = 4000
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


@dataclass(frozen=True, slots=True)
class DecodedFile:
    """The text of a file, and what it takes to write it again to the byte."""

    text: str
    encoding: str
    mark: bytes = b""
    """What says the encoding, in front of the text."""
    odd: int | None = None
    """Where it is not what it should be, so that it was read as Latin-1."""

    def encoded(self, text: str) -> bytes:
        """Another text as this file would have it. Raises UnicodeEncodeError."""
        return self.mark + text.encode(self.encoding)


def decoded(data: bytes) -> DecodedFile:
    """UTF-16 where a mark says so, else UTF-8; Latin-1, which takes any byte, where neither fits.

    The one decoder: what is found in a text is changed at the same place of the file.
    """
    mark = next((mark for mark in _MARKS if data.startswith(mark)), b"")
    encoding = _MARKS.get(mark, "utf-8")
    try:
        return DecodedFile(data[len(mark) :].decode(encoding), encoding, mark)
    except UnicodeDecodeError as error:
        return DecodedFile(data[len(mark) :].decode("latin-1"), "latin-1", mark, error.start)


def searchable(data: bytes) -> bytes:
    """Bytes in which words of ASCII can be looked for before anything is decoded."""
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.replace(b"\0", b"") if wide else data


class SourceText:
    """The text of a file and its lines."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.lines = [0, *(match.end() for match in re.finditer("\n", text))]

    def at(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, from 1."""
        line = bisect_right(self.lines, offset)
        return line, offset - self.lines[line - 1] + 1

    def place(self, start: int, end: int) -> FilePlace:
        return FilePlace(self.name, *self.at(start), *self.at(max(start, end)))

    def span(self, place: FilePlace) -> tuple[int, int] | None:
        """The offsets around a place; None: it is not in this text."""
        last = place.end_line or place.line
        if place.end_column is None or not 1 <= place.line <= last <= len(self.lines):
            return None
        start = self.lines[place.line - 1] + place.column - 1
        end = self.lines[last - 1] + place.end_column - 1
        inside = place.file == self.name and 0 <= start <= end <= len(self.text)
        return (start, end) if inside else None


@dataclass(slots=True)
class TextView:
    """A text whose characters come from a file, piece by piece."""

    source: SourceText
    text: str
    starts: list[int]
    """Positions in text; from starts[i] on, characters stand at offsets[i] and following."""
    offsets: list[int]
    extent: tuple[int, int] | None = None
    """Where it is known as a whole only: the offsets around it."""
    name: str = ""
    """Where it is read as a file: that file's lower-case name without its folder."""

    def offset(self, position: int) -> int:
        if self.extent is not None:
            return self.extent[0]
        if len(self.starts) == 1:
            return self.offsets[0] + position - self.starts[0]
        index = max(bisect_right(self.starts, position) - 1, 0)
        return self.offsets[index] + position - self.starts[index]

    def span(self, start: int, end: int) -> tuple[int, int]:
        if self.extent is not None:
            return self.extent
        first = self.offset(start)
        return first, (self.offset(end - 1) + 1 if end > start else first)

    def place(self, start: int = 0, end: int | None = None) -> FilePlace:
        first, last = self.span(start, len(self.text) if end is None else end)
        return self.source.place(first, last)

    def raw(self, start: int = 0, end: int | None = None) -> str | None:
        """text[start:end] if the file spells it just so."""
        end = len(self.text) if end is None else end
        first, last = self.span(start, end)
        same = self.extent is None and self.source.text[first:last] == self.text[start:end]
        return self.text[start:end] if same else None

    def slice(self, start: int, end: int) -> TextView:
        text = self.text[start:end]
        if len(self.starts) == 1 or self.extent is not None:
            return TextView(self.source, text, [0], [self.offset(start)], self.extent)
        first = max(bisect_right(self.starts, start) - 1, 0)
        last = max(bisect_right(self.starts, max(end - 1, start)), first + 1)
        starts = [max(at - start, 0) for at in self.starts[first:last]]
        offsets = self.offsets[first:last]
        offsets[0] = self.offset(start)
        return TextView(self.source, text, starts, offsets)

    def hole(self, start: int, end: int, letter: str = templates.HOLE) -> TextView:
        """A part that stays unknown; a word with it shows how the file spells it."""
        found = self.slice(start, end)
        found.text = letter * len(found.text)
        return found

    def blank(self, at: int) -> TextView:
        """A space that stands where something else does in the file."""
        return self.instead(" ", at, at + 1)

    def instead(self, text: str, start: int, end: int) -> TextView:
        """Another text in the place of text[start:end]; what is joined to it stays exact."""
        first, _ = self.span(start, end)
        return TextView(self.source, text, [0], [first], self.extent)

    def vague(self, text: str, start: int, end: int) -> TextView:
        """Another text that stands somewhere in text[start:end]."""
        return TextView(self.source, text, [0], [0], self.span(start, end))

    def lines(self) -> Iterator[tuple[int, int]]:
        """Start and end of each line, the line break not included."""
        start = 0
        while start < len(self.text):
            end = self.text.find("\n", start)
            end = len(self.text) if end < 0 else end
            yield start, (end - 1 if end > start and self.text[end - 1] == "\r" else end)
            start = end + 1

    def word(
        self, place: FilePlace | None = None, raw: str | None = None, kind: str = "str"
    ) -> Word:
        """It as a word; without a place it stands where its text does."""
        if place is None:
            place, raw = self.place(), self.raw() if self.text else None
        if templates.CUT in self.text:
            return Word(templates.TOO_LONG, place, self, templates.TOO_LONG)
        if templates.HOLE in self.text:
            # The templates of the file instead of holes; the first of them is what is unknown.
            parts, at, unknown = list[str](), 0, ""
            for start, end in templates.holes(self.text):
                shown = self.source.text[self.offset(start) : self.offset(end - 1) + 1]
                if self.extent is not None or templates.HOLE in shown:
                    shown = "{{ … }}"
                parts += [self.text[at:start], shown]
                at, unknown = end, unknown or shown
            return Word("".join([*parts, self.text[at:]]), place, self, unknown)
        return Word(self.text, place, self, raw=raw, kind=kind)


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command, or one scalar of a document, as the program would get it."""

    text: str
    place: FilePlace
    view: TextView = field(compare=False, repr=False)
    """Its text with the place of each character: it may hold a script or a file itself."""
    unknown: str | None = None
    """What in it could not be worked out ($MODEL, {{ .Values.x }}); text then holds it as is."""
    raw: str | None = None
    """As the file spells it, quotes included; None: it cannot be replaced in place."""
    kind: str = "str"
    """str, int, float, bool or null: what the file's own syntax makes of a scalar."""
    maybe: bool = False
    """Given under a condition: another of its name may stand in its stead."""

    @property
    def exact(self) -> bool:
        """Whether the place of every character is known."""
        return bool(self.text) and self.view.extent is None and self.view.text == self.text

    def part(self, start: int, end: int) -> FilePlace:
        """The place of text[start:end]; the whole word's where that is not sure."""
        inside = self.exact and 0 <= start <= end <= len(self.text)
        return self.view.place(start, end) if inside else self.place

    def tail(self, start: int) -> Word:
        """The end of it as a word: the value in --option=value."""
        text, end = self.text[start:], len(self.text)
        raw = text if self.exact and self.raw is not None and text in self.raw else None
        view = self.view.slice(start, end) if self.exact else self.view.vague(text, 0, 0)
        return Word(text, self.part(start, end), view, self.unknown, raw)


def joined(parts: Iterable[TextView]) -> TextView:
    """One view behind the other; at least one must be given."""
    views = list(parts)
    if len(views) == 1:
        return views[0]
    starts: list[int] = []
    offsets: list[int] = []
    at = 0
    for view in views:
        if view.extent is not None:
            text = "".join(each.text for each in views)
            return TextView(view.source, text, [0], [0], view.extent)
        if view.text:
            starts.extend(at + start for start in view.starts)
            offsets.extend(view.offsets)
            at += len(view.text)
    first = views[0]
    if not starts:
        starts, offsets = [0], [first.offset(0)]
    text = "".join(view.text for view in views)
    if len(starts) > MAX_PIECES:
        extent = (min(offsets), max(offsets) + 1)
        return TextView(first.source, text, [0], [0], extent)
    return TextView(first.source, text, starts, offsets)
