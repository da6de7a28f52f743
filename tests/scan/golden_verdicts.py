"""fixtures/verdicts.json: what the code says to every rule case. Written anew by `make golden`.

Stores keep verdicts beside a digest of the rules and JUDGING, a number that stands for the code.
So a change of verdicts that comes from code alone must raise that number, or stores keep what is
no longer said. This file makes such a change visible.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from draftcheck.report import pair as report
from draftcheck.rulebook import book
from draftcheck.scan import rules_digest
from tests.conftest import FIXTURES
from tests.judge.rule_cases import Case, cases

FILE = FIXTURES / "verdicts.json"


def now() -> dict[str, Any]:
    """The golden file as today's code and rules would write it."""
    return {
        "judging": rules_digest.JUDGING,
        "rules": {name: rules_digest.values_digest(name) for name in book.engine_files()},
        "cases": {case.name: _digest(case) for case in cases()},
    }


def engines() -> dict[str, str]:
    """Case -> its engine."""
    return {case.name: str(case.body["engine"]).partition("@")[0] for case in cases()}


def unexplained(golden: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Cases whose verdict changed although neither the rules nor JUDGING did."""
    if golden["judging"] != now["judging"]:
        return []
    by_case = engines()
    return [
        name
        for name, digest in now["cases"].items()
        if golden["cases"].get(name, digest) != digest
        and golden["rules"].get(by_case[name]) == now["rules"][by_case[name]]
    ]


def _digest(case: Case) -> str:
    """Of the engine's part of the JSON: the rest is facts, and draftcheck's own version."""
    text = report.dumps(report.engine(case.verdict))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


if __name__ == "__main__":
    FILE.write_text(json.dumps(now(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
