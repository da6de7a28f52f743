"""A copy of the rulebook whose anchors are of a small engine that stands in this folder's tests."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from draftcheck.anchors.trees import FolderTree
from draftcheck.deploy.options import tables
from draftcheck.rulebook import anchors, book, files
from tests.agreement import make_anchors

ENGINE = "mlx-lm"
HEAD = """
engine = "mlx-lm"
version = "0.0.1"
package = "mlx_lm"
options = "mlx-arguments"
messages = ["*.py"]

[lists]
model-types = ["models/*.py", "utils.py::MODEL_REMAPPING"]
trimmable = ["models/*.py::(is_trimmable)"]

[hints]
MLX001 = ["utils.py::MODEL_REMAPPING", "names model-types"]
MLX002 = ["generate.py::main"]
MLX003 = ["generate.py::step"]
MLX004 = ["names trimmable"]
MLX007 = ["server.py::Provider.load"]

[elsewhere]
MLX005 = "only run"
MLX006 = "only run"
MLX008 = "only run"
MLX011 = "only run"
"""
SOURCE = {
    "utils.py": """
MODEL_REMAPPING = {"mistral": "llama"}
""",
    "generate.py": '''
import argparse


def parser():
    made = argparse.ArgumentParser()
    made.add_argument("--model")
    made.add_argument("--draft-model")
    return made


def step(prompt: str, caches: list) -> int:
    """Draft and verify."""
    # Caches that cannot go back keep wrong tokens.
    if not all(cache.trims for cache in caches):
        kinds = [type(cache) for cache in caches]
        raise ValueError(f"Speculation needs caches that can be trimmed (got {kinds})")
    return len(prompt)


def main():
    if parser().parse_args().draft_model:
        raise ValueError("Draft model tokenizer does not match model tokenizer.")
''',
    "server.py": """
class Provider:
    def load(self, path, draft=None):
        try:
            return open(path)
        except OSError:
            return draft
""",
    "models/llama.py": """
class Cache(Base):
    def is_trimmable(self):
        return True
""",
}


def write_source(folder: Path, **changed: str | None) -> Path:
    """The engine's checkout; a file may be given anew, or as None be left out."""
    source = SOURCE | {name.replace("__", "/") + ".py": text for name, text in changed.items()}
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in source.items():
        if text is not None:
            path = folder / "mlx_lm" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return folder


def write_wheel(path: Path, source: Path, version: str) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for file in sorted(source.rglob("*.py")):
            made.write(file, file.relative_to(source).as_posix())
        about = f"Metadata-Version: 2.1\nName: mlx-lm\nVersion: {version}\n"
        made.writestr(f"mlx_lm-{version}.dist-info/METADATA", about)
        made.writestr(
            f"mlx_lm-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n"
        )
        made.writestr(f"mlx_lm-{version}.dist-info/RECORD", "")
    return path


def forget() -> None:
    """Drop what was read of the rulebook."""
    for function in (files._read_once, book.load, book.engine_files, tables.load):
        function.cache_clear()  # type: ignore[attr-defined]


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The rulebook's copy, with anchors of the small engine."""
    folder = tmp_path / "rules"
    shutil.copytree(files.folder(), folder)
    monkeypatch.setattr(files, "folder", lambda: folder)
    forget()
    row = '["option", "1", "g", "", "", "--draft-model --model"]'
    table = f"# Options, 0.1 to 0.2.\nnames = [\n  {row},\n]\n"
    (folder / "options" / "mlx-lm-names.toml").write_text(table, encoding="utf-8")
    path = folder / "anchors" / "mlx-lm.toml"
    path.write_text(HEAD, encoding="utf-8")
    tree = FolderTree(write_source(tmp_path / "first"), "mlx_lm")
    engine = book.load(ENGINE)
    file, _ = make_anchors.resolve(engine, tree, engine.checked, anchors.by_hand(path))
    anchors.write(path, file)
    forget()
    yield folder
    monkeypatch.undo()
    forget()
