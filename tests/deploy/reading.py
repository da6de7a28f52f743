"""Reading a text as a file, with every place held against the text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from draftcheck.deploy.deployment import Command, Contents, DocumentTree
from draftcheck.deploy.kinds import choose
from draftcheck.deploy.text import Word


def read(text: str | bytes, name: str) -> Contents:
    """The contents of a file; every word that says where it stands is looked up there."""
    data = text if isinstance(text, bytes) else textwrap.dedent(text).encode()
    found = choose.read(data, name)
    assert found is not None, f"{name} is not looked at"
    encoding = "utf-16" if data[:1] == b"\xff" else "utf-8-sig"
    lines = data.decode(encoding, "replace").split("\n")
    for word in all_words(found):
        assert word.place.file == name
        assert_reads(word, lines)
    return found


def assert_reads(word: Word, lines: list[str]) -> None:
    """raw is what the file has at the word's place; its view points at its letters."""
    place = word.place
    assert 1 <= place.line <= len(lines)
    assert 1 <= place.column <= len(lines[place.line - 1]) + 1
    if word.raw is not None:
        assert between(lines, place) == word.raw
    if word.raw is not None and word.text in word.raw:
        for at in range(len(word.text)):
            if word.text[at] not in "\n\r" and word.exact:
                assert between(lines, word.part(at, at + 1)) == word.text[at]


def between(lines: list[str], place: object) -> str:
    """The text of a file at a place."""
    line, column = place.line, place.column  # type: ignore[attr-defined]
    end_line, end_column = place.end_line, place.end_column  # type: ignore[attr-defined]
    if end_line == line:
        return lines[line - 1][column - 1 : end_column - 1]
    inner = lines[line : end_line - 1]
    return "\n".join([lines[line - 1][column - 1 :], *inner, lines[end_line - 1][: end_column - 1]])


def all_words(found: Contents) -> Iterator[Word]:
    """Every word of commands and documents."""
    for command in found.commands:
        yield from command.words
        yield from command.env.values()
        if command.image is not None:
            yield command.image
    for document in found.documents:
        yield from tree_words(document.tree)


def tree_words(tree: DocumentTree) -> Iterator[Word]:
    """Every word of a tree."""
    if tree.word is not None:
        yield tree.word
    for item in tree.items or ():
        yield from tree_words(item)
    for key, value in tree.entries or ():
        yield key
        yield from tree_words(value)


def texts(command: Command) -> list[str]:
    """The words of a command."""
    return [word.text for word in command.words]


def lines(command: Command) -> list[tuple[int, int]]:
    """Line and column of each word."""
    return [(word.place.line, word.place.column) for word in command.words]


def only(found: Contents) -> Command:
    """The one command that a file has."""
    assert len(found.commands) == 1, [texts(command) for command in found.commands]
    return found.commands[0]


def plain(tree: DocumentTree | None) -> object:
    """A tree as Python lists and dictionaries of texts."""
    if tree is None:
        return None
    if tree.items is not None:
        return [plain(item) for item in tree.items]
    if tree.entries is not None:
        return {key.text: plain(value) for key, value in tree.entries}
    return tree.word.text if tree.word is not None else None
