"""Parsed rule files are kept; what is kept never changes an answer."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from draftcheck.rulebook import files
from tests.conftest import ROOT


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    files._read_once.cache_clear()
    return tmp_path / "draftcheck" / "rules"


def again(name: str) -> dict[str, object]:
    files._read_once.cache_clear()
    return files.read(name, dict[str, object])


@pytest.mark.parametrize("name", files.names("", "engines", "options", "tables"))
def test_kept_and_parsed_are_the_same(kept: Path, name: str) -> None:
    first = files.read(name, dict[str, object])
    (file,) = kept.glob("*.json")
    second = again(name)
    assert file.exists()
    plain = tomllib.loads((files.folder() / f"{name}.toml").read_text(encoding="utf-8"))
    if "checked_on" in (head := plain.get("engine", {})):  # a day is kept as its text
        head["checked_on"] = str(head["checked_on"])
    assert first == second == plain


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b"null", b"\xff", b"[" * 100_000])
def test_a_damaged_file_is_made_anew(kept: Path, damage: bytes) -> None:
    whole = files.read("truth", dict[str, object])
    (file,) = kept.glob("*.json")
    file.write_bytes(damage)
    assert again("truth") == whole
    assert file.read_bytes() != damage


def test_other_bytes_are_parsed_anew(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    monkeypatch.setattr(files, "folder", lambda: rules)
    (rules / "x.toml").write_text("a = 1", encoding="utf-8")
    assert again("x") == {"a": 1}
    (rules / "x.toml").write_text("a = 2", encoding="utf-8")
    assert again("x") == {"a": 2}
    assert len(list(kept.glob("x-*.json"))) == 1


def test_a_cache_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "draftcheck").write_text("in the way", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert again("truth")["rule"]


def test_threads_may_read_a_file_for_the_first_time_together() -> None:
    """In a process of its own: msgspec crashed there, with a signal."""
    code = (
        "import sys; sys.setswitchinterval(1e-6);"
        "from concurrent.futures import ThreadPoolExecutor;"
        "from draftcheck.memory import profiles;"
        "pool = ThreadPoolExecutor(8);"
        "assert len({id(t) for t in pool.map(lambda _: profiles.table(), range(64))}) == 1"
    )
    for _ in range(5):
        subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
