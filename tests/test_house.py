"""The house in order: layers, light start, size of functions, docs that name every command."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from draftcheck.cli import COMMANDS, cli
from tests.conftest import ROOT

PACKAGE = ROOT / "draftcheck"
# From the bottom up; a module may import its own layer and those below it.
LAYERS = (
    (
        "types",
        "circumstances",
        "words",
        "headfacts",
        "memorytypes",
        "weightfacts",
        "errors",
        "versions",
        "probe",
    ),
    ("rulefiles", "sources"),
    ("gpus", "gpu_drivers"),
    ("probing",),
    ("refs",),
    ("facts",),
    ("llama",),
    ("probe",),
    ("memory",),
    ("compare",),
    ("checks",),
    ("rulebook",),
    ("condensed",),
    ("methods", "setups"),
    ("judge",),
    ("repairs", "installed"),
    ("questions",),
    ("why", "trial"),
    ("gate", "candidates"),
    ("recommend",),
    ("scan",),
    ("report",),
    ("cli",),
    ("__main__",),
)
HEAVY = ("torch", "transformers", "huggingface_hub", "numpy", "gguf", "tokenizers", "safetensors")


def layer(name: str) -> int:
    for number, names in enumerate(LAYERS):
        if name in names:
            return number
    raise AssertionError(f"draftcheck/{name} belongs to no layer: add it to LAYERS")


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = node.module.split(".")
            if parts[0] == "draftcheck":
                found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "draftcheck" and len(parts) > 1:
                    found.add(parts[1])
    return found - {"__version__"}


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if name == "__init__":
        return  # the public API ties the layers together
    above = {other for other in imported(path) if layer(other) > layer(name)}
    assert not above, f"{name} may not import {sorted(above)}"


def test_functions_and_modules_stay_small() -> None:
    long = []
    for path in modules():
        text = path.read_text(encoding="utf-8")
        if len(text.splitlines()) > 400:
            long.append(f"{path.name}: {len(text.splitlines())} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > 60:
                    long.append(f"{path.name}: {node.name} has {length} lines")
    assert not long, "\n".join(long)


def test_no_engine_is_named_in_a_condition() -> None:
    for path in modules():
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
    assert not loaded & {*HEAVY, "draftcheck.facts", "draftcheck.rulebook", "tomllib"}


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


def test_every_command_is_in_the_readme_and_has_help() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"draftcheck {name}" in readme
    assert cli.help
