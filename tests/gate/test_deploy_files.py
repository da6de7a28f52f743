"""Deploy files as people write them, good and bad: fixtures/deploy, with what must be found.

A case is a file and a table in expected.toml; there is no code per case.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from draftcheck.deploy.options import tables
from draftcheck.gate import fixing
from draftcheck.gate.run import GateRequest, GateRun, run
from draftcheck.values.words import Outcome, Severity
from tests.conftest import FIXTURES, ROOT

FOLDER = FIXTURES / "deploy"
NOT_CASES = ("expected.toml", "draftcheck.toml", "requirements.txt")
EXPECTED = tomllib.loads((FOLDER / "expected.toml").read_text(encoding="utf-8"))


def cases() -> list[str]:
    files = [path for path in FOLDER.rglob("*") if path.is_file() and path.name not in NOT_CASES]
    return sorted(path.relative_to(FOLDER).as_posix() for path in files)


NEWEST = {
    table.head.engine: table.head.checked
    for path in (ROOT / "rules" / "options").glob("*.toml")
    if not path.stem.endswith("-names") and (table := tables.load(path.stem))
}
"""For files that name no version: what is wrong with them is certain only then."""


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A copy of the folder, beside the pair that its manifest names, is the current one."""
    place = tmp_path_factory.mktemp("deploy")
    shutil.copytree(FOLDER, place / "deploy")
    shutil.copytree(FIXTURES / "pair", place / "pair")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place / "deploy")
        yield


@pytest.fixture(scope="module")
def ran(copied: None) -> GateRun:
    return run(GateRequest())


@pytest.fixture(scope="module")
def told(copied: None) -> GateRun:
    return run(GateRequest(versions=NEWEST))


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
def test_findings(name: str, told: GateRun) -> None:
    found = [
        f"{f.place.line} {f.rule}" + (" ignored" if f.ignored else "")
        for f in told.report.findings
        if f.place.file == name and f.severity is not Severity.NOTE
    ]
    assert found == expected(name, "findings")


def expected(name: str, what: str) -> Any:
    return EXPECTED.get(name, {}).get(what, [])


def test_without_a_version_what_another_version_takes_is_a_note(
    ran: GateRun, told: GateRun
) -> None:
    """Both runs see the same; what only the newest version refuses stops nobody who has another."""

    def seen(run: GateRun, *severities: Severity) -> set[tuple[str, str, int]]:
        found = run.report.findings
        kept = (f for f in found if f.severity in severities and f.outcome is Outcome.FAIL)
        return {(f.rule, f.place.file, f.place.line) for f in kept}

    worse, notes = (Severity.ERROR, Severity.WARNING), (Severity.NOTE,)
    softened = seen(told, *worse) - seen(ran, *worse)
    assert len(softened) >= 15 and softened <= seen(ran, *notes)
    assert seen(ran, *worse) <= seen(told, *worse)
    for finding in ran.report.findings:
        if (finding.rule, finding.place.file, finding.place.line) in softened:
            assert re.search(r"holds for|is a value from", finding.saw), finding.saw
            assert "which version runs here is not said" in finding.saw
            assert not finding.fixable


def test_fixes_touch_only_their_lines_and_leave_nothing_to_fix(told: GateRun) -> None:
    plan = fixing.plan(told.report.findings, told.survey)
    changed = plan.changes
    assert len(changed) >= 8 and plan.refused == []
    for change in changed:
        before, after = (data.split(b"\n") for data in (change.before, change.after))
        lines = {
            line
            for f in told.report.findings
            if f.fixable and f.place.file == change.name
            for edit in f.changes
            for line in range(edit.place.line, (edit.place.end_line or edit.place.line) + 1)
        }
        other = [text for number, text in enumerate(before, 1) if number not in lines]
        assert [text for text in other if text not in after] == [], change.name
        Path(change.name).write_bytes(change.after)
    again = run(GateRequest(versions=NEWEST))
    assert fixing.plan(again.report.findings, again.survey).changes == []
    mended = {change.name for change in changed}
    left = [f for f in again.report.findings if f.fixable and f.place.file in mended]
    assert left == []
