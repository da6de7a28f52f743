"""Which engines are on this machine, in which version, and how that was found out.

Packages are looked up by their metadata and programs asked for their version; nothing is imported.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from draftcheck.anchors.trees import FolderTree
from draftcheck.errors import ReadError, RuleError, UsageError
from draftcheck.judge.decide import Question
from draftcheck.rulebook import anchors, book, files
from draftcheck.rulebook.anchors import AnchorFile
from draftcheck.rulebook.files import RuleRow, Text

FILE = "installed"
TIMEOUT = 10
LONGEST = 64 * 1024
MOST = 8
"""Rules that a note names."""


class LookRow(RuleRow, frozen=True):
    """Where an engine may be found: a Python package, or a program and what it prints."""

    engine: Text
    package: str = ""
    program: str = ""
    pattern: str = ""
    """Finds the version in what the program prints."""
    prefix: str = ""
    versions: Mapping[str, str] = {}
    """What is found -> the engine's version, where the two differ."""

    def __post_init__(self) -> None:
        if bool(self.package) == bool(self.program and self.pattern):
            raise ValueError("it needs either 'package', or 'program' and 'pattern'")


class InstalledFile(RuleRow, frozen=True):
    """rules/installed.toml."""

    look: tuple[LookRow, ...]


def engines() -> list[Question]:
    """Every engine found, in the order of the rulebook; an error that says where it looked."""
    found: dict[str, Question] = {}
    looked = []
    for row in files.read(FILE, InstalledFile).look:
        if row.engine not in book.engine_files():
            raise RuleError(f"{FILE}.toml [[look]] {row.engine}: there is no such engine")
        looked.append(row.package or row.program)
        entry = _package(row) if row.package else _program(row)
        if entry is not None:
            found.setdefault(entry.engine, entry)
    if not found:
        raise UsageError(
            "--engine auto found no engine on this machine",
            hint=f"It looked for {', '.join(looked)}. Name one: --engine vllm@0.15.1.",
        )
    return [verified(found[name]) for name in book.engine_files() if name in found]


def verified(question: Question) -> Question:
    """The question with what the installed files say, where the rules speak of this version.

    An older version is judged by the windows of its rules: that its code differs is no news.
    """
    engine = book.load(question.engine)
    places = anchors.load(question.engine)
    if places is None or engine.order(question.version or "") < engine.order(engine.checked):
        return question
    # Imported here: it parses source files.
    from draftcheck.anchors import kept

    try:
        here = tree(places)
    except ReadError:  # a program, or a package without source
        return question
    seen = kept.check(places, here)
    total, again = len(seen.places), seen.open_rules
    if not again:
        told = f"all {total} places that rules rest on are the code that was read"
        told += f" in {places.version}: verified against the installed code"
        return replace(question, code=f"{engine.id} {here.version}: {told}", verified=True)
    rules = ", ".join(again[:MOST]) + (f" and {len(again) - MOST} more" if again[MOST:] else "")
    told = f"{seen.unchanged} of {total} places are the code that was read in {places.version}"
    told += f"; {rules} {'rests' if len(again) == 1 else 'rest'} on changed code"
    return replace(question, code=f"{engine.id} {here.version} installed here: {told}")


def packages(engine: str) -> list[str]:
    """The Python packages that an engine is installed as."""
    rows = files.read(FILE, InstalledFile).look
    return [
        row.package for row in rows if row.engine == engine and row.package and not row.versions
    ]


def tree(places: AnchorFile) -> FolderTree:
    """The installed package of an engine as text."""
    for name in packages(places.engine):
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        folder = Path(str(found.locate_file(places.package)))
        if folder.is_dir():
            return FolderTree(folder, version=found.version)
    raise ReadError(f"{places.engine} is not installed here as a package with its source")


def _package(row: LookRow) -> Question | None:
    name = row.package
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
    # 0.15.1+cu128 is the release 0.15.1 built for one CUDA version.
    return _known(row, version.partition("+")[0], f"found: the Python package {name} {version}")


def _program(row: LookRow) -> Question | None:
    path = shutil.which(row.program)
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=TIMEOUT, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(row.pattern, done.stdout[:LONGEST].decode("utf-8", "replace"))
    if match is None:
        return None
    return _known(row, match[1], f"found: {path} says {match[0]!r}")


def _known(row: LookRow, version: str, how: str) -> Question | None:
    """The version as the rulebook spells it; None when the row cannot tell."""
    if row.versions:
        if version not in row.versions:
            return None
        version = row.versions[version]
        how += f", which is {version}"
    try:
        text = book.load(row.engine).version(row.prefix + version)
    except UsageError:
        return None
    return Question(row.engine, text, found=how)
