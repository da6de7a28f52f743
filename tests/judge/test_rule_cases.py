"""Every row of rules/*.toml against its small cases in fixtures/rules (tests/judge/rule_cases.py).

A new rule needs no code here: its cases are found, and test_rule says which are missing.
`pytest -k VLL900` runs all that there is about one rule.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from draftcheck.judge.compare import compare
from draftcheck.judge.condensed import token_tables
from draftcheck.judge.decide import Question, judge_methods
from draftcheck.rulebook import book
from draftcheck.rulebook.book import Engine, Rule
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.facts import ModelFacts
from draftcheck.values.verdicts import EngineVerdict
from draftcheck.values.words import Outcome, Reaction, Severity, Verdict
from tests.judge.rule_cases import (
    FOLDER,
    OUTCOMES,
    Case,
    asked_rows,
    cases,
    cases_of,
    finding,
    rows,
)
from tests.judge.test_condensed import heart, through_notes
from tests.scan import golden_verdicts

LARGEST = 4400
"""Bytes; most files are far smaller."""

ONLY_UNKNOWN = {
    "llama_load_is_known": "says that the facts suffice or not; nothing can fail",
    "llama_taken_for": "another method must be asked for",
    "draft_cuts_no_finer": "which side needs more tokens depends on the prompt",
    "pipeline_not_read": "what the engine does with stages was not found out",
    "target_recurrent_not_read": "what the engine does with such layers was not found out",
    "draft_recurrent_not_read": "what the engine does with such layers was not found out",
    "recurrent_not_read": "what the engine does with such layers was not found out",
    "target_type_told": "a list that is not all there is",
    "target_not_read": "what the engine does with such a target hangs on what is not read",
    "family_came_later_not_read": "the engine may run such a model in another way",
    "target_option_not_read": "whether the option is given is not read",
    "draft_kind_not_read": "what the engine does with such drafts was not found out",
    "weights_within_gpus": "what the engine does with too many weights was not found out",
    "multimodal_not_read": "what the engine does with such targets was not found out",
    "capability_not_read": "what the engine does on such GPUs was not found out",
    "draft_cache_not_read": "whether the option is given is not read",
    "quantization_not_read": "what the engine does with such weights was not found out",
    "kv_dtype_not_read": "what the engine does with such a cache was not found out",
    "kv_dtype_by_gpu": "what the engine does with such a cache was not found out",
    "attention_not_read": "what the engine does with such a target was not found out",
    "float32_not_read": "what the engine does with such a target was not found out",
    "head_size_not_read": "whether the V0 engine is taken instead hangs on the GPU",
    "own_stages_not_read": "whether there are MTP layers beside the stages is not read",
    "gpu_maker_not_read": "what the engine does on such GPUs was not found out",
}
NEEDS_NO_FACTS = {
    "name_picks_method": "the name is the reference itself",
    "dtype_known": "the word is the option itself",
    "draft_name_dotted": "the name is the reference itself",
}


TYPE_NOT_ASKED = {
    "LCP104/fail-mistral4-b8387": "the converter itself takes a missing type for another",
    **dict.fromkeys(
        (
            "VLL117/pass-gemma4-assistant-as-draft-model-0.21.0",
            "VLL117/pass-gemma4-assistant-as-draft-model-0.33.0",
            "VLL117/pass-gemma4-unified-assistant-as-draft-model-0.23.0",
            "VLL102/fail-as-draft-model-0.32.0",
            "VLL360/fail-medusa-as-draft-model-0.33.0",
            "VLL360/pass-before-as-draft-model-0.32.0",
        ),
        "by its type alone the engine takes the draft for another kind",
    ),
}


@cache
def rows_by_id() -> dict[str, list[tuple[Engine | None, Rule]]]:
    found: dict[str, list[tuple[Engine | None, Rule]]] = {}
    for engine, rule in rows():
        found.setdefault(rule.id, []).append((engine, rule))
    return found


STAND_IN = re.compile(r"~[0-9a-f]{16}\.")
"""What condensed facts have in place of a token's text: nobody is shown it."""


@pytest.mark.parametrize("rule", sorted(rows_by_id()))
def test_rule(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cases say what their names promise, from whole and from condensed facts; none lacks."""
    monkeypatch.setattr(token_tables, "SMALL", 0)  # stand-ins even for the tiny tables of cases
    for case in cases_of(rule):
        assert_as_written(case)
        condensed = judge_methods(through_notes(case.comparison), case.question())
        assert list(map(heart, condensed)) == list(map(heart, case.verdicts)), case.name
        shown = [one.saw for verdict in condensed for one in verdict.findings]
        assert not [saw for saw in shown if STAND_IN.search(saw)], case.name
    missing = list(missing_cases(rule, rows_by_id()[rule], cases_of(rule)))
    assert not missing, "\n" + "\n".join(missing)


def assert_as_written(case: Case) -> None:
    """The file is small, the rule sees what the name says, and the whole verdict is as written."""
    assert case.path.stat().st_size <= LARGEST, case.name
    assert case.kind in OUTCOMES, case.name
    verdict = case.verdict
    found = finding(verdict, case.rule)
    if case.asked:
        assert found is not None, f"{case.name} is not asked or does not apply: {verdict.notes}"
        assert found.outcome == OUTCOMES[case.kind], f"{case.name}: {found.saw}"
    else:
        assert found is None, case.name
        assert case.rule not in {rule.id for rule in asked_rows(verdict)}, case.name
    assert verdict.reason or verdict.verdict is Verdict.COMPATIBLE, f"{case.name}: no reason"
    seen = (str(verdict.reaction), verdict.decided_by, str(verdict.verdict))
    assert seen == tuple(case.body[name] for name in ("reaction", "decided_by", "verdict")), [
        case.name,
        *(
            f"{entry.rule} {entry.outcome}: {entry.saw}"
            for entry in verdict.findings
            if entry.outcome is not Outcome.OK
        ),
    ]


@pytest.mark.parametrize(
    ("name", "later"),
    [
        ("EXC022/fail-", "EXC016"),
        ("TAB020/fail-", "TAB014"),
        ("LCP150/fail-fp8-heads-of-16-", "LCP151"),
        ("LCP151/fail-heads-of-both-", "LCP155"),
        ("SGL320/fail-no-layers-", "SGL240"),
        ("VLL480/unknown-mi300x-gptq-", "VLL322"),
        ("VLL117/fail-ernie-0.10.1", "VLL371"),
    ],
)
def test_what_an_engine_never_comes_to_is_not_said(name: str, later: str) -> None:
    """Where the engine has stopped at one thing, the next is not promised."""
    (case,) = (case for case in cases_of(name[:6]) if case.name.startswith(name))
    assert finding(case.verdict, later) is None


@pytest.mark.parametrize(
    ("case", "later"),
    [
        ("LCP232/fail-dspark-as-eagle3-b10162", "LCP220"),
        ("LCP133/fail-head-class-with-norms-of-states", "LCP233"),
        ("LCP104/fail-eagle3-with-md-alone-b9605", "LCP010"),
        ("LCP004/fail-recurrent-draft", "LCP162"),
        ("LCP207/fail-plain-model-for-qwen2", "LCP222"),
        ("LCP221/fail-eagle3-wider-than-the-target", "LCP204"),
        ("LCP228/fail-plain-model", "LCP226"),
    ],
)
def test_nothing_is_promised_after_the_end(case: str, later: str) -> None:
    """Where a file does not load or a draft is dropped, rows about what follows say nothing."""
    (found,) = (one for one in cases_of(case.partition("/")[0]) if one.name == case)
    assert finding(found.verdict, later) is None


@pytest.mark.parametrize("side", ["target", "draft"])
def test_a_missing_type_is_no_other_family(side: str) -> None:
    """Without a model_type a rule says what it said, or that it does not know."""
    wrong = []
    for case in cases():
        body = untyped(case.body, side)
        if not case.asked or body is None or case.name in TYPE_NOT_ASKED:
            continue
        verdict = replace(case, body=body).verdict
        found = finding(verdict, case.rule)
        if found is None:  # then another rule must not know
            fine = verdict.verdict is Verdict.UNDECIDED
        else:
            fine = found.outcome in (Outcome.UNKNOWN, OUTCOMES[case.kind])
        if not fine:
            wrong.append(f"{case.name}: {found.saw if found else 'not said'}")
    assert not wrong, "\n".join(wrong)


def untyped(body: dict[str, Any], side: str) -> dict[str, Any] | None:
    """The case without that side's model_type; None where a GGUF file has it in a key."""
    facts = body.get(side, {})
    config = facts.get("config", {})
    if facts.get("kind") == "gguf" or "gguf" in facts or "model_type" not in config:
        return None
    told = ("model_type", "outer_type", "recurrent", "positions")
    kept = {name: value for name, value in config.items() if name not in told}
    return {**body, side: {**facts, "config": kept}}


def test_verdicts_change_only_with_rules_or_judging() -> None:
    golden = json.loads(golden_verdicts.FILE.read_text(encoding="utf-8"))
    now = golden_verdicts.now()
    changed = golden_verdicts.unexplained(golden, now)
    assert not changed, (
        f"{len(changed)} cases say something else, such as {changed[0]}:"
        " raise JUDGING in scan/rules_digest.py, then make golden"
    )
    stale = [part for part in now if golden[part] != now[part]]
    assert not stale, f"fixtures/verdicts.json is out of date ({', '.join(stale)}): make golden"


# ---- completeness ----


def test_every_folder_belongs_to_a_rule() -> None:
    assert {path.name for path in FOLDER.iterdir()} <= rows_by_id().keys()


def missing_cases(
    name: str, own_rows: list[tuple[Engine | None, Rule]], own_cases: Sequence[Case]
) -> Iterator[str]:
    """What to add: a pass and a fail, a fail inside each row's window, both sides of each edge."""
    kinds = {case.kind for case in own_cases}
    if "pass" not in kinds and not any(always_fails(rule) for _, rule in own_rows):
        yield f"add fixtures/rules/{name}/pass-….json"
    failing = "unknown" if own_rows[0][1].check in ONLY_UNKNOWN else "fail"
    if failing not in kinds:
        yield f"add fixtures/rules/{name}/{failing}-….json"
    for engine, rule in own_rows:
        kind = "unknown" if rule.check in ONLY_UNKNOWN else "fail"
        verdicts = [case.verdict for case in own_cases if case.kind == kind]
        if not any(rule is row for verdict in verdicts for row in asked_rows(verdict)):
            window = f"from {rule.since or 'the first version'} until {rule.until or 'now'}"
            methods = f", methods {', '.join(rule.methods)}" if rule.methods else ""
            yield f"add fixtures/rules/{name}/{kind}-….json {window}{methods}"
        if engine is not None:
            yield from missing_edges(engine, rule, own_cases)


def missing_edges(engine: Engine, rule: Rule, own_cases: Sequence[Case]) -> Iterator[str]:
    """Each version from which a row holds, or does not any more, has a case there and before."""
    at = {engine.order(case.version) for case in own_cases}
    for edge in filter(None, (rule.since, rule.until)):
        version = edge.removeprefix("<=")
        here = engine.order(version)
        if here <= engine.order(engine.oldest):
            continue
        if here not in at:
            yield f"add fixtures/rules/{rule.id}/…-{version}.json: no case at {edge}"
        before = here - 1 in at if engine.versions == "build" else any(v < here for v in at)
        if not before:
            yield f"add fixtures/rules/{rule.id}/….json: no case just before {edge}"


def always_fails(row: Rule) -> bool:
    """A remark about every version and method of an engine: no pair passes it."""
    return row.check == "always" and not (row.since or row.until or row.methods)


def test_what_is_missing_is_said() -> None:
    """Without any case, a rule with a window needs a pass, a fail in it, and its edges."""
    engine = book.load("vllm")
    edged = next(
        rule
        for rule in engine.rules
        if rule.since and engine.order(rule.since.removeprefix("<=")) > engine.order(engine.oldest)
    )
    missing = list(missing_cases(edged.id, [(engine, edged)], []))
    folder = f"add fixtures/rules/{edged.id}"
    assert missing[:2] == [f"{folder}/pass-….json", f"{folder}/fail-….json"]
    assert missing[2].startswith(f"{folder}/fail-….json from {edged.since} until")
    assert missing[3:5] == [
        f"{folder}/…-{edged.since}.json: no case at {edged.since}",
        f"{folder}/….json: no case just before {edged.since}",
    ]


# ---- rows ----


def test_a_note_leaves_the_engine_running() -> None:
    notes = [rule for _, rule in rows() if rule.severity is Severity.NOTE]
    assert notes and not [rule.id for rule in notes if rule.reaction is not Reaction.RUNS]


def test_nothing_read_is_never_ok() -> None:
    """With no fact read at all, every row is asked, and none says that all is well."""
    wrong = []
    for engine, rule in rows():
        engine = engine or book.load("vllm")
        method = rule.methods[0] if rule.methods else None
        offered = [row.since or engine.oldest for row in engine.methods if row.id == method]
        oldest = min(offered, key=engine.order, default=engine.oldest)
        version = engine.checked if rule.until is None else rule.since or oldest
        verdict = nothing_read(engine.id, version.removeprefix("<="), method)
        if not any(rule is row for row in asked_rows(verdict)):
            wrong.append(f"{rule.id} is not asked at {version}")
        found = finding(verdict, rule.id)
        if rule.check not in NEEDS_NO_FACTS and found and found.outcome is Outcome.OK:
            wrong.append(f"{rule.id} is ok at {version}: {found.saw}")
    assert not wrong, "\n".join(wrong)


@cache
def nothing_read(engine: str, version: str, method: str | None) -> EngineVerdict:
    target, draft = (ModelFacts(ref=f"org/{name}", kind="folder") for name in ("big", "small"))
    question = Question(engine, version, method, Circumstances(tensor_parallel=2))
    return judge_methods(compare(target, draft), question)[0]


def test_allowances_are_used() -> None:
    checks = {rule.check for _, rule in rows()}
    assert checks >= NEEDS_NO_FACTS.keys() | ONLY_UNKNOWN.keys()
