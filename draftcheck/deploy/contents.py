"""Collects the commands and documents of one file while a module of kinds/ reads it.

The builder also keeps the budget: a file that holds a script that holds a file … ends somewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from draftcheck.deploy.deployment import Command, Contents, Document, DocumentTree, FileTrouble
from draftcheck.deploy.syntax.shell_words import Lexer
from draftcheck.deploy.syntax.templates import TOO_LONG
from draftcheck.deploy.text import TextView, Word, joined
from draftcheck.values.findings import FilePlace

MAX_FOUND = 20_000
MAX_DEPTH = 8
TOO_MUCH = "too much to read: the rest is not looked at"


@dataclass(slots=True)
class ContentsBuilder:
    """The contents of a file while it is read."""

    read_file: Callable[[TextView, str, ContentsBuilder], None]
    """Reads a text as the file of that name which it becomes; it may hold further ones."""
    read_script: Callable[..., None]
    """Reads a text as a shell script: shell.inside()."""
    commands: list[Command] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    troubles: list[FileTrouble] = field(default_factory=list)
    outside: Mapping[str, str] = field(default_factory=dict)
    """Variables that a file beside this one gives values to."""
    left: int = 3_000_000
    """How much more may be read: no file makes the gate hang, nor one inside another."""
    depth: int = 0
    cut: bool = False
    """Something was left out, and that was said."""

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

    def document(self, kind: str, tree: DocumentTree, name: str = "") -> None:
        if len(self.documents) < MAX_FOUND:
            self.documents.append(Document(kind, tree, tree.place, name))
        else:
            self.cut_at(tree.place, TOO_MUCH)

    def trouble(self, place: FilePlace, text: str) -> None:
        if len(self.troubles) < MAX_FOUND and FileTrouble(place, text) not in self.troubles[-50:]:
            self.troubles.append(FileTrouble(place, text))

    def built(self) -> Contents:
        """Everything, as it travels on."""
        return Contents(tuple(self.commands), tuple(self.documents), tuple(self.troubles))


def around(words: Iterable[Word]) -> FilePlace:
    """The place from the first of these words to the last, as the file has them."""
    places = [word.place for word in words]
    first = min(places, key=lambda place: (place.line, place.column))
    last = max(
        places, key=lambda place: (place.end_line or place.line, place.end_column or place.column)
    )
    return replace(first, end_line=last.end_line, end_column=last.end_column)


def split(view: TextView, contents: ContentsBuilder) -> list[Word]:
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
