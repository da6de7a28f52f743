"""Which version of an engine a deploy file means, from the nearest place that names one.

In this order: the image that the command runs in; what the file itself installs, checks out, or
names elsewhere (another image, a pinned package, the folder of a release); requirements, lock
files, Dockerfiles and config.yaml beside it or in a folder above; a file beside it that names it;
a list of images at the root with an entry of its name; what the manifest or the command line says.
A file that names several versions of an engine names none.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from draftcheck.deploy import discover
from draftcheck.deploy.deployment import Command, Contents
from draftcheck.deploy.discover import Neighbours
from draftcheck.deploy.options import forks, programs
from draftcheck.deploy.options.tables import OptionTable
from draftcheck.deploy.text import Word, decoded
from draftcheck.errors import ReadError, UsageError

LONGEST = 100
"""Characters of a version."""
MOST_LOOKED_INTO = 200
"""Files beside a deploy file that are searched for its name."""
PIN = r"(?:\[[^\]]*\])?\s*(?P<how>===?|[<>~!]=?|@)\s*(?P<version>[\w*][^\s,;#\"'\\)\]]*)"
REQUIREMENTS = re.compile(
    r"(?:.*requirements.*|constraints.*)\.(?:txt|in)|environment\.ya?ml|pyproject\.toml"
    r"|setup\.(?:cfg|py)|Pipfile|Dockerfile|.*\.dockerfile|config\.ya?ml|values[\w.-]*\.ya?ml",
    re.IGNORECASE,
)
LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml")
IMAGE = re.compile(r"[A-Za-z0-9][\w./#-]*:[\w][\w.-]*")
WORD = re.compile(r"[\w./#:-]+")
LONGEST_WORD = 2000
"""No image has a longer name; documents have pictures in them, as letters and digits."""
SPLIT_IMAGE = re.compile(
    r"^(?P<indent>[ \t-]*)(?:image|repository|name):[ \t]*[\"']?(?P<name>[\w./-]+)[\"']?[ \t]*\n"
    r"[ \t]*(?:version|tag|imageTag|image_tag):[ \t]*[\"']?(?P<tag>[\w.-]+)",
    re.MULTILINE,
)
"""An image whose tag stands under a key of its own, on the next line."""
COMMENT = re.compile(r"[ \t]*(?:#(?!!)|//|::|rem\b)", re.IGNORECASE)
VARIABLE = re.compile(r"[%${]{1,2}([A-Za-z_]\w*)")
DOCKERFILE, FLAKE = "Dockerfile", "flake.nix"
ENTERS = ("cd", "pushd", "WORKDIR")
YAML_IMAGE = re.compile(r"^[ \t]*(?:-[ \t]+)?image:[ \t]*[\w\"'$]", re.MULTILINE)
LIST_KEY = re.compile(r"(?P<indent> *)[\"']?(?P<key>[\w.-]+)[\"']?:[ \t]*(?P<value>\S*)")


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """A version, how it is known, or why it is not."""

    version: str | None = None
    how: str = ""
    note: str = ""
    by_image: bool = False
    """An image says it, or says that it does not: what is installed elsewhere does not matter."""


@dataclass(frozen=True, slots=True)
class ImageLists:
    """Lists of images at the root of a repository: name of an entry -> its image."""

    entries: tuple[tuple[str, str, str], ...] = ()
    """Name, image, and where it stands."""

    @classmethod
    def at(cls, root: Path) -> ImageLists:
        made: list[tuple[str, str, str]] = []
        folders = [root, *sorted(path for path in root.glob("*") if path.is_dir())[:200]]
        globs = programs.table().version_lists
        for path in (p for folder in folders for glob in globs for p in sorted(folder.glob(glob))):
            try:
                data = discover.read(str(path), follow=False)
            except ReadError:
                data = None
            made += _listed_images(decoded(data or b"").text, discover.shown(path))
        return cls(tuple(made))

    def of(self, table: OptionTable, file: str) -> Iterator[KnownVersion]:
        """The version of the entry that is called like the file."""
        path = PurePosixPath(file)
        stem, folders = _name_words(path.stem), _name_words("_".join(path.parts[:-1]))
        found: dict[tuple[int, int], list[tuple[str, str]]] = {}
        for name, image, where in self.entries:
            words = _name_words(name)
            if not stem or not all(any(w.startswith(s) for w in words) for s in stem):
                continue
            more = {w for w in words if not any(w.startswith(s) for s in stem)}
            if len(more - folders) <= 1:  # the engine's name, where the file leaves it out
                rank = (-len(more & folders), len(more))
                found.setdefault(rank, []).append((image, f"{where}: {name}"))
        for rank in sorted(found):
            told = [_of_image(table, image, where) for image, where in found[rank]]
            if any(told):
                yield _agreed([entry for entry in told if entry is not None])
                return


def _name_words(text: str) -> frozenset[str]:
    return frozenset(word for word in re.split(r"[-_/ ]+", text.lower()) if word)


def _listed_images(text: str, shown: str) -> Iterator[tuple[str, str, str]]:
    entry, depth = "", 0
    for line in text.split("\n"):
        match = LIST_KEY.match(line[:1000])
        if match is None:
            continue
        indent, value = len(match["indent"]), match["value"].strip().strip("\"'")
        if not value and (not entry or indent <= depth):
            entry, depth = match["key"], indent
        elif entry and match["key"] == "image" and indent > depth:
            yield entry, value, shown
            entry = ""


@dataclass(slots=True)
class Versions:
    """The versions that one file means; what holds for all of its commands is looked for once."""

    contents: Contents
    beside: Neighbours
    name: str = ""
    data: bytes = b""
    """The file itself."""
    said: Mapping[str, str] = field(default_factory=dict)
    """Engine -> version where no file tells it."""
    lists: Callable[[], ImageLists] = ImageLists
    """Of the repository; asked for last."""
    _text: str | None = None
    _entered: list[str] | None = None
    _told: dict[str, KnownVersion] = field(default_factory=dict)

    def tell(self, table: OptionTable, command: Command | None) -> KnownVersion:
        """The version, from the nearest place that names one."""
        # The engine is what the image holds, whatever is installed elsewhere.
        image = command.image if command is not None else None
        found = _from_image(table, image) if image is not None else None
        if found is None and image is not None:
            # An image of no known kind: the file may install into it, or the folder build it.
            found = self._once(f"{table.name} in an image", self._into_image(table))
            if found.version is None:
                found = KnownVersion(note=f"the image {image.text[:100]} names no version")
        elif found is None:
            found = self._once(table.name, self._around(table))
        engine = table.head.engine
        if found.version is None and engine in self.said:
            return KnownVersion(self.said[engine], "said for the gate")
        return found

    def _own_text(self) -> str:
        if self._text is None:
            self._text = decoded(self.data).text
        return self._text

    def _once(self, key: str, found: Iterable[KnownVersion]) -> KnownVersion:
        if key not in self._told:
            self._told[key] = _first(found)
        return self._told[key]

    def fork(self, table: OptionTable, command: Command, program: Iterable[str]) -> tuple[str, str]:
        """The fork that a command starts and what tells it; empty: the engine itself, it seems."""
        image = command.image.text if command.image else ""
        text = self._own_text()
        paths = [path for word in program for path in (word, *_values_of(word, text))]
        found = forks.named_in(table.name, [*paths, image])
        if found is None and not image:
            if paths and not re.match(r"[/~$%]|\w:", paths[0]):
                found = forks.named_in(table.name, self._folders())  # cd ~/ik_llama.cpp
            near = [name for name in (DOCKERFILE, FLAKE) if name in self.beside.names]
            built = (decoded(self.beside.read(name) or b"").text for name in near
                     if name == FLAKE or not self.beside.far(name))  # fmt: skip
            texts = itertools.chain([text], built)
            found = found or next(filter(None, (forks.cloned(table.name, t) for t in texts)), None)
        official = any(row.table == table.name for row, _ in programs.images(image))
        if found is None and not official:
            found = forks.built_here(table.name, self.beside.names)
        return found or ("", "")

    def _folders(self) -> list[str]:
        if self._entered is None:
            gone = (
                c.words for c in self.contents.commands if c.words and c.words[0].text in ENTERS
            )
            self._entered = [word.text for words in gone for word in words[1:]]
        return self._entered

    def _around(self, table: OptionTable) -> Iterator[KnownVersion]:
        yield from _from_commands(table, self.contents)
        names = _packages(table)
        text = _without_comments(self._own_text())
        for image in self._taken(table):  # what a container of its own runs says nothing of others
            text = text.replace(image, " " * len(image))
        own = list(_named_in(table, names, text, self.name or "the file"))
        if own:
            yield _agreed(own)
            if any(entry.by_image for entry in own):
                return
        if YAML_IMAGE.search(text):  # it runs in an image of no known kind
            yield from self._from_files(table, folders=0)
            return
        yield from self._from_files(table)
        yield from self._from_users(table, names)
        yield from self.lists().of(table, self.name)

    def _taken(self, table: OptionTable) -> Iterator[str]:
        """Images in which other commands of the file start this engine."""
        for command in self.contents.commands:
            if command.image is not None and ":" in command.image.text:
                start = programs.start(command)
                if start is not None and start[0].table == table.name:
                    yield command.image.text

    def _into_image(self, table: OptionTable) -> Iterator[KnownVersion]:
        yield from _from_commands(table, self.contents)
        yield from self._from_files(table, folders=0)

    def _from_files(self, table: OptionTable, folders: int = 1000) -> Iterator[KnownVersion]:
        """Requirements and the like in the same folder, and in as many above it."""
        near, names = self.beside, _packages(table)
        listed = sorted(near.names, key=lambda name: (near.far(name), name not in LOCKS, name))
        for name in listed:
            if near.far(name) > folders or near.path(name) == self.name:
                continue
            data = near.read(name) if name in LOCKS or REQUIREMENTS.fullmatch(name) else None
            if data is not None:
                yield from _from_file(table, names, near.path(name), name, data)

    def _from_users(self, table: OptionTable, names: tuple[str, ...]) -> Iterator[KnownVersion]:
        """Programs beside the file that name it: what they run in, it runs in."""
        base = self.name.rpartition("/")[2]
        near = [name for name in self.beside.names if name != base and not self.beside.far(name)]
        found: list[KnownVersion] = []
        for name in near[:MOST_LOOKED_INTO] if base else ():
            data = self.beside.read(name) or b""
            if os.fsencode(base) in data and programs.hinted_bytes(data):
                text = _without_comments(decoded(data).text)
                found += _named_in(table, names, text, self.beside.path(name))
        if found:
            yield _agreed(found)


def _values_of(word: str, text: str) -> Iterator[str]:
    """What the file gives to the variables that are left in a path, if only under a condition."""
    for name in VARIABLE.findall(word[:300]):
        for given in re.finditer(rf"\b{name}[\"']?[ \t]*[:=][ \t]*(\S[^\n]*)", text):
            yield given[1][:300]


def _first(found: Iterable[KnownVersion]) -> KnownVersion:
    notes = []
    for told in found:
        if told.version is not None:
            return told
        notes.append(told.note)
    return KnownVersion(note=notes[0] if notes else "")


def _agreed(found: list[KnownVersion]) -> KnownVersion:
    """What all of them say; several versions are none."""
    versions = {entry.version: entry for entry in found if entry.version is not None}
    if len(versions) == 1:
        return next(iter(versions.values()))
    if versions:
        return KnownVersion(note=f"several versions are named: {', '.join(sorted(versions))}")
    return found[0]


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


def _from_image(table: OptionTable, image: Word) -> KnownVersion | None:
    """What the image that a command runs in says; None: it is not one of the engine's."""
    found = _of_image(table, image.text, "")
    if found is not None and found.version is None and image.unknown:
        return KnownVersion(note=f"the image's tag is {image.unknown}, which is not known")
    return found


def _of_image(table: OptionTable, image: str, where: str) -> KnownVersion | None:
    for row, tag in programs.images(image):
        if row.table != table.name:
            continue
        match = re.search(row.tag, tag[:200]) if row.tag is not None else None
        version = _sound(table, match[1]) if match else None
        place = f" in {where}" if where else ""
        if version is not None:
            return KnownVersion(version, f"image tag {tag}{place}", by_image=True)
        said = f"the tag {tag}" if tag else "an image without a tag"
        return KnownVersion(note=f"{said}{place} names no version", by_image=True)
    return None


def _without_comments(text: str) -> str:
    return "\n".join("" if COMMENT.match(line) else line for line in text.split("\n"))


def _named_in(
    table: OptionTable, names: tuple[str, ...], text: str, shown: str
) -> Iterator[KnownVersion]:
    """Images, pinned packages and folders of releases, wherever a text has them."""
    images = [
        (found.start(), found[0])
        for word in WORD.finditer(text)
        if ":" in word[0] and len(word[0]) <= LONGEST_WORD
        for found in IMAGE.finditer(text, word.start(), word.end())
    ]
    images += [(m.start("tag"), f"{m['name']}:{m['tag']}") for m in SPLIT_IMAGE.finditer(text)]
    for start, image in images:
        if (
            _of_image(table, image, "") is not None
        ):  # most are another program's: no line is counted
            at = text.count("\n", 0, start) + 1
            yield _of_image(table, image, f"{shown}:{at}") or KnownVersion()
    patterns = [
        re.compile(row.pattern)
        for row in programs.table().clue
        if row.table == table.name and row.anywhere
    ]
    pin = _pin_in_text(names) if names else None
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > 2000:
            continue
        if pin is not None and (pinned := pin.search(line)) is not None:
            yield _pinned(table, pinned, f"{shown}:{number}")
        for pattern in patterns:
            if (clue := pattern.search(line)) and (version := _sound(table, clue[1])):
                yield KnownVersion(version, f"{clue[0]} in {shown}:{number}")


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


def _pin_in_text(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"(?:^|[\s\"'=-]){_pin(names).pattern}", re.IGNORECASE)


def _pinned(table: OptionTable, match: re.Match[str], where: str) -> KnownVersion:
    text = match[0].strip().strip("\"'=-")[:200]
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
    if found := list(_named_in(table, names, _without_comments(text), shown)):
        yield _agreed(found)
