"""What the forge reads: workflows, action, issue forms, hooks. Pinned, least privilege, real."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT

WORKFLOWS = [
    *sorted((ROOT / ".github/workflows").glob("*.yml")),
    ROOT / "examples/nightly/github-workflow.yml",
]
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*-*.yml"))
PINNED = re.compile(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")


def load(path: Path) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return body


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in load(path)["jobs"].values():
        yield from job["steps"]


def test_they_are_all_there() -> None:
    assert {path.name for path in WORKFLOWS} >= {"ci.yml", "nightly.yml", "release.yml"}
    assert {path.stem for path in FORMS} == {
        "new-pair", "published-figure", "unknown-message", "wrong-verdict",
    }  # fmt: skip


@pytest.mark.parametrize(
    "path",
    [*WORKFLOWS, ROOT / "action.yml"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_actions_are_pinned_by_commit(path: Path) -> None:
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    used = [
        line.removeprefix("- ") for line in lines if line.removeprefix("- ").startswith("uses:")
    ]
    assert used and not [line for line in used if not PINNED.fullmatch(line)]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_least_privilege(path: Path) -> None:
    body = load(path)
    assert body["permissions"] == {}
    for job in body["jobs"].values():
        assert job["permissions"] and job["timeout-minutes"]
    checkouts = [step for step in steps(path) if "actions/checkout@" in step.get("uses", "")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)
    assert not any("${{" in step.get("run", "") for step in steps(path)), "text into a script"


def test_chores_that_workflows_call_are_in_the_makefile() -> None:
    targets = set(re.findall(r"^([\w./$()-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    known = {target.replace("$(VENV)", ".venv") for target in targets}
    text = "\n".join(step.get("run", "") for path in WORKFLOWS for step in steps(path))
    called = {word for line in re.findall(r"make ([^&|\n]+)", text) for word in line.split()}
    assert called >= {"lint", "types", "test"} and called <= known


def test_files_that_workflows_name_exist() -> None:
    text = "\n".join(step.get("run", "") for path in WORKFLOWS[:-1] for step in steps(path))
    named = set(re.findall(r"(?<![\w./])(?:tests|examples|\.github)[\w./-]*", text))
    assert len(named) > 5 and not [name for name in named if not (ROOT / name).exists()]


def test_python_versions_are_those_of_the_package() -> None:
    matrix = load(ROOT / ".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert matrix == re.findall(r"Programming Language :: Python :: (3\.\d+)", text)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_forms_ask_for_what_is_needed(path: Path) -> None:
    form = load(path)
    assert form["name"] and form["description"] and form["labels"]
    fields = [field for field in form["body"] if field["type"] in ("input", "textarea")]
    assert len({field["id"] for field in fields}) == len(form["body"])
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_our_own_hooks_run_our_own_tools() -> None:
    hooks = [
        hook for repo in load(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]
    ]
    assert {hook["id"] for hook in hooks} == {"ruff-format", "ruff", "mypy", "draftcheck"}
    assert all(hook["entry"].startswith(".venv/bin/") for hook in hooks)
