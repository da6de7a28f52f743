"""Which texts and lists of a Python program only speak of options, and set nothing up.

Tests and what they compare, help and messages, declarations of options, tables from a setting to
its option, patterns, branches that are switched off. What is left may be a part of a command line.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence

_CALLS = re.compile(
    r"add_argument|add_option|option|Option|Argument|print|debug|info|warning|warn|error|exception"
    r"|critical|log|startswith|endswith|get|pop|index|count|replace|split|getattr|hasattr|setattr"
    r"|match|search|compile|sub|Field|\w+Error|\w+Exception|fail|skip|xfail|write|parametrize"
    r"|s?echo|partition|removeprefix|assert\w*|Mock|MagicMock|discard|remove"
)
_KEYWORDS = re.compile(
    r"help|description|epilog|usage|metavar|message|msg|reason|match|expected|return_value"
    r"|side_effect|doc|title"
)
_ABOUT = re.compile(r"examples?|help|description|desc|label|title|notes?|usage|hint|reason|fix")
"""Keys of what is told about an option."""
_ADDS = re.compile(r"append|extend|insert|add|\w*_?args?|\w*cmd\w*|\w*command\w*|Popen|run|call")
_OPTION = re.compile(r"--?[A-Za-z][\w-]*")
_SENTENCE = re.compile(r"(?:[A-Za-z]{2,}[,:;.]? ){3,}")
_PATTERN = re.compile(r"--[\w-]+(?:\\[sSbdw]|\(\?)")
_Collection = ast.List | ast.Tuple | ast.Set


def quiet(tree: ast.AST, test: bool) -> set[int]:
    """The ids of the nodes of this program that set nothing up."""
    found, off = set[int](), switched_off(tree)
    waiting: list[tuple[ast.AST, bool]] = [(tree, test)]
    while waiting:
        node, talks = waiting.pop()
        talks = talks or id(node) in off or _talks(node)
        if talks:
            found.add(id(node))
        found.update(map(id, _declared(node)))
        waiting += ((child, talks) for child in ast.iter_child_nodes(node))
    return found


def switched_off(tree: ast.AST) -> set[int]:
    """The ids of the statements behind `if USE_IT:`, where the file says USE_IT = False, once."""
    stored = Counter(node.id for node in ast.walk(tree)
                     if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))  # fmt: skip
    names = {
        statement.targets[0].id
        for statement in getattr(tree, "body", ())
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and isinstance(statement.value, ast.Constant)
        and statement.value.value is False
        and stored[statement.targets[0].id] == 1
    }
    branches = (node for node in ast.walk(tree) if names and isinstance(node, ast.If))
    asked = (node for node in branches if isinstance(node.test, ast.Name) and node.test.id in names)
    return {id(statement) for node in asked for statement in node.body}


def _talks(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert | ast.Compare | ast.arg | ast.Raise):
        return True
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name.startswith("test_")
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)  # a docstring
    if isinstance(node, ast.Call):
        return _CALLS.fullmatch(_last(node.func)) is not None
    if isinstance(node, ast.keyword):
        return node.arg is not None and _KEYWORDS.fullmatch(node.arg) is not None
    if isinstance(node, ast.JoinedStr):
        shown = any(isinstance(part, ast.FormattedValue) and part.conversion == ord("r")
                    for part in node.values)  # fmt: skip
        return shown or any(_prose(part) for part in node.values)
    text = node.value if isinstance(node, ast.Constant) else None
    return _prose(node) or (isinstance(text, str) and bool(_PATTERN.search(text)))


def _prose(node: ast.AST) -> bool:
    """A sentence on one line."""
    text = node.value if isinstance(node, ast.Constant) else None
    if not isinstance(text, str) or "\n" in text.strip():
        return False
    # A line of a comment, or of a table, that a program writes.
    return text.startswith(("#", "|")) or _SENTENCE.search(text) is not None


def _declared(node: ast.AST) -> Iterator[ast.AST]:
    """Names of options that nothing gives a value to."""
    if isinstance(node, _Collection):
        bare = [_is_option(each) for each in node.elts]
        if len(bare) > 1 and all(bare):
            yield node
        yield from _without_value(node.elts)
    elif isinstance(node, ast.Dict):
        yield from (value for value in node.values if _is_option(value))
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and _made_elsewhere(str(key.value), value):
                yield key
            if isinstance(key, ast.Constant) and _ABOUT.fullmatch(str(key.value)):
                yield value
    elif isinstance(node, ast.keyword) and node.arg and _made_elsewhere(node.arg, node.value):
        yield node
    elif isinstance(node, ast.keyword) and _is_option(node.value):
        yield node.value
    elif isinstance(node, ast.Call) and not _ADDS.fullmatch(_last(node.func)):
        yield from _without_value(node.args)


def _made_elsewhere(name: str, value: ast.expr) -> bool:
    """x: self.x, x: c.build_x(), or --x: "x"."""
    if isinstance(value, ast.Constant):
        return value.value == name.lstrip("-").replace("-", "_")
    call = isinstance(value, ast.Call) and not value.args and not value.keywords
    last = _last(value.func if isinstance(value, ast.Call) else value)
    return last == name or (call and last.endswith(f"_{name}"))


def _without_value(nodes: Sequence[ast.expr]) -> Iterator[ast.expr]:
    for at, each in enumerate(nodes):
        following = nodes[at + 1] if at + 1 < len(nodes) else None
        if _is_option(each) and (
            following is None or _is_option(following) or _explains(following)
        ):
            yield each


def _explains(node: ast.AST) -> bool:
    """Whether a text says what an option is for."""
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and re.fullmatch(r"[A-Z]\S* .*\.", text) is not None


def _is_option(node: ast.AST) -> bool:
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and _OPTION.fullmatch(text) is not None


def _last(node: ast.expr) -> str:
    """The last name of what is called."""
    return getattr(node, "attr", getattr(node, "id", ""))
