"""The nightly recipe: its files parse, its commands are ours, and a dry run does what it says."""

from __future__ import annotations

import configparser
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from draftcheck.cli import COMMANDS, cli
from draftcheck.scan.targets import load
from tests.conftest import ROOT
from tests.hub import Hub
from tests.hub.process import HANGS
from tests.scan.world import TARGET, checkpoint

RECIPE = ROOT / "examples" / "nightly"
if sys.platform == "win32":
    pytest.skip("a shell script", allow_module_level=True)
DRAFTCHECK = """#!/bin/sh
echo "draftcheck $*" >> {log}
exec {python} -m draftcheck "$@"
"""
NO_REPORT = """#!/bin/sh
echo "draftcheck $*" >> {log}
if [ "$1" = report ]; then mkdir -p site; echo page > site/index.html; exit 0; fi
exec {python} -m draftcheck "$@"
"""
GH = """#!/bin/sh
echo "gh $*" >> {log}
if [ "$2" = list ]; then cat {open}; fi
"""


def commands(text: str) -> list[list[str]]:
    """Every line that starts draftcheck."""
    lines = text.replace("\\\n", " ").splitlines()
    found = [line.strip() for line in lines if line.strip().startswith("draftcheck ")]
    return [shlex.split(line.partition("||")[0])[1:] for line in found]


def assert_accepted(words: list[str]) -> None:
    name, *rest = words
    if name not in COMMANDS:
        pytest.skip(f"there is no command {name} here")
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    command.make_context(name, [word.replace("$", "x") for word in rest])


def test_the_list_is_one() -> None:
    job = load(RECIPE / "targets.toml")
    assert job.pins and job.searches and job.targets
    assert tomllib.loads((RECIPE / "targets.toml").read_text())


@pytest.mark.parametrize("words", commands((RECIPE / "nightly.sh").read_text()), ids=" ".join)
def test_commands_of_the_script(words: list[str]) -> None:
    numbers = [word.replace("${MAX_TIME:-18000}", "18000") for word in words]
    assert_accepted(numbers)


def test_the_workflow() -> None:
    yaml = pytest.importorskip("yaml")
    body = yaml.safe_load((RECIPE / "github-workflow.yml").read_text())
    steps = body["jobs"]["scan"]["steps"]
    assert any(step.get("run", "").startswith("sh nightly.sh") for step in steps)
    uses = [step["uses"] for step in steps if "uses" in step]
    assert {name.partition("@")[0] for name in uses} >= {
        "actions/cache/restore", "actions/cache/save", "actions/deploy-pages",
    }  # fmt: skip
    kept = [step["with"]["path"] for step in steps if "cache" in step.get("uses", "")]
    assert len(set(kept)) == 1 and "draftcheck-scan.db*" in kept[0]
    assert body["permissions"] == {}
    assert body["jobs"]["scan"]["permissions"]["issues"] == "write"
    assert body["concurrency"]["cancel-in-progress"] is False


def test_the_units() -> None:
    for name in ("draftcheck.service", "draftcheck.timer"):
        unit = configparser.ConfigParser(strict=False)
        unit.optionxform = str  # type: ignore[assignment, method-assign]
        unit.read(RECIPE / name)
        assert unit.sections()
    assert "nightly.sh targets.toml" in (RECIPE / "draftcheck.service").read_text()


class Dry:
    """The script with the real draftcheck, and a gh that only writes down what it is told."""

    def __init__(self, hub: Hub, folder: Path) -> None:
        self.hub, self.folder, self.log = hub, folder, folder / "log"
        tools = folder / "tools"
        tools.mkdir()
        self.open = folder / "open"
        self.open.write_text("")
        ours = DRAFTCHECK if "report" in COMMANDS else NO_REPORT
        for name, text in (("draftcheck", ours), ("gh", GH)):
            path = tools / name
            path.write_text(
                text.format(log=self.log, open=self.open, python=shlex.quote(sys.executable))
            )
            path.chmod(0o755)
        (folder / "targets.toml").write_text(
            f'[[target]]\nref = "{TARGET}"\npins = ["org/draft-1"]\n'
        )

    def run(self) -> tuple[int, str]:
        self.log.write_text("")
        env = {**self.hub.env(self.folder), "PYTHONPATH": str(ROOT)}
        env["PATH"] = f"{self.folder / 'tools'}{os.pathsep}{env['PATH']}"
        done = subprocess.run(
            ["sh", str(RECIPE / "nightly.sh")],
            env=env, cwd=self.folder, capture_output=True, text=True, timeout=HANGS,
        )  # fmt: skip
        return done.returncode, self.log.read_text() + done.stderr


def test_a_dry_run(hub: Hub, tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    dry = Dry(hub, tmp_path)
    code, said = dry.run()
    assert code == 0 and "gh " not in said, said
    assert (tmp_path / "site").is_dir() and (tmp_path / "draftcheck-scan.db").is_file()
    hub.repos["org/draft-1"].commit(checkpoint(seed=1))
    code, said = dry.run()
    assert code == 0, said
    assert "gh issue create --title draftcheck: a pinned pair no longer works" in said
    assert "incompatible" in (tmp_path / "summary.md").read_text()
    dry.open.write_text("17\n")
    code, said = dry.run()
    assert code == 0 and "gh issue comment 17 --body-file summary.md" in said, said
