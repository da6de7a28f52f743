"""The options that a deployment gives an engine: on a command line, by environment, as keys.

arguments.py and documents.py fill a GivenOptions in the order of the file; checks.py, references.py
and find.py then ask it by meaning ("draft") or by name ("--model-draft"). Where an option is given
twice, the last counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from draftcheck.deploy.deployment import DocumentTree, FileTrouble, Word
from draftcheck.deploy.options.tables import EngineOption, OptionsAtVersion
from draftcheck.values.findings import FilePlace

KEY = "key"
OPTION = "option"
ENV = "env"


@dataclass(frozen=True, slots=True)
class GivenOption:
    """One option, variable or key, and its value."""

    name: str
    """As the engine's table spells it."""
    word: Word
    """As the file spells it."""
    value: Word | None = None
    kind: str = OPTION
    tree: DocumentTree | None = None
    """The value of a key, where it is no scalar."""
    option: EngineOption | None = None
    takes: str = "1"

    @property
    def means(self) -> str:
        return self.option.means if self.option else ""

    @property
    def text(self) -> str:
        """The value's text; empty where there is none."""
        return self.value.text if self.value else ""

    @property
    def at(self) -> FilePlace:
        """Where the value stands; the option itself where it has none."""
        return self.value.place if self.value else self.word.place

    @property
    def on(self) -> bool:
        """Whether a switch is on: given without a value, or with one that says yes."""
        return self.value is None or self.text.lower() not in ("false", "0", "off", "no", "null")

    @property
    def unset(self) -> bool:
        """A key that is there and says nothing (null, empty)."""
        return self.kind == KEY and self.value is not None and (
            self.value.kind == "null" or (not self.value.text and not self.value.unknown)
        )  # fmt: skip


@dataclass(slots=True)
class GivenOptions:
    """Everything that is given to one engine, in order."""

    view: OptionsAtVersion
    entries: list[GivenOption] = field(default_factory=list)
    may_hold_more: bool = False
    """A variable that nothing defines may hold options: what is missing here may be there."""
    options_file: bool = False
    """These are the keys of a file; the command that names it may give more options."""
    python_arguments: bool = False
    """Keys are arguments of Python: there may be more of them than the command line has."""
    speculates_always: bool = False
    """The program does nothing but speculate, so no option need ask for it."""
    newer_than_read: bool = False
    """The version is newer than the newest whose options were read."""
    configs: dict[str, Word] = field(default_factory=dict)
    """Files of options that were read with the command -> where it names them."""
    troubles: list[FileTrouble] = field(default_factory=list)
    broken_json: list[tuple[GivenOption, FileTrouble]] = field(default_factory=list)
    """Options whose JSON could not be read."""
    unsplit: list[GivenOption] = field(default_factory=list)
    """--option=value where the engine does not take it apart."""
    without_value: list[GivenOption] = field(default_factory=list)
    """Options at the end of the line whose value is missing."""
    spelling_searches: int = 0
    """Unknown names so far for which the nearest known one was looked for."""

    def add(self, entry: GivenOption) -> None:
        self.entries.append(entry)

    def all(self, names: str) -> Iterator[GivenOption]:
        """What is given under a meaning or a name; several are separated by |."""
        wanted = names.split("|")
        for entry in self.entries:
            if not entry.unset and (entry.means in wanted or entry.name in wanted):
                yield entry

    def last(self, names: str) -> GivenOption | None:
        """The one that counts: the last; the environment is read before the command line."""
        return next(iter([*self.all(names)][::-1]), None)

    def has(self, names: Iterable[str]) -> bool:
        return any(self.last(name) for name in names)


def parts(entry: GivenOption) -> list[str]:
    """The values of an option: several where it takes a list."""
    split = entry.option.split if entry.option else ""
    if not split:
        return [entry.text]
    return [part for part in entry.text.split(split) if part]


def tail(word: Word, start: int) -> Word:
    """The end of a word as a word: the value in --option=value."""
    text = word.text[start:]
    if not word.spans:
        return Word(text, word.place, word.unknown)
    end = len(word.text)
    raw = text if word.raw is not None and text in word.raw else None
    return Word(text, word.part(start, end), word.unknown, raw, spans=word.spans_of(start, end))
