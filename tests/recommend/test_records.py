"""Reports of trials in files and folders: what is no report, and what is no file."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from draftcheck.errors import ReadError
from draftcheck.recommend import records
from tests.conftest import FIXTURES, Run

TARGET, DRAFT = FIXTURES / "pair" / "target", FIXTURES / "pair" / "draft"
BODY: dict[str, Any] = {
    "target": {"ref": "a/b"}, "draft": {"ref": "c/d"}, "lengths": [{"speedup": 1.5}],
    "thresholds": [], "verified": None, "acceptance_rate": {"value": 0.5}, "device": "cpu",
    "dtype": "float32", "broken": None, "costs": None,
}  # fmt: skip
NONSENSE: tuple[Any, ...] = (
    None, True, -1, 10**400, math.nan, math.inf, "", "x" * 10**6, "\ud800", [], [[]], [None], {},
    {"value": 10**400, "speedup": math.inf, "ref": ["x"]}, [{"speedup": math.nan}],
)  # fmt: skip


def test_the_best_length_of_a_report_counts(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(BODY), encoding="utf-8")
    [record] = records.load([tmp_path]).values()
    assert (record.target, record.draft, record.speedup, record.acceptance) == (
        "a/b", "c/d", 1.5, 0.5,
    )  # fmt: skip
    assert record.where == "cpu, float32"
    real = {**BODY, "verified": {"speedup": 1.2}, "costs": {"engine": "vllm", "version": "0.32.0"}}
    (tmp_path / "b.json").write_text(json.dumps(real), encoding="utf-8")
    [record] = records.load([tmp_path]).values()
    assert (record.speedup, record.where) == (1.2, "cpu, float32, vllm 0.32.0")


@pytest.mark.parametrize("name", sorted(BODY))
def test_a_wrong_cell_is_an_error_or_tells_nothing(run: Run, tmp_path: Path, name: str) -> None:
    file = tmp_path / "trial.json"
    for value in NONSENSE:
        file.write_text(json.dumps({**BODY, name: value}), encoding="utf-8")
        for place in (file, tmp_path):
            ran = run("recommend", TARGET, "--candidate", DRAFT, "--trials", place, "--quiet")
            assert ran.code in ((0, 3) if place is file else (0,)), (value, ran.err)
            assert len(ran.err.splitlines()) <= 1 and len(ran.err) < 1000


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    (tmp_path / "b.json").mkdir()
    (tmp_path / "c.json").write_text(json.dumps(BODY), encoding="utf-8")
    assert list(records.load([tmp_path])) == [("a/b", "c/d")]


def test_a_folder_of_too_many_files_is_not_half_read(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MOST", 2)
    for number in range(3):
        (tmp_path / f"{number}.json").write_text(json.dumps(BODY), encoding="utf-8")
    with pytest.raises(ReadError, match="more than 2 JSON files"):
        records.load([tmp_path])
    ran = run("recommend", TARGET, "--candidate", DRAFT, "--trials", tmp_path)
    assert (ran.code, len(ran.err.splitlines())) == (3, 1), ran.err
