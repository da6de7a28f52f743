"""JSON with the place of every value: in a flag of a command, or a file of its own."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import cast

from draftcheck.deploy.deployment import Contents, DocumentTree, FileTrouble
from draftcheck.deploy.syntax.templates import HOLE
from draftcheck.deploy.syntax.variables import filled
from draftcheck.deploy.text import TextView, Word

MAX_DEPTH = 60
VARIABLE = re.compile(r"\$\{[^{}]*\}|\$\w+|\{\{[^{}]*\}\}|%\w+%")
_BLANK = re.compile(r"[ \t\r\n]*")
_COMMENTS = re.compile(r"(?:[ \t\r\n]|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")
_LITERALS = {"true": "bool", "false": "bool", "null": "null"}
_LITERALS |= dict.fromkeys(("NaN", "Infinity", "-Infinity"), "float")
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)")
_LITERAL = re.compile("|".join(_LITERALS))
_DOUBLED = re.compile(r"\{\{.*\}\}", re.DOTALL)
_BRACES = re.compile(r"\{\{|\}\}")
_HOLES = re.compile(HOLE + r"+[\w.]*|" + VARIABLE.pattern)


class NotJSON(ValueError):
    """The text is not JSON: args are why, and where."""


class _JsonReader:
    """Reads one value after the other.

    comments: whether they and last commas are allowed. spelled: whether the file has the text as it
    is. unknown: what in it could not be worked out.
    """

    def __init__(
        self, view: TextView, *, comments: bool, spelled: bool = True, unknown: str | None = None
    ) -> None:
        self.view, self.text, self.place = view, view.text, view.place
        self.comments, self.spelled, self.unknown = comments, spelled, unknown

    def make(self, value: str, first: int, end: int, kind: str) -> DocumentTree:
        """A scalar."""
        quoted = 1 if self.text[first : first + 1] == '"' else 0
        inner = self.view.slice(first + quoted, end - quoted)

        def letter(escape: re.Match[str]) -> TextView:
            return inner.instead(json.loads(f'"{escape[0]}"'), *escape.span())

        view = inner if inner.text == value else filled(inner, _ESCAPE, letter)
        if view.text != value:
            view = self.view.vague(value, first + quoted, end - quoted)
        raw = self.view.raw(first, end) if self.spelled else None
        word = view.word(self.place(first, end), raw, kind)
        if self.unknown and not word.unknown:
            told = self.unknown in value and not self.unknown.isidentifier()
            named = self.unknown if told else None
            variable = VARIABLE.search(value)
            word = replace(word, unknown=named or (variable[0] if variable else None))
            if variable and variable[0] == value and value not in self.view.source.text:
                spelled = value.removeprefix("${").removesuffix("}")  # Python: {"model": a.draft}
                word = replace(word, text=spelled, unknown=spelled)
        return DocumentTree.of(word)

    def document(self, at: int) -> DocumentTree:
        tree, at = self.value(self.blank(at), 0)
        at = self.blank(at)
        if at < len(self.text):
            raise NotJSON("something follows the JSON", at)
        return tree

    def blank(self, at: int) -> int:
        match = (_COMMENTS if self.comments else _BLANK).match(self.text, at)
        return match.end() if match else at

    def value(self, at: int, depth: int) -> tuple[DocumentTree, int]:
        if depth > MAX_DEPTH:
            raise NotJSON("nested too deeply", at)
        letter = self.text[at : at + 1]
        if letter == "{":
            return self._mapping(at, depth)
        if letter == "[":
            return self._list(at, depth)
        if letter == '"':
            value, end = self._string(at)
            return self.make(value, at, end, "str"), end
        hole = _HOLES.match(self.text, at)
        if hole:  # a variable that is no string: {"k": $TOKENS}
            return self.make(hole[0], at, hole.end(), "int"), hole.end()
        literal = _LITERAL.match(self.text, at)
        if literal:
            return self.make(literal[0], at, literal.end(), _LITERALS[literal[0]]), literal.end()
        number = _NUMBER.match(self.text, at)
        if number:
            kind = "float" if number[1] or number[2] else "int"
            return self.make(number[0], at, number.end(), kind), number.end()
        raise NotJSON(_expected("a value", letter), at)

    def _string(self, at: int) -> tuple[str, int]:
        try:
            return cast(tuple[str, int], json.decoder.scanstring(self.text, at + 1))  # type: ignore[attr-defined]
        except json.JSONDecodeError as error:
            raise NotJSON(error.msg.lower().removesuffix(" at"), error.pos) from None

    def _mapping(self, at: int, depth: int) -> tuple[DocumentTree, int]:
        start, entries = at, list[tuple[Word, DocumentTree]]()
        at = self.blank(at + 1)
        while self.text[at : at + 1] != "}":
            if self.text[at : at + 1] != '"':
                raise NotJSON(_expected("a name in double quotes", self.text[at : at + 1]), at)
            name, end = self._string(at)
            key = self.make(name, at, end, "str").word
            at = self.blank(end)
            if self.text[at : at + 1] != ":":
                raise NotJSON(_expected("a colon", self.text[at : at + 1]), at)
            value, at = self.value(self.blank(at + 1), depth + 1)
            if key is not None:
                entries.append((key, value))
            at = self._comma(at, "}")
        return DocumentTree(self.place(start, at + 1), entries=tuple(entries)), at + 1

    def _list(self, at: int, depth: int) -> tuple[DocumentTree, int]:
        start, items = at, list[DocumentTree]()
        at = self.blank(at + 1)
        while self.text[at : at + 1] != "]":
            value, at = self.value(at, depth + 1)
            items.append(value)
            at = self._comma(at, "]")
        return DocumentTree(self.place(start, at + 1), items=tuple(items)), at + 1

    def _comma(self, at: int, closing: str) -> int:
        at = self.blank(at)
        letter = self.text[at : at + 1]
        if letter == closing:
            return at
        if letter != ",":
            raise NotJSON(_expected(f"a comma or {closing}", letter), at)
        after = self.blank(at + 1)
        if self.text[after : after + 1] == closing:
            if self.comments:
                return after
            raise NotJSON(f"a comma before {closing}", at)
        return after


def _expected(what: str, letter: str) -> str:
    if not letter:
        return f"it ends where {what} should stand"
    if letter == "'":
        return f"{what} should stand here; JSON wants double quotes"
    return f"{what} should stand here"


def parse(word: Word) -> DocumentTree | FileTrouble:
    """The JSON in a word, with places in the file."""
    if _DOUBLED.fullmatch(word.view.text.strip()):  # a text that a program formats
        whole = word.view
        single = filled(whole, _BRACES, lambda pair: whole.slice(pair.start(), pair.start() + 1))
        word = single.word(word.place, None)
    view = word.view
    if HOLE in view.text and view.extent is None:  # holes show what the file has in their place
        word = replace(word, text=view.text)
    elif not word.exact:  # only the word as a whole has a place
        extent = view.source.span(word.place) or view.span(0, len(view.text))
        view = TextView(view.source, word.text, [0], [0], extent)
    spelled = word.raw is not None and word.text in word.raw
    try:
        reader = _JsonReader(view, comments=False, spelled=spelled, unknown=word.unknown)
        return reader.document(0)
    except NotJSON as error:
        why, at = error.args[0], min(error.args[1], len(word.text))
        return FileTrouble(word.part(at, min(at + 1, len(word.text))), f"not JSON: {why}")


def parse_view(view: TextView, contents: Contents, wanted: str) -> DocumentTree | None:
    """A JSON file with places, comments and last commas allowed; None: it is not what is wanted."""
    try:
        return _JsonReader(view, comments=True).document(0)
    except NotJSON as error:
        why, at = error.args[0], min(error.args[1], len(view.text))
        contents.trouble(view.place(at, at), f"not {wanted}: {why}")
        return None
