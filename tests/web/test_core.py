"""The core in Pyodide: imported and asked under Node, as a browser's worker would."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import draftcheck
from draftcheck.web import bundle, runtime
from tests.conftest import FIXTURES

PAIRS = (("target", "draft"), ("target.gguf", "draft.gguf"), ("target", "heads/eagle3"))


def test_the_core_judges_in_pyodide_as_here(
    parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node")
    made = runtime.load(parts)
    for name, data in made.pyodide.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "draftcheck.zip").write_bytes(bundle.archive(made.msgspec))
    script = Path(__file__).with_name("core.mjs")
    done = subprocess.run(
        [node, script, f"{tmp_path}/", tmp_path / "draftcheck.zip", FIXTURES],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["platform"] == "emscripten"
    monkeypatch.chdir(FIXTURES / "pair")
    assert answer["found"] == [draftcheck.check(*pair).to_dict() for pair in PAIRS]
