"""What Python expressions say without running them: literals, names bound once, defaults."""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, TypeVar

from draftcheck.deploy.deployment import DocumentTree, plain
from draftcheck.deploy.options import programs
from draftcheck.deploy.syntax.variables import MAX_VALUE
from draftcheck.deploy.text import TextView, Word, joined
from draftcheck.values.findings import FilePlace

MAX_DEPTH = 24
MAX_STEPS = 60_000
MAX_BITS = 1000
"""Python writes no number of more than 4,300 digits."""
CALL = "__call__"
"""The entry that names the class or function where a value is a call."""
_Value = TypeVar("_Value")
_BREAK = re.compile(r"\r\n|\r|\n")


@dataclass(slots=True)
class PythonScope:
    """Names and what they are bound to, in a module or a function."""

    parent: PythonScope | None = None
    function: str = ""
    """Whose body it is."""
    bound: dict[str, list[ast.expr | None]] = field(default_factory=dict)
    """None: bound to something that is not an expression (a loop, a parameter)."""
    added: dict[str, list[tuple[str | None, ast.expr]]] = field(default_factory=dict)
    """Later additions: list elements (no key) and entries of a mapping."""
    returned: dict[str, list[tuple[ast.expr, PythonScope]]] = field(default_factory=dict)
    """What functions that are defined here return, by their names."""
    known: dict[str, DocumentTree] = field(default_factory=dict)
    """Names of a comprehension, at one of its turns."""

    def bind(self, name: str, value: ast.expr | None) -> None:
        self.bound.setdefault(name, []).append(value)

    def returns(self, name: str) -> tuple[ast.expr, PythonScope] | None:
        """The one expression that a function of this name returns."""
        scope: PythonScope | None = self
        while scope is not None:
            if name in scope.returned:
                values = scope.returned[name]
                return values[0] if len(values) == 1 else None
            scope = scope.parent
        return None

    def find(self, name: str) -> tuple[ast.expr, PythonScope] | None:
        """The one expression that a name stands for."""
        scope: PythonScope | None = self
        while scope is not None:
            if name in scope.bound:
                values = scope.bound[name]
                said = [v for v in values if not says_nothing(v)]
                only = (said or values)[0]
                return (only, scope) if len(said) <= 1 and only is not None else None
            scope = scope.parent
        return None


def says_nothing(value: ast.expr | None) -> bool:
    """None, "", [], {}: what a name holds until an `if` gives it something."""
    if isinstance(value, ast.Constant):
        return value.value is None or value.value == ""
    if isinstance(value, ast.List | ast.Tuple):
        return not value.elts
    return isinstance(value, ast.Dict) and not value.keys


class PythonValues:
    """Reads expressions of one file."""

    def __init__(self, view: TextView) -> None:
        self.view = view
        self.lines = [0, *(match.end() for match in _BREAK.finditer(view.text))]
        self.ascii = view.text.isascii()
        self.widths: dict[int, list[int]] = {}
        self.imports: dict[str, list[tuple[int, str]]] = {}
        """Name -> lines and what each import there makes of it."""
        self.arguments: dict[str, ast.expr] = {}
        self.scopes: list[PythonScope] = []
        self.lists: list[tuple[ast.List, PythonScope]] = []
        self.sums: list[tuple[ast.BinOp, PythonScope]] = []
        """Lists with others behind them."""
        self.dicts: list[tuple[ast.Dict, PythonScope]] = []
        self.texts: list[tuple[ast.expr, PythonScope]] = []
        self.reading: set[int] = set()
        """Values that are being worked out: one that is made of itself is not known."""
        self.steps = 0
        self.cut = False
        """Whether something was too long or too deep to be followed."""

    def position(self, line: int, column: int) -> int:
        """The position of a line and a column that counts bytes."""
        line = min(line, len(self.lines))
        start = self.lines[line - 1]
        if not self.ascii:  # how many bytes come before each character of the line
            if line not in self.widths:
                end = self.lines[line] if line < len(self.lines) else len(self.view.text)
                sizes = (len(letter.encode()) for letter in self.view.text[start:end])
                self.widths[line] = list(accumulate(sizes, initial=0))
            column = bisect_left(self.widths[line], column)
        return min(start + column, len(self.view.text))

    def span(self, node: ast.expr | ast.keyword) -> tuple[int, int]:
        end = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
        return self.position(node.lineno, node.col_offset), self.position(*end)

    def place(self, node: ast.expr | ast.keyword) -> FilePlace:
        return self.view.place(*self.span(node))

    def dotted(self, node: ast.expr) -> str:
        """a.b.c with imports resolved; what is no name is left out."""
        parts = list[str]()
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            parts.append(self._imported(node))
        return ".".join(reversed(parts))

    def _imported(self, name: ast.Name) -> str:
        """By the import above it: functions of one file may take the same name from several."""
        found = sorted(self.imports.get(name.id, ()))
        above = [full for line, full in found if line <= name.lineno]
        return above[-1] if above else found[0][1] if found else name.id

    def unknown(self, node: ast.expr) -> DocumentTree:
        """A value that only running the program would tell."""
        start, end = self.span(node)
        text = self.view.text[start : min(end, start + 80)]
        place = self.view.place(start, end)
        return DocumentTree.of(Word(text, place, self.view.hole(start, end), text.split("\n")[0]))

    def scalar(self, node: ast.expr, value: Any) -> DocumentTree:
        start, end = self.span(node)
        place = self.view.place(start, end)
        if isinstance(value, str):
            view = literal(self.view, start, end)
            if view is None or view.text != value:
                view = self.view.vague(value, start, end)
            return DocumentTree(place, word=view.word(place, self.view.raw(start, end)))
        kind = "null" if value is None else {bool: "bool", int: "int"}.get(type(value), "float")
        if kind == "int" and value.bit_length() > MAX_BITS:
            return self.unknown(node)
        text = json.dumps(value) if value is None or isinstance(value, bool) else str(value)
        view = self.view.instead(text, start, end)
        return DocumentTree.of(Word(text, place, view, raw=self.view.raw(start, end), kind=kind))

    def named(self, text: str, node: ast.expr) -> Word:
        """A word that the file does not spell, about a node."""
        return Word(text, self.place(node), self.view.vague(text, *self.span(node)))

    def read(self, node: ast.expr, scope: PythonScope, depth: int = 0) -> DocumentTree:
        """The value of an expression, as far as the file tells it."""
        self.steps += 1
        if depth > MAX_DEPTH or self.steps > MAX_STEPS:
            self.cut = self.cut or self.steps > MAX_STEPS
            return self.unknown(node)
        if isinstance(node, ast.Constant):
            value = node.value
            telling = value is None or isinstance(value, str | bool | int | float)
            return self.scalar(node, value) if telling else self.unknown(node)
        if isinstance(node, ast.Name | ast.Attribute):
            return self._name(node, scope, depth)
        if isinstance(node, ast.Dict):
            return self._dict(node, scope, depth)
        if isinstance(node, ast.List | ast.Tuple):
            return DocumentTree(self.place(node), items=tuple(self.items(node.elts, scope, depth)))
        if isinstance(node, ast.JoinedStr):
            return self._formatted(node, scope, depth)
        if isinstance(node, ast.FormattedValue):
            return self.read(node.value, scope, depth + 1)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._sum(node, scope, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            sides = [self.read(side, scope, depth + 1) for side in (node.left, node.right)]
            if all(side.entries is not None for side in sides):
                both = (entry for side in sides for entry in side.entries or ())
                return DocumentTree(self.place(node), entries=self._most(*both))
        if isinstance(node, ast.IfExp):
            return self._either(node, scope, depth)
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            return self._options(node, scope, depth)
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            # 0 or 5, x or "default"
            said = (v for v in node.values if isinstance(v, ast.Constant) and v.value)
            return self.read(next(said, node.values[-1]), scope, depth + 1)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = node.operand
            if isinstance(inner, ast.Constant) and isinstance(inner.value, int | float):
                return self.scalar(node, -inner.value)
        if isinstance(node, ast.Call):
            return self._call(node, scope, depth)
        if isinstance(node, ast.Await):
            return self.read(node.value, scope, depth + 1)
        return self.unknown(node)

    def items(self, nodes: list[ast.expr], scope: PythonScope, depth: int) -> list[DocumentTree]:
        """Elements of a list, *others filled in."""
        found = list[DocumentTree]()
        for node in nodes:
            if isinstance(node, ast.Starred):
                inner = self.read(node.value, scope, depth + 1)
                found.extend(inner.items if inner.items is not None else [self.unknown(node)])
            else:
                tree = self.read(node, scope, depth + 1)
                nothing = tree.word is not None and tree.word.kind == "null"
                named = isinstance(node, ast.Name | ast.Attribute)
                # DRAFT = None, and something else gives it a value before a list is made of it
                found.append(self.unknown(node) if nothing and named else tree)
        return found

    def _either(self, node: ast.IfExp, scope: PythonScope, depth: int) -> DocumentTree:
        """x if … else y: the one that says something; unknown where both do."""
        both = [self.read(side, scope, depth + 1) for side in (node.body, node.orelse)]
        telling = [tree for tree in both if tree.items or tree.entries or tree.says]
        return telling[0] if len(telling) == 1 else self.unknown(node)

    def _options(
        self, node: ast.ListComp | ast.GeneratorExp, scope: PythonScope, depth: int
    ) -> DocumentTree:
        """[word for k, v in settings.items() for word in (f"--{k}", str(v))]: options by name."""
        mapping, names = node.generators[0].iter, node.generators[0].target
        pairs = isinstance(names, ast.Tuple) and all(isinstance(e, ast.Name) for e in names.elts)
        listed = isinstance(mapping, ast.Call) and self.dotted(mapping.func).endswith(".items")
        if not pairs or not listed or len(node.generators) > 2 or node.generators[0].ifs:
            return self.unknown(node)
        tree = self.read(mapping.func.value, scope, depth + 1)  # type: ignore[attr-defined]
        key, value = (element.id for element in names.elts)  # type: ignore[attr-defined]
        each: ast.expr = node.elt
        if len(node.generators) == 2:
            inner = node.generators[1]
            if ast.dump(inner.target) != ast.dump(node.elt).replace("Load()", "Store()"):
                return self.unknown(node)
            each = inner.iter
        found = list[DocumentTree]()
        for name, held in tree.entries or ():
            own = PythonScope(scope, known={key: DocumentTree.of(name), value: held})
            made = self.read(each, own, depth + 1)
            found.extend(made.items if made.items is not None else (made,))
        return DocumentTree(self.place(node), items=self._most(*found)) if found else (
            self.unknown(node)
        )  # fmt: skip

    def _name(self, node: ast.Name | ast.Attribute, scope: PythonScope, depth: int) -> DocumentTree:
        dotted = self.dotted(node)
        if dotted in scope.known:
            return scope.known[dotted]
        found = scope.find(dotted)
        if found is None:
            default = self.arguments.get(dotted.rpartition(".")[2]) if "." in dotted else None
            if default is None or says_nothing(default):  # it comes from outside
                return self._grown(node, dotted, scope, depth) or self.unknown(node)
            return self.read(default, scope, depth + 1)
        if id(found[0]) in self.reading:  # path = Path(path)
            return self.unknown(node)
        self.reading.add(id(found[0]))
        value = self._set_afterwards(dotted, *found) or found[0]
        tree = self.read(value, found[1], depth + 1)
        self.reading.discard(id(found[0]))
        more = sorted(found[1].added.get(dotted, []), key=lambda each: each[1].lineno)
        if tree.items is not None and more:
            extra = [self.read(value, found[1], depth + 1) for key, value in more if key is None]
            items = [item for each in extra for item in (each.items or (each,))]
            return DocumentTree(tree.place, items=self._most(*tree.items, *items))
        if tree.word is not None and more:
            return self.unknown(node)
        if tree.entries is not None and more:
            entries = list[tuple[Word, DocumentTree]]()
            for key, value in more:
                inner = self.read(value, found[1], depth + 1)
                entries += [(self.named(key, value), inner)] if key else inner.entries or ()
            return DocumentTree(tree.place, entries=self._most(*tree.entries, *entries))
        return tree

    def _set_afterwards(self, dotted: str, value: ast.expr, scope: PythonScope) -> ast.expr | None:
        """config = Config(), then config.model_dir = "…": the model that it loads."""
        if not isinstance(value, ast.Call) or value.args or value.keywords:
            return None
        name = self.dotted(value.func)
        row = programs.loader(name, name.rpartition(".")[2])
        found = scope.find(f"{dotted}.{row.attribute}") if row and row.attribute else None
        return found[0] if found else None

    def _grown(
        self, node: ast.expr, dotted: str, scope: PythonScope, depth: int
    ) -> DocumentTree | None:
        """What is put into a mapping that comes from outside."""
        at: PythonScope | None = scope
        while at is not None and dotted not in at.added:
            at = at.parent
        entries = [
            (self.named(key, value), self.read(value, at, depth + 1))
            for key, value in (at.added[dotted] if at is not None else ())
            if key and at is not None
        ]
        return DocumentTree(self.place(node), entries=self._most(*entries)) if entries else None

    def _dict(self, node: ast.Dict, scope: PythonScope, depth: int) -> DocumentTree:
        entries = list[tuple[Word, DocumentTree]]()
        for key, value in zip(node.keys, node.values, strict=True):
            inner = self.read(value, scope, depth + 1)
            if key is None:
                entries.extend(inner.entries or ())
                continue
            name = self.read(key, scope, depth + 1).word
            if name is not None:
                entries.append((name, inner))
        return DocumentTree(self.place(node), entries=self._most(*entries))

    def _most(self, *values: _Value) -> tuple[_Value, ...]:
        self.cut = self.cut or len(values) > MAX_VALUE
        return values[:MAX_VALUE]

    def _formatted(self, node: ast.JoinedStr, scope: PythonScope, depth: int) -> DocumentTree:
        """An f-string: known parts filled in, unknown ones left as holes."""
        inner = [part for part in node.values if isinstance(part, ast.FormattedValue)]
        known = list[TextView | None]()
        for part in inner:
            word = self.read(part.value, scope, depth + 1).word
            telling = word is not None and not word.unknown and part.format_spec is None
            known.append(word.view if word is not None and telling else None)
        start, end = self.span(node)
        view = literal(self.view, start, end, lambda at: known[at] if at < len(known) else None)
        if view is None or len(view.text) > MAX_VALUE:
            return self._joined(node, list(node.values), scope, depth)
        if (
            view.extent is not None
        ):  # a value that stands nowhere as it is: here is where it is used
            view = self.view.vague(view.text, start, end)
        return DocumentTree.of(view.word(self.place(node), None))

    def _joined(
        self, node: ast.expr, parts: list[ast.expr], scope: PythonScope, depth: int
    ) -> DocumentTree:
        texts, unknown = list[str](), None
        for part in parts:
            word = self.read(part, scope, depth + 1).word
            if word is None:
                return self.unknown(node)
            unknown = unknown or word.unknown
            texts.append(f"{{{word.text}}}" if word.unknown else word.text)
        text = "".join(texts)
        if len(text) > MAX_VALUE:
            return self.unknown(node)
        return DocumentTree.of(replace(self.named(text, node), unknown=unknown))

    def _sum(self, node: ast.BinOp, scope: PythonScope, depth: int) -> DocumentTree:
        sides, left = [node.right], node.left
        while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add):
            sides.append(left.right)
            left = left.left
        parts = [self.read(side, scope, depth + 1) for side in (left, *reversed(sides))]
        if any(part.items is not None for part in parts):
            items = (item for part in parts for item in part.items or (part,))
            return DocumentTree(self.place(node), items=self._most(*items))
        words = [part.word for part in parts if part.word is not None]
        if len(words) < len(parts):
            return self.unknown(node)
        view = joined([word.view for word in words])
        if len(view.text) > MAX_VALUE:
            return self.unknown(node)
        return DocumentTree.of(view.word(self.place(node), None))

    def _call(self, node: ast.Call, scope: PythonScope, depth: int) -> DocumentTree:
        name = self.dotted(node.func)
        last = name.rpartition(".")[2] or getattr(node.func, "attr", "")
        first = node.args[0] if node.args else None
        if (row := programs.loader(name, last)) is not None:
            return self._loaded(node, row, scope, depth)
        if name in ("os.environ.get", "os.getenv", "environ.get", "getenv"):
            default = node.args[1] if len(node.args) > 1 else None
            if default is None or says_nothing(default):
                return self.unknown(node)
            return self.read(default, scope, depth + 1)
        if name in ("str", "pathlib.Path", "Path", "shlex.quote", "int", "list") and first:
            return self.read(first, scope, depth + 1)
        if name == "json.dumps" and first:
            unknown: list[str] = []
            text = json.dumps(plain(self.read(first, scope, depth + 1), unknown))
            return DocumentTree.of(
                replace(self.named(text, node), unknown=unknown[0] if unknown else None)
            )
        if last == "join" and isinstance(node.func, ast.Attribute) and first:
            # " ".join(words): the words themselves; anything else is a text.
            tree, glue = self.read(first, scope, depth + 1), node.func.value
            spaces = isinstance(glue, ast.Constant) and str(glue.value).isspace()
            return tree if spaces and tree.items is not None else self.unknown(node)
        if name == "shlex.split" and first:
            return self.read(first, scope, depth + 1)
        if last in ("to", "eval", "cuda", "half") and isinstance(node.func, ast.Attribute):
            return self.read(node.func.value, scope, depth + 1)
        if last in ("copy", "deepcopy") and isinstance(node.func, ast.Attribute):
            return self.read(first or node.func.value, scope, depth + 1)
        returned = scope.returns(name.removeprefix("self."))
        if returned is not None:
            return self.read(*returned, depth + 1)
        entries = self.keywords(node, scope, depth)
        if name == "dict":
            return DocumentTree(self.place(node), entries=tuple(entries))
        if not name or not (last[:1].isupper() or node.keywords):
            return self.unknown(node)  # what a function makes of its arguments is not known
        word = self.named(name, node.func)
        called = (self.named(CALL, node.func), DocumentTree.of(word))
        return DocumentTree(self.place(node), entries=(called, *entries))

    def _loaded(
        self, node: ast.Call, row: programs.LoaderRow, scope: PythonScope, depth: int
    ) -> DocumentTree:
        """The model that a call loads."""
        given = {str(at): value for at, value in enumerate(node.args)}
        given.update((keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg)
        read = {name: self.read(given[name], scope, depth + 1)
                for name in (*row.instead, *row.beside) if name in given}  # fmt: skip
        for name, values in row.instead.items():
            part = read[name].word if name in read else None
            if part is not None and part.text in values:
                return DocumentTree.of(part)
        named = next((given[name] for name in row.model if name in given), None)
        model = self.read(named, scope, depth + 1) if named is not None else self.unknown(node)
        beside = tuple((self.named(n, given[n]), read[n]) for n in row.beside if n in read)
        return replace(model, entries=beside) if beside and model.word is not None else model

    def keywords(
        self, node: ast.Call, scope: PythonScope, depth: int = 0
    ) -> list[tuple[Word, DocumentTree]]:
        """The keyword arguments of a call, **others filled in; positional ones by number."""
        found = list[tuple[Word, DocumentTree]]()
        for number, value in enumerate(node.args):
            if not isinstance(value, ast.Starred):
                found.append((self.named(str(number), value), self.read(value, scope, depth + 1)))
        for keyword in node.keywords:
            inner = self.read(keyword.value, scope, depth + 1)
            if keyword.arg is None:
                spelt = [entry for entry in inner.entries or () if not entry[0].text.isdigit()]
                if inner.entries is None or len(spelt) < len(inner.entries):  # dict(others)
                    spelt.append((self.named("**", keyword.value), self.unknown(keyword.value)))
                found.extend(spelt)
                continue
            start = self.position(keyword.lineno, keyword.col_offset)
            name = self.view.slice(start, start + len(keyword.arg))
            same = name.text == keyword.arg
            found.append((name.word() if same else self.named(keyword.arg, keyword.value), inner))
        return found


_BETWEEN = re.compile(r"(?:\s|\\\r?\n|#[^\n]*|[()])*")
_OPENING = re.compile(r"([rRuUfFbB]{0,2})(\"\"\"|'''|\"|')")
_ESCAPE = re.compile(r"\\(?:\r?\n|.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}

Filler = Callable[[int], TextView | None]
"""The text of the n-th {…} of an f-string; None: unknown."""


# ---- where the characters of a string stand: neighbouring literals, escapes, f-strings ----


def literal(view: TextView, start: int, end: int, fill: Filler | None = None) -> TextView | None:
    """The text of a string that stands in text[start:end]; None: too unusual to follow."""
    parts, at, holes = list[TextView](), start, 0
    while True:
        between = _BETWEEN.match(view.text, at, end)
        at = between.end() if between else at
        if at >= end:
            break
        opening = _OPENING.match(view.text, at, end)
        if not opening:
            return None
        prefix, quote = opening[1].lower(), opening[2]
        closing = _closing(view.text, opening.end(), end, quote)
        if closing < 0:
            return None
        inner = fill if "f" in prefix else None
        found = _content(view, opening.end(), closing, "r" in prefix, inner, holes)
        if found is None:
            return None
        parts.extend(found[0])
        holes = found[1]
        at = closing + len(quote)
    return joined(parts) if parts else view.slice(start, start)


def _closing(text: str, at: int, end: int, quote: str) -> int:
    while at < end:
        if text[at] == "\\":
            at += 2
        elif text.startswith(quote, at):
            return at
        else:
            at += 1
    return -1


def _content(
    view: TextView, at: int, end: int, raw: bool, fill: Filler | None, holes: int
) -> tuple[list[TextView], int] | None:
    text, parts, start = view.text, list[TextView](), at
    while at < end:
        if text[at] == "\\" and not raw:
            match = _ESCAPE.match(text, at, end)
            if not match:
                return None
            parts.append(view.slice(start, at))
            letter = _LETTERS.get(match[0][1:])
            if letter is None and match[0][1:] not in ("\n", "\r\n"):
                return None
            if letter is not None:
                parts.append(view.instead(letter, at, at + 1))
            at = start = match.end()
        elif fill is not None and text[at] in "{}":
            parts.append(view.slice(start, at))
            if text.startswith(text[at] * 2, at):
                parts.append(view.slice(at, at + 1))
                at += 2
            else:
                after = _braces(text, at, end)
                known = fill(holes)
                holes += 1
                parts.append(known if known is not None else view.hole(at, after))
                at = after
            start = at
        else:
            at += 1
    parts.append(view.slice(start, end))
    return parts, holes


def _braces(text: str, at: int, end: int) -> int:
    """Behind the } that closes this {."""
    depth = 0
    while at < end:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
        if depth <= 0:
            break
    return at
