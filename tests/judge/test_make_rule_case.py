"""make rule-case: what it writes is a case that passes for every rule there is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from draftcheck.rulebook import book
from draftcheck.values.words import Outcome, Verdict
from tests.judge import make_rule_case
from tests.judge.rule_cases import Case, asked_rows, finding


def read(path: Path) -> Case:
    return Case(path, json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("engine", "method", "chosen"),
    [
        ("vllm@0.30.0", None, "draft_model"),
        ("vllm@0.30.0", "eagle3", "eagle3"),
        ("vllm@0.30.0", "ngram", "ngram"),
        ("llama.cpp@b11000", None, "draft-simple"),
        ("sglang@0.5.10", "STANDALONE", "STANDALONE"),
    ],
)
def test_a_new_case_passes_for_every_rule(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    engine: str,
    method: str | None,
    chosen: str,
) -> None:
    words = ["VLL900", engine, "--method", method or ""]
    assert make_rule_case.main(words, tmp_path) == 0
    path = tmp_path / "VLL900" / f"pass-{engine.partition('@')[2]}.json"
    assert capsys.readouterr().out.startswith(f"{path}: VLL900 is in no rule file yet")
    case = read(path)
    verdict = case.verdict
    assert case.body["engine"] == engine and verdict.method == chosen
    assert verdict.verdict in (Verdict.COMPATIBLE, Verdict.DEGRADED) and len(verdict.findings) > 3
    always = {row.id for row in asked_rows(verdict) if row.check == "always"}
    assert not [
        found.rule
        for found in verdict.findings
        if found.outcome is not Outcome.OK and found.rule not in always
    ]
    said = (str(verdict.reaction), verdict.decided_by, str(verdict.verdict))
    assert said == tuple(case.body[name] for name in ("reaction", "decided_by", "verdict"))
    assert path.stat().st_size < 4400 and path.read_text(encoding="utf-8").startswith(
        '{\n "engine"'
    )


def test_a_failing_case_promises_what_the_rule_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = next(row for row in book.load("vllm").rules if row.id == "VLL008")
    words = ["VLL008", "vllm@0.32.0", "--kind", "fail"]
    assert make_rule_case.main(words, tmp_path) == 0
    assert "change the facts until it says fail" in capsys.readouterr().out
    case = read(tmp_path / "VLL008" / "fail-0.32.0.json")
    assert (case.body["reaction"], case.body["decided_by"]) == (str(rule.reaction), "VLL008")
    found = finding(case.verdict, "VLL008")
    assert found is None or found.outcome is Outcome.OK


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["VLL900", "nonesuch@1"], "unknown engine 'nonesuch'"),
        (["VLL900", "vllm@0.30.0", "--method", "mlp_speculator"], "no pair of the cases runs"),
    ],
)
def test_what_cannot_be_made_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert make_rule_case.main(words, tmp_path) == 2
    assert message in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_no_case_is_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "VLL900" / "pass-0.32.0.json"
    path.parent.mkdir()
    path.write_text("mine")
    assert make_rule_case.main(["VLL900", "vllm@0.32.0"], tmp_path) == 2
    assert "is there already" in capsys.readouterr().err and path.read_text() == "mine"
