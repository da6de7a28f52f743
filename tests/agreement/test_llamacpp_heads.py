"""Our prediction for heads and draftless methods against what a real llama-server did.

tests/agreement/llamacpp-heads.jsonl was recorded by tests/agreement/record_heads.py with
llama.cpp b11312: the server was started, asked once, and stopped. Here the same files are written
again and judged.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from draftcheck.judge.compare import compare
from draftcheck.judge.decide import Question, judge_methods
from draftcheck.models.read import read
from draftcheck.models.refs import parse
from draftcheck.values.verdicts import EngineVerdict
from draftcheck.why.messages import ONE_OF

AGREEMENT = Path(__file__).parent
sys.path.insert(0, str(AGREEMENT))
import head_cases  # noqa: E402


def recorded() -> dict[str, dict[str, Any]]:
    lines = (AGREEMENT / "llamacpp-heads.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["name"]: row for row in map(json.loads, lines) if "name" in row}


RECORDED = recorded()
# Healthy and answering, but every draft is rejected or nothing useful is drafted: we say no.
RUNS_IN_VAIN = {
    "as-draft-simple/eagle3", "as-draft-simple/dflash", "as-draft-simple/dspark",
    "eagle3/other-texts", "dflash/other-texts", "dspark/other-texts",
    "mtp/sidecar-for-another-architecture",
}  # fmt: skip
# Ended by an id that the head has no token for; the recorded answers had none.
ENDS_LATER = {"dflash/fewer-tokens", "dspark/fewer-tokens"}
# -md alone: the server detects the head; we point to the method instead of judging it.
DETECTED = {"as-none/dflash", "as-none/dspark", "as-none/mtp"}


def predict(case: head_cases.Case, folder: Path) -> EngineVerdict:
    target, draft = head_cases.write(case, folder)
    ours = read(parse(str(target)))
    theirs = ours if draft is None else read(parse(str(draft)))
    return judge_methods(compare(ours, theirs), Question("llama.cpp", method=case.method))[0]


def happened(row: dict[str, Any]) -> str:
    """An abort at a request is a crash, whatever the server's health said before."""
    crashed = row.get("request") == "crashes" or row["name"] in ENDS_LATER
    return "crashes" if crashed else str(row["reaction"])


def test_every_case_was_recorded() -> None:
    assert {case.name for case in head_cases.CASES} == set(RECORDED)
    kinds = {happened(row) for row in RECORDED.values()}
    assert kinds == {"runs", "ignores-draft", "refuses", "crashes"}
    assert set(RECORDED) >= RUNS_IN_VAIN | ENDS_LATER | DETECTED


@pytest.mark.parametrize("case", head_cases.CASES, ids=lambda case: case.name)
def test_prediction_agrees(case: head_cases.Case, tmp_path: Path) -> None:
    verdict, row = predict(case, tmp_path), RECORDED[case.name]
    failed = [f"{f.rule} {f.outcome}: {f.saw}" for f in verdict.findings if f.outcome != "ok"]
    if case.name in DETECTED:
        assert (verdict.reaction, verdict.verdict) == ("unknown", "undecided"), failed
        return
    assert str(verdict.reaction) == happened(row), failed
    works = happened(row) == "runs" and "request" not in row and case.name not in RUNS_IN_VAIN
    assert (verdict.verdict in ("compatible", "degraded")) == works, failed
    if works:
        assert verdict.setup is not None and f"--spec-type {case.method}" in verdict.setup


def test_the_deciding_rule_quotes_the_engine(tmp_path: Path) -> None:
    """Where the recording has a line of the log, the rule's own words are in it."""
    strange = []
    for case in head_cases.CASES:
        row = RECORDED[case.name]
        folder = tmp_path / case.name.replace("/", "-")
        folder.mkdir()
        verdict = predict(case, folder)
        found = next((f for f in verdict.findings if f.rule == verdict.decided_by), None)
        if found is None or found.engine_says is None or "line" not in row:
            continue
        said = [
            next(part.strip() for part in one.split("…") if len(part.strip()) > 3)
            for one in found.engine_says.split(ONE_OF)
        ]
        if not any(one[:60] in row["line"] for one in said):
            strange.append(f"{case.name}: {found.rule} says {found.engine_says!r}: {row['line']}")
    assert not strange, "\n".join(strange)
