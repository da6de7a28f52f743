"""Parsed rule files are kept; what is kept never changes an answer."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from draftcheck.rulebook import files


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
