"""A release against the anchors: what is confirmed, what to read again, what is new.

Only what changed is looked at closely. The old code is not at hand; the anchors keep four
characters of every statement, so the new statements can be shown and the gone ones counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from draftcheck.anchors import compare
from draftcheck.anchors.compare import SHORT, PlaceCheck, PlaceState
from draftcheck.anchors.trees import SourceTree
from draftcheck.deploy.options import tables
from draftcheck.errors import ReadError, UsageError
from draftcheck.rulebook import anchors, book, files
from draftcheck.rulebook.anchors import MESSAGES, AnchorFile
from draftcheck.rulebook.book import Engine
from draftcheck.versions import covers
from draftcheck.watch.python_options import READERS, Found


@dataclass(frozen=True, slots=True)
class CodeChange:
    """A place that is not as it was."""

    place: str
    state: PlaceState
    rules: tuple[str, ...]
    new: tuple[tuple[int, str], ...] = ()
    """Line and text of the statements that came."""
    gone: int = 0
    """Statements that went."""
    moved_to: str | None = None
    """Where the same code stands now."""


@dataclass(frozen=True, slots=True)
class NameChange:
    """Names of one kind that came and went: options, architectures, model types …"""

    what: str
    new: tuple[str, ...]
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WatchReport:
    """What a release means for the rules of its engine."""

    engine: str
    version: str | None
    source: str
    read: str
    """The version whose code the anchors are."""
    places: int
    unchanged: int
    confirmed: tuple[str, ...]
    read_again: tuple[str, ...]
    elsewhere: tuple[str, ...]
    """Rules that rest on no code of the engine: the watch says nothing of them."""
    changes: tuple[CodeChange, ...] = ()
    names: tuple[NameChange, ...] = ()
    messages: tuple[tuple[str, int, str], ...] = ()
    """File, line and words of error messages that are new."""
    messages_gone: int = 0
    unread: tuple[str, ...] = ()
    """What else could not be read."""
    options: Found = field(default_factory=dict)
    """All options of the release, where they can be read."""

    @property
    def anything(self) -> bool:
        """Whether somebody has to look."""
        changed = self.changes or self.names or self.messages or self.messages_gone
        return bool(changed or self.unread)


def anchored(engine: str) -> AnchorFile:
    """The anchors of an engine; an error where there are none."""
    book.load(engine)
    file = anchors.load(engine)
    if file is None:
        known = [name for name in book.engine_files() if anchors.load(name)]
        raise UsageError(
            f"there are no anchors for {engine}", hint=f"There are for {', '.join(known)}."
        )
    return file


def watch(file: AnchorFile, tree: SourceTree) -> WatchReport:
    """Hold a tree against the anchors of its engine."""
    engine = book.load(file.engine)
    checked = compare.check(file, tree)
    if all(place.state is PlaceState.GONE for place in checked.places):
        raise ReadError(f"no place that the rules of {engine.name} rest on is in {tree.label}")
    changes = tuple(
        _change(place, file, tree)
        for place in checked.places
        if place.state is not PlaceState.UNCHANGED
    )
    again = {rule for change in changes if change.moved_to is None for rule in change.rules}
    unread: tuple[str, ...] = ()
    try:
        options, named = _options(file, engine, tree)
    except (SyntaxError, ValueError, RecursionError) as error:
        options, named, unread = {}, (), (f"the options could not be read: {error}",)
    said = compare.messages(file, tree)
    kept = set(file.names.get(MESSAGES, "").split())
    return WatchReport(
        engine=engine.id,
        version=tree.version,
        source=tree.label,
        read=file.version,
        places=len(checked.places),
        unchanged=checked.unchanged,
        confirmed=tuple(sorted(file.rules.keys() - again)),
        read_again=tuple(sorted(again)),
        elsewhere=tuple(sorted(_current(engine) - file.rules.keys())),
        changes=changes,
        names=(*named, *_lists(file, tree)),
        messages=tuple(sorted(said[key] for key in said.keys() - kept)),
        messages_gone=len(kept - said.keys()),
        unread=unread,
        options=options,
    )


def _current(engine: Engine) -> set[str]:
    """The rules that hold at the newest version read."""
    return {
        rule.id
        for rule in engine.rules
        if covers(engine.order, engine.checked, rule.since, rule.until)
    }


def _change(place: PlaceCheck, file: AnchorFile, tree: SourceTree) -> CodeChange:
    if place.new or place.gone:  # a list: the names are told with the other lists
        return CodeChange(place.place, place.state, place.rules)
    path, _, symbol = place.place.partition("::")
    kept = file.places.get(place.place, "")
    if place.state is PlaceState.GONE:
        moved = _moved(kept, path, symbol, tree)
        return CodeChange(place.place, place.state, place.rules, moved_to=moved)
    if place.state is PlaceState.UNREAD:
        return CodeChange(place.place, place.state, place.rules)
    text = tree.text(path) or ""
    lines = compare.source_file(path, text).code(symbol)
    digests = kept.partition(" ")[2]
    before = [digests[at : at + SHORT] for at in range(0, len(digests), SHORT)]
    now = [line.digest[:SHORT] for line in lines]
    new: list[tuple[int, str]] = []
    gone = 0
    rows = text.splitlines()
    for word, a, b, c, d in SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        if word != "equal":
            gone += b - a
            for line in lines[c:d]:
                said = " ".join(row.strip() for row in rows[line.first - 1 : line.last])
                new.append((line.first, said))
    return CodeChange(place.place, place.state, place.rules, tuple(new), gone)


def _moved(kept: str, path: str, symbol: str, tree: SourceTree) -> str | None:
    """Where the code of a place that is gone stands now, if it is the same."""
    last = re.split(r"\.|::", symbol)[-1]
    suffix = path.rpartition(".")[2]
    for other in tree.names:
        text = tree.text(other) if other.endswith(f".{suffix}") else None
        if text is None or not re.search(rf"\b{re.escape(last)}\b\s*[(:=]", text):
            continue
        try:
            parsed = compare.source_file(other, text)
        except ValueError:
            continue
        candidates = [n for n in getattr(parsed, "definitions", ()) if n.rpartition(".")[2] == last]
        for name in candidates or [symbol]:
            if compare.stored(parsed.code(name)).split()[:1] == kept.split()[:1]:
                return f"{other}::{name}"
    return None


def _lists(file: AnchorFile, tree: SourceTree) -> Iterable[NameChange]:
    ask = compare.asking(tree)
    for what in file.lists:
        before, now = set(file.names[what].split()), set(compare.names(file, tree, ask, what))
        if before != now:
            yield NameChange(what, tuple(sorted(now - before)), tuple(sorted(before - now)))


def _options(
    file: AnchorFile, engine: Engine, tree: SourceTree
) -> tuple[Found, tuple[NameChange, ...]]:
    """All options of the tree, and those that came or went since the table was made."""
    if not file.options:
        return {}, ()
    found = READERS[file.options](
        lambda path: tree.text(path) or "",
        lambda folder: [name for name in tree.names if name.startswith(f"{folder}/")],
    )
    changes = []
    kinds = {kind for kind, _ in found}
    known = option_rows(engine)
    for kind in sorted(kinds | {row.kind for row in known}):
        before = {
            n for row in known if row.kind == kind and not row.until for n in row.names.split()
        }
        now = {name for word, name in found if word == kind}
        if before != now:
            new, gone = tuple(sorted(now - before)), tuple(sorted(before - now))
            changes.append(NameChange(f"{kind}s", new, gone))
    return found, tuple(changes)


def option_rows(engine: Engine) -> tuple[tables.VersionWindow, ...]:
    """The rows of the engine's table of option names."""
    name = book.engine_files()[engine.id].rpartition("/")[2]
    return files.read(f"options/{name}-names", tables.NamesFile).names
