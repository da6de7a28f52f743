"""rules/anchors/ENGINE.toml from an engine's source: where the rules' words lead to.

    python -m tests.agreement.make_anchors vllm --source FOLDER --version 0.32.0

A rule's `source` names files, functions and lines, its `engine_says` a message: both are looked up
in the source. What leads nowhere is listed at the end; a line in [hints] or [elsewhere] settles it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from draftcheck.anchors import compare, named
from draftcheck.anchors.c_code import CFile
from draftcheck.anchors.lines import WHOLE
from draftcheck.anchors.python_code import PythonFile
from draftcheck.anchors.trees import FolderTree, SourceTree
from draftcheck.rulebook import anchors, book, files
from draftcheck.rulebook.anchors import MESSAGES, NAMES, AnchorFile
from draftcheck.rulebook.book import Engine, Rule
from draftcheck.versions import covers

PATH = re.compile(r"(?<![\w/])[\w./*-]+\.(?:py|cpp|hpp|h|c)\b")
SYMBOL = re.compile(r"(?<![\w/.-])~?[A-Za-z_]\w*(?:(?:\.|::)~?\w+)*(?![\w/])")
LINE = re.compile(r"\bline (\d+)")
SHORTEST, NEAR = 14, 8
"""Letters of a message that can be looked for, anywhere and in files that the rule names."""
MOST = 3
"""Places of one message, beyond which it names none."""


class Resolver:
    """Looks up words in one tree."""

    def __init__(self, tree: SourceTree, version: str) -> None:
        self.tree, self.version = tree, version
        self.parsed = cache(self._parsed)
        self.text = cache(tree.text)
        self.squashed = cache(lambda path: squash(self.text(path) or ""))

    def _parsed(self, path: str) -> PythonFile | CFile | None:
        text = self.text(path)
        try:
            return None if text is None else compare.source_file(path, text)
        except ValueError:
            return None

    def places(self, rule: Rule) -> set[str]:
        """Where a row's words lead to: symbols and messages, else the files that it names."""
        found: set[str] = set()
        named_files: list[str] = []
        for clause in rule.source.split(";"):
            paths = [path for word in PATH.findall(clause) for path in self.files(word)]
            named_files += paths
            here = {place for path in paths for place in self.symbols(path, clause)}
            found |= here or set(self.anywhere(clause))
        found |= self.message(rule, named_files)
        return found or {f"{path}::{WHOLE}" for path in named_files}

    def files(self, word: str) -> list[str]:
        """The files of the tree that a path in a rule's words may mean."""
        if "*" in word:
            return []
        if self.text(word) is not None:
            return [word]
        ends = [name for name in self.tree.names if name.endswith(f"/{word}")]
        return ends if len(ends) == 1 else []

    def symbols(self, path: str, clause: str) -> Iterator[str]:
        parsed = self.parsed(path)
        if parsed is None:
            return
        for word in SYMBOL.findall(PATH.sub(" ", clause)):
            if word.islower() and word.isalpha() and f", {word}" not in clause:
                continue  # a word of the sentence
            if isinstance(parsed, CFile):
                if parsed.code(word):
                    yield f"{path}::{word}"
                continue
            ends = [n for n in parsed.definitions if n == word or n.endswith(f".{word}")]
            shortest = sorted(ends, key=lambda name: name.count("."))[:1]
            yield from (f"{path}::{name}" for name in (shortest if word in ends else ends))
        if self.version in clause.split() or f"to {self.version}" in clause:
            for number in LINE.findall(clause):
                if symbol := parsed.symbol_at(int(number)):
                    yield f"{path}::{symbol}"

    def anywhere(self, clause: str) -> Iterator[str]:
        """Symbols whose file the words do not name, where few files define them."""
        for word in set(SYMBOL.findall(PATH.sub(" ", clause))):
            last = re.split(r"\.|::", word)[-1]
            if len(last) < 8 or not re.search(r"_|[a-z][A-Z]", last):
                continue
            defined = re.compile(rf"^\s*(?:(?:async )?def|class) {last}\b|^{last}\b[^\n=]*=", re.M)
            paths = [
                p
                for p in self.tree.names
                if last in (t := self.text(p) or "") and defined.search(t)
            ]
            if len(paths) <= MOST:
                yield from (place for path in paths for place in self.symbols(path, word))

    def message(self, rule: Rule, near: list[str]) -> set[str]:
        """Where the engine's words stand: in the files that the rule names, else anywhere."""
        says = (rule.engine_says or "").removesuffix(" failed")
        parts = re.split(r"…|\.\.\.|\{|\}|^\w+: ", says)
        for part in sorted(map(squash, parts), key=len, reverse=True):
            for paths in (near, self.tree.names):
                if len(part) < (NEAR if paths is near else SHORTEST):
                    continue
                found = {place for path in paths for place in self.holding(path, part)}
                if 0 < len(found) <= MOST:
                    return found
        return set()

    def holding(self, path: str, part: str) -> Iterator[str]:
        # The letter before a quote, as in f"…", comes between the parts of a message.
        text = self.squashed(path)
        pieces = [part[at : at + NEAR] for at in range(0, len(part) - NEAR + 1, NEAR)]
        if 2 * sum(piece in text for piece in pieces) < len(pieces):
            return
        parsed = self.parsed(path)
        if isinstance(parsed, PythonFile):
            for number, words in named.texts(parsed.tree):
                if part in squash(words) and (symbol := parsed.symbol_at(number)):
                    yield f"{path}::{symbol}"
        elif parsed is not None:
            for number in c_lines(parsed, part):
                if symbol := parsed.symbol_at(number):
                    yield f"{path}::{symbol}"


def squash(text: str) -> str:
    """Letters and digits alone."""
    return re.sub(r"[\W_]+", "", text)


def c_lines(file: CFile, part: str) -> Iterator[int]:
    """Lines where a message starts, whatever quotes and breaks stand in it."""
    letters = [(m.start(), m[0]) for m in re.finditer(r"[^\W_]", file.text)]
    joined = "".join(letter for _, letter in letters)
    at = joined.find(part)
    while at >= 0:
        yield file.text.count("\n", 0, letters[at][0]) + 1
        at = joined.find(part, at + 1)


def rows(engine: Engine, version: str) -> Iterator[Rule]:
    """The rows that hold at a version."""
    for rule in engine.rules:
        if covers(engine.order, version, rule.since, rule.until):
            yield rule


def resolve(
    engine: Engine, tree: SourceTree, version: str, given: AnchorFile
) -> tuple[AnchorFile, list[Rule]]:
    """The anchors of a version, and the rows whose words lead nowhere."""
    resolver = Resolver(tree, version)
    ask = compare.asking(tree)
    listed = {what: compare.names(given, tree, ask, what) for what in given.lists}
    rules: dict[str, set[str]] = {}
    lost = []
    for rule in rows(engine, version):
        places = rules.setdefault(rule.id, set())
        if rule.id in given.elsewhere:
            continue
        hinted = [p for p in given.hints.get(rule.id, ()) if exists(tree, p)]
        places |= set(hinted) if rule.id in given.hints else largest(resolver.places(rule))
        said = set(named_words(dict(rule.params)))
        places |= {f"{NAMES}{what}" for what in given.tied if said & set(listed[what])}
        if not places:
            lost.append(rule)
        rules[rule.id] = once(resolver, places)
    every = sorted({p for ps in rules.values() for p in ps if not p.startswith(NAMES)})
    kept = {}
    for place in every:
        path, _, symbol = place.partition("::")
        kept[place] = compare.answers(path, resolver.text(path), [symbol])[symbol]
    return (
        msgspec.structs.replace(
            given,
            version=version,
            rules={rule: tuple(sorted(places)) for rule, places in sorted(rules.items()) if places},
            places=kept,
            names={what: " ".join(names) for what, names in listed.items()}
            | {MESSAGES: " ".join(sorted(compare.messages(given, tree)))},
        ),
        lost,
    )


def named_words(value: Any) -> Iterator[str]:
    """Every word in a row's parameters and in the tables that they name."""
    if isinstance(value, str):
        yield from value.replace(":", " ").split()
    elif isinstance(value, Mapping):
        if isinstance(table := value.get("table"), str):
            yield from named_words(files.parse(files.folder() / "tables" / f"{table}.toml"))
        yield from map(str, value)
        for part in value.values():
            yield from named_words(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from named_words(part)


def largest(places: set[str]) -> set[str]:
    """Without the methods of a class that is a place itself."""
    return {p for p in places if not any(p.startswith(f"{other}.") for other in places)}


def once(resolver: Resolver, places: set[str]) -> set[str]:
    """Without a shorter name for the same code."""
    kept: dict[str, str] = {}
    for place in sorted(places, key=len):
        path, _, symbol = place.partition("::")
        text = resolver.text(path)
        code = compare.answers(path, text, [symbol])[symbol] if text else place
        kept[f"{path} {code}"] = place
    return set(kept.values())


def exists(tree: SourceTree, place: str) -> bool:
    path, _, symbol = place.partition("::")
    return place.startswith(NAMES) or bool(compare.asking(tree)(path, [symbol])[symbol])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine")
    parser.add_argument("--source", required=True, type=Path)
    parser.add_argument("--version", help="Rows that hold at this version; default: `checked`.")
    parser.add_argument("--label", help="What the source is called, where it is no release.")
    given = parser.parse_args()
    engine = book.load(given.engine)
    path = files.folder() / f"{anchors.name(engine.id)}.toml"
    before = anchors.by_hand(path)
    tree = FolderTree(given.source, before.package)
    file, lost = resolve(engine, tree, given.version or engine.checked, before)
    anchors.write(path, msgspec.structs.replace(file, version=given.label or file.version))
    print(
        f"{len(file.rules)} rules rest on {len(file.places)} places; {len(lost)} rows lead nowhere"
    )
    for rule in lost:
        print(f"  {rule.id} {rule.source!r} {rule.engine_says or ''!r}")
    for rule_id, places in file.hints.items():
        for place in places:
            if not exists(tree, place):
                print(f"  hint {rule_id}: {place} is not there", file=sys.stderr)


if __name__ == "__main__":
    main()
