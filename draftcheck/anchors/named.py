"""Names and words that code lists: registries, enums, classes with an interface, error messages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from draftcheck.anchors.c_code import CFile
from draftcheck.anchors.lines import WHOLE
from draftcheck.anchors.python_code import PythonFile

_CLASS = re.compile(
    r"^class (\w+)(?:\(([^)]*)\))?:|^    (?:async )?(?:def )?(\w+)(?:\(|\s*[=:])|\b(\w+)(?=: )",
    re.MULTILINE,
)

_WARNS = {"warning", "warning_once", "warn", "error"}
"""Methods of loggers and of `warnings` whose words are watched: what is silently changed."""


def table_names(file: PythonFile | CFile, symbol: str) -> Iterator[str]:
    """The words that a constant or an enum lists: of a dict or of pairs, only the keys.

    For * all that a file defines.
    """
    if symbol == WHOLE and isinstance(file, PythonFile):
        yield from (name for name in file.definitions if "." not in name)
        return
    if isinstance(file, CFile):
        for line in file.code(symbol):
            text = "\n".join(file.text.splitlines()[line.first - 1 : line.last])
            yield from re.findall(r'"([^"\s]+)"', text)
        return
    for node in file.definitions.get(symbol, []):
        if isinstance(node, ast.ClassDef):
            yield from (
                target.id
                for part in node.body
                if isinstance(part, ast.Assign)
                for target in part.targets
                if isinstance(target, ast.Name)
            )
        elif isinstance(value := getattr(node, "value", None), ast.expr):
            yield from _members(value)


def _members(value: ast.expr) -> Iterator[str]:
    if isinstance(value, ast.Call):  # OrderedDict([...]), frozenset({...}), dict(a=1)
        yield from (entry.arg for entry in value.keywords if entry.arg)
        for part in value.args[:1]:
            yield from _members(part)
    elif isinstance(value, ast.Subscript):  # Literal["a", "b"]
        yield from _members(value.slice)
    elif isinstance(value, ast.BinOp):
        yield from (*_members(value.left), *_members(value.right))
    elif isinstance(value, ast.Dict):
        for key in value.keys:
            yield from _members(key) if key is not None else ()
    elif isinstance(value, ast.Tuple | ast.List | ast.Set):
        pairs = all(isinstance(part, ast.Tuple) for part in value.elts)
        for part in value.elts:
            yield from _members(part.elts[0] if pairs and isinstance(part, ast.Tuple) else part)
    elif isinstance(value, ast.Name):
        yield value.id
    elif isinstance(value, ast.Attribute):
        yield value.attr
    elif isinstance(value, ast.Constant) and re.fullmatch(r"\S+", str(value.value)):
        yield str(value.value)


def holders(path: str, text: str, word: str) -> list[str]:
    """Classes with this base, method, field or argument; of a C file, the file itself."""
    if word not in text:
        return []
    if not path.endswith(".py"):
        return [path.rpartition("/")[2].rpartition(".")[0]]
    found, owner = set(), ""
    wanted = re.compile(rf"\b{re.escape(word)}\b")
    for match in _CLASS.finditer(text):
        if match[1]:
            owner = match[1]
            if wanted.search(match[2] or ""):
                found.add(owner)
        elif owner and word in (match[3], match[4]):
            found.add(owner)
    return sorted(found)


def errors(file: PythonFile) -> Iterator[tuple[int, str]]:
    """Line and words of every error and warning of a file; what is filled in is written …"""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Raise | ast.Assert):
            value = node.exc if isinstance(node, ast.Raise) else node.msg
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _WARNS:
            value = node.args[0] if node.args else None
        else:
            continue
        words = " ".join(text for _, text in texts(value) if text.strip()) if value else ""
        if words:
            yield node.lineno, " ".join(words.split())


def texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Every string below a node with its line."""
    if isinstance(node, ast.JoinedStr):
        parts = (
            part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "…"
            for part in node.values
        )
        yield node.lineno, "".join(parts)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.lineno, node.value
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):  # one message in parts
        left, right = list(texts(node.left)), list(texts(node.right))
        if left and right:
            left[-1:] = [(left[-1][0], left[-1][1] + right.pop(0)[1])]
        yield from (*left, *right)
    else:
        for child in ast.iter_child_nodes(node):
            yield from texts(child)
