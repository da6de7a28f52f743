"""Text protocol buffers (Triton's config.pbtxt) -> a tree; a field that repeats is there again."""

from __future__ import annotations

import re

from draftcheck.deploy.contents import ContentsBuilder
from draftcheck.deploy.deployment import DocumentTree, Word
from draftcheck.deploy.syntax.variables import filled
from draftcheck.deploy.text import TextView
from draftcheck.values.findings import FilePlace

NAMES = re.compile(r".+\.(?:pbtxt|prototxt)")
MAX_DEPTH = 60
_ESCAPE = re.compile(r"\\(.)")
_TOKEN = re.compile(
    r"(?P<blank>[\s,;]+|\#[^\n]*)|(?P<name>[A-Za-z_][\w.]*)|(?P<number>[-+]?\.?\d[\w.+-]*)"
    r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')|(?P<mark>[:{}\[\]<>])"
)


def claims(name: str, text: str) -> bool:
    """Whether this is a text protocol buffer."""
    return True


def read(view: TextView, contents: ContentsBuilder) -> None:
    """One document."""
    tokens, bad = _tokens(view)
    if bad is not None:
        contents.trouble(view.place(bad, bad + 1), "not text of a protocol buffer")
    reader = _PbtxtReader(view, tokens)
    tree = DocumentTree(view.place(0, 0), entries=tuple(reader.fields(0)))
    if reader.trouble is not None:
        contents.trouble(view.place(reader.trouble, reader.trouble), "nested too deeply")
    if tree.entries:
        contents.document("triton-pbtxt", tree)


def _tokens(view: TextView) -> tuple[list[tuple[str, int, int]], int | None]:
    found, at = list[tuple[str, int, int]](), 0
    while at < len(view.text):
        match = _TOKEN.match(view.text, at)
        if not match:
            return found, at
        if match.lastgroup and match.lastgroup != "blank":
            found.append((match.lastgroup, *match.span()))
        at = match.end()
    return found, None


class _PbtxtReader:
    def __init__(self, view: TextView, tokens: list[tuple[str, int, int]]) -> None:
        self.view, self.tokens, self.at = view, tokens, 0
        self.trouble: int | None = None

    def peek(self) -> str:
        if self.at >= len(self.tokens):
            return ""
        kind, start, end = self.tokens[self.at]
        return self.view.text[start:end] if kind == "mark" else kind

    def fields(self, depth: int) -> list[tuple[Word, DocumentTree]]:
        found = list[tuple[Word, DocumentTree]]()
        while self.peek() and self.peek() not in ("}", ">"):
            kind, start, end = self.tokens[self.at]
            self.at += 1
            if kind != "name":
                continue
            if self.peek() == ":":
                self.at += 1
            value = self.value(depth)
            if value is not None:
                found.append((self.view.slice(start, end).word(), value))
        return found

    def value(self, depth: int) -> DocumentTree | None:
        what = self.peek()
        if not what or what in ("}", ">", "]", ":"):
            return None
        _, start, end = self.tokens[self.at]
        self.at += 1
        if depth > MAX_DEPTH:
            self.trouble = start
            return None
        if what in ("{", "<"):
            entries = self.fields(depth + 1)
            return DocumentTree(self.close(start), entries=tuple(entries))
        if what == "[":
            items = list[DocumentTree]()
            while self.peek() not in ("]", "", "}"):
                item = self.value(depth + 1)
                if item is None:
                    self.at += 1
                else:
                    items.append(item)
            return DocumentTree(self.close(start), items=tuple(items))
        return self.scalar(what, start, end)

    def close(self, start: int) -> FilePlace:
        end = self.tokens[self.at][2] if self.at < len(self.tokens) else len(self.view.text)
        self.at += 1
        return self.view.place(start, end)

    def scalar(self, what: str, start: int, end: int) -> DocumentTree:
        text = self.view.text[start:end]
        kind = {"number": "int", "string": "str"}.get(what, "str")
        if what == "number" and not re.fullmatch(r"[-+]?(?:0x[0-9a-fA-F]+|\d+)", text):
            kind = "float"
        elif text in ("true", "false"):
            kind = "bool"
        string = what == "string"
        inner = self._unescaped(start + 1, end - 1) if string else self.view.slice(start, end)
        word = inner.word(self.view.place(start, end), self.view.raw(start, end), kind)
        return DocumentTree(word.place, word=word)

    def _unescaped(self, start: int, end: int) -> TextView:
        """A string without its backslashes (the common ones)."""
        inner = self.view.slice(start, end)

        def letter(escape: re.Match[str]) -> TextView:
            known = {"n": "\n", "t": "\t"}.get(escape[1], escape[1])
            return inner.instead(known, *escape.span(1))

        return filled(inner, _ESCAPE, letter)
