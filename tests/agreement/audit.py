"""Draw rows of the rulebook and print each with the engine's code at the edges of its window.

    make audit SEED=7 N=5 SOURCES="vllm=CLONE vllm=FOLDER sglang=CLONE"

A source is a git clone with release tags, or a folder of wheels and of source folders that are
named ENGINE-VERSION. Code is printed at the first version of the window and at the last, with what
changed from the release before the first and to the release behind the last.

audited.tsv lists the rows that were held against the code at both edges: engine, id, digest of the
row, date, where. A row that was changed since counts as not read. `--unread` draws from those that
are left; `--record FILE` takes over lines "engine, id, methods, since, until, mark, where".
docs/agreement.md says what a row is held to.
"""

from __future__ import annotations

import argparse
import datetime
import difflib
import hashlib
import io
import random
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from draftcheck.anchors import compare, named
from draftcheck.anchors.python_code import PythonFile
from draftcheck.anchors.trees import STARTS, SUFFIXES, FolderTree, SourceTree, WheelTree
from draftcheck.errors import UsageError
from draftcheck.rulebook import anchors, book
from draftcheck.rulebook.anchors import NAMES, AnchorFile
from draftcheck.rulebook.book import Engine, Rule
from draftcheck.values.words import Reaction
from tests.agreement.make_anchors import Resolver, squash

WEIGHTS = {Reaction.REFUSES: 4, Reaction.CRASHES: 4}
AROUND, LONGEST = 14, 60
FIELDS = (
    "title", "methods", "drafts", "check", "params", "since", "until", "reaction", "severity",
    "engine_says", "why", "fix", "source", "basis",
)  # fmt: skip


AUDITED = Path(__file__).with_name("audited.tsv")
HELD = ("right", "mended")


def row_digest(rule: Rule) -> str:
    """Changes with everything that an auditor looks at."""
    held = [repr(getattr(rule, name)) for name in FIELDS if name not in ("source", "basis")]
    return hashlib.sha256("\n".join(held).encode()).hexdigest()[:10]


def audited() -> set[tuple[str, str, str]]:
    """Engine, id and digest of the rows that were held against the code."""
    lines = AUDITED.read_text(encoding="utf-8").splitlines()[1:]
    return {(engine, rule, digest) for engine, rule, digest, *_ in (x.split("\t") for x in lines)}


def record(notes: list[Path]) -> tuple[int, list[str]]:
    """Take over readers' notes; how many rows are new, and the lines that name none."""
    head, *kept = AUDITED.read_text(encoding="utf-8").splitlines()
    known = {tuple(line.split("\t")[:3]): line for line in kept}
    today, lost = datetime.datetime.now(datetime.UTC).date().isoformat(), []
    for line in (line for note in notes for line in note.read_text("utf-8").splitlines()):
        engine, rule_id, methods, since, until, mark, where = [*line.split("\t"), *[""] * 7][:7]
        wanted = (set(methods.split(",")) - {"-", ""}, since.strip("-"), until.strip("-"))
        same = [
            rule
            for rule in (book.load(engine).rules if engine in book.engine_files() else ())
            if rule.id == rule_id
            and ({*rule.methods} if wanted[0] else set(), rule.since or "", rule.until or "")
            == wanted
        ]
        if mark not in HELD:
            continue
        if not same:
            lost.append(line)
        for rule in same:
            digest = row_digest(rule)
            known[engine, rule_id, digest] = "\t".join((engine, rule_id, digest, today, where))
    rows = {
        (name, rule.id, row_digest(rule))
        for name in book.engine_files()
        for rule in book.load(name).rules
    }
    fresh = sorted(line for key, line in known.items() if key in rows)
    AUDITED.write_text("\n".join((head, *fresh)) + "\n", encoding="utf-8")
    return len(set(fresh) - set(kept)), lost


class TagTree:
    """A release tag of a clone, read at once through `git archive`."""

    def __init__(self, clone: Path, tag: str, package: str) -> None:
        self.label, self.version = f"{clone.name} {tag}", tag.removeprefix("v")
        self.files: dict[str, str] = {}
        git = ["git", "-C", str(clone)]
        for start in (*(f"{s}/{package}".strip("/") for s in STARTS if package), ""):
            listed = subprocess.run(
                [*git, "ls-tree", "-rz", "--name-only", tag, *([f"{start}/"] if start else [])],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            # Of code alone: a partial clone need not hold the other files.
            if wanted := [name for name in listed.stdout.split("\0") if name.endswith(SUFFIXES)]:
                done = subprocess.run(
                    [*git, "archive", tag, "--", *wanted], capture_output=True, check=False
                )
                self._read(done.stdout, f"{start}/" if start else "")
                break
        self.names = sorted(self.files)

    def _read(self, data: bytes, start: str) -> None:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                if member.isfile() and member.name.endswith(SUFFIXES):
                    file = archive.extractfile(member)
                    text = file.read().decode("utf-8", "replace") if file else ""
                    self.files[member.name.removeprefix(start)] = text

    def matching(self, pattern: str) -> list[str]:
        deep = pattern.count("/")
        return [n for n in self.names if n.count("/") == deep and fnmatchcase(n, pattern)]

    def text(self, path: str) -> str | None:
        return self.files.get(path)


class Releases:
    """The releases of an engine that the given sources hold."""

    def __init__(self, engine: Engine, sources: list[Path]) -> None:
        self.engine, self.file = engine, anchors.load(engine.id) or AnchorFile(engine.id, "")
        self.places: dict[str, tuple[Path, str]] = {}
        for source in sources:
            for version, name in self._listed(source):
                self.places.setdefault(version, (source, name))
        self.order = sorted(self.places, key=engine.order)
        self.tree = cache(self._tree)

    def _listed(self, source: Path) -> Iterator[tuple[str, str]]:
        tags = subprocess.run(
            ["git", "-C", str(source), "tag"], capture_output=True, text=True, check=False
        )
        names = tags.stdout.split() if tags.returncode == 0 else []
        for name in names or [path.name for path in source.iterdir()]:
            stem = name.removesuffix(".whl").removeprefix("v")
            text = stem if names else stem.partition("-")[2].split("-", maxsplit=1)[0]
            try:
                key = self.engine.order(text)
            except UsageError:
                continue
            if not getattr(key, "is_prerelease", False):
                yield text, name

    def _tree(self, version: str) -> SourceTree:
        source, name = self.places[version]
        path = source / name
        if name.endswith(".whl"):
            return WheelTree(path, self.file.package)
        if path.is_dir():
            return FolderTree(path, self.file.package, version)
        return TagTree(source, name, self.file.package)

    def around(self, rule: Rule) -> tuple[list[str], list[str], list[str]]:
        """The releases before the window of a row, inside it, and behind it."""
        order = self.engine.order
        ways = [way for way in self.engine.methods if way.id in rule.methods]
        opened = [(way.since or self.engine.oldest).removeprefix("<=") for way in ways]
        first_way = min(opened, key=order, default=self.engine.oldest)
        since = order((rule.since or first_way).removeprefix("<="))
        until = order(rule.until) if rule.until else None
        before = [v for v in self.order if order(v) < since]
        inside = [v for v in self.order if order(v) >= since and (not until or order(v) < until)]
        return before, inside, [v for v in self.order if until and order(v) >= until]

    def edges(self, rule: Rule) -> dict[str, tuple[str | None, str | None]]:
        """At the first and the last version of the window: the release outside, and inside."""
        before, inside, behind = self.around(rule)
        first, last = (inside[0], inside[-1]) if inside else (None, None)
        return {
            "since": (before[-1] if before else None, first),
            "until": (behind[0] if behind else None, last),
        }


def show(releases: Releases, rule: Rule) -> Iterator[str]:
    """The row, then the code at both edges."""
    yield "=" * 100
    yield f"{releases.engine.id} {rule.id} {rule.slug}"
    for name in FIELDS:
        if value := getattr(rule, name):
            yield f"  {name}: {dict(value) if isinstance(value, Mapping) else value}"
    for edge, (outside, inside) in releases.edges(rule).items():
        yield f"--- {edge}: {inside or 'no source of a version in the window'}" + (
            f", and {outside} outside" if outside else ""
        )
        if inside:
            yield from at_edge(releases, rule, outside, inside)


def at_edge(releases: Releases, rule: Rule, outside: str | None, inside: str) -> Iterator[str]:
    tree = releases.tree(inside)
    hints = releases.file.hints.get(rule.id, ())
    found = {place for place in hints if place.partition("::")[0] in tree.names}
    for place in sorted(found or Resolver(tree, inside).places(rule)) or [""]:
        path, _, symbol = place.partition("::")
        lines = code(tree, path, symbol)
        if not lines or place.startswith(NAMES):
            yield f"  the row's words lead to no code in {inside}"
            continue
        yield f"  {inside} {place}, line {lines[0][0]}"
        yield from (f"    {number:5} {text}" for number, text in excerpt(tree, path, lines, rule))
        if outside:
            other = [text for _, text in code(releases.tree(outside), path, symbol)]
            same = [text for _, text in lines]
            change = list(difflib.unified_diff(other, same, outside, inside, lineterm="", n=1))
            told = "the same" if not change else "not there" if not other else "changed:"
            yield f"  {outside} {place}: {told}"
            if other:
                yield from (f"    {text}" for text in change[:LONGEST])


def code(tree: SourceTree, path: str, symbol: str) -> list[tuple[int, str]]:
    """Lines of a place, with their numbers."""
    text = tree.text(path) if path else None
    try:
        parts = compare.source_file(path, text).code(symbol) if text else []
    except ValueError:
        parts = []
    rows = (text or "").splitlines()
    return [(n, rows[n - 1]) for n in range(parts[0].first, parts[-1].last + 1)] if parts else []


def excerpt(
    tree: SourceTree, path: str, lines: list[tuple[int, str]], rule: Rule
) -> list[tuple[int, str]]:
    """A long place around the row's message, else its start."""
    if len(lines) <= LONGEST:
        return lines
    words = squash((rule.engine_says or "").split("…")[0])[:30]
    parsed = compare.source_file(path, tree.text(path) or "")
    if words and isinstance(parsed, PythonFile):
        for number, text in named.texts(parsed.tree):
            if words in squash(text):
                near = [(n, row) for n, row in lines if abs(n - number) <= AROUND]
                if near:
                    return near
    return lines[:LONGEST]


def by_engine(texts: list[str]) -> Iterator[tuple[str, list[Path]]]:
    """ENGINE=PATH … as the paths of each engine."""
    paths: dict[str, list[Path]] = {}
    for text in texts:
        name, _, path = text.partition("=")
        paths.setdefault(name, []).append(Path(path))
    yield from paths.items()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=5)
    parser.add_argument("--unread", action="store_true", help="Only rows not in audited.tsv.")
    parser.add_argument("--record", type=Path, nargs="+", metavar="FILE", help="Readers' notes.")
    parser.add_argument("sources", nargs="*", metavar="ENGINE=PATH")
    given = parser.parse_args()
    if given.record:
        new, lost = record(given.record)
        print(f"{new} rows recorded; {len(lost)} lines name no row", *lost, sep="\n  ")
        return
    if not given.sources:
        parser.error("say where the engines' sources are: ENGINE=PATH …")
    releases = {name: Releases(book.load(name), at) for name, at in by_engine(given.sources)}
    drawn = [(name, rule) for name, engine in releases.items() for rule in engine.engine.rules]
    if given.unread:
        held = audited()
        drawn = [(name, r) for name, r in drawn if (name, r.id, row_digest(r)) not in held]
        print(f"{len(drawn)} rows were not read since they changed")
    weights = [WEIGHTS.get(rule.reaction, 1) for _, rule in drawn]
    order = random.Random(given.seed)
    keys = [order.random() ** (1 / weight) for weight in weights]  # drawn without putting back
    chosen = sorted(range(len(drawn)), key=lambda at: -keys[at])[: given.rows]
    for at in sorted(chosen):
        name, rule = drawn[at]
        print("\n".join(show(releases[name], rule)))


if __name__ == "__main__":
    main()
