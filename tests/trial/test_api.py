"""The trial as a function, and the order of its parts."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="numpy comes with the trial extra")

from draftcheck.cli.trial import command
from draftcheck.errors import UsageError
from draftcheck.trial.api import trial
from draftcheck.trial.prompts import load
from tests.conftest import FIXTURES, ROOT, Run

PAIR = (str(FIXTURES / "pair" / "target"), str(FIXTURES / "pair" / "draft"))
OF_THE_COMMAND = {"no_cost", "plot", "profile", "quiet", "form", "output", "target", "draft"}


def test_the_function_takes_what_the_command_takes_with_the_same_defaults() -> None:
    arguments = {
        name: parameter.default
        for name, parameter in inspect.signature(trial).parameters.items()
        if name not in ("target", "draft", "cost", "say")
    }
    given = command.make_context("trial", ["a", "b"]).params
    assert arguments == {name: given[name] for name in given.keys() - OF_THE_COMMAND}


@pytest.mark.transformers
@pytest.mark.filterwarnings("ignore")
def test_its_dict_is_the_json_of_the_command(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the trial extra is not installed")
    file = tmp_path / "prompts.txt"
    file.write_text("Tell me a story.\nAdd 3 and 4.\n", encoding="utf-8")
    progress: list[str] = []
    settings = {"tokens": 8, "device": "cpu", "cost": False, "say": progress.append}
    found = trial(*PAIR, prompts=load(file), reuse=str(tmp_path / "texts.json"), **settings)
    again = trial(*PAIR, prompts=str(file), reuse=str(tmp_path / "texts.json"), **settings)
    assert again.to_dict()["lengths"] == found.to_dict()["lengths"]
    ran = run("trial", *PAIR, "--prompts", file, "--tokens", "8", "--device", "cpu", "--no-cost",
              "--format", "json")  # fmt: skip
    body = {name: value for name, value in ran.json.items() if "version" not in name}
    assert body.pop("published") is None
    assert {**found.to_dict(), "seconds": 0} == {**body, "seconds": 0}
    first = "measuring with transformers; loading the models"
    assert progress[:2] == [first, "loaded on cpu, float32; at most 10 min (--budget)"]
    assert repr(found).startswith(f"<Trial {PAIR[1]} for {PAIR[0]}: ")


@pytest.mark.parametrize("wrong", [{"tokens": 1}, {"temperature": -1.0}, {"greedy_share": 2.0}])
def test_what_no_trial_can_be_made_with_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="2 tokens or more"):
        trial(*PAIR, **wrong)


def test_the_arithmetic_knows_no_backend() -> None:
    """simulate/ needs numpy and nothing else; speedup.py not even that."""
    for path in (ROOT / "draftcheck" / "trial" / "simulate").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert "backends" not in (node.module or ""), path
    code = (
        "import sys, draftcheck.trial.{0};"
        "assert not set({1}) & set(sys.modules), set({1}) & set(sys.modules)"
    )
    for module, never in (
        ("simulate.answers", ("torch", "draftcheck.trial.backends")),
        ("speedup", ("torch", "numpy")),
        ("result", ("torch", "numpy", "draftcheck.trial.backends")),
    ):
        subprocess.run([sys.executable, "-c", code.format(module, never)], check=True)
