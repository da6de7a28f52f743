"""rules/programs.toml: which engine a command, a container image, a call or a document starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import Any

from draftcheck.deploy.deployment import Command, Document, Word
from draftcheck.deploy.options.tables import matches
from draftcheck.rulebook import files

PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?|uv|uvx|pipx|poetry|pdm|rye|accelerate|conda")


@dataclass(frozen=True, slots=True)
class EngineStart:
    """An engine that something starts, and the words that are its options."""

    table: str
    words: tuple[Word, ...]
    letter: str = ""
    positional: str = ""
    open: bool = False
    """It has options that the engine does not have."""
    always: bool = False
    """It does nothing but speculate: the draft alone switches it on."""
    own: tuple[str, ...] = ()
    """Options that it keeps for itself, though the engine has or had some of the same name."""


@cache
def rows(kind: str) -> tuple[Mapping[str, Any], ...]:
    return tuple(files.load("programs").get(kind, []))


@cache
def _by_name() -> Mapping[str, tuple[Mapping[str, Any], ...]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows("program"):
        for name in (*row.get("names", ()), *row.get("modules", ())):
            found.setdefault(name, []).append(row)
    return {name: tuple(entries) for name, entries in found.items()}


def start(command: Command) -> EngineStart | None:
    """The engine that a command starts, or None."""
    words = command.words
    for at, name in _candidates(words):
        for row in _by_name().get(name, ()):
            begun = _begin(row, words, at, command)
            if begun is not None:
                return begun
    return _from_image(command)


def _candidates(words: Sequence[Word]) -> Iterator[tuple[int, str]]:
    """Where a program's name may stand: first, or behind python -m, uv run and the like."""
    if not words:
        return
    yield 0, _base(words[0])
    if not PYTHON.fullmatch(_base(words[0])):
        return
    for at in range(1, min(len(words), 8)):
        if words[at - 1].text == "-m" or not words[at].text.startswith("-"):
            yield at, _base(words[at])


def _base(word: Word) -> str:
    return PurePosixPath(word.text.replace("\\", "/")).name if word.text else ""


def _begin(
    row: Mapping[str, Any], words: Sequence[Word], at: int, command: Command
) -> EngineStart | None:
    module = at > 0 and words[at - 1].text == "-m"
    if _base(words[at]) not in row.get("modules" if module else "names", ()):
        return None
    if "within" in row and not _within(row["within"], words[at], command):
        return None
    rest = words[at + 1 :]
    if "first" in row:
        if not rest or rest[0].text not in row["first"]:
            return None
        rest = rest[1:]
    return EngineStart(
        row["table"], tuple(rest), row.get("letter", ""), row.get("positional", ""),
        bool(row.get("open")), bool(row.get("always")), tuple(row.get("own", ())),
    )  # fmt: skip


def _within(pattern: str, word: Word, command: Command) -> bool:
    image = command.image.text if command.image else ""
    return matches(pattern, word.text) or matches(pattern, image)


def split_image(text: str) -> tuple[str, str]:
    """registry/name:tag@digest -> (registry/name, tag)."""
    whole = text.partition("@")[0]
    name, colon, tag = whole.rpartition(":")
    return (name, tag) if colon and "/" not in tag else (whole, "")


def images(command: Command) -> Iterator[tuple[Mapping[str, Any], str]]:
    """The rows for a command's image, with its tag."""
    if command.image is None:
        return
    name, tag = split_image(command.image.text)
    for row in rows("image"):
        if matches(row["match"], name):
            yield row, tag


def _from_image(command: Command) -> EngineStart | None:
    """An image whose entry point is the engine: the words are its options."""
    words = command.words
    plain = bool(words) and not words[0].text.startswith("-") and not words[0].unknown
    for row, tag in images(command):
        if plain and not ("model" in row and matches(row["model"], words[0].text)):
            continue
        if "entry" in row and not matches(row["entry"], tag):
            continue
        rest = words
        if "first" in row:
            if not rest or rest[0].text not in row["first"]:
                continue
            rest = rest[1:]
        return EngineStart(
            row["table"], tuple(rest), row.get("letter", ""), row.get("positional", "")
        )
    return None


def document(found: Document) -> Mapping[str, Any] | None:
    """How a document of this kind, or a call of this name, is read."""
    if found.kind == "python-call":
        last = found.name.rpartition(".")[2]
        named = (row for row in rows("call") if found.name in row.get("names", ()))
        return next(named, None) or next(
            (row for row in rows("call") if last in row.get("methods", ())), None
        )
    keys = {key.text.replace("_", "-") for key, _ in found.tree.entries or ()}
    for row in rows("document"):
        if found.kind in row["kinds"] and ("told_by" not in row or keys & set(row["told_by"])):
            return row
    return None


def config_of(table: str, found: Document) -> Mapping[str, Any] | None:
    """How a document is read that a command of this engine names."""
    fitting = (r for r in rows("document") if r["table"] == table and found.kind in r["kinds"])
    return next(fitting, None)
