"""--engine auto: how far the installed engine is the code that the rules were read from."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

import pytest

from draftcheck.anchors.trees import FolderTree
from draftcheck.rulebook import book
from tests import make
from tests.conftest import Run
from tests.watch.conftest import ENGINE, SOURCE, write_source


class FakeDistribution:
    """An installed package: a version and a folder."""

    def __init__(self, folder: Path, version: str) -> None:
        self.folder, self.version = folder, version

    def locate_file(self, path: str) -> Path:
        return self.folder / path


@pytest.fixture
def site(
    tmp_path: Path, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, FakeDistribution]:
    """The packages of this machine: none, until a test puts one there."""
    packages: dict[str, FakeDistribution] = {}

    def distribution(name: str) -> FakeDistribution:
        if name not in packages:
            raise metadata.PackageNotFoundError(name)
        return packages[name]

    monkeypatch.setattr(metadata, "distribution", distribution)
    monkeypatch.setattr(metadata, "version", lambda name: distribution(name).version)
    monkeypatch.setenv("PATH", str(tmp_path))
    return packages


def auto(run: Run, tmp_path: Path) -> dict[str, object]:
    target, draft = make.folder(tmp_path / "big", layers=8), make.folder(tmp_path / "small")
    found = run("pair", target, draft, "--engine", "auto", "--format", "json")
    return found.engine(ENGINE)


def test_a_newer_version_with_the_same_code_is_verified(
    run: Run, site: dict[str, FakeDistribution], tmp_path: Path
) -> None:
    site[ENGINE] = FakeDistribution(write_source(tmp_path / "site"), "9.9.1.dev4")
    entry = auto(run, tmp_path)
    assert entry["version_checked"] is True
    notes = str(entry["notes"])
    assert "mlx-lm 9.9.1.dev4: all 7 places that rules rest on are the code that was read" in notes
    assert "verified against the installed code" in notes
    assert "not verified" not in notes


def test_a_newer_version_with_other_code_names_the_rules(
    run: Run, site: dict[str, FakeDistribution], tmp_path: Path
) -> None:
    text = SOURCE["generate.py"].replace("if not all(", "if not any(")
    site[ENGINE] = FakeDistribution(write_source(tmp_path / "site", generate=text), "9.9.1.dev4")
    entry = auto(run, tmp_path)
    assert entry["version_checked"] is False
    notes = str(entry["notes"])
    words = "installed here: 6 of 7 places are the code that was read in 0.32.2; MLX003 rests on"
    assert f"mlx-lm 9.9.1.dev4 {words} changed code" in notes
    assert "not verified for" in notes


def test_an_older_version_is_judged_by_its_windows_alone(
    run: Run, site: dict[str, FakeDistribution], tmp_path: Path
) -> None:
    text = SOURCE["generate.py"].replace("if not all(", "if not any(")
    site[ENGINE] = FakeDistribution(write_source(tmp_path / "site", generate=text), "0.30.0")
    entry = auto(run, tmp_path)
    assert entry["version_checked"] is True
    assert "places" not in str(entry["notes"])


def test_a_package_without_its_source_says_nothing(
    run: Run, site: dict[str, FakeDistribution], tmp_path: Path
) -> None:
    site[ENGINE] = FakeDistribution(tmp_path / "nothing", book.load(ENGINE).checked)
    assert "places" not in str(auto(run, tmp_path)["notes"])


def test_files_are_read_again_only_when_they_changed(
    run: Run, site: dict[str, FakeDistribution], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_source(tmp_path / "site")
    site[ENGINE] = FakeDistribution(folder, "9.9.0")
    read: list[str] = []
    real = FolderTree.text
    monkeypatch.setattr(
        FolderTree, "text", lambda tree, path: (read.append(path), real(tree, path))[1]
    )
    first = auto(run, tmp_path)
    assert {"generate.py", "server.py", "utils.py"} <= set(read)
    read.clear()
    assert auto(run, tmp_path) == first
    assert not read
    path = folder / "mlx_lm" / "server.py"
    path.write_text(SOURCE["server.py"].replace("OSError", "EOFErr"), encoding="utf-8")
    os.utime(path, (1, 1))
    assert "MLX007 rests on changed code" in str(auto(run, tmp_path)["notes"])
    assert set(read) == {"server.py"}


def test_a_broken_cache_is_made_anew(
    run: Run, site: dict[str, FakeDistribution], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAFTCHECK_CACHE", str(tmp_path / "cache"))
    site[ENGINE] = FakeDistribution(write_source(tmp_path / "site"), "9.9.0")
    first = auto(run, tmp_path)
    [kept] = (tmp_path / "cache" / "anchors").glob("*.json")
    for text in ("", "{}", '{"form": 0, "files": {}}', '{"form": 1, "files": {"server.py": 3}}'):
        kept.write_text(text, encoding="utf-8")
        assert auto(run, tmp_path) == first


def test_watch_reads_what_is_installed(
    run: Run, site: dict[str, FakeDistribution], tmp_path: Path
) -> None:
    ran = run("watch", ENGINE, "--installed")
    assert ran.code == 3
    assert "not installed" in ran.err
    site[ENGINE] = FakeDistribution(write_source(tmp_path / "site"), "9.9.0")
    ran = run("watch", ENGINE, "--installed")
    assert (ran.code, ran.out.splitlines()[0]) == (
        0, "mlx-lm 9.9.0: nothing to do, all 6 rules are confirmed",
    )  # fmt: skip
