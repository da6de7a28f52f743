"""Deploy files as people write them, good and bad: fixtures/deploy, with what must be found.

A case is a file and a table in expected.toml; there is no code per case.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from draftcheck.gate import fixing
from draftcheck.gate.run import GateRequest, GateRun, run
from draftcheck.values.words import Severity
from tests.conftest import FIXTURES

FOLDER = FIXTURES / "deploy"
NOT_CASES = ("expected.toml", "draftcheck.toml", "requirements.txt")
EXPECTED = tomllib.loads((FOLDER / "expected.toml").read_text(encoding="utf-8"))


def cases() -> list[str]:
    files = [path for path in FOLDER.rglob("*") if path.is_file() and path.name not in NOT_CASES]
    return sorted(path.relative_to(FOLDER).as_posix() for path in files)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateRun]:
    """One run over a copy of the folder, beside the pair that its manifest names."""
    place = tmp_path_factory.mktemp("deploy")
    shutil.copytree(FOLDER, place / "deploy")
    shutil.copytree(FIXTURES / "pair", place / "pair")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place / "deploy")
        yield run(GateRequest())


def test_every_expectation_has_its_file() -> None:
    assert set(EXPECTED) <= set(cases())
    assert len(cases()) >= 40


@pytest.mark.parametrize("name", cases())
def test_setups(name: str, ran: GateRun) -> None:
    found = [
        f"{s.place.line} {s.engine} {s.version if s.version_from else '?'} {s.verdict}"
        for s in ran.report.setups
        if s.place.file == name
    ]
    assert found == expected(name, "setups")


@pytest.mark.parametrize("name", cases())
def test_findings(name: str, ran: GateRun) -> None:
    found = [
        f"{f.place.line} {f.rule}" + (" ignored" if f.ignored else "")
        for f in ran.report.findings
        if f.place.file == name and f.severity is not Severity.NOTE
    ]
    assert found == expected(name, "findings")


def expected(name: str, what: str) -> Any:
    return EXPECTED.get(name, {}).get(what, [])


def test_fixes_touch_only_their_lines_and_leave_nothing_to_fix(ran: GateRun) -> None:
    plan = fixing.plan(ran.report.findings, ran.survey)
    changed = plan.changes
    assert len(changed) >= 8 and plan.refused == []
    for change in changed:
        before, after = (data.split(b"\n") for data in (change.before, change.after))
        lines = {
            line
            for f in ran.report.findings
            if f.fixable and f.place.file == change.name
            for edit in f.changes
            for line in range(edit.place.line, (edit.place.end_line or edit.place.line) + 1)
        }
        other = [text for number, text in enumerate(before, 1) if number not in lines]
        assert [text for text in other if text not in after] == [], change.name
        Path(change.name).write_bytes(change.after)
    again = run(GateRequest())
    assert fixing.plan(again.report.findings, again.survey).changes == []
    mended = {change.name for change in changed}
    left = [f for f in again.report.findings if f.fixable and f.place.file in mended]
    assert left == []
