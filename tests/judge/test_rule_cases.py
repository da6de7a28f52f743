"""Every row of rules/engines/*.toml and rules/truth.toml against the small cases in fixtures/rules.

One folder per rule id, one file per case: two sets of facts, a question, and what the whole
verdict must be. The first word of a file's name is the outcome of the folder's rule (pass, fail,
unknown). pass-before-, pass-after- and pass-other-method- say that the rule is not asked there.
A new rule needs no code here: its cases are found, and the last tests say which are missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from draftcheck import versions
from draftcheck.judge.compare import compare
from draftcheck.judge.decide import Question, active, judge_engine
from draftcheck.memory import gpu_specs
from draftcheck.models import stored
from draftcheck.rulebook import book
from draftcheck.rulebook.book import Engine, Rule
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import ModelFacts
from draftcheck.values.findings import Finding
from draftcheck.values.verdicts import EngineVerdict
from draftcheck.values.words import Outcome, Reaction, Severity

FOLDER = Path(__file__).parents[2] / "fixtures" / "rules"
OUTCOMES = {"pass": Outcome.OK, "fail": Outcome.FAIL, "unknown": Outcome.UNKNOWN}
NOT_ASKED = ("pass-before-", "pass-after-", "pass-other-method-")
LARGEST = 4400
"""Bytes; most files are far smaller."""

ONLY_UNKNOWN = {
    "llama_load_is_known": "says that the facts suffice or not; nothing can fail",
    "pipeline_not_read": "what the engine does with stages was not found out",
    "target_recurrent_not_read": "what the engine does with such layers was not found out",
    "recurrent_not_read": "what the engine does with such layers was not found out",
    "target_type_told": "a list that is not all there is",
    "draft_kind_not_read": "what the engine does with such drafts was not found out",
    "multimodal_not_read": "what the engine does with such targets was not found out",
}
NEEDS_NO_FACTS = {
    "name_picks_method": "the name is the reference itself",
    "dtype_spelling": "the word is the option itself",
    "draft_name_dotted": "the name is the reference itself",
}


@dataclass(frozen=True)
class Case:
    """One file: which rule, what the name promises, and what it holds."""

    path: Path
    body: dict[str, Any]

    @property
    def rule(self) -> str:
        return self.path.parent.name

    @property
    def name(self) -> str:
        return f"{self.rule}/{self.path.stem}"

    @property
    def kind(self) -> str:
        return self.path.stem.partition("-")[0]

    @property
    def asked(self) -> bool:
        return not self.path.name.startswith(NOT_ASKED)

    @property
    def version(self) -> str:
        return str(self.body["engine"]).partition("@")[2]

    def facts(self, side: str) -> ModelFacts:
        """The facts of one side; a tokenizer definition lies beside the case."""
        body = dict(self.body[side])
        tokenizer = dict(body.get("tokenizer", {}))
        definition = tokenizer.pop("definition", None)
        facts = stored.from_dict({**body, "tokenizer": tokenizer}, f"{self.name}: {side}")
        if definition is None:
            return facts
        path = str(self.path.parent / definition)
        return replace(facts, tokenizer=replace(facts.tokenizer, definition=path))

    def question(self) -> Question:
        engine, _, version = str(self.body["engine"]).partition("@")
        said = {name: self.body[name] for name in book.CIRCUMSTANCES if name in self.body}
        given = gpu_specs.placed(Circumstances(**said))
        return Question(engine, version, self.body.get("method"), given)

    def comparison(self) -> Comparison:
        target = self.facts("target")
        draft = self.facts("draft") if "draft" in self.body else None
        return compare(target, draft)

    def verdict(self) -> EngineVerdict:
        return judge_engine(self.comparison(), self.question())


@cache
def cases() -> tuple[Case, ...]:
    files = sorted(FOLDER.glob("*/*.json"))
    return tuple(Case(file, json.loads(file.read_text(encoding="utf-8"))) for file in files)


def cases_of(rule: str) -> list[Case]:
    return [case for case in cases() if case.rule == rule]


def rows() -> Iterator[tuple[Engine | None, Rule]]:
    """Every row with its engine; no engine for the rules that hold everywhere."""
    for name in sorted(book.engine_files()):
        engine = book.load(name)
        yield from ((engine, rule) for rule in engine.rules)
    yield from ((None, rule) for rule in book.truth())


def rule_ids() -> list[str]:
    return sorted({rule.id for _, rule in rows()})


def finding(verdict: EngineVerdict, rule: str) -> Finding | None:
    return next((found for found in verdict.findings if found.rule == rule), None)


def asked_rows(verdict: EngineVerdict) -> list[Rule]:
    """The rows that hold for the version and method of a verdict."""
    engine = book.load(verdict.engine)
    for method in engine.methods:
        there = versions.covers(engine.order, verdict.version, method.since, method.until)
        if there and method.id == verdict.method:
            general = [r for r in book.truth() if r.vocabulary in ("any", method.vocabulary)]
            return active(engine, verdict.version, method) + general
    return []


every_case = pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
every_rule = pytest.mark.parametrize("rule", rule_ids())
every_row = pytest.mark.parametrize(
    ("engine", "rule"),
    [pytest.param(e, r, id=f"{r.id}-{r.since or 'first'}-{r.methods or 'all'}") for e, r in rows()],
)


# ---- the cases themselves ----


@every_case
def test_rule_sees_what_the_name_says(case: Case) -> None:
    verdict = case.verdict()
    found = finding(verdict, case.rule)
    if not case.asked:
        assert found is None
        assert case.rule not in {rule.id for rule in asked_rows(verdict)}
        return
    assert found is not None, f"{case.rule} is not asked or does not apply: {verdict.notes}"
    assert found.outcome == OUTCOMES[case.kind], found.saw


@every_case
def test_whole_verdict(case: Case) -> None:
    verdict = case.verdict()
    seen = (str(verdict.reaction), verdict.decided_by, str(verdict.verdict))
    assert seen == tuple(case.body[name] for name in ("reaction", "decided_by", "verdict")), [
        f"{found.rule} {found.outcome}: {found.saw}"
        for found in verdict.findings
        if found.outcome is not Outcome.OK
    ]


@every_case
def test_file_is_small_and_named_well(case: Case) -> None:
    assert case.path.stat().st_size <= LARGEST
    assert case.kind in OUTCOMES


# ---- completeness ----


def test_every_folder_belongs_to_a_rule() -> None:
    assert {path.name for path in FOLDER.iterdir()} <= set(rule_ids())


@every_rule
def test_rule_has_a_pass_and_a_fail(rule: str) -> None:
    kinds = {case.kind for case in cases_of(rule)}
    mine = [row for _, row in rows() if row.id == rule]
    assert "pass" in kinds or any(map(always_fails, mine))
    assert ("unknown" if mine[0].check in ONLY_UNKNOWN else "fail") in kinds


def always_fails(row: Rule) -> bool:
    """A remark about every version and method of an engine: no pair passes it."""
    return row.check == "always" and not (row.since or row.until or row.methods)


@every_row
def test_row_has_a_failing_case_in_its_window(engine: Engine | None, rule: Rule) -> None:
    kind = "unknown" if rule.check in ONLY_UNKNOWN else "fail"
    verdicts = [case.verdict() for case in cases_of(rule.id) if case.kind == kind]
    assert any(rule is row for verdict in verdicts for row in asked_rows(verdict))


@every_row
def test_edges_have_a_case_on_both_sides(engine: Engine | None, rule: Rule) -> None:
    if engine is None:
        return
    at = {engine.order(case.version) for case in cases_of(rule.id)}
    for edge in (rule.since, rule.until):
        if edge is None or engine.order(edge.removeprefix("<=")) <= engine.order(engine.oldest):
            continue
        here = engine.order(edge.removeprefix("<="))
        assert here in at, f"no case at {edge}"
        before = here - 1 in at if engine.versions == "build" else any(v < here for v in at)
        assert before, f"no case just before {edge}"


@every_row
def test_a_note_leaves_the_engine_running(engine: Engine | None, rule: Rule) -> None:
    assert rule.severity is not Severity.NOTE or rule.reaction is Reaction.RUNS


# ---- nothing read, nothing claimed ----


@every_row
def test_nothing_read_is_never_ok(engine: Engine | None, rule: Rule) -> None:
    engine = engine or book.load("vllm")
    version = engine.checked if rule.until is None else rule.since or engine.oldest
    method = rule.methods[0] if rule.methods else None
    target, draft = (ModelFacts(ref=f"org/{name}", kind="folder") for name in ("big", "small"))
    said = Circumstances(tensor_parallel=2)
    question = Question(engine.id, version.removeprefix("<="), method, said)
    verdict = judge_engine(compare(target, draft), question)
    assert any(rule is row for row in asked_rows(verdict))
    found = finding(verdict, rule.id)
    if rule.check not in NEEDS_NO_FACTS:
        assert found is None or found.outcome is not Outcome.OK, found.saw


def test_allowances_are_used() -> None:
    checks = {rule.check for _, rule in rows()}
    assert checks >= NEEDS_NO_FACTS.keys() | ONLY_UNKNOWN.keys()
