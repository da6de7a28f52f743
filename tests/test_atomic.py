"""Files written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from draftcheck import atomic


def test_a_file_keeps_its_mode_and_a_new_one_has_the_usual(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_bytes(b"before")
    old.chmod(0o640)
    atomic.write(old, b"after")
    assert (old.read_bytes(), old.stat().st_mode & 0o777) == (b"after", 0o640)
    usual = tmp_path / "usual"
    usual.touch()
    atomic.write(tmp_path / "new", b"x")
    assert (tmp_path / "new").stat().st_mode == usual.stat().st_mode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old", "usual"]


@pytest.mark.parametrize("failing", ["replace", "chmod"])
def test_a_failure_leaves_what_was_there_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, failing, fail)
    with pytest.raises(OSError, match="No space"):
        atomic.write(path, b"after")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"before"


def test_a_planted_link_is_never_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even one that has guessed the name."""
    monkeypatch.setattr(os, "urandom", lambda count: bytes(count))
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / f".file.{'00' * 8}.part").symlink_to(victim)
    with pytest.raises(FileExistsError):
        atomic.write(tmp_path / "file", b"theirs")
    assert victim.read_bytes() == b"mine"


def test_an_interrupted_writer_is_recognised(tmp_path: Path) -> None:
    assert atomic.unfinished(tmp_path / ".a.0123.part")
    assert not atomic.unfinished(tmp_path / "a.part")
