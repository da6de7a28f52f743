"""What deploy files hold: commands, documents, deployments, all made of Words (text.py).

kinds/ turns a file into Commands and Documents and knows no engine; find.py reads the options of an
engine out of them, by tables in rules/. No I/O here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from draftcheck.deploy.text import TextView, Word
from draftcheck.values.findings import FilePlace, Finding


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

    @property
    def view(self) -> TextView | None:
        """The text of a scalar with its places."""
        return self.word.view if self.word is not None else None

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
