"""Sound models to hold the hostile ones against."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import make


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound checkpoint folder."""
    return make.folder(tmp_path_factory.mktemp("good") / "model")


@pytest.fixture(scope="session")
def good_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound GGUF file."""
    return make.gguf(tmp_path_factory.mktemp("good") / "model.gguf")


@pytest.fixture(autouse=True)
def _no_child(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting the tokenizers library a thousand times is for test_probe.py alone."""
    if "test_probe" in request.node.nodeid:
        return
    real = subprocess.run

    def run(command: list[object], *arguments: Any, **options: Any) -> Any:
        if any("from tokenizers import" in str(part) for part in command):
            raise OSError("not in this test")
        return real(command, *arguments, **options)

    monkeypatch.setattr(subprocess, "run", run)
