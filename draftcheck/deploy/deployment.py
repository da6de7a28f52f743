"""What deploy files hold: commands, documents, deployments, all made of Words (text.py). No I/O.

kinds/ turns a file into Commands and Documents and knows no engine; find.py reads the options of an
engine out of them, by tables in rules/. Contents collects what a file holds while it is read,
and keeps the budget: a file that holds a script that holds a file … ends somewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from draftcheck.deploy.syntax.shell_words import Lexer
from draftcheck.deploy.syntax.templates import TOO_LONG
from draftcheck.deploy.text import SourceText, TextView, Word, joined
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

    @classmethod
    def of(cls, word: Word) -> DocumentTree:
        """A scalar."""
        return cls(word.place, word=word)

    @property
    def view(self) -> TextView | None:
        """The text of a scalar with its places."""
        return self.word.view if self.word is not None else None

    @property
    def says(self) -> bool:
        """Whether a scalar says something: it is neither null nor empty."""
        return self.word is not None and self.word.kind != "null" and bool(self.word.text)

    def get(self, *path: str) -> DocumentTree | None:
        """The value under these keys, one below the other."""
        at: DocumentTree | None = self
        for name in path:
            entries = (at.entries or ()) if at is not None else ()
            at = next((value for key, value in reversed(entries) if key.text == name), None)
        return at

    def pairs(self, *path: str) -> tuple[tuple[Word, DocumentTree], ...]:
        """The entries of the mapping under these keys; empty: there is none."""
        found = self.get(*path)
        return (found.entries or ()) if found is not None else ()

    def listed(self, *path: str) -> tuple[DocumentTree, ...]:
        """The items of the list under these keys; empty: there is none."""
        found = self.get(*path)
        return (found.items or ()) if found is not None else ()

    def said(self, *path: str) -> str:
        """The text of the scalar under these keys; empty: there is none."""
        found = self.get(*path)
        return found.word.text if found is not None and found.word is not None else ""


@dataclass(frozen=True, slots=True)
class Document:
    """A configuration file of an engine, or a call in a program (entries are its keywords)."""

    kind: str
    """tabbyapi, tabbyapi-model, triton-pbtxt, triton-model, modelfile, python-call, manifest …"""
    tree: DocumentTree
    place: FilePlace
    name: str = ""
    """Of a call: the callee's dotted name (vllm.LLM); positional arguments have their number as
    key, and self is what the receiver was loaded from. Of options-inside: the engine that the
    program imports."""


@dataclass(frozen=True, slots=True)
class FileTrouble:
    """Something that could not be understood; reported, never passed over."""

    place: FilePlace
    text: str


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
    fork: str = ""
    """The engine's fork that is started; empty: the engine itself."""
    fork_from: str = ""
    """What tells it: a path, an image, a repository."""
    seen: str = ""
    """The options that are all there is to see: nothing in the file gives them plain values."""
    part: bool = False
    """Options that something else completes: what is missing here may stand there."""

    def as_fork(self, name: str, told_by: str) -> Deployment:
        """The same, started by a fork: of no known version, and its options are its own."""
        return replace(
            self, fork=name, fork_from=told_by, findings=(), unknown=(),
            version=None, version_from="", version_note=f"{name} is a fork of {self.engine}",
        )  # fmt: skip


MAX_FOUND, MAX_PLAIN = 20_000, 24
_ONE_WORD = re.compile(r"--?[\w.-]+=[{\[].*[}\]]", re.DOTALL)
_OPTION_WORD = re.compile(
    r"\{\S*\}(?=\s|$)|'(?P<single>[^']*)'(?=\s|$)|\"(?P<double>[^\"]*)\"(?=\s|$)|\S+"
)
MAX_DEPTH = 8
TOO_MUCH = "too much to read: the rest is not looked at"


@dataclass(slots=True)
class Contents:
    """What one file holds, collected while it is read."""

    read_file: Callable[[TextView, str, Contents], None]
    """Reads a text as the file of that name which it becomes; it may hold further ones."""
    commands: list[Command] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    written: dict[str, list[Document]] = field(default_factory=dict)
    """Those of files that its scripts write, by the file's name."""
    loose: list[Command] = field(default_factory=list)
    """Options without a program: for another file, where no command of this one uses them."""
    stray: list[tuple[FilePlace, Command]] = field(default_factory=list)
    """Options that a shell takes for a program, each with the command that ends before them."""
    troubles: list[FileTrouble] = field(default_factory=list)
    outside: Mapping[str, str] = field(default_factory=dict)
    """Variables that a file beside this one gives values to."""
    left: int = 3_000_000
    """How much more may be read: no file makes the gate hang, nor one inside another."""
    source: SourceText | None = None
    """The whole text."""
    replaced: list[Word] = field(default_factory=list)
    """Words that other ways through a script use."""
    mentions: bool = False
    """Of a program in another language: it speaks of options that are in none of its setups."""
    spoken: set[int] = field(default_factory=set)
    """Lines that a script only prints."""
    functions: set[str] = field(default_factory=set)
    """Names of the functions that its scripts define."""
    ways: int = 48
    """How many more ways through its scripts are followed."""
    branch_tokens: int = 300_000
    """How many more tokens of branches are looked at for that: one may stand inside another."""
    depth: int = 0
    cut: bool = False
    """Something was left out, and that was said."""

    @property
    def empty(self) -> bool:
        """Nothing was found, and nothing was left out."""
        return not (self.commands or self.documents or self.loose or self.stray or self.troubles)

    def spend(self, amount: int) -> bool:
        """Take from what is left; False: there is not enough."""
        self.left -= amount
        return self.left >= 0

    def cut_at(self, place: FilePlace, text: str) -> None:
        """Say once that the rest was not looked at: what is not read is not fine."""
        if not self.cut:
            self.cut = True
            self.troubles.append(FileTrouble(place, text))

    def deeper(self, view: TextView, more: int = 0) -> bool:
        """Go into a file inside a file, if it is not too deep; back out with depth -= 1."""
        if self.depth >= MAX_DEPTH:
            self.cut_at(view.place(0, 0), "files inside files, too deep: not read")
            return False
        if not self.spend(100 + len(view.text) + more):
            self.cut_at(view.place(0, 0), TOO_MUCH)
            return False
        self.depth += 1
        return True

    def command(
        self,
        args: list[Word],
        place: FilePlace | None = None,
        image: Word | None = None,
        env: Mapping[str, Word] | None = None,
    ) -> None:
        """Add a command; one without words counts where it has an image."""
        if not args and image is None:
            return
        where = place or around(args or ((image,) if image else ()))
        if len(self.commands) < MAX_FOUND:
            self.commands.append(Command(tuple(args), where, image, dict(env or {})))
        if len(self.commands) == MAX_FOUND or any(arg.unknown == TOO_LONG for arg in args):
            self.cut_at(where, TOO_MUCH)

    def loose_options(self, view: TextView, image: Word | None = None) -> None:
        """Add options that a text holds."""
        words = split(view, self)
        if _ONE_WORD.fullmatch(view.text.strip()):  # an item of a list of arguments
            words = [view.word()]
        elif "{" in view.text and "\\" not in view.text:
            words = at_spaces(view)
        if words and len(self.loose) < MAX_FOUND:
            options = [word for word in words if word.text.startswith("-")]
            self.loose.append(Command(tuple(words), around(options or words), image))

    def document(self, kind: str, tree: DocumentTree, name: str = "") -> None:
        if len(self.documents) < MAX_FOUND:
            self.documents.append(Document(kind, tree, tree.place, name))
        else:
            self.cut_at(tree.place, TOO_MUCH)

    def trouble(self, place: FilePlace, text: str) -> None:
        if len(self.troubles) < MAX_FOUND and FileTrouble(place, text) not in self.troubles[-50:]:
            self.troubles.append(FileTrouble(place, text))


def plain(tree: DocumentTree, unknown: list[str], depth: int = 0) -> Any:
    """The tree as Python values; what is unknown is noted and kept as text."""
    if depth > MAX_PLAIN:
        return None
    if tree.items is not None:
        return [plain(item, unknown, depth + 1) for item in tree.items]
    if tree.entries is not None:
        return {key.text: plain(value, unknown, depth + 1) for key, value in tree.entries}
    word = tree.word
    if word is None:
        return None
    if word.unknown:
        unknown.append(word.unknown)
        return f"${{{word.text}}}"
    if word.kind == "str":
        return word.text
    try:
        return json.loads(word.text)
    except ValueError:
        return word.text


def flag_words(tree: DocumentTree) -> list[Word]:
    """A mapping from options to their values, as words of a command line."""
    return [
        word
        for key, value in tree.entries or ()
        if (arg := value.word) is not None and key.text.startswith("-") and arg.text != "false"
        for word in ((key,) if arg.kind in ("bool", "null") else (key, arg))
    ]


def around(words: Iterable[Word]) -> FilePlace:
    """The place from the first of these words to the last, as the file has them."""
    places = [word.place for word in words]
    first = min(places, key=lambda place: (place.line, place.column))
    last = max(
        places, key=lambda place: (place.end_line or place.line, place.end_column or place.column)
    )
    return replace(first, end_line=last.end_line, end_column=last.end_column)


def at_spaces(view: TextView) -> list[Word]:
    """The words of a text that is split at spaces alone: quotes inside braces stay."""
    found = [match.span(match.lastgroup or 0) for match in _OPTION_WORD.finditer(view.text)]
    return [view.slice(*span).word() for span in found]


def split(view: TextView, contents: Contents) -> list[Word]:
    """The words of a string that a program splits like a shell, without expanding anything."""
    lexer = Lexer(view, plain=True)
    found = []
    for token in lexer.tokens():
        parts = [part.view for part in getattr(token, "parts", ())]
        text = joined(parts) if parts else view.slice(token.start, token.start)
        place = view.place(token.start, token.end)
        found.append(text.word(place, view.raw(token.start, token.end)))
    for at, text_ in lexer.troubles:
        contents.trouble(view.place(at, at + 1), text_)
    return found
