"""--engine auto: packages by their metadata, programs by what they print."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

import pytest

from tests import make
from tests.conftest import Run

HERE: dict[str, str] = {}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no engine on it; returns its folder of programs."""
    HERE.clear()

    def version(name: str) -> str:
        if name not in HERE:
            raise metadata.PackageNotFoundError(name)
        return HERE[name]

    monkeypatch.setattr(metadata, "version", version)
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return programs


def program(folder: Path, name: str, prints: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat <<'X'\n{prints}\nX\n", encoding="utf-8")
    path.chmod(0o755)


def auto(run: Run, tmp_path: Path) -> dict[str, dict[str, object]]:
    target, draft = make.folder(tmp_path / "big", layers=8), make.folder(tmp_path / "small")
    ran = run("pair", target, draft, "--engine", "auto", "--format", "json")
    assert ran.code in (0, 1), ran.err
    return {entry["engine"]: entry for entry in ran.json["engines"]}


def test_packages_are_found_by_their_metadata(run: Run, machine: Path, tmp_path: Path) -> None:
    HERE.update({"vllm": "0.15.1+cu128", "mlx-lm": "0.32.2", "transformers": "5.17.0"})
    found = auto(run, tmp_path)
    assert {name: entry["version"] for name, entry in found.items()} == {
        "vllm": "0.15.1",
        "transformers": "5.17.0",
        "mlx-lm": "0.32.2",
    }
    assert "found: the Python package vllm 0.15.1+cu128" in found["vllm"]["notes"]


@pytest.mark.parametrize(
    ("prints", "build"),
    [
        ("version: 10586 (b21e4de74)\nbuilt with GNU 12.2.0", "b10586"),
        ("version: 0.5.0-dev (build 11312, commit 0c1e570)", "b11312"),
        ("version: 0.5.0-dev (build 1, commit 0c1e570)", "b11312"),
    ],
)
def test_llama_server_says_its_build(
    run: Run, machine: Path, tmp_path: Path, prints: str, build: str
) -> None:
    program(machine, "llama-server", prints)
    entry = auto(run, tmp_path)["llama.cpp"]
    assert entry["version"] == build
    assert "llama-server says" in str(entry["notes"])


def test_the_build_inside_the_python_package(run: Run, machine: Path, tmp_path: Path) -> None:
    HERE["llama-cpp-python"] = "0.3.16"
    entry = auto(run, tmp_path)["llama.cpp"]
    assert entry["version"] == "b6170"
    assert "0.3.16, which is b6170" in str(entry["notes"])


def test_ollama(run: Run, machine: Path, tmp_path: Path) -> None:
    program(machine, "ollama", "Warning: could not connect\nollama version is 0.33.0")
    assert auto(run, tmp_path)["ollama"]["version"] == "0.33.0"


def test_newer_than_the_rulebook_is_not_verified(run: Run, machine: Path, tmp_path: Path) -> None:
    HERE["vllm"] = "9.9.0"
    entry = auto(run, tmp_path)["vllm"]
    assert entry["version_checked"] is False
    assert "not verified" in str(entry["notes"])


@pytest.mark.parametrize("prints", ["", "\x1b[31mversion: x", "version: 1 (abc)"])
def test_nothing_found_says_where_it_looked(
    run: Run, machine: Path, tmp_path: Path, prints: str
) -> None:
    program(machine, "llama-server", prints)
    target = make.folder(tmp_path / "big")
    ran = run("pair", target, target, "--engine", "auto")
    assert ran.code == 2
    assert "llama-server" in ran.err
    assert "vllm" in ran.err


@pytest.mark.parametrize("text", ["vllm@banana", "llama.cpp@0.15", "nobody"])
def test_unknown_text_lists_what_is_known(run: Run, tmp_path: Path, text: str) -> None:
    target = make.folder(tmp_path / "big")
    ran = run("pair", target, target, "--engine", text)
    assert ran.code == 2
    known = "0.6.5 to" if "vllm" in text else "b4164 to" if "@" in text else "tensorrt-llm"
    assert known in ran.err
