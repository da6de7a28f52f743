"""Sound models to hold the hostile ones against.

DRAFTCHECK_PAGE=1: whatever file a test shows the command line is shown to the checker's page, too
(its worker, under Node), and must end there in the same way.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from draftcheck.web import answers
from tests import make
from tests.conftest import Ran, Run
from tests.hostile.support import Bounded, bounded
from tests.web.conftest import Dropped, NodeWorker, checker, parts, worker

__all__ = ["checker", "parts", "worker"]


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


class PageBeside:
    """The command line, with the page beside it."""

    def __init__(self, run: Run, worker: NodeWorker, folder: Path) -> None:
        self.run, self.folder = run, folder
        self.dropped = Dropped(folder, worker, run)
        self.shown = set[str]()

    def __call__(self, *arguments: object) -> Ran:
        ran = self.run(*arguments)
        for model in arguments[1:3] if arguments[0] in ("inspect", "pair") else ():
            if isinstance(model, Path) and self.new(model):
                here = Path.cwd()
                os.chdir(self.folder)
                try:
                    self.dropped.assert_same(model, engine="llama.cpp")
                finally:
                    os.chdir(here)
        return ran

    def new(self, model: Path) -> bool:
        """Whether somebody could drop it, and these bytes were not shown before."""
        files = sorted(model.iterdir()) if model.is_dir() else [model]
        if not model.is_dir() and not model.name.endswith(answers.MODELS):
            return False
        digest = hashlib.sha256(b"dir" if model.is_dir() else b"file")
        plain = [path for path in files if path.is_file() and not path.is_symlink()]
        if any("\udc80" <= letter <= "\udcff" for path in plain for letter in path.name):
            return False  # a browser's names are text
        for path in plain:
            with path.open("rb") as file:
                digest.update(repr((path.name, path.stat().st_size, file.read(1 << 20))).encode())
        before, found = len(self.shown), digest.hexdigest()
        self.shown.add(found)
        return bool(plain) and len(self.shown) > before

    def bounded(self, *arguments: object, **limits: Any) -> Bounded:
        """Too large for this process: the page ends as the bounded command did, or answers."""
        found = bounded(*arguments, **limits)
        model = Path(str(arguments[1]))
        files = sorted(model.iterdir()) if model.is_dir() else [model]
        told = self.dropped.worker.ask(files={"target": files}, engine="llama.cpp")
        if found.ran.code == 3 and not found.ran.out:
            assert told["code"] == 3, (found.ran.err, told["first"])
        assert told["code"] in (0, 1, 3)
        return found


if os.environ.get("DRAFTCHECK_PAGE"):

    @pytest.fixture
    def run(
        run: Run, worker: NodeWorker, tmp_path_factory: pytest.TempPathFactory,
        request: pytest.FixtureRequest,
    ) -> Run:  # fmt: skip
        if "monkeypatch" in inspect.signature(request.function).parameters:
            return run  # other limits than the page's
        return PageBeside(run, worker, tmp_path_factory.mktemp("page"))

    @pytest.fixture(autouse=True)
    def _bounded_beside(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        if hasattr(request.module, "bounded"):
            beside = PageBeside(bounded, request.getfixturevalue("worker"), Path())
            monkeypatch.setattr(request.module, "bounded", beside.bounded)
