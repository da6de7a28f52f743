"""Changes of a file that mend a finding: only where the file spells the word as it is."""

from __future__ import annotations

from collections.abc import Iterable

from draftcheck.deploy.deployment import DocumentTree, Word
from draftcheck.deploy.options.given import GivenOption
from draftcheck.values.findings import FilePlace, Fix


def swap(word: Word, old: str, new: str, *, safe: bool) -> tuple[Fix, ...]:
    """One part of a word becomes another; quotes around it stay."""
    if word.raw is None or word.raw.count(old) != 1 or word.place.end_column is None:
        return ()
    if any(letter in new for letter in "\"'\\$` "):
        return ()
    return (Fix(word.place, word.raw.replace(old, new), safe),)


def apart(
    entry: GivenOption, name: str, others: Iterable[GivenOption], *, safe: bool
) -> tuple[Fix, ...]:
    """--option=value becomes --option value, where a space divides it from another word."""
    word = entry.word
    if word.raw is None or word.raw != word.text or word.place.end_column is None:
        return ()
    words = (each for other in others for each in (other.word, other.value) if each is not None)
    if not any(_beside(word, each) or _beside(each, word) for each in words):
        return ()
    return (Fix(word.place, f"{name} {entry.text}", safe),)


def _beside(one: Word, other: Word) -> bool:
    """Whether one letter, a space, stands between two words; in a list it is more than that."""
    place = other.place
    return one.place.end_line == place.line and one.place.end_column == place.column - 1


def behind(entry: GivenOption, text: str, *, safe: bool) -> tuple[Fix, ...]:
    """Words behind an option and its value, where a space divides words."""
    word, value = entry.word, entry.value
    if value is None or word.raw != word.text or value.raw is None:
        return ()
    end = value.place
    if end.end_line is None or end.end_column is None:
        return ()
    # In a list of a YAML or JSON file a space divides nothing: there, something else stands
    # between two words, or a line ends.
    if not _beside(word, value):
        return ()
    at = FilePlace(end.file, end.end_line, end.end_column, end.end_line, end.end_column)
    return (Fix(at, text, safe),)


def key(word: Word | None, tree: DocumentTree | None, text: str, *, safe: bool) -> tuple[Fix, ...]:
    """A key at the beginning of a JSON object that a word holds as it is."""
    if word is None or tree is None or not word.spans or word.raw is None:
        return ()
    if word.text not in word.raw or not word.text.lstrip().startswith("{"):
        return ()
    start = tree.place
    at = FilePlace(start.file, start.line, start.column + 1, start.line, start.column + 1)
    comma = ", " if tree.entries else ""
    if ": " not in word.text:  # as its neighbours; in plain YAML a colon and a space end a key
        text, comma = text.replace(": ", ":"), comma.strip()
    return (Fix(at, text + comma, safe),)
