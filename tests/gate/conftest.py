"""A throw-away repository with deploy files, models beside them, and the gate run in it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import make
from tests.conftest import Ran, Run

GIT = (
    "git",
    "-c",
    "user.name=t",
    "-c",
    "user.email=t@example.org",
    "-c",
    "init.defaultBranch=main",
)


class Repo:
    """Its folder is the current one while a test runs."""

    def __init__(self, path: Path, run: Run) -> None:
        self.path, self._run = path, run

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def model(self, name: str, **changes: Any) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        make.folder(path, **changes)
        return path

    def serve(self, name: str, target: str, draft: str, *more: str) -> Path:
        """A script that starts vLLM 0.15.1 with a draft model."""
        config = json.dumps({"method": "draft_model", "model": draft, "num_speculative_tokens": 4})
        words = " ".join(("vllm", "serve", target, "--speculative-config", f"'{config}'", *more))
        self.write("requirements.txt", "vllm==0.15.1\n")
        return self.write(name, f"#!/bin/sh\nset -e\n{words}\n")

    def git(self, *words: str) -> str:
        done = subprocess.run(
            [*GIT, *words], cwd=self.path, check=True, capture_output=True, text=True
        )
        return done.stdout

    def gate(self, *arguments: object) -> Ran:
        return self._run("gate", *arguments)

    def json(self, *arguments: object) -> dict[str, Any]:
        return self.gate(*arguments, "--format", "json").json

    def rules(self, *arguments: object) -> list[tuple[str, str, int]]:
        """Rule, file and line of everything that is not a remark and not ignored."""
        return [
            (f["rule"], f["file"], f["line"])
            for f in self.json(*arguments)["findings"]
            if f["severity"] != "note" and f["ignored"] is None
        ]

    def lock(self, *arguments: object) -> Ran:
        return self._run("lock", *arguments)

    @property
    def locked(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / "draftcheck.lock").read_bytes())
        return found


@pytest.fixture
def repo(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """No git unless a test asks for it; draftcheck.toml marks the root."""
    path = tmp_path / "repo"
    path.mkdir()
    monkeypatch.chdir(path)
    made = Repo(path, run)
    made.write("draftcheck.toml", "")
    return made


@pytest.fixture
def good(repo: Repo) -> Repo:
    """A pair that runs, in a script."""
    repo.model("models/big")
    repo.model("models/small", config={**make.CONFIG, "num_hidden_layers": 1})
    repo.serve("serve.sh", "models/big", "models/small")
    return repo
