"""The house in order: layers, no cycles, unique names, light start, commands in the README."""

from __future__ import annotations

import ast
import graphlib
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from draftcheck.cli import COMMANDS, cli
from tests.conftest import ROOT

PACKAGE = ROOT / "draftcheck"
# From the bottom up. A module may import what stands below it; packages that share a line import
# each other one way only, in the order in which they are named.
LAYERS = (
    ("errors", "versions", "settings", "atomic", "values"),
    ("rulebook",),
    ("models", "memory", "deploy", "anchors"),
    ("judge",),
    (
        "evidence",
        "why",
        "probe",
        "trial",
        "gate",
        "publish",
        "recommend",
        "scan",
        "watch",
        "doctor",
    ),
    ("report",),
    ("",),  # __init__: the public API, which ties the layers together
    ("web",),
    ("cli",),
    ("__main__",),
)
HEAVY = ("torch", "transformers", "huggingface_hub", "numpy", "gguf", "tokenizers", "safetensors")


@cache
def modules() -> dict[str, Path]:
    """Dotted name below the package -> file; the package itself is the empty name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(name: str) -> set[str]:
    """The modules of the package that a module imports, inside functions too."""
    known = modules()
    found: set[str] = set()
    for node in ast.walk(ast.parse(known[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, f"{name}: a relative import"
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            inner = {text for text in whole if text.partition(".")[2] in known}
            found |= inner | ({node.module} if whole - inner else set())
    own = {text.partition(".")[2] for text in found if text.split(".")[0] == "draftcheck"}
    return (own & known.keys()) - {name}


def test_imports_point_down() -> None:
    place = {name: (row, at) for row, names in enumerate(LAYERS) for at, name in enumerate(names)}
    wrong = []
    for name in modules():
        top = name.split(".")[0]
        assert top in place, f"draftcheck/{top} belongs to no layer: add it to LAYERS"
        for other in imports(name):
            below = other.split(".")[0]
            if below != top and place[below] > place[top]:
                wrong.append(f"{name} may not import {other or 'draftcheck itself'}")
    assert not wrong, "\n".join(sorted(wrong))


def test_no_module_imports_itself_through_others() -> None:
    try:
        graphlib.TopologicalSorter({name: imports(name) for name in modules()}).prepare()
    except graphlib.CycleError as error:
        raise AssertionError("a cycle: " + " -> ".join(error.args[1])) from None


def test_the_top_level_is_small_and_every_class_name_stands_once() -> None:
    top = {path.stem for path in PACKAGE.glob("*.py")}
    assert top == {"__init__", "__main__", "atomic", "errors", "settings", "versions"}
    owners: dict[str, list[str]] = {}
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                owners.setdefault(node.name, []).append(name)
    twice = {name: places for name, places in owners.items() if len(places) > 1}
    assert not twice, twice


def test_no_engine_is_named_in_a_condition() -> None:
    for path in modules().values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name | ast.Attribute):
                label = node.left.id if isinstance(node.left, ast.Name) else node.left.attr
                constant = any(
                    isinstance(c, ast.Constant) and isinstance(c.value, str)
                    for c in node.comparators
                )
                assert not (label in {"engine", "engine_id"} and constant), f"{path}:{node.lineno}"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["pair", "--help"]])
def test_help_and_version_import_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys, json; from draftcheck.cli import main; main(sys.argv[1:]);"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(done.stderr.splitlines()[-1]))
    assert not loaded & {*HEAVY, "draftcheck.models.read", "draftcheck.rulebook.book", "tomllib"}


def test_a_verdict_imports_nothing_heavy() -> None:
    """Not even tokenizers, when the digests already say that both cut text alike."""
    pair = [str(ROOT / "fixtures/pair/target"), str(ROOT / "fixtures/pair/draft")]
    code = (
        "import sys, json; from draftcheck.cli import main; main(['pair', *sys.argv[1:]]);"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *pair], capture_output=True, text=True, check=True
    )
    assert not set(json.loads(done.stderr.splitlines()[-1])) & set(HEAVY)


def test_the_list_of_commands_says_what_each_says_itself() -> None:
    context = click.Context(cli)
    for name, text in COMMANDS.items():
        command = cli.get_command(context, name)
        assert command is not None and command.help is not None
        assert " ".join(command.help.split("\n\n")[0].split()) == text


def test_every_command_is_in_the_readme_and_has_help() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"draftcheck {name}" in readme
    assert cli.help


def every_test() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Every test function, with the place where it stands."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """What a function does itself, without the functions inside it."""
    for node in ast.iter_child_nodes(function):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            yield from own_nodes(node)


def test_no_test_returns_before_its_first_assert() -> None:
    """A test that returns early for some parameters passes without looking: filter those."""
    wrong = []
    for where, function in every_test():
        asserts = [node.lineno for node in ast.walk(function) if isinstance(node, ast.Assert)]
        first = min(asserts, default=function.end_lineno or 0)
        returns = [node.lineno for node in own_nodes(function) if isinstance(node, ast.Return)]
        if any(line < first for line in returns):
            wrong.append(where)
    assert not wrong, "\n".join(wrong)
