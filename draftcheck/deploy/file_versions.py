"""Which version of an engine a deploy file means: image tags, installs, requirements beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from draftcheck.deploy.deployment import Command, Contents
from draftcheck.deploy.discover import Neighbours
from draftcheck.deploy.options import programs
from draftcheck.deploy.options.tables import OptionTable
from draftcheck.deploy.text import decoded
from draftcheck.errors import UsageError

LONGEST = 100
"""Characters of a version."""
PIN = r"(?:\[[^\]]*\])?\s*(?P<how>===?|[<>~!]=?|@)\s*(?P<version>[^\s,;#\"'\\)\]]+)"
REQUIREMENTS = re.compile(
    r"(?:.*requirements.*|constraints.*)\.(?:txt|in)|environment\.ya?ml|pyproject\.toml"
    r"|setup\.(?:cfg|py)|Pipfile|Dockerfile|.*\.dockerfile",
    re.IGNORECASE,
)
LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml")


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """A version, how it is known, or why it is not."""

    version: str | None = None
    how: str = ""
    note: str = ""


class Versions:
    """The versions that one file means; what holds for all of its commands is looked for once."""

    def __init__(self, contents: Contents, beside: Neighbours) -> None:
        self._contents, self._beside = contents, beside
        self._told: dict[str, KnownVersion] = {}

    def tell(self, table: OptionTable, command: Command | None) -> KnownVersion:
        """The version, from the nearest place that names one."""
        found = list(_from_image(table, command)) if command is not None else []
        if found:  # the engine is what the image holds, whatever is installed elsewhere
            return _first(found)
        if table.name not in self._told:
            self._told[table.name] = _first(_around(table, self._contents, self._beside))
        return self._told[table.name]


def _first(found: Iterable[KnownVersion]) -> KnownVersion:
    notes = []
    for told in found:
        if told.version is not None:
            return told
        notes.append(told.note)
    return KnownVersion(note=notes[0] if notes else "")


def _around(table: OptionTable, contents: Contents, beside: Neighbours) -> Iterator[KnownVersion]:
    yield from _from_commands(table, contents)
    names = _packages(table)
    listed = sorted(beside.names, key=lambda name: (beside.far(name), name not in LOCKS, name))
    for name in listed if names else ():
        if name in LOCKS or REQUIREMENTS.fullmatch(name):
            data = beside.read(name)
            if data is not None:
                yield from _from_file(table, names, beside.path(name), name, data)


def _packages(table: OptionTable) -> tuple[str, ...]:
    return tuple(
        name for row in programs.table().package if row.table == table.name for name in row.names
    )


def _sound(table: OptionTable, text: str) -> str | None:
    """The version as the rulebook writes it, if it is one."""
    plain = text.strip().strip("\"'").partition("+")[0]
    if len(plain) > LONGEST:
        return None
    try:
        table.order(plain)
    except UsageError:
        return None
    return plain.removeprefix("v") if table.head.versions == "pep440" else plain


def _from_image(table: OptionTable, command: Command) -> Iterator[KnownVersion]:
    if command.image is None:
        return
    for row, tag in programs.images(command):
        if row.table != table.name:
            continue
        match = re.search(row.tag, tag[:200]) if row.tag is not None else None
        version = _sound(table, match[1]) if match else None
        if version is not None:
            yield KnownVersion(version, f"image tag {tag}")
        elif command.image.unknown:
            yield KnownVersion(
                note=f"the image's tag is {command.image.unknown}, which is not known"
            )
        else:
            said = f"the tag {tag}" if tag else "an image without a tag"
            yield KnownVersion(note=f"{said} names no version")
        return


def _from_commands(table: OptionTable, contents: Contents) -> Iterator[KnownVersion]:
    """pip install vllm==0.15.1, git checkout b9109 … in the same file."""
    names = _packages(table)
    pin = _pin(names) if names else None
    for command in contents.commands:
        program = command.words[0].text.rpartition("/")[2] if command.words else ""
        texts = [word.text for word in command.words]
        if pin is not None and ("install" in texts[:6] or "add" in texts[:3]):
            for word in command.words:
                if match := pin.fullmatch(word.text.strip()):
                    yield _pinned(table, match, f"line {word.place.line}")
        for row in programs.table().clue:
            if row.table != table.name or (row.command and program not in row.command):
                continue
            for word in command.words:
                found = re.search(row.pattern, word.text[:500])
                if found and (version := _sound(table, found[1])):
                    yield KnownVersion(version, f"{word.text[:80]} in line {word.place.line}")


def _pin(names: tuple[str, ...]) -> re.Pattern[str]:
    either = "|".join(re.escape(name).replace(r"\-", "[-_.]") for name in names)
    return re.compile(rf"(?P<name>{either}){PIN}", re.IGNORECASE)


def _pinned(table: OptionTable, match: re.Match[str], where: str) -> KnownVersion:
    text = match[0].strip()[:200]
    version = _sound(table, match["version"])
    if match["how"] in ("==", "===") and version is not None and "*" not in match["version"]:
        return KnownVersion(version, f"{text} in {where}")
    return KnownVersion(note=f"{text} in {where} is no version")


def _from_file(
    table: OptionTable, names: tuple[str, ...], shown: str, base: str, data: bytes
) -> Iterator[KnownVersion]:
    text = decoded(data).text
    if base in LOCKS:  # machine-made and large: looked through, not parsed
        for name in names:
            pattern = rf'(?m)^name = "{re.escape(name)}"\s*\nversion = "([^"]+)"'
            if base == "Pipfile.lock":
                pattern = rf'"{re.escape(name)}"\s*:\s*\{{[^{{}}]*"version"\s*:\s*"==([^"]+)"'
            locked = re.search(pattern, text)
            if locked is not None and (sound := _sound(table, locked[1])):
                yield KnownVersion(sound, f"{name} {locked[1]} in {shown}")
        return
    pin = re.compile(rf"(?:^|[\s\"'=-]){_pin(names).pattern}", re.IGNORECASE)
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("#") or len(line) > 2000:
            continue
        if (match := pin.search(line)) is not None:
            yield _pinned(table, match, f"{shown}:{number}")
