"""Code that says something else about the same facts and rules raises JUDGING."""

from __future__ import annotations

from typing import Any

import pytest

from draftcheck.rulebook import book
from draftcheck.scan import rules_digest
from tests.scan import golden_verdicts


def test_a_change_of_code_is_told_from_a_change_of_rules() -> None:
    name, engine = next(iter(golden_verdicts.engines().items()))
    golden = {"judging": 1, "rules": {engine: "r"}, "cases": {name: "old"}}
    now: dict[str, Any] = {"judging": 1, "rules": {engine: "r"}, "cases": {name: "new"}}
    assert golden_verdicts.unexplained(golden, now) == [name]
    assert golden_verdicts.unexplained(golden, {**now, "judging": 2}) == []
    assert golden_verdicts.unexplained(golden, {**now, "rules": {engine: "s"}}) == []
    assert golden_verdicts.unexplained(golden, {**now, "cases": {name: "old"}}) == []
    assert golden_verdicts.unexplained({**golden, "cases": {}}, now) == [], "a new case"


def test_raising_the_number_changes_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = rules_digest.rules_digest("vllm")
    monkeypatch.setattr(rules_digest, "JUDGING", rules_digest.JUDGING + 1)
    rules_digest.rules_digest.cache_clear()
    assert rules_digest.rules_digest("vllm") != before
    rules_digest.rules_digest.cache_clear()


def test_the_digest_is_of_values_not_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "vllm"
    before = rules_digest.values_digest(name)
    engine = book.load(name)
    again = book.Engine(**{f: getattr(engine, f) for f in reversed(engine.__struct_fields__)})
    monkeypatch.setattr(book, "load", lambda _: again)
    assert rules_digest.values_digest(name) == before
    rule = engine.rules[0]
    others = {f: getattr(rule, f) for f in rule.__struct_fields__}
    changed = book.Rule(**{**others, "until": "99"})
    parts = {f: getattr(engine, f) for f in engine.__struct_fields__}
    other = book.Engine(**{**parts, "rules": (changed, *engine.rules[1:])})
    monkeypatch.setattr(book, "load", lambda _: other)
    assert rules_digest.values_digest(name) != before
