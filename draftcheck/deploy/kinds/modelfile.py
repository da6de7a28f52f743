"""Modelfiles of Ollama: instructions and their values."""

from __future__ import annotations

import re

from draftcheck.deploy.contents import ContentsBuilder
from draftcheck.deploy.deployment import DocumentTree, Word
from draftcheck.deploy.text import TextView

NAMES = re.compile(r"modelfile(?:[.-].*)?|.*\.modelfile")
_LINE = re.compile(r"[ \t]*([A-Za-z_]+)[ \t]+")
_QUOTES = '"""'


def claims(name: str, text: str) -> bool:
    """Whether this is a Modelfile."""
    return True


def read(view: TextView, contents: ContentsBuilder) -> None:
    """One document: an entry per instruction, its name in capitals."""
    entries, skip = list[tuple[Word, DocumentTree]](), 0
    for start, end in view.lines():
        match = _LINE.match(view.text, start, end)
        if start < skip or not match or view.text[start:end].lstrip().startswith("#"):
            continue
        quotes = view.text.find(_QUOTES, match.end(), end)
        if quotes >= 0:
            closing = view.text.find(_QUOTES, quotes + 3)
            skip = len(view.text) if closing < 0 else closing + 3
            if closing < 0:
                contents.trouble(view.place(quotes, quotes + 3), "a quote is never closed")
        key = view.slice(*match.span(1))
        name = Word(key.text.upper(), key.place(), raw=key.raw(), spans=key.spans())
        last = match.end() + len(view.text[match.end() : end].rstrip())
        entries.append((name, _value(view, name.text, match.end(), last)))
    if entries:
        contents.document("modelfile", DocumentTree(view.place(0, 0), entries=tuple(entries)))


def _value(view: TextView, name: str, start: int, end: int) -> DocumentTree:
    parts = view.text[start:end].split(maxsplit=1) if name == "PARAMETER" else []
    if len(parts) == 2:
        at = view.text.index(parts[1], start + len(parts[0]), end)
        key = view.slice(start, start + len(parts[0])).word()
        return DocumentTree(view.place(start, end), entries=((key, _scalar(view, at, end)),))
    return _scalar(view, start, end)


def _scalar(view: TextView, start: int, end: int) -> DocumentTree:
    """A value, with or without quotes."""
    quoted = end - start >= 2 and view.text[start] == view.text[end - 1] == '"'
    inner = view.slice(start + quoted, end - quoted)
    word = inner.word(view.place(start, end), view.raw(start, end))
    return DocumentTree(word.place, word=word)
