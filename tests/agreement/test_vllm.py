"""Our verdicts against vLLM's own option parser and configuration code.

tests/agreement/vllm-VERSION.jsonl were recorded by tests/agreement/record_vllm.py. The folders are
written again and judged; what is refused, with which words, and which method comes out must agree.
Rules about what happens later (weights, workers, the first request) are not seen there.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from draftcheck.rulebook import book
from draftcheck.values.findings import Finding
from draftcheck.values.verdicts import EngineVerdict
from draftcheck.values.words import Outcome, Reaction, Severity

AGREEMENT = Path(__file__).parent
sys.path.insert(0, str(AGREEMENT))
import vllm_pairs  # noqa: E402
import vllm_setups  # noqa: E402

BY_NAME = {"VLL007", "VLL043", "VLL046", "VLL220", "VLL221", "VLL222"}
"""The name of the draft picks its method."""
# What the configuration code decides; every other refusal comes later.
AT_ONCE = {
    "VLL003", "VLL008", "VLL009", "VLL012", "VLL018", "VLL022", "VLL033", "VLL102", "VLL110",
    "VLL111", "VLL112", "VLL117", "VLL124", "VLL127",
}  # fmt: skip
RENAMED = {
    "use_heterogeneous_vocab": "draft_model",
    "parallel_drafting": "draft_model",
    "peagle": "eagle3",
}
"""Our methods that are options of another one there."""


def recorded() -> dict[str, dict[str, dict[str, Any]]]:
    """Version -> name of the pair -> what was recorded."""
    found = {}
    for file in sorted(AGREEMENT.glob("vllm-*.jsonl")):
        head, *rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        found[head["vllm"]] = {row["name"]: row for row in rows}
    return found


RECORDED = recorded()
PAIRS = {pair.name: pair for pair in vllm_pairs.PAIRS}
EVERY = [(version, name) for version, rows in RECORDED.items() for name in rows]


def ask(
    pair: vllm_pairs.Pair, folder: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> vllm_setups.Asked | None:
    target, draft = vllm_pairs.write(pair, folder)
    monkeypatch.chdir(target.parent)
    return vllm_setups.ask(pair, Path(target.name), Path(draft.name), version)


def deciding(verdict: EngineVerdict) -> Finding | None:
    """The first of vLLM's own rules that keeps it from running: the weights here are a stub."""
    for found in verdict.findings:
        stops = found.outcome is Outcome.FAIL and found.reaction is not Reaction.RUNS
        if found.rule.startswith("VLL") and stops and found.severity is not Severity.NOTE:
            return found
    return None


def quotes(finding: Finding, text: str) -> bool:
    """Whether the engine's words, as the rule has them, stand in the text in this order."""
    return any(_stands(said, text) for said in (finding.engine_says or "").split(" | "))


def _stands(said: str, text: str) -> bool:
    place = 0
    for part in said.split("…"):
        place = text.find(part.strip(" []{}."), place)
        if place < 0:
            return False
    return True


@pytest.mark.parametrize(("version", "name"), EVERY)
def test_same_answer(
    version: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ask(PAIRS[name], tmp_path, monkeypatch, version)
    assert asked is not None
    assert_agrees(RECORDED[version][name], asked)


def assert_agrees(row: dict[str, Any], asked: vllm_setups.Asked) -> None:
    assert row["argv"] == asked.argv, "record again: the setup has changed"
    verdict = asked.verdict
    decided, failed = deciding(verdict), {
        f.rule: f for f in verdict.findings if f.outcome is Outcome.FAIL
    }  # fmt: skip
    if row["outcome"] == "accepted":
        assert decided is None or decided.rule not in AT_ONCE, decided
        assert row["method"] in methods(verdict, failed), row["method"]
        return
    # An honest "not known" is agreement too, when it is about what the engine then says.
    open_ones = [f for f in verdict.findings if f.outcome is not Outcome.OK and f.engine_says]
    expected = [decided] if decided else open_ones
    by_name = decided is not None and decided.rule in BY_NAME
    if by_name and any(word in row["says"] for word in ("DFlash", "dspark")):
        return  # the words of the method that the name picked
    assert any(quotes(f, row["says"]) for f in expected if f), row["says"]
    if decided is not None:
        assert decided.reaction == "refuses"


def methods(verdict: EngineVerdict, failed: dict[str, Finding]) -> set[str]:
    """The methods that we expect vLLM to come to."""
    asked = RENAMED.get(verdict.method or "", verdict.method or "")
    if any(one.rule == "VLL006" and one.outcome is not Outcome.OK for one in verdict.findings):
        return {"mtp"}
    if failed.keys() & BY_NAME:
        return {"eagle", "eagle3", "dflash", "dspark"} - {asked}
    return {asked}


def test_everything_is_recorded() -> None:
    newest = max(RECORDED, key=book.load("vllm").order)  # a new release has no build for CPUs yet
    assert set(RECORDED[newest]) == set(PAIRS)
    assert len(PAIRS) >= 80


@pytest.mark.vllm
@pytest.mark.parametrize("name", PAIRS)
def test_installed_vllm_gives_the_same_answer(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vllm is not installed (3.5 GB: see tests/agreement/record_vllm.py)")
    from vllm.version import __version__

    version = __version__.partition("+")[0]
    asked = ask(PAIRS[name], tmp_path, monkeypatch, version)
    if asked is None:
        pytest.skip(f"vLLM {version} has no such method")
    import record_vllm

    assert_agrees({"argv": asked.argv, **record_vllm.answer(asked.argv)}, asked)
