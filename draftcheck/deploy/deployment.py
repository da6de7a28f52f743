"""What deploy files hold: words with their places, commands, documents, deployments.

kinds/ turns a file into Commands and Documents and knows no engine; find.py reads the options of an
engine out of them, by tables in rules/. No I/O here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from draftcheck.values.findings import FilePlace, Finding


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command, or one scalar of a document, as the program would get it."""

    text: str
    place: FilePlace
    unknown: str | None = None
    """What in it could not be worked out ($MODEL, {{ .Values.x }}); text then holds it as is."""
    raw: str | None = None
    """As the file spells it, quotes included; None: it cannot be replaced in place."""
    kind: str = "str"
    """str, int, float, bool or null: what the file's own syntax makes of a scalar."""
    spans: tuple[tuple[int, int, int], ...] = ()
    """(position in text, line, column): from there on text and file run side by side."""

    def part(self, start: int, end: int) -> FilePlace:
        """The place of text[start:end]; the whole word's where that is not sure."""
        if not self.spans or not 0 <= start <= end <= len(self.text):
            return self.place
        line, column = self._at(start)
        end_line, end_column = self._at(end - 1) if end > start else (line, column - 1)
        return FilePlace(self.place.file, line, column, end_line, end_column + 1)

    def spans_of(self, start: int, end: int) -> tuple[tuple[int, int, int], ...]:
        """The spans of text[start:end] as a word of its own."""
        ends = [*(at for at, _, _ in self.spans[1:]), len(self.text) + 1]
        return tuple(
            (max(at - start, 0), line, column + max(start - at, 0))
            for (at, line, column), after in zip(self.spans, ends, strict=False)
            if after > start and at < max(end, start + 1)
        )

    def _at(self, position: int) -> tuple[int, int]:
        index = bisect_right(self.spans, position, key=lambda span: span[0]) - 1
        start, line, column = self.spans[max(index, 0)]
        return line, column + position - start


@dataclass(frozen=True, slots=True)
class Command:
    """A program and its words, wherever they were found."""

    words: tuple[Word, ...]
    place: FilePlace
    image: Word | None = None
    """The container image it runs in."""
    env: Mapping[str, Word] = field(default_factory=dict)
    """Environment that the same file gives it."""


@dataclass(frozen=True, slots=True)
class DocumentTree:
    """A value of a document with places: a scalar, a list or a mapping."""

    place: FilePlace
    word: Word | None = None
    items: tuple[DocumentTree, ...] | None = None
    entries: tuple[tuple[Word, DocumentTree], ...] | None = None

    def get(self, *path: str) -> DocumentTree | None:
        """The value under these keys, one below the other."""
        at: DocumentTree | None = self
        for name in path:
            entries = (at.entries or ()) if at is not None else ()
            at = next((value for key, value in reversed(entries) if key.text == name), None)
        return at


@dataclass(frozen=True, slots=True)
class Document:
    """A configuration file of an engine, or a call in a program (entries are its keywords)."""

    kind: str
    """tabbyapi, tabbyapi-model, triton-pbtxt, triton-model, modelfile, python-call, manifest …"""
    tree: DocumentTree
    place: FilePlace
    name: str = ""
    """Of a call: the callee's dotted name (vllm.LLM); positional arguments have their number as
    key, and self is what the receiver was loaded from."""


@dataclass(frozen=True, slots=True)
class FileTrouble:
    """Something that could not be understood; reported, never passed over."""

    place: FilePlace
    text: str


@dataclass(frozen=True, slots=True)
class Contents:
    """What one file holds."""

    commands: tuple[Command, ...] = ()
    documents: tuple[Document, ...] = ()
    troubles: tuple[FileTrouble, ...] = ()


@dataclass(frozen=True, slots=True)
class Deployment:
    """One engine that is started with (or without) speculation, as a file sets it up."""

    place: FilePlace
    engine: str
    version: str | None = None
    version_from: str = ""
    """How the version is known: image tag, requirements.txt:3, manifest …; empty: it is not."""
    version_note: str = ""
    """Why no version is known although something speaks of one: a range, the tag latest …"""
    target: Word | None = None
    draft: Word | None = None
    method: str | None = None
    speculates: bool = False
    """Whether the file asks for speculation at all."""
    configs: tuple[str, ...] = ()
    """Files beside it that the command names and that were read with it."""
    circumstances: Mapping[str, Any] = field(default_factory=dict)
    """By name: context, sequences, tensor_parallel, dtype …"""
    name: str = ""
    """Of a pair of a manifest."""
    findings: tuple[Finding, ...] = ()
    unknown: tuple[FileTrouble, ...] = ()
    """Why the pair cannot be judged: a model named by a variable that nothing defines …"""
