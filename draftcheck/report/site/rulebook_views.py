"""The rulebook as the site shows it: an index, a page per engine, one for what holds everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import Any

from draftcheck.report.rulepages import TRUTH
from draftcheck.report.rules import KNOWN_BY, window
from draftcheck.report.site import names
from draftcheck.rulebook import book
from draftcheck.rulebook.book import Method, Rule


@cache
def pages() -> dict[str, str]:
    """Rule -> its page."""
    found = {rule.id: names.rules(TRUTH) for rule in book.truth()}
    for engine in book.engine_files():
        found |= {rule.id: names.rules(engine) for rule in book.load(engine).rules}
    return found


def index() -> list[dict[str, Any]]:
    rows = []
    for name in book.engine_files():
        engine = book.load(name)
        rows.append(
            {
                "page": names.rules(name),
                "name": engine.name,
                "span": f"{engine.oldest} to {engine.checked} ({engine.checked_on})",
                "methods": len({method.id for method in engine.methods}),
                "rules": len({rule.id for rule in engine.rules}),
            }
        )
    everyone = {"page": names.rules(TRUTH), "name": "every engine", "span": "", "methods": ""}
    return [*rows, {**everyone, "rules": len({rule.id for rule in book.truth()})}]


def page(engine: str | None) -> dict[str, Any]:
    """One engine's page; None: what holds for every engine."""
    if engine is None:
        return {
            "name": "Every engine",
            "lead": "What no engine can make work.",
            "methods": [],
            "rules": _rules(book.truth()),
            "repairs": book.truth_repairs(),
        }
    found = book.load(engine)
    return {
        "name": found.name,
        "lead": f"Read from {found.oldest} to {found.checked}, on {found.checked_on}. Newer"
        " versions are judged by the newest rules and marked as not verified.",
        "methods": [_method(method) for method in found.methods],
        "rules": _rules(found.rules),
        "repairs": found.repairs,
    }


def _method(method: Method) -> dict[str, Any]:
    takes = {"none": "no draft", "itself": "the target's own MTP layers"}
    return {
        "id": method.id,
        "takes": ", ".join(takes.get(kind, kind) for kind in method.drafts),
        "window": window(method),
        "known_by": KNOWN_BY[method.basis],
        "summary": method.summary,
    }


def _rules(rules: Sequence[Rule]) -> list[list[dict[str, Any]]]:
    """Rows of one id together: one rule in several windows."""
    ordered = sorted(rules, key=lambda rule: rule.id)
    return [[_rule(rule) for rule in group] for _, group in groupby(ordered, lambda rule: rule.id)]


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "title": rule.title,
        "window": window(rule),
        "methods": rule.methods,
        "severity": str(rule.severity),
        "reaction": str(rule.reaction),
        "says": rule.engine_says,
        "why": rule.why,
        "fix": rule.fix,
        "source": rule.source,
        "known_by": KNOWN_BY[rule.basis],
    }
