"""Whether the places that rules rest on are in a tree as they were when the rules were written.

A query asks one file for one thing: `symbol` for the digest of its code, `(Word)` for the classes
that have Word as a base or a method, `` for the file itself. Answers are texts, so that they can
be kept with the file's size and time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from draftcheck.anchors.c_code import CFile
from draftcheck.anchors.lines import CodeLine, digest, whole
from draftcheck.anchors.named import errors, holders, table_names
from draftcheck.anchors.python_code import PythonFile
from draftcheck.anchors.trees import SourceTree
from draftcheck.rulebook.anchors import NAMES, AnchorFile

UNREAD = "?"
SHORT = 4
"""Characters that are kept of a statement's digest."""
Ask = Callable[[str, Iterable[str]], dict[str, str]]
"""A file and queries -> answers; empty for what is not there, UNREAD for what cannot be parsed."""


class PlaceState(StrEnum):
    UNCHANGED = "unchanged"
    CHANGED = "changed"
    GONE = "gone"
    UNREAD = "unread"


@dataclass(frozen=True, slots=True)
class PlaceCheck:
    """One place, and the rules that rest on it."""

    place: str
    state: PlaceState
    rules: tuple[str, ...]
    new: tuple[str, ...] = ()
    """Of a list: names that came, and those that went."""
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AnchorCheck:
    """All places of an engine against one tree."""

    engine: str
    places: tuple[PlaceCheck, ...]

    @property
    def unchanged(self) -> int:
        return sum(place.state is PlaceState.UNCHANGED for place in self.places)

    @property
    def open_rules(self) -> tuple[str, ...]:
        """The rules that rest on code which is not the code that was read."""
        found = {
            rule
            for place in self.places
            if place.state is not PlaceState.UNCHANGED
            for rule in place.rules
        }
        return tuple(sorted(found))


def source_file(path: str, text: str) -> PythonFile | CFile:
    """The file in the language that its name tells."""
    return PythonFile(text) if path.endswith(".py") else CFile(text)


def asking(tree: SourceTree) -> Ask:
    """Answers straight from the files."""
    return lambda path, queries: answers(path, tree.text(path), queries)


def answers(path: str, text: str | None, queries: Iterable[str]) -> dict[str, str]:
    found = {}
    parsed: PythonFile | CFile | None = None
    for query in queries:
        if text is None:
            found[query] = ""
        elif not query:
            found[query] = path.rpartition("/")[2].rpartition(".")[0]
        elif query.startswith("("):
            found[query] = " ".join(holders(path, text, query[1:-1]))
        else:
            try:
                parsed = parsed or source_file(path, text)
                found[query] = stored(parsed.code(query.removesuffix("=")))
                if query.endswith("="):  # the names in a table, not its code
                    found[query] = " ".join(sorted(set(table_names(parsed, query[:-1]))))
            except ValueError:
                found[query] = UNREAD
    return found


def stored(lines: list[CodeLine]) -> str:
    """What the anchors file keeps of a place; empty when there is none."""
    return f"{whole(lines)} {''.join(line.digest[:SHORT] for line in lines)}" if lines else ""


def check(file: AnchorFile, tree: SourceTree, ask: Ask | None = None) -> AnchorCheck:
    """Every place of the file against the tree."""
    ask = ask or asking(tree)
    users: dict[str, list[str]] = {place: [] for place in file.places}
    for rule, places in file.rules.items():
        for place in places:
            users.setdefault(place, []).append(rule)
    by_file: dict[str, list[str]] = {}
    for place in file.places:
        path, _, symbol = place.partition("::")
        by_file.setdefault(path, []).append(symbol)
    found = {
        f"{path}::{symbol}": text
        for path, symbols in by_file.items()
        for symbol, text in ask(path, symbols).items()
    }
    checks = [
        PlaceCheck(place, _state(kept, found[place]), tuple(users[place]))
        for place, kept in file.places.items()
    ]
    for place, rules in users.items():
        if place.startswith(NAMES):
            what = place.removeprefix(NAMES)
            checks.append(_listed(file, tree, ask, what, tuple(rules)))
    return AnchorCheck(file.engine, tuple(checks))


def _state(kept: str, found: str) -> PlaceState:
    if not found:
        return PlaceState.GONE
    if found == UNREAD:
        return PlaceState.UNREAD
    same = kept.split(maxsplit=1)[0] == found.split(maxsplit=1)[0]
    return PlaceState.UNCHANGED if same else PlaceState.CHANGED


def _listed(
    file: AnchorFile, tree: SourceTree, ask: Ask, what: str, rules: tuple[str, ...]
) -> PlaceCheck:
    before, now = set(file.names.get(what, "").split()), set(names(file, tree, ask, what))
    state = PlaceState.UNCHANGED if before == now else PlaceState.CHANGED
    new, gone = tuple(sorted(now - before)), tuple(sorted(before - now))
    return PlaceCheck(NAMES + what, state if now else PlaceState.GONE, rules, new, gone)


def names(file: AnchorFile, tree: SourceTree, ask: Ask, what: str) -> list[str]:
    """The names that a list of the file has in this tree."""
    found: set[str] = set()
    for place in file.lists[what]:
        pattern, _, query = place.partition("::")
        for path in tree.matching(pattern) if "*" in pattern else [pattern]:
            asked = query if not query or query.startswith("(") else f"{query}="
            found |= set(ask(path, [asked])[asked].split())
    return sorted(found - {UNREAD})


def messages(file: AnchorFile, tree: SourceTree) -> dict[str, tuple[str, int, str]]:
    """Digest -> file, line and words of every error message in the files that are watched."""
    found: dict[str, tuple[str, int, str]] = {}
    for path in dict.fromkeys(path for pattern in file.messages for path in tree.matching(pattern)):
        try:
            parsed = PythonFile(tree.text(path) or "")
        except ValueError:
            continue
        for number, words in errors(parsed):
            found.setdefault(digest(words)[:8], (path, number, words))
    return found
