"""Python: calls that set up engines and programs that are started, by syntax tree; never run.

Of a Jupyter notebook the code of each cell, as Python or as shell lines (!vllm serve …).
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import replace

from draftcheck.deploy import leftovers
from draftcheck.deploy.deployment import TOO_MUCH, Contents, DocumentTree, flag_words, split
from draftcheck.deploy.kinds import is_test, shell
from draftcheck.deploy.options.programs import (
    imported,
    is_options,
    is_sign,
    sets_up,
    sign_keys,
    signed,
    starts_engine,
)
from draftcheck.deploy.syntax import json_places, python_talk
from draftcheck.deploy.syntax.python_values import PythonScope, PythonValues, says_nothing
from draftcheck.deploy.syntax.variables import Variables
from draftcheck.deploy.text import TextView, Word, joined

# Calls that are handed on besides those that rules/programs.toml names: with these keywords.
_KEYWORDS = re.compile(
    r"assistant_model|assistant_tokenizer|assistant_early_exit|prompt_lookup_\w+|speculative_\w+"
    r"|draft_model\w*|num_draft_tokens|use_mtp|prompt_lookup"
)
_STARTS = {
    "subprocess.run", "subprocess.Popen", "subprocess.call", "subprocess.check_call",
    "subprocess.check_output", "os.system", "os.popen", "asyncio.create_subprocess_exec",
    "asyncio.create_subprocess_shell", "os.execvp", "os.execv",
}  # fmt: skip
_WORTH = (
    "LLM(", "EngineArgs(", "Engine(", "ServerArgs(", "Llama(", "LMPipeline(", "Runtime(",
    "stream_generate(", "pip_install(", "Generator", "draftModel", "--spec", "--model-draft",
    "subprocess", "os.system", "os.popen", "os.exec", "assistant_", "prompt_lookup_",
    "speculative_", "draft_model", "num_draft_tokens", "use_mtp", ".generate(**", "pipeline(**",
)  # fmt: skip
"""Without one of these a program starts no engine."""
_CONTAINER = re.compile(r"\s*(?:sudo )?(?:docker|podman|nerdctl) (?:.* )?run ")
_INSTALLS = ("pip_install", "uv_pip_install")
_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def read(view: TextView, contents: Contents) -> None:
    if not any(map(view.text.__contains__, _WORTH)):
        return
    values = PythonValues(view)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(view.text)
    except SyntaxError as error:
        line, column = error.lineno or 1, max((error.offset or 1) - 1, 0)
        start = values.lines[min(max(line, 1), len(values.lines)) - 1]
        at = min(start + column, len(view.text))
        contents.trouble(view.place(at, at), f"not Python 3: {error.msg}")
        return
    except (ValueError, RecursionError, MemoryError) as error:
        contents.trouble(view.place(0, 0), f"not readable as Python: {type(error).__name__}")
        return
    name = contents.source.name.lower() if contents.source else ""
    for call, scope in _calls(tree, values) if not is_test(name) else ():
        _call(call, scope, values, contents)
    if signed(view.text.encode(errors="replace")):
        _loose_parts(tree, values, contents)
    if values.cut:
        contents.cut_at(view.place(0, 0), TOO_MUCH)


def _loose_parts(tree: ast.Module, values: PythonValues, contents: Contents) -> None:
    """What holds an engine's own options, though what runs it was not found."""
    name = contents.source.name.lower() if contents.source else ""
    quiet = python_talk.quiet(tree, is_test(name))
    _lists(values, contents, quiet)
    _dicts(values, contents, quiet)
    _texts(values, contents, quiet)
    if contents.source is None or contents.depth:  # of a notebook, or in a script
        spoken = (n for n, _ in values.texts if id(n) in quiet)
        contents.spoken |= leftovers.lines(map(values.place, spoken))


def _calls(tree: ast.Module, values: PythonValues) -> list[tuple[ast.Call, PythonScope]]:
    """Every call with its scope, in the order of the file; names are bound on the way."""
    found = list[tuple[ast.Call, PythonScope]]()
    values.scopes.append(PythonScope())
    waiting: list[tuple[ast.AST, PythonScope]] = [(tree, values.scopes[0])]
    inner, off = set[int](), python_talk.switched_off(tree)
    """Parts of a longer text; what does not happen."""
    while waiting:
        node, scope = waiting.pop()
        if id(node) in off:
            continue
        if isinstance(node, ast.Call):
            found.append((node, scope))
            _grows(node, scope, values)
        elif isinstance(node, ast.List):
            values.lists.append((node, scope))
        elif isinstance(node, ast.Dict):
            values.dicts.append((node, scope))
        elif isinstance(node, ast.BinOp) and isinstance(node.left, ast.List):
            values.sums.append((node, scope))
        elif isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp) and id(node) not in inner:
            values.texts.append((node, scope))
            if not isinstance(node, ast.Constant):
                inner.update(map(id, ast.iter_child_nodes(node)))
        _binds(node, scope, values)
        if isinstance(node, ast.Return) and node.value is not None and scope.function:
            outer = scope.parent or scope
            outer.returned.setdefault(scope.function, []).append((node.value, scope))
        if isinstance(node, _SCOPES):
            scope = _parameters(node, scope)
            values.scopes.append(scope)
        waiting.extend((child, scope) for child in ast.iter_child_nodes(node))
    return sorted(found, key=lambda each: (each[0].lineno, each[0].col_offset))


def _parameters(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: PythonScope
) -> PythonScope:
    inner = PythonScope(scope, function=getattr(node, "name", ""))
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [*arguments.defaults]
    padded = [None] * (len(positional) - len(defaults)) + defaults
    for argument, default in zip(positional, padded, strict=False):
        inner.bind(argument.arg, None if says_nothing(default) else default)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=False):
        inner.bind(argument.arg, None if says_nothing(default) else default)
    for other in (arguments.vararg, arguments.kwarg):
        if other is not None:
            inner.bind(other.arg, None)
    return inner


def _binds(node: ast.AST, scope: PythonScope, values: PythonValues) -> None:
    """Note imports and assignments."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            full = alias.name if alias.asname else alias.name.split(".")[0]
            values.imports.setdefault(alias.asname or full, []).append((node.lineno, full))
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            full = f"{node.module or ''}.{alias.name}"
            values.imports.setdefault(alias.asname or alias.name, []).append((node.lineno, full))
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if not _sifts(values.dotted(target), node.value, values):
                _target(target, node.value, scope, values)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        _target(node.target, node.value, scope, values)
    elif isinstance(node, ast.AugAssign):
        name = values.dotted(node.target)
        if isinstance(node.op, ast.Add | ast.BitOr):
            scope.added.setdefault(name, []).append((None, node.value))
        else:
            scope.bind(name, None)
            scope.bind(name, None)
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        _target(node.target, None, scope, values)


def _sifts(name: str, value: ast.expr, values: PythonValues) -> bool:
    """Whether a name keeps some of what it holds: x = {k: v for k, v in x.items() if v}."""
    if not isinstance(value, ast.DictComp | ast.ListComp):
        return False
    source = value.generators[0].iter
    return bool(name) and name in (
        values.dotted(source),
        values.dotted(source.func).removesuffix(".items") if isinstance(source, ast.Call) else "",
    )


def _target(
    target: ast.expr, value: ast.expr | None, scope: PythonScope, values: PythonValues
) -> None:
    if isinstance(target, ast.Name | ast.Attribute):
        scope.bind(values.dotted(target), value)
    elif isinstance(target, ast.Tuple | ast.List):
        known = value.elts if isinstance(value, ast.Tuple | ast.List) else []
        for at, element in enumerate(target.elts):
            inner = known[at] if len(known) == len(target.elts) else None
            # model, tokenizer = load("…"): the first is the model.
            first = value if at == 0 and isinstance(value, ast.Call) else None
            _target(element, inner or first, scope, values)
    elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        key = target.slice.value
        if isinstance(key, str) and value is not None:
            scope.added.setdefault(values.dotted(target.value), []).append((key, value))


def _grows(node: ast.Call, scope: PythonScope, values: PythonValues) -> None:
    """Note x.append(…), x.extend(…), x.update(…) and an argument parser's defaults."""
    if not isinstance(node.func, ast.Attribute):
        return
    if node.func.attr in ("append", "extend", "update"):
        added = scope.added.setdefault(values.dotted(node.func.value), [])
        added += [(None, value) for value in node.args[:1]]
        added += [(keyword.arg, keyword.value) for keyword in node.keywords]
    elif node.func.attr == "add_argument" and node.args:
        options = [a.value for a in node.args if isinstance(a, ast.Constant)]
        named = {k.arg: k.value for k in node.keywords}
        long = [o for o in options if isinstance(o, str) and o.startswith("--")] or options[:1]
        if "default" in named and long and isinstance(long[0], str):
            dest = named.get("dest")
            said = dest.value if isinstance(dest, ast.Constant) else long[0].lstrip("-")
            values.arguments[str(said).replace("-", "_")] = named["default"]


def _call(node: ast.Call, scope: PythonScope, values: PythonValues, contents: Contents) -> None:
    name = values.dotted(node.func)
    last = name.rpartition(".")[2] or getattr(node.func, "attr", "")
    if name in _STARTS and node.args:
        _program(node, name, scope, values, contents)
    elif last in _INSTALLS:
        words = [values.read(value, scope).word for value in node.args]
        place = values.place(node)
        said = [values.named(text, node) for text in ("pip", "install")]
        contents.command([word for word in (*said, *words) if word is not None], place)
    elif sets_up(
        last, [full for imports in values.imports.values() for _, full in imports]
    ) or any(  # a keyword about speculation, or **settings that may hide one
        _KEYWORDS.fullmatch(k.arg) if k.arg else last in ("generate", "pipeline")
        for k in node.keywords
    ):
        entries = values.keywords(node, scope)
        if isinstance(node.func, ast.Attribute):
            receiver = values.read(node.func.value, scope)
            if receiver.word is not None and receiver.word.unknown is None:
                entries.append((values.named("self", node.func.value), receiver))
        tree = DocumentTree(values.place(node), entries=tuple(entries))
        contents.document("python-call", tree, name)


def _lists(values: PythonValues, contents: Contents, quiet: set[int]) -> None:
    """Lists of words that hold an engine's own options, though what runs them was not found."""
    taken = {word.place for command in contents.commands for word in command.words}

    def emit(tree: DocumentTree) -> None:
        words = [item.word for item in tree.items or () if item.word is not None]
        if any(is_sign(word.text) and word.place not in taken for word in words):
            taken.update(word.place for word in words)
            shell.Unwrapping(contents, Variables(), tree.place).emit(words)

    signed = [
        (node, scope)
        for node, scope in values.lists
        if id(node) not in quiet
        and any(isinstance(e, ast.Constant) and is_sign(str(e.value)) for e in node.elts)
    ]
    for total, scope in values.sums:
        if id(total) not in quiet:
            emit(values.read(total, scope))
    for scope in values.scopes if signed else ():
        for name in scope.bound:
            value = scope.find(name)
            if value is not None and isinstance(value[0], ast.List) and id(value[0]) not in quiet:
                emit(values.read(ast.copy_location(ast.Name(name), value[0]), scope))
    for node, scope in signed:
        emit(values.read(node, scope))


def _dicts(values: PythonValues, contents: Contents, quiet: set[int]) -> None:
    """Options by their names, for a command line that a loop makes of them."""
    understood: set[int] | None = None
    for node, scope in values.dicts:
        names = [str(key.value) for key in node.keys if isinstance(key, ast.Constant)]
        flags = any(map(is_sign, names))
        keys = sign_keys().intersection(name.replace("_", "-") for name in names)
        if id(node) in quiet or not (flags or keys):
            continue
        if understood is None:
            understood = set[int]().union(*map(leftovers.lines_of, contents.commands))
            understood = understood.union(*map(leftovers.lines_of, contents.documents))
        tree = values.read(node, scope)
        if node.lineno in understood or tree.entries is None:
            continue
        told = [value for key, value in tree.entries if is_sign(key.text) or key.text in names]
        if not any(value.entries or (value.says and not value.word.unknown) for value in told):  # type: ignore[union-attr]
            continue  # names of options, or what another function works out
        if flags:
            shell.Unwrapping(contents, Variables(), tree.place).emit(flag_words(tree))
        else:
            full_names = (full for known in values.imports.values() for _, full in known)
            kind, modules = "options-inside", {name.partition(".")[0] for name in full_names}
            contents.document(kind, tree, imported(modules, kind))


def _texts(values: PythonValues, contents: Contents, quiet: set[int]) -> None:
    """Texts of options, or of an engine's command, though what runs them was not found."""
    understood = set[int]().union(*map(leftovers.lines_of, contents.commands))
    for node, scope in values.texts:
        if id(node) in quiet or node.lineno in understood:
            continue
        start, end = values.span(node)
        if "--" not in values.view.text[start:end]:
            continue
        word = values.read(node, scope).word
        if word is None or word.kind != "str" or not any(map(is_sign, word.text.split())):
            continue
        understood.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if is_options(word.view.text):
            contents.loose_options(word.view)
        elif starts_engine(word.text) or _CONTAINER.match(word.text):
            shell.inside(word.view, contents)


def _program(
    node: ast.Call, name: str, scope: PythonScope, values: PythonValues, contents: Contents
) -> None:
    """A program that is started: a list of words, or a text for a shell."""
    whole = name.startswith(("os.exec", "asyncio.create_subprocess_exec"))
    tree = values.read(node.args[0], scope)
    if whole:
        rest = node.args[1:] if name.startswith("os.exec") else node.args
        trees = values.items(rest, scope, 0)
        tree = trees[0] if len(trees) == 1 and trees[0].items is not None else tree
        if tree.items is None:
            tree = DocumentTree(values.place(node), items=tuple(trees))
    if tree.items is None:
        if tree.word is not None and tree.word.kind == "str":
            shell.inside(tree.word.view, contents)
        return
    args = list[Word]()
    for item in tree.items:
        word = item.word
        if word is None:
            continue
        text = isinstance(node.args[0], ast.Call) and " " in word.text and word.raw is not None
        args.extend(split(word.view, contents) if text else [word])
    shell.Unwrapping(contents, Variables(), values.place(node)).emit(args)


# ---- notebooks ----

_MAGIC = re.compile(r"^([ \t]*)([!%](?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
_CELL_MAGIC = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*%%(\w+)([^\n]*)(?:\n|$)")


def read_notebook(view: TextView, contents: Contents) -> None:
    """Collect what the cells start; all cells share one program."""
    tree = json_places.parse_view(view, contents, "a notebook")
    if tree is None:
        return
    code = list[TextView]()
    for cell in tree.listed("cells"):
        lines = cell.listed("source") or (cell.get("source"),)
        views = [line.view for line in lines if line is not None and line.view is not None]
        if views and cell.said("cell_type") != "code":
            contents.spoken |= leftovers.lines(view.place() for view in views)
        if not views or cell.said("cell_type") != "code":
            continue
        source = joined(views)
        magic = _CELL_MAGIC.match(source.text)
        if magic is None:
            code.append(_without_magics(source, contents))
            continue
        rest = source.slice(magic.end(), len(source.text))
        if magic[1] == "writefile":
            shell.file_inside(rest, magic[2].split()[-1] if magic[2].split() else "", contents)
        elif magic[1] in ("bash", "sh", "script"):
            shell.inside(rest, contents)
        elif magic[1] in ("time", "timeit", "capture"):
            code.append(_without_magics(rest, contents))
    if not code:
        return
    # All cells as one program; cell by cell where that is not Python.
    found = Contents(contents.read_file)
    read(joined(code), found)
    if found.troubles:
        found = Contents(contents.read_file)
        for part in code:
            read(part, found)
    contents.spoken |= found.spoken
    contents.loose.extend(found.loose)
    contents.commands.extend(found.commands)
    contents.documents.extend(found.documents)
    contents.troubles.extend(found.troubles)


def _without_magics(source: TextView, contents: Contents) -> TextView:
    """The Python of a cell; shell lines are read, they and magics become blank."""

    def blank(magic: re.Match[str]) -> str:
        if magic[2][0] == "!":
            shell.inside(source.slice(magic.start(2) + 1, magic.end()), contents)
        size = len(magic[2])
        return magic[1] + ("pass".ljust(size) if size > 3 else " " * size)

    last = source.slice(max(len(source.text) - 1, 0), len(source.text))
    last.text = "\n"
    return joined([replace(source, text=_MAGIC.sub(blank, source.text)), last])
