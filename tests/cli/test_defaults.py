"""[defaults] of draftcheck.toml: engine and GPU of `pair` and `recommend` where none is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import FIXTURES, Run

PAIR = (FIXTURES / "pair" / "target", FIXTURES / "pair" / "draft")


@pytest.fixture
def toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    return tmp_path / "draftcheck.toml"


def test_they_hold_where_nothing_is_named_and_are_told(run: Run, toml: Path) -> None:
    toml.write_text('[defaults]\nengine = "vllm@0.32.0"\ngpu = "2x h100"\n')
    ran = run("pair", *PAIR, "--format", "json")
    assert [entry["engine"] for entry in ran.json["engines"]] == ["vllm"]
    assert ran.json["memory"]["gpu"] == "2x h100"
    assert ran.err == "  --engine vllm@0.32.0, --gpu 2x h100 (draftcheck.toml)\n"
    ran = run("pair", *PAIR, "--engine", "sglang", "--format", "json")
    assert [entry["engine"] for entry in ran.json["engines"]] == ["sglang"]
    assert ran.err == "  --gpu 2x h100 (draftcheck.toml)\n"
    best = run("recommend", PAIR[0], "--candidate", PAIR[1], "--format", "json")
    assert best.json["engine"] == "vllm@0.32.0"
    assert run("inspect", PAIR[0]).err == "", "other commands do not look at it"
    assert run("gate", toml).code == 0, "the gate knows the table"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[defaults]\nengin = "vllm"\n', "draftcheck.toml:2: there is no key 'engin' in defaults"),
        ('[defaults]\nengine = "vlm"\n', "there is no engine 'vlm'; did you mean 'vllm'?"),
        ("[defaults]\nengine = 3\n", "draftcheck.toml:2: 'engine' must be"),
        ("defaults = 1\n", "draftcheck.toml:1: defaults is written [defaults]"),
        ("[defaults\n", "draftcheck.toml:1: "),
    ],
)
def test_what_makes_no_sense_is_told_in_a_line_and_left_out(
    run: Run, toml: Path, text: str, words: str
) -> None:
    toml.write_text(text)
    ran = run("pair", *PAIR, "--format", "json")
    assert ran.code == 0 and len(ran.json["engines"]) > 3
    [line] = ran.err.splitlines()
    assert line.startswith("warning: ") and words in line
