"""Our prediction against what a real llama-server did with the same files.

tests/agreement/llamacpp.jsonl was recorded by tests/agreement/record_llamacpp.py with
llama.cpp b11312. Here the files are written again and judged; reaction and reason must agree.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from draftcheck.errors import ReadError
from draftcheck.judge.compare import compare
from draftcheck.judge.decide import Question, judge_methods
from draftcheck.models.read import read
from draftcheck.models.refs import parse
from draftcheck.values.facts import ModelFacts
from draftcheck.values.verdicts import EngineVerdict
from draftcheck.values.words import Outcome
from tests.hostile.support import LONG

AGREEMENT = Path(__file__).parent
sys.path.insert(0, str(AGREEMENT))
import mutate  # noqa: E402
from mutate_ops import bases  # noqa: E402

REASONS = {"LCP001": "type", "LCP002": "bos", "LCP005": "eos", "LCP003": "size", "LCP004": "text"}
AT_A_REQUEST = ("LCP007", "LCP141")
"""Rules that end the server at the first request; a recording says so apart from its start."""


def recorded() -> dict[str, dict[str, Any]]:
    lines = (AGREEMENT / "llamacpp.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["name"]: row for row in map(json.loads, lines) if "name" in row}


RECORDED = recorded()
# What we do not predict, and why.
EXCEPT = {"small-ugm/charsmap-one-node/draft": "needs a walk through the charsmap's trie"}
SMALL = [case for case in mutate.CASES if all(b.startswith("small-") for b in bases(case))]
REAL = [case for case in mutate.CASES if case not in SMALL]


KEPT: dict[bytes, ModelFacts] = {}
"""Facts of the last files, by their bytes: most cases leave one side as it was."""


def facts(path: Path) -> ModelFacts:
    if "-of-" in path.name:  # the other parts count too
        return read(parse(str(path)))
    digest = hashlib.sha256(path.read_bytes()).digest()
    found = KEPT.pop(digest, None) or read(parse(str(path)))
    KEPT[digest] = found
    if len(KEPT) > 16:
        del KEPT[next(iter(KEPT))]
    return found


def predict(target: Path, draft: Path) -> EngineVerdict:
    comparison = compare(facts(target), facts(draft))
    return judge_methods(comparison, Question("llama.cpp"))[0]


def reason(verdict: EngineVerdict) -> str | None:
    """Our deciding rule in the words of the recording."""
    if verdict.decided_by is None:
        return None
    if verdict.decided_by in REASONS:
        return REASONS[verdict.decided_by]
    if verdict.decided_by == "LCP006":
        return "abort-pair"
    saw = next(f.saw for f in verdict.findings if f.rule == verdict.decided_by)
    stage = "load" if verdict.reaction == "refuses" else "abort"
    return f"{stage}-{saw.partition(':')[0]}"


def disagreement(case: mutate.Case, folder: Path) -> str | None:
    row = RECORDED[case.name]
    if case.name in EXCEPT:
        return None
    try:
        verdict = predict(*mutate.write(case, folder))
    except ReadError as error:
        # A header that cannot be parsed: we do not judge, the engine does not load.
        return None if row["reaction"] == "refuses" else f"{case.name}: unread: {error.message}"
    ours = (str(verdict.reaction), reason(verdict))
    if verdict.decided_by in AT_A_REQUEST and row.get("request") == "crashes":
        return None
    if ours != (row["reaction"], row["reason"]):
        return f"{case.name}: engine {row['reaction']} {row['reason']}, we say {ours}"
    if row["reason"] == "text":
        saw = next(f.saw for f in verdict.findings if f.rule == "LCP004")
        if not saw.startswith(f"token {row['token']} "):
            return f"{case.name}: engine stops at token {row['token']}, we say {saw}"
    if row.get("request") == "crashes" and verdict.verdict != "incompatible":
        return f"{case.name}: aborts at the first request, we say {verdict.verdict}"
    return None


def disagreements(cases: list[mutate.Case], folder: Path) -> list[str]:
    found = []
    for case in cases:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        found += filter(None, [disagreement(case, folder)])
    return found


def test_every_case_was_recorded() -> None:
    assert {case.name for case in mutate.CASES} == set(RECORDED)
    kinds = {row["reaction"] for row in RECORDED.values()}
    assert kinds == {"runs", "ignores-draft", "refuses", "crashes"}
    assert set(EXCEPT) <= set(RECORDED)


@pytest.mark.parametrize("part", range(4))
def test_small_vocabularies_agree(part: int, tmp_path: Path) -> None:
    found = disagreements(SMALL[part::4], tmp_path / "work")
    assert not found, "\n".join(found)


@pytest.mark.realdata
@pytest.mark.parametrize("part", range(4))
def test_real_vocabularies_agree(part: int, tmp_path: Path, realdata: Path) -> None:
    """A third of them; all with DRAFTCHECK_FUZZ=2."""
    every = 4 if LONG > 1 else 12
    found = disagreements(REAL[part::every], tmp_path / "work")
    assert not found, "\n".join(found)


def test_every_failed_load_names_the_side(tmp_path: Path) -> None:
    case = next(case for case in SMALL if case.name == "small-bpe/duplicate/draft")
    verdict = predict(*mutate.write(case, tmp_path))
    failed = [f for f in verdict.findings if f.outcome is Outcome.FAIL]
    assert failed[0].saw.startswith("draft: ") and "both" in failed[0].saw
