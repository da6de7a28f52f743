"""Option names of vLLM, SGLang and mlx-lm, from their sources by ast: nothing is imported."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator

Found = dict[tuple[str, str], tuple[str, str]]
"""(kind, name) -> (how many words it takes, the programs that have it)."""
Show = Callable[[str], str]
Under = Callable[[str], list[str]]
NONE_TAKEN = ("store_true", "store_false", "store_const", "version", "BooleanOptionalAction")


def parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == name:
            yield node


def strings(nodes: list[ast.expr]) -> list[str]:
    return [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def fields(tree: ast.AST, *endings: str) -> dict[str, str]:
    """Annotated fields of every class whose name ends so, with the annotation's text."""
    return {
        part.target.id: ast.unparse(part.annotation)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name.endswith(endings)
        for part in node.body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    }


def from_annotation(text: str) -> str:
    """How many words an option made from this type takes."""
    inner = text.removeprefix("Optional[").removeprefix("A[").removeprefix("Optional[")
    if inner.startswith("bool") and "str" in inner.partition(",")[0]:
        return "?"
    if inner.startswith("bool"):
        return "0"
    if inner.lower().startswith(("list", "tuple", "set")) or "str | list[" in inner:
        return "n"
    return "1"


def from_call(call: ast.Call, types: dict[str, str]) -> str:
    given = {key.arg: key.value for key in call.keywords if key.arg}
    action = given.get("action")
    if action is not None:
        named = action.value if isinstance(action, ast.Constant) else ast.unparse(action)
        if "StoreTrue" in str(named) or str(named).rpartition(".")[2] in NONE_TAKEN:
            return "0"
        if "Deprecated" in str(named) and "nargs" not in given:
            return "?"
    if "nargs" in given:
        words = getattr(given["nargs"], "value", None)
        return {None: "1", "?": "?", 1: "1"}.get(words, "n")
    for part in (n for key in call.keywords if key.arg is None for n in ast.walk(key.value)):
        if isinstance(part, ast.Subscript):  # **model_kwargs["enforce_eager"]
            name = str(getattr(part.slice, "value", ""))
            own = next((n for n in strings(call.args) if n.startswith("--")), "")
            dest = own.removeprefix("--").replace("-", "_")
            return from_annotation(types.get(name) or types.get(dest, "str"))
    return "1"


def add(found: Found, names: list[str], words: str, negatable: bool) -> None:
    for name in names:
        found["option", name] = (words, "")
        if words == "0" and negatable and name.startswith("--"):
            found["option", "--no-" + name[2:]] = (words, "")


def added(tree: ast.AST, types: dict[str, str]) -> Found:
    """Options of literal add_argument calls."""
    found: Found = {}
    for call in calls(tree, "add_argument"):
        names = [name for name in strings(call.args) if name.startswith("-")]
        bare = not any(key.arg == "action" for key in call.keywords)
        text = ast.unparse(call)
        add(found, names, from_call(call, types), bare or "BooleanOptionalAction" in text)
    return found


def literals(tree: ast.AST, wanted: Callable[[str], bool]) -> dict[str, list[str]]:
    """NAME = Literal["a", "b", OTHER] at the top of a module, with the others filled in."""
    whole = {
        node.targets[0].id: node.value
        for node in getattr(tree, "body", [])
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }

    def words(node: ast.expr) -> list[str]:
        if isinstance(node, ast.Constant):
            return [node.value] if isinstance(node.value, str) else []
        if isinstance(node, ast.Name) and node.id in whole:
            return words(whole[node.id])
        if isinstance(node, ast.Subscript):
            return words(node.slice)
        if isinstance(node, ast.Tuple):
            return [word for part in node.elts for word in words(part)]
        return []

    return {name: words(node) for name, node in whole.items() if wanted(name)}


FRONT = (
    "entrypoints/openai/cli_args.py", "entrypoints/launchers/cli_args.py",
    "entrypoints/common/cli_args.py", "entrypoints/cli/serve.py", "scripts.py",
    "entrypoints/openai/api_server.py",
)  # fmt: skip


def vllm_names(show: Show, under: Under) -> Found:
    """Options of vllm serve, keys of --speculative-config, and the methods it may name."""
    engine = parse(show("engine/arg_utils.py"))
    found = added(engine, fields(engine, "EngineArgs"))
    for path in FRONT:
        tree = parse(show(path))
        front = fields(tree, "FrontendArgs")
        found |= added(tree, front)
        for name, text in front.items():
            add(found, [f"--{name.replace('_', '-')}"], from_annotation(text), True)
    found.update(vllm_keys(show))
    return found


def vllm_keys(show: Show) -> Found:
    found: Found = {}
    for path in ("config/speculative.py", "config/__init__.py", "config.py"):
        tree = parse(show(path))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name == "SpeculativeConfig":
                for name, annotation in fields(node, "SpeculativeConfig").items():
                    if "InitVar" not in annotation:
                        found["key", f"speculative_config.{name}"] = ("1", "")
                methods = literals(tree, lambda name: name in ("SpeculativeMethod",))
                for word in (w for names in methods.values() for w in names):
                    found["value", f"speculative_config.method={word}"] = ("1", "")
    return found


def sglang_names(show: Show, under: Under) -> Found:
    """Options of python -m sglang.launch_server."""
    paths = ["srt/server_args.py", *under("srt/arg_groups/fields")]
    found: Found = {}
    for path in paths:
        tree = parse(show(path))
        found |= added(tree, {})
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef):
                continue
            for part in node.body:
                if isinstance(part, ast.AnnAssign) and isinstance(part.annotation, ast.Subscript):
                    found |= annotated(part)
    return found


def annotated(part: ast.AnnAssign) -> Found:
    """field: A[type, Arg(…)], as SGLang declares an option."""
    found: Found = {}
    shape = part.annotation
    if not isinstance(shape, ast.Subscript) or ast.unparse(shape.value) not in ("A", "Annotated"):
        return found
    if not isinstance(shape.slice, ast.Tuple) or not isinstance(part.target, ast.Name):
        return found
    kind, *rest = shape.slice.elts
    names, words = [f"--{part.target.id.replace('_', '-')}"], from_annotation(ast.unparse(kind))
    told = False
    for entry in rest:
        told = told or isinstance(entry, ast.Constant | ast.JoinedStr | ast.BinOp)
        if not isinstance(entry, ast.Call) or getattr(entry.func, "id", "") != "Arg":
            continue
        told = True
        given = {key.arg: key.value for key in entry.keywords}
        if getattr(given.get("no_cli"), "value", False):
            return {}
        names = strings([given["cli_name"]]) if "cli_name" in given else names
        aliases = given.get("aliases")
        names += strings(aliases.elts) if isinstance(aliases, ast.List) else []
        if "nargs" in given:
            words = "?" if getattr(given["nargs"], "value", "") == "?" else "n"
        if "action" in given:
            named = ast.unparse(given["action"])
            words = "0" if "True" in named or named.rpartition(".")[2] in NONE_TAKEN else words
    if told:
        negatable = "BooleanOptionalAction" in ast.unparse(shape)
        add(found, names, words, negatable)
    return found


def mlx_names(show: Show, under: Under) -> Found:
    """Options of mlx_lm.server and mlx_lm.generate."""
    server, generate = (added(parse(show(f"{name}.py")), {}) for name in ("server", "generate"))
    found: Found = {}
    for entry, (words, _) in (server | generate).items():
        programs = ("s" if entry in server else "") + ("g" if entry in generate else "")
        found[entry] = (words, programs)
    return found


READERS = {
    "vllm-arguments": vllm_names,
    "sglang-arguments": sglang_names,
    "mlx-arguments": mlx_names,
}
"""By the word in rules/anchors, what reads an engine's options."""
