"""YAML -> trees with places, from the parser's events: no tags are obeyed, no objects made."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from draftcheck.deploy.deployment import Contents, DocumentTree
from draftcheck.deploy.syntax import templates
from draftcheck.deploy.syntax.variables import filled
from draftcheck.deploy.text import TextView, Word, joined
from draftcheck.values.findings import FilePlace

MAX_DEPTH = 100
MAX_NODES = 200_000
_KINDS = {"int", "float", "bool", "null"}


@dataclass(slots=True)
class _Open:
    """A list or mapping that is being read."""

    mapping: bool
    start: int
    anchor: str | None
    items: list[DocumentTree] = field(default_factory=list)
    size: int = 1


class _StopError(Exception):
    """The budget is used up."""


class _TreeBuilder:
    def __init__(self, view: TextView) -> None:
        self.view = view
        self.troubles: list[tuple[FilePlace, str]] = []
        self.trees: list[DocumentTree] = []
        self.open: list[_Open] = []
        self.anchors: dict[str, DocumentTree | None] = {}
        self.sizes: dict[int, int] = {}
        self.total = 0
        import yaml

        self.resolver = yaml.resolver.Resolver()
        self.scalar_node = yaml.ScalarNode

    def event(self, event: Any) -> None:
        name = type(event).__name__
        if name == "ScalarEvent":
            self._add(self._scalar(event), event.anchor, 1)
        elif name in ("SequenceStartEvent", "MappingStartEvent"):
            if len(self.open) >= MAX_DEPTH:
                raise _StopError("nested too deeply", event.start_mark.index)
            if event.anchor:
                self.anchors[event.anchor] = None
            mapping = name == "MappingStartEvent"
            self.open.append(_Open(mapping, event.start_mark.index, event.anchor))
        elif name in ("SequenceEndEvent", "MappingEndEvent"):
            done = self.open.pop()
            place = self.view.place(done.start, max(event.end_mark.index, done.start))
            tree = DocumentTree(place, items=tuple(done.items))
            if done.mapping:
                pairs = list(zip(done.items[::2], done.items[1::2], strict=False))
                tree = DocumentTree(place, entries=self._entries(pairs))
            self._add(tree, done.anchor, done.size)
        elif name == "AliasEvent":
            self._alias(event)

    def _scalar(self, event: Any) -> DocumentTree:
        start, end = event.start_mark.index, event.end_mark.index
        view = scalar(self.view, event.value, start, end, event.style)
        kind = "str"
        if event.implicit[0] and not event.style:
            tag = self.resolver.resolve(self.scalar_node, event.value, (True, False))
            short = tag.rsplit(":", 1)[-1]
            kind = short if short in _KINDS else "str"
        block = event.style in ("|", ">")
        if block:
            end = start + len(self.view.text[start:end].rstrip())
        spelled = None if block or "\n" in self.view.text[start:end] else self.view.raw(start, end)
        if templates.present(event.value):
            view = replace(view, text=templates.hidden(view.text))
        return DocumentTree.of(view.word(self.view.place(start, end), spelled, kind))

    def _add(self, tree: DocumentTree, anchor: str | None, size: int) -> None:
        if anchor:
            self.anchors[anchor] = tree
        self.sizes[id(tree)] = size
        self.total += 1
        if self.open:
            self.open[-1].items.append(tree)
            self.open[-1].size += size
            if self.open[-1].size > MAX_NODES:
                raise _StopError("too large when its anchors are filled in", self.open[-1].start)
        else:
            self.trees.append(tree)
        if self.total > MAX_NODES:
            raise _StopError("too many values", 0)

    def _entries(
        self, pairs: list[tuple[DocumentTree, DocumentTree]]
    ) -> tuple[tuple[Word, DocumentTree], ...]:
        merged, own = list[tuple[Word, DocumentTree]](), list[tuple[Word, DocumentTree]]()
        for key, value in pairs:
            word = key.word
            if word is None:
                self.troubles.append((key.place, "a key that is a list or a mapping"))
            elif word.text == "<<" and word.raw == "<<":
                for other in (value.items if value.items is not None else (value,))[::-1]:
                    merged.extend(other.entries or ())
            else:
                own.append((word, value))
        if len(merged) > MAX_NODES:
            raise _StopError("too large when its anchors are filled in", 0)
        return (*merged, *own)

    def _alias(self, event: Any) -> None:
        tree = self.anchors.get(event.anchor)
        start, end = event.start_mark.index, event.end_mark.index
        if tree is None:
            contains = event.anchor in self.anchors
            why = "contains itself" if contains else "is not defined before it is used"
            place = self.view.place(start, end)
            self.troubles.append((place, f"the anchor {event.anchor} {why}"))
            nothing = Word("", place, self.view.slice(start, start), kind="null")
            tree = DocumentTree(place, word=nothing)
            self.sizes[id(tree)] = 1
        self._add(tree, None, self.sizes[id(tree)])


def parse(view: TextView, contents: Contents) -> list[DocumentTree]:
    """The documents of a YAML text; what stops the parser is said, what came before is kept.

    A template is not broken YAML: what it fills in is a hole, and options in a part that cannot be
    read without it are still seen (leftovers.py).
    """
    trees, troubles = _attempt(view)
    if troubles and templates.fills_lines(view.text):
        again, left = _attempt(replace(view, text=templates.hidden_lines(view.text)))
        if not left or templates.steers(view.text):
            return again if len(again) >= len(trees) else trees
        if len(again) >= len(trees):
            trees, troubles = again, left
    for trouble in troubles:
        contents.trouble(*trouble)
    return trees


def _attempt(view: TextView) -> tuple[list[DocumentTree], list[tuple[FilePlace, str]]]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _TreeBuilder(view)
    at, why = 0, ""
    try:
        for event in yaml.parse(view.text, Loader=loader):
            builder.event(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        if mark and mark.index >= len(view.text.rstrip()) and error.context_mark:
            mark = error.context_mark  # what began there never ended
        at, why = (mark.index if mark else 0), f"not YAML: {error.problem or error.context}"
    except yaml.YAMLError as error:  # characters that YAML does not allow
        at = getattr(error, "position", 0) or 0
        why = f"not YAML: {getattr(error, 'reason', '') or 'not readable'}"
    except _StopError as stop:
        at, why = stop.args[1], f"YAML {stop.args[0]}"
    except (RecursionError, UnicodeError, ValueError) as error:
        why = f"not YAML: {type(error).__name__}"
    if why:
        at = min(at, len(view.text))
        builder.troubles.append((view.place(at, at), why))
    return builder.trees, builder.troubles


_DOUBLED = re.compile("''")
_ESCAPE = re.compile(
    r"\\\r?\n[ \t]*|(?P<fold>(?<![ \t])[ \t]*\r?\n[ \t\r\n]*)"
    r"|\\(?P<letter>x.{2}|u.{4}|U.{8}|.)"
)


# ---- where the characters of a scalar stand: quoted, folded and block scalars included ----


def scalar(view: TextView, value: str, start: int, end: int, style: str | None) -> TextView:
    """The value of a scalar that stands in text[start:end], with the place of each character."""
    found: TextView | None
    if style in ("|", ">"):
        header = view.text.find("\n", start, end)
        if header < 0:
            found = view.slice(start, start)
        else:
            found = _aligned(view.slice(header + 1, end), value, True)
    elif style == '"' and "\\" in view.text[start:end]:
        found = _escaped(view, value, start + 1, end - 1)
    elif style == "'" and "''" in view.text[start + 1 : end - 1]:
        inner = view.slice(start + 1, end - 1)
        found = filled(inner, _DOUBLED, lambda two: inner.slice(two.start(), two.start() + 1))
    else:
        quote = 1 if style in ("'", '"') else 0
        found = view.slice(start + quote, end - quote)
        found = found if found.text == value else _aligned(found, value, False)
    if found is None or found.text != value:
        return view.vague(value, start, end)
    return found


def _aligned(source: TextView, value: str, block: bool) -> TextView | None:
    """Line by line: folding, and the indentation of a block, change breaks and blanks only."""
    parts, at = list[TextView](), 0
    for first, last in source.lines():
        text = source.text[first:last]
        stripped = text.lstrip(" ") if block else text.strip(" \t")
        if not stripped.strip():
            continue
        left = text.index(stripped)
        gap = value.find(stripped, at)
        between = value[at:gap]
        if gap < 0 or between.strip():
            return None
        lead = 0
        if block and not (parts and between == " "):
            # Deeper indentation than the block's own belongs to the value.
            lead = min(len(between) - len(between.rstrip(" ")), left)
        if gap - lead > at:
            stands = max(first - 1, 0) if block else first
            parts.append(source.instead(value[at : gap - lead], stands, stands))
        parts.append(source.slice(first + left - lead, first + left + len(stripped)))
        at = gap + len(stripped)
    if value[at:].strip():
        return None
    if at < len(value):
        last = max(len(source.text) - 1, 0)
        parts.append(source.instead(value[at:], last, last))
    return joined(parts) if parts else None


def _escaped(view: TextView, value: str, start: int, end: int) -> TextView:
    """A double-quoted text with escapes: one character of the value per escape."""
    inner = view.slice(start, end)
    parts, at, done = list[TextView](), 0, 0
    for match in _ESCAPE.finditer(inner.text):
        parts.append(inner.slice(at, match.start()))
        done += match.start() - at
        at = match.end()
        if match["letter"]:
            instead = value[done : done + 1]
        elif match["fold"]:
            breaks = match["fold"].count("\n")
            instead = " " if breaks == 1 else "\n" * (breaks - 1)
        else:  # a line that goes on in the next one
            continue
        parts.append(inner.instead(instead, match.start(), match.start()))
        done += len(instead)
    return joined([*parts, inner.slice(at, len(inner.text))])
