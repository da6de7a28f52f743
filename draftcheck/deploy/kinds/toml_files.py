"""TOML -> a tree with the line of every setting. The values are tomllib's own."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from draftcheck.deploy.deployment import Contents, DocumentTree
from draftcheck.deploy.kinds import containers
from draftcheck.deploy.text import TextView, Word
from draftcheck.values.findings import FilePlace

_HEADING = re.compile(r"[ \t]*(\[\[?)([^\]\n]+)\]\]?")
_PAIR = re.compile(r"[ \t]*((?:[\w-]+|\"[^\"\n]*\"|'[^'\n]*')(?:[ \t]*\.[ \t]*(?:[\w-]+|\"[^\"\n]*\"|'[^'\n]*'))*)[ \t]*=[ \t]*")  # fmt: skip  # noqa: E501
_KEY = re.compile(r"\"([^\"]*)\"|'([^']*)'|([\w-]+)")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'', re.DOTALL
)
_ERROR = re.compile(r"\(at line (\d+), column (\d+)\)|\(at end of document\)")
MAX_DEPTH = 60
_Path = tuple[str | int, ...]


def read(view: TextView, contents: Contents) -> None:
    """The commands that a TOML file describes."""
    tree = _parse(view, contents)
    if tree is not None:
        containers.walk(containers.ContainerReader(contents), tree)
    contents.troubles.clear()


def read_manifest(view: TextView, contents: Contents) -> None:
    """One document of kind manifest, or why it is not TOML."""
    tree = _parse(view, contents)
    if tree is not None:
        contents.document("manifest", tree)


def _parse(view: TextView, contents: Contents) -> DocumentTree | None:
    try:
        values = tomllib.loads(view.text.replace("\r\n", "\n"))
        return _tree(view, values, (), _places(view), view.place(0, 0))
    except tomllib.TOMLDecodeError as error:
        found, at = _ERROR.search(str(error)), len(view.text)
        if found and found[1]:
            starts = [start for start, _ in view.lines()] or [0]
            line, column = min(int(found[1]), len(starts)), int(found[2])
            at = min(starts[line - 1] + column - 1, len(view.text))
        why = _ERROR.sub("", str(error)).strip()
        contents.trouble(view.place(at, at), f"not TOML: {why}")
    except RecursionError:
        contents.trouble(view.place(0, 0), "not TOML: nested too deeply")
    except ValueError:  # Python reads no number of more than 4,300 digits
        contents.trouble(view.place(0, 0), "not TOML: a number has too many digits")
    return None


def _places(view: TextView) -> dict[_Path, tuple[int, int, int, int]]:
    """Where each key and its value stand, by path."""
    found: dict[_Path, tuple[int, int, int, int]] = {}
    counts: dict[_Path, int] = {}
    table: _Path = ()
    at = 0
    while at < len(view.text):
        heading, pair = _HEADING.match(view.text, at), _PAIR.match(view.text, at)
        if heading:
            table = _table(heading, counts)
            start, end = heading.span(2)
            for size in range(1, len(table) + 1):
                found.setdefault(table[:size], (start, end, start, end))
            at = heading.end()
        elif pair:
            end = _end(view.text, pair.end())
            last = pair.end() + len(view.text[pair.end() : end].rstrip())
            path = (*table, *_keys(pair[1]))
            found[path] = (*pair.span(1), pair.end(), last)
            at = end
        following = view.text.find("\n", at)
        at = len(view.text) if following < 0 else following + 1
    return found


def _keys(text: str) -> list[str]:
    return [next(group for group in m.groups() if group is not None) for m in _KEY.finditer(text)]


def _table(heading: re.Match[str], counts: dict[_Path, int]) -> _Path:
    """The path of a heading, with the number of the element where it is one of a list."""
    path: _Path = ()
    names = _keys(heading[2])
    for index, name in enumerate(names):
        path = (*path, name)
        if index == len(names) - 1 and heading[1] == "[[":
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path


def _end(text: str, at: int) -> int:
    """The end of a value: lists and strings may take many lines."""
    depth = 0
    while at < len(text):
        letter = text[at]
        if letter in "\"'":
            string = _STRING.match(text, at)
            at = string.end() if string else at + 1
            continue
        if letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "#":
            line = text.find("\n", at)
            if depth <= 0:
                return at
            at = len(text) if line < 0 else line
            continue
        elif letter == "\n" and depth <= 0:
            return at
        at += 1
    return at


def _tree(
    view: TextView,
    value: Any,
    path: _Path,
    places: dict[_Path, tuple[int, int, int, int]],
    around: FilePlace,
) -> DocumentTree:
    known = places.get(path)
    place = view.place(known[2], known[3]) if known else around
    if isinstance(value, dict):
        entries = []
        for name, inner in value.items():
            deeper = (*path, name)
            key = places.get(deeper) or places.get((*deeper, 0))
            at = view.place(key[0], key[1]) if key else place
            word = Word(name, at, view.vague(name, 0, 0))
            entries.append((word, _tree(view, inner, deeper, places, place)))
        return DocumentTree(place, entries=tuple(entries))
    if isinstance(value, list):
        items = (_tree(view, v, (*path, i), places, place) for i, v in enumerate(value))
        return DocumentTree(place, items=tuple(items))
    return DocumentTree(place, word=_word(view, value, known, place))


def _word(
    view: TextView, value: Any, known: tuple[int, int, int, int] | None, place: FilePlace
) -> Word:
    kind = {bool: "bool", int: "int", float: "float"}.get(type(value), "str")
    text = str(value).lower() if kind == "bool" else str(value)
    if known is None:
        return Word(text, place, view.vague(text, 0, 0), kind=kind)
    start, end = known[2], known[3]
    for quote in (0, 1):
        inner = view.slice(start + quote, end - quote)
        if inner.text == text:
            return inner.word(place, view.raw(start, end), kind)
    return Word(text, place, view.vague(text, start, end), raw=view.raw(start, end), kind=kind)
