"""Python source -> its statements, each with a digest, and the statements of one named place.

A digest stands for what a statement does: comments, positions, docstrings, and the types written
beside arguments are left out. It is made from the syntax tree by hand, because `ast.dump` and
`ast.unparse` write the same tree differently from one Python to the next.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from functools import cached_property

from draftcheck.anchors.lines import WHOLE, CodeLine, digest

LEFT_OUT = {"ctx", "kind", "type_comment"}
TYPES = {"annotation", "returns"}
"""Left out beside arguments; on a field of a class they say what it takes."""
BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class PythonFile:
    """The syntax tree of one file; ValueError when it is not Python that can be parsed here."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ValueError(f"not parsed: {error}") from None

    @cached_property
    def definitions(self) -> dict[str, list[ast.stmt]]:
        """Class.method, function, CONSTANT -> where it is defined; twice in an if and its else."""
        found: dict[str, list[ast.stmt]] = {}
        for name, node in _defined(self.tree.body, ""):
            found.setdefault(name, []).append(node)
        return found

    def code(self, symbol: str) -> list[CodeLine]:
        """The statements of a symbol, * for the whole file; none where it is not defined."""
        nodes = self.tree.body if symbol == WHOLE else self.definitions.get(symbol, [])
        try:
            return [line for node in nodes for line in _lines(node, "")]
        except RecursionError:
            raise ValueError("not parsed: too deeply nested") from None

    def symbol_at(self, number: int) -> str | None:
        """The innermost function, class or constant that holds a line of the file."""
        held = [
            (node.lineno, name)
            for name, nodes in self.definitions.items()
            for node in nodes
            if _first(node) <= number <= (node.end_lineno or 0)
        ]
        return max(held)[1] if held else None


def _first(node: ast.stmt) -> int:
    above = node.decorator_list if isinstance(node, Definition) else []
    return min([node.lineno, *(entry.lineno for entry in above)])


def _defined(body: Iterable[ast.AST], prefix: str) -> Iterator[tuple[str, ast.stmt]]:
    for node in body:
        if isinstance(node, Definition):
            yield prefix + node.name, node
            inner = _defined(node.body, f"{prefix}{node.name}.")
            # A variable of a function is no place.
            function = not isinstance(node, ast.ClassDef)
            yield from (e for e in inner if not function or isinstance(e[1], Definition))
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    yield prefix + target.id, node
        elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            for block in BLOCKS:
                yield from _defined(getattr(node, block, ()), prefix)


def _lines(node: ast.AST, block: str) -> Iterator[CodeLine]:
    """The statement's own line, then those of its blocks."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring, a text below a field, an ellipsis: nothing happens
    words: list[str] = [block]
    inner: list[tuple[str, ast.AST]] = []
    _write(node, words, inner)
    first = _line(node)
    end = min((_line(part) - 1 for _, part in inner), default=getattr(node, "end_lineno", first))
    yield CodeLine(digest("\x1f".join(words)), first, max(first, end))
    for name, part in inner:
        yield from _lines(part, f"{block} {name}")


def _line(node: ast.AST) -> int:
    """Where a node starts; a case of a match has its place in its pattern."""
    return getattr(node, "lineno", 0) or getattr(getattr(node, "pattern", None), "lineno", 0)


def _write(node: ast.AST, words: list[str], inner: list[tuple[str, ast.AST]]) -> None:
    """The node in words that are the same for every Python; its blocks are set aside."""
    words.append(type(node).__name__)
    for name, value in ast.iter_fields(node):
        if value is None or value == [] or (name in TYPES and not isinstance(node, ast.AnnAssign)):
            continue
        if name in LEFT_OUT:
            continue
        if name in BLOCKS and isinstance(value, list):
            inner += [(name, part) for part in value]
            continue
        words.append(name)
        for part in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.JoinedStr) and getattr(part, "value", None) == "":
                continue  # Python 3.12 puts empty texts into formats
            if isinstance(part, ast.AST):
                _write(part, words, inner)
            else:
                words.append(f"{type(part).__name__} {part!r}")
    words.append(".")
