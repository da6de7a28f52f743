"""rules/programs.toml: which engine a command, a container image, a call or a document starts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import PurePosixPath
from typing import Literal

from draftcheck.deploy.deployment import Command, Document
from draftcheck.deploy.options import forks
from draftcheck.deploy.options.tables import matches
from draftcheck.deploy.text import Word
from draftcheck.rulebook import file_rules, files
from draftcheck.rulebook.files import Names, RuleRow, Text

LONG, HUGE = 1 << 13, 1 << 17
"""Bytes from which on a file without a word of speculation is not parsed."""
PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?|uv|uvx|pipx|poetry|pdm|rye|accelerate|conda")


class StartRow(RuleRow, frozen=True, kw_only=True):
    """Something that starts an engine: `table` names the file of its options."""

    table: Text
    first: Names = ()
    """The word behind it must be one of these."""
    positional: Literal["", "target"] = ""
    """What a word without a dash is."""
    letter: str = ""
    """Which of the engine's programs it is, as in options/*-names.toml."""
    open: bool = False
    """It has options that the engine does not have."""
    part: bool = False
    """It is a part of a command line: what is missing here may stand elsewhere."""
    always: bool = False
    """It does nothing but speculate: the draft alone switches it on."""
    own: Names = ()
    """Options that it keeps for itself, though the engine has or had some of the same name."""
    guessed: bool = False
    """Only options tell the engine: a fork, or a script with options of its own, may get them."""


class ProgramRow(StartRow, frozen=True, kw_only=True):
    """A program by the name of its file, or by its Python module."""

    names: Names = ()
    modules: Names = ()
    within: str | None = None
    """A pattern that the whole path, or the image, must match."""


class ImageRow(StartRow, frozen=True, kw_only=True):
    """A container image whose entry point is the engine."""

    match: Text
    tag: str | None = None
    """A pattern whose group is the version."""
    entry: str | None = None
    """A pattern of the tags whose entry point it is."""
    model: str | None = None
    """A pattern of first words that are the model."""


class SignRow(RuleRow, frozen=True):
    """Options, and keys of files, that one engine alone has."""

    table: Text
    options: Names = ()
    keys: Names = ()
    scripts: str = ""
    """A pattern of the names of scripts and functions that hand their options on to it."""
    variables: Names = ()
    inside: Names = ()
    """Keys of the object that an option takes."""


class PackageRow(RuleRow, frozen=True):
    """Python packages that an engine comes in."""

    table: Text
    names: Names


class ClueRow(RuleRow, frozen=True):
    """A word of a command that tells a version."""

    table: Text
    pattern: Text
    command: Names = ()
    """Programs whose words count; empty: all."""
    anywhere: bool = False
    """It counts wherever it stands in the file: the name of a folder."""


class KeysReading(RuleRow, frozen=True, kw_only=True):
    """How the keys of a document, or the arguments of a call, are read."""

    table: Text
    keys: Literal["", "options"] = ""
    """options: a key is an option without its dashes."""
    positional: Names = ()
    inside: str = ""
    """Only what stands under this key."""
    target: Names = ()
    """Paths of keys that name the target."""
    pairs: str = ""
    sections: str = ""
    letter: str = ""
    method: str = ""
    arguments: bool = False
    partial: bool = False


class DocumentRow(KeysReading, frozen=True, kw_only=True):
    """A kind of document."""

    kinds: Names
    told_by: Names = ()
    """Keys of which it has at least one."""


class CallRow(KeysReading, frozen=True, kw_only=True):
    """A call in Python, by its whole name or by the method's."""

    names: Names = ()
    methods: Names = ()
    package: str = ""
    """Its methods count only in a program that imports this package: their names are anybody's."""


class LoaderRow(RuleRow, frozen=True, kw_only=True):
    """A call in Python whose value is the model that one of its arguments names."""

    names: Names = ()
    """Whole names; .llm.model: any that ends so."""
    methods: Names = ()
    model: Names
    """The argument, by number or name: the first that is given."""
    attribute: str = ""
    """Where the call names no model: what is set on its result afterwards."""
    instead: Mapping[str, Names] = {}
    """Arguments whose value, one of these, is told instead of the model: a part of another one."""
    beside: Names = ()
    """Arguments that are told besides the model."""


class ProgramFile(RuleRow, frozen=True):
    """rules/programs.toml."""

    version_lists: Names
    hints: Names
    speculation: Names
    speculation_rare: Names
    spoken_words: Names
    spoken: Text
    sign: tuple[SignRow, ...]
    runtimes: Mapping[str, Names]
    program: tuple[ProgramRow, ...]
    image: tuple[ImageRow, ...]
    package: tuple[PackageRow, ...]
    clue: tuple[ClueRow, ...]
    document: tuple[DocumentRow, ...]
    call: tuple[CallRow, ...]
    loader: tuple[LoaderRow, ...]


def _begun(row: StartRow, words: Sequence[Word]) -> tuple[StartRow, Sequence[Word]] | None:
    """The row and the words behind it; None: the first word is not one that starts it."""
    if not row.first:
        return row, words
    return (row, words[1:]) if words and words[0].text in row.first else None


def table() -> ProgramFile:
    return files.read("programs", ProgramFile)


def hinted(text: str) -> bool:
    """Whether a text names an engine or speculation at all: a fast look before it is parsed."""
    return any(map(text.lower().__contains__, table().hints))  # no generator: it is asked often


def hinted_bytes(data: bytes) -> bool:
    """The same, before it is decoded; of a long file a word of speculation is asked too."""
    hints, words, rare = _hint_bytes()
    if len(data) > HUGE:  # each look goes through all of it, and most words are about a model
        skipped = b"" if b"model" in data else b"model"
        if not any(word in data for word in words if not skipped or skipped not in word):
            return False
    lower = data.lower()
    if HUGE >= len(data) > LONG and not any(map(lower.__contains__, words + rare)):
        return False
    return any(map(lower.__contains__, hints))


@cache
def _hint_bytes() -> tuple[tuple[bytes, ...], ...]:
    rows = table()
    lists = (rows.hints, rows.speculation, rows.speculation_rare)
    return tuple(tuple(map(str.encode, words)) for words in lists)


@cache
def _by_name() -> Mapping[str, tuple[ProgramRow, ...]]:
    found: dict[str, list[ProgramRow]] = {}
    for row in table().program:
        for name in (*row.names, *row.modules):
            found.setdefault(name, []).append(row)
    return {name: tuple(entries) for name, entries in found.items()}


def start(command: Command) -> tuple[StartRow, Sequence[Word]] | None:
    """Which engine a command starts, and the words that are its options."""
    words = command.words
    image = command.image.text if command.image else ""
    for at, name in _candidates(words):
        module = at > 0 and words[at - 1].text == "-m"
        for row in _by_name().get(name, ()):
            if name not in (row.modules if module else row.names):
                continue
            within = row.within or ""
            if not any(matches(within, place) for place in (words[at].text, image)):
                continue
            if (begun := _begun(row, words[at + 1 :])) is not None:
                return begun
        if (fork := forks.by_program(name)) is not None:
            return StartRow(table=fork.table, letter=fork.letter, open=True), words[at + 1 :]
    return _from_image(command) or _from_signs(command)


def _candidates(words: Sequence[Word]) -> Iterator[tuple[int, str]]:
    """Where a program's name may stand: first, or behind python -m, "$PYTHON" -m and the like."""
    if not words:
        return
    yield 0, _base(words[0])
    if not words[0].unknown and not PYTHON.fullmatch(_base(words[0])):
        return
    for at in range(1, min(len(words), 8)):
        if words[at - 1].text == "-m" or not words[at].text.startswith("-"):
            yield at, _base(words[at])


def _base(word: Word) -> str:
    return PurePosixPath(word.text.replace("\\", "/")).name if word.text else ""


def images(image: str) -> Iterator[tuple[ImageRow, str]]:
    """The rows for an image, with its tag."""
    # registry/name:tag@digest; enroot writes registry#name:tag
    whole = image.partition("@")[0].replace("#", "/")
    name, colon, tag = whole.rpartition(":")
    if not colon or "/" in tag:
        name, tag = whole, ""
    for row in table().image:
        if matches(row.match, name):
            yield row, tag


def _from_image(command: Command) -> tuple[StartRow, Sequence[Word]] | None:
    """An image whose entry point is the engine: the words are its options."""
    words = command.words
    plain = bool(words) and not words[0].text.startswith("-") and not words[0].unknown
    for row, tag in images(command.image.text if command.image else ""):
        if plain and not (row.model is not None and matches(row.model, words[0].text)):
            continue
        if row.entry is not None and not matches(row.entry, tag):
            continue
        if (begun := _begun(row, words)) is not None:
            return begun
    fork = forks.by_image(command.image.text) if command.image else None
    if fork is not None and words and not plain:
        return StartRow(table=fork.table, letter=fork.letter, open=True), words
    return None


@cache
def _command_start() -> re.Pattern[str]:
    """Where an engine's command begins inside a text."""
    names = set[str]()
    for row in table().program:
        first = rf"[ \t]+(?:{'|'.join(row.first)})" if row.first else ""
        if row.within is None:  # `server` alone may be anybody's
            names |= {re.escape(name) + first for name in row.names}
        names |= {rf"-m[ \t]+{re.escape(name)}{first}" for name in row.modules}
    # What must stand before it is asked afterwards: a pattern that begins with it is slow.
    return re.compile(rf"(?:{'|'.join(sorted(names))})(?=[\s\"']|$)")


def starts_engine(text: str) -> bool:
    """A fast look: whether a text may be, or hold, an engine's command."""
    return any(
        match.start() == 0
        or text[match.start() - 1] in "/;&|\"'("
        or text[match.start() - 1].isspace()
        for match in _command_start().finditer(text)
    )


def is_sign(text: str) -> bool:
    """Whether a word is an option that one engine alone has."""
    return text.partition("=")[0].partition(".")[0].replace("_", "-") in _signs()


def is_options(text: str) -> bool:
    """Whether a text is a row of options, one of which one engine alone has."""
    stripped = text.strip()
    return stripped.startswith("-") and " " in stripped and any(map(is_sign, stripped.split()))


def speculates(text: str) -> bool:
    """Whether a text has a word of speculation in it."""
    lower = text.lower()
    return any(word in lower for word in file_rules.speculation_words())


@cache
def _signs() -> Mapping[str, SignRow]:
    return {name: row for row in table().sign for name in row.options}


@cache
def sign_keys() -> frozenset[str]:
    """Keys that one engine alone has, with dashes."""
    return frozenset(key for row in table().sign for key in row.keys)


def sign_table(name: str) -> str:
    """The table of the engine that alone has this option or key."""
    spelled = name.replace("_", "-")
    rows = table().sign
    return next(
        row.table
        for row in rows
        if spelled in (*row.options, *row.keys) or name in (*row.variables, *row.inside)
    )


def holds_key(text: str) -> bool:
    """Whether a text of several lines has a line that begins with a key of one engine alone."""
    return "\n" in text and any(
        match["key"] and not text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip()
        for match in sign_pattern().finditer(text)
    )


@cache
def sign_pattern() -> re.Pattern[str]:
    """An option that one engine alone has, or a key with a value that switches something on."""

    def either(names: Iterable[str]) -> str:
        return "|".join(re.escape(name.lstrip("-")).replace(r"\-", "[-_]") for name in names)

    options = either(name for row in table().sign for name in row.options)
    keys = either(name for row in table().sign for name in row.keys)
    variables = "|".join(name for row in table().sign for name in row.variables)
    inside = "|".join(name for row in table().sign for name in row.inside)
    off = r"[ \t]*(?:None|null|~|\"\"|'')[ \t]*(?:[,;)#]|\r?$)"
    return re.compile(
        rf"(?<![\w-])(?P<option>--(?:{options}))(?![\w-])"
        rf"|(?<![\w.$-])[\"']?(?P<key>{keys})[\"']?\]?[ \t]*[:=](?!=)(?!{off})"
        # +rollout.engine_kwargs.vllm.speculative_config.method=ngram; of Python, with spaces
        rf"|(?<![\w.])\+{{0,2}}[A-Za-z_]\w*\.(?:\w+\.)*(?P<override>{keys})"
        rf"(?P<below>(?:\.\w+)*)(?:=| = )(?!=)(?!{off})"
        rf"|(?<![\w${{-])[\"']?(?P<variable>{variables})[\"']?\]?"
        r"(?:[ \t]*[:=](?!=|[ \t]*(?:none\b|[\"']{2}|\r?$))|\r?\n[ \t]*value:)"
        rf"|\{{[^{{}}\n]{{0,300}}\\?\"(?P<inside>{inside})\\?\""
        rf"|^\[\[?(?:[\w.-]+\.)?(?P<table>{keys})\]",
        re.MULTILINE,
    )


def spoken(data: bytes) -> bool:
    """Whether the pattern below can match at all: it is slow, and most files have none of these."""
    return any(map(data.__contains__, map(str.encode, table().spoken_words)))


@cache
def spoken_pattern() -> re.Pattern[str]:
    """An option or a key that speaks of drafts in anybody's way."""
    return re.compile(table().spoken)


@cache
def _sign_bytes() -> re.Pattern[bytes]:
    return re.compile(sign_pattern().pattern.encode(), re.MULTILINE)


def signed(data: bytes) -> bool:
    """Whether a file holds an option or a key that one engine alone has."""
    fast = any(map(data.__contains__, _sign_words()))
    return fast and _sign_bytes().search(data) is not None


@cache
def _sign_words() -> tuple[bytes, ...]:
    """Beginnings that every sign has one of: looked for before the pattern, which is slow."""
    rows = table().sign
    names = [name for row in rows for name in (*row.options, *row.keys, *row.variables)]
    heads = {re.match(r"-*[a-z]+|[A-Z]+_[A-Z]+_", name)[0] for name in names}  # type: ignore[index]
    return tuple(head.encode() for head in sorted(heads) if not head.startswith("--speculative"))


def _from_signs(command: Command) -> tuple[StartRow, Sequence[Word]] | None:
    """A container, a program that a variable names, or arguments alone: told by their options."""
    words = command.words
    alone = bool(words) and (words[0].unknown or words[0].text.startswith("-"))
    for word in words:
        name = word.text.partition("=")[0].partition(".")[0].replace("_", "-")
        if (sign := _signs().get(name)) is not None:
            engine, script = sign.table, sign.scripts
            handed = bool(script) and matches(script, _base(words[0]))
            if command.image is None and not alone and not handed:
                return None
            row = next(row for row in table().program if row.table == engine)
            first = next(at for at, each in enumerate(words) if each.text.startswith("-"))
            serves = [at for at, each in enumerate(words[:first]) if each.text in row.first]
            target = row.positional if serves else ""
            part = handed or (first == 0 and command.image is None)
            start = StartRow(
                table=engine, positional=target, letter=row.letter, open=True, part=part,
                guessed=True,
            )  # fmt: skip
            return start, words[serves[0] + 1 if serves else first :]
    return None


@cache
def _classes() -> frozenset[str]:
    """Classes that set an engine up, without their modules."""
    last = (name.rpartition(".")[2] for row in table().call for name in row.names)
    return frozenset(name for name in last if name[:1].isupper())


def sets_up(last: str, imported: Iterable[str]) -> bool:
    """Whether a call of this name is an engine's, whatever it is given."""
    packages = [row.package for row in table().call if row.package and last in row.methods]
    return last in _classes() or any(
        name.partition(".")[0] in packages for name in imported if packages
    )


@lru_cache(maxsize=256)
def loader(name: str, last: str) -> LoaderRow | None:
    """How a call that loads a model names it."""
    for row in table().loader:
        if last in row.methods or any(
            name == one or (one.startswith(".") and name.endswith(one)) for one in row.names
        ):
            return row
    return None


def document(found: Document) -> KeysReading | None:
    """How a document of this kind, or a call of this name, is read."""
    if found.kind == "python-call":
        last = found.name.rpartition(".")[2]
        calls = table().call
        named = (row for row in calls if found.name in row.names)
        return next(named, None) or next((row for row in calls if last in row.methods), None)
    keys = {key.text.replace("_", "-") for key, _ in found.tree.entries or ()}
    fitting = [
        row for row in table().document
        if found.kind in row.kinds and (not row.told_by or keys & set(row.told_by))
    ]  # fmt: skip
    told = (row for row in fitting if row.table == found.name)
    return next(told, fitting[0] if fitting else None)


def imported(modules: Collection[str], kind: str) -> str:
    """The table of the one engine with documents of this kind whose Python modules a program
    imports; "" for none or several."""
    tables = {row.table for row in table().document if kind in row.kinds}
    calls = (row for row in table().call if row.table in tables)
    found = {row.table for row in calls if any(n.partition(".")[0] in modules for n in row.names)}
    return found.pop() if len(found) == 1 else ""


def config_of(options: str, found: Document) -> KeysReading | None:
    """How a document is read that a command of this engine names."""
    fitting = (r for r in table().document if r.table == options and found.kind in r.kinds)
    return next(fitting, None)
