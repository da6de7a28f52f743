"""Trees that describe programs: image, command, args, environment; shared by the YAML kinds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from draftcheck.deploy.contents import ContentsBuilder, split
from draftcheck.deploy.deployment import DocumentTree, Word
from draftcheck.deploy.hints import hinted
from draftcheck.deploy.kinds import shell, wrappers
from draftcheck.deploy.options import programs
from draftcheck.deploy.syntax.variables import Variables, filled
from draftcheck.deploy.syntax.yaml_tree import ParsedYaml
from draftcheck.deploy.text import CommandArgument, TextView
from draftcheck.values.findings import FilePlace

Fill = Callable[[TextView], TextView]
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)")


def as_it_is(view: TextView) -> TextView:
    """Nothing is filled in."""
    return view


@dataclass(slots=True)
class ContainerReader:
    """Turns parts of a tree into commands; fill says how variables are filled in."""

    parsed: ParsedYaml
    contents: ContentsBuilder
    fill: Fill = field(default=as_it_is)

    def arg(self, tree: DocumentTree) -> CommandArgument | None:
        """A scalar as a word of a command."""
        view = self.parsed.view(tree)
        if view is None or tree.word is None:
            return None
        text = self.fill(view)
        return CommandArgument(tree.word if text is view else text.word(tree.place, None), text)

    def word(self, tree: DocumentTree | None) -> Word | None:
        """A scalar as a word."""
        found = self.arg(tree) if tree is not None else None
        return found.word if found else None

    def args(self, tree: DocumentTree | None) -> list[CommandArgument]:
        """A list of words, or a string that is split into words."""
        if tree is None:
            return []
        if tree.items is not None:
            return [arg for item in tree.items if (arg := self.arg(item)) is not None]
        view = self.parsed.view(tree)
        if view is None or tree.word is None or tree.word.kind == "null":
            return []
        return split(self.fill(view), self.contents)

    def image(self, tree: DocumentTree | None) -> Word | None:
        """An image: a text, or a mapping of repository and tag."""
        if tree is None or tree.entries is None:
            return self.word(tree)
        repository = self.word(tree.get("repository") or tree.get("name"))
        if repository is None:
            return None
        registry = self.word(tree.get("registry"))
        tag = self.word(tree.get("tag")) or self.word(tree.get("digest"))
        text = repository.text if not tag or not tag.text else f"{repository.text}:{tag.text}"
        if registry and registry.text:
            text = f"{registry.text.rstrip('/')}/{text}"
        unknown = repository.unknown or (tag.unknown if tag else None)
        return Word(text, (tag or repository).place, unknown)

    def environment(self, tree: DocumentTree | None) -> dict[str, Word]:
        """Variables: a mapping, a list of NAME=value, or of mappings with name and value."""
        found = dict[str, Word]()
        for name, value in (tree.entries or ()) if tree is not None else ():
            word = self.word(value)
            if word is not None and word.kind != "null":
                found[name.text] = word
        for item in (tree.items or ()) if tree is not None else ():
            view = self.parsed.view(item)
            name_, value_ = self.word(item.get("name")), self.word(item.get("value"))
            if name_ is not None and value_ is not None:
                found[name_.text] = value_
            elif view is not None and "=" in view.text:
                text = self.fill(view)
                key = text.text.partition("=")[0]
                found[key] = text.slice(len(key) + 1, len(text.text)).word()
        return found

    def emit(
        self,
        args: list[CommandArgument],
        image: Word | None = None,
        env: dict[str, Word] | None = None,
        place: FilePlace | None = None,
    ) -> None:
        """Add a command without its wrappers."""
        if args or image:
            wrapped = wrappers.Unwrapping(self.contents, Variables(), place, image, env or {})
            if args:
                wrapped.emit(args)
            else:
                self.contents.command([], place, image, env)

    def script(
        self, tree: DocumentTree, image: Word | None = None, env: dict[str, Word] | None = None
    ) -> None:
        """Read a scalar, or a list of scalars, as shell text."""
        for item in tree.items if tree.items is not None else (tree,):
            view = self.parsed.view(item)
            if view is not None and hinted(view.text):
                shell.inside(self.fill(view), self.contents, None, image, env)

    def file(self, tree: DocumentTree, name: str) -> None:
        """Read a scalar as a file of its own."""
        view = self.parsed.view(tree)
        if view is not None:
            wrappers.inside(view, name, self.contents)


def started(
    reader: ContainerReader, runtime: DocumentTree | None, model: DocumentTree | None
) -> list[CommandArgument]:
    """The program that a runtime's name stands for, with the model that is handed to it."""
    view = reader.parsed.view(runtime)
    known = programs.table().runtimes
    words = known.get(view.text.lower(), ()) if view is not None else ()
    if view is None or not words:
        return []
    place = view.place()
    found = [CommandArgument(Word(word, place), view.instead(word, 0, 0)) for word in words]
    where = reader.parsed.view(model)
    if where is not None and where.text.startswith("hf://"):
        found.append(CommandArgument.of(where.slice(len("hf://"), len(where.text))))
    return found


def references(args: list[CommandArgument], env: dict[str, Word]) -> list[CommandArgument]:
    """Fill in $(NAME) from the container's own environment."""
    return [_referenced(arg, env) if "$(" in arg.view.text else arg for arg in args]


def _referenced(arg: CommandArgument, env: dict[str, Word]) -> CommandArgument:
    view = arg.view

    def value(match: re.Match[str]) -> TextView | None:
        if match[0] == "$$":
            return view.slice(match.start(), match.start() + 1)
        known = env.get(match[1])
        if known is None or known.unknown:
            return None
        if known.place.file != view.source.name:
            return view.instead(known.text, *match.span())
        return TextView.of(view.source, known)

    text = filled(view, _REFERENCE, value)
    return CommandArgument(text.word(arg.word.place, None), text)


def mappings(tree: DocumentTree) -> Iterator[DocumentTree]:
    """Every mapping of a tree, outer ones first; shared parts once."""
    seen, waiting = set[int](), [tree]
    while waiting:
        at = waiting.pop()
        if id(at) in seen:
            continue
        seen.add(id(at))
        if at.entries is not None:
            yield at
            waiting.extend(value for _, value in reversed(at.entries))
        waiting.extend(reversed(at.items or ()))
