"""Write a case to begin with: `make rule-case ID=VLL900 ENGINE=vllm@0.30.0 [METHOD=…] [KIND=fail]`.

The pair is made of the cases that are there. It begins with the pair that this version of the
engine likes best with this method: no rule fails, and the fewest lack a fact. Then each rule that
lacks one is asked what its own passing cases have, and the facts of the first that helps are taken
over. What comes out runs, every rule of today says ok to it, and only what the new rule looks at is
left to be changed.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from draftcheck.errors import DraftcheckError, UsageError
from draftcheck.judge.decide import usable
from draftcheck.rulebook import book
from draftcheck.rulebook.book import Rule
from draftcheck.values.verdicts import EngineVerdict, Finding
from draftcheck.values.words import Outcome
from tests.judge.rule_cases import FOLDER, OUTCOMES, Case, asked_rows, cases, cases_of, finding

SIDES = ("target", "draft")
STARTS = 12
"""Pairs that are begun with before it is given up."""
WIDTH = 96
"""Characters of a table that is written on one line."""
VERDICTS = {"runs": "degraded", "falls-back": "degraded"}
"""What we say of a pair that a rule fails, by the rule's reaction; else incompatible."""


def main(arguments: list[str] | None = None, folder: Path = FOLDER) -> int:
    parser = argparse.ArgumentParser(prog="make rule-case", description="Write a case to edit.")
    parser.add_argument("rule", help="VLL900")
    parser.add_argument("engine", help="vllm@0.30.0")
    parser.add_argument("--method", help="the engine's own word; default: the one it would choose")
    parser.add_argument("--kind", choices=sorted(OUTCOMES), default="pass")
    given = parser.parse_args(arguments)
    try:
        path, advice = write(given.rule, given.engine, given.method or None, given.kind, folder)
    except DraftcheckError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return 2
    print(f"{path}: {advice}")
    return 0


def write(
    rule: str, asked: str, method: str | None, kind: str, folder: Path = FOLDER
) -> tuple[Path, str]:
    """The new file, and what is left to do with it."""
    name, _, version = asked.partition("@")
    engine = book.load(name)
    version = engine.version(version or engine.checked)
    path = folder / rule / f"{kind}-{version}.json"
    if path.exists():
        raise UsageError(f"{path}: is there already")
    case, verdict = runnable_case(name, version, method)
    row = next((row for row in (*engine.rules, *book.truth()) if row.id == rule), None)
    body = {**_question(case), **_expected(verdict, row, kind)}
    body |= _sides(case.body)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(body), encoding="utf-8")
    return path, _advice(verdict, rule, kind, row)


def runnable_case(name: str, version: str, method: str | None) -> tuple[Case, EngineVerdict]:
    """A pair that the engine runs here without a doubt."""
    question = {"engine": f"{name}@{version}"} | ({"method": method} if method else {})
    tried = []
    for case in cases():
        if case.body["engine"].partition("@")[0] != name:
            continue
        moved = replace(case, body={**question, **_sides(case.body)})
        verdict = None if _needs_files(moved.body) else _judge(moved)
        if verdict is not None and not _failing(verdict):
            lacking = len(_outcomes(verdict, Outcome.UNKNOWN))
            draft = moved.body.get("draft", {})
            ordinary = draft.get("role") == "full" and not draft.get("head")
            order = (method is None and not ordinary, lacking, len(str(moved.body)), case.name)
            tried.append((order, moved))
    starts = [start for _, start in sorted(tried, key=lambda row: row[0])]
    for case in map(_filled, starts[:STARTS]):
        if usable(case.verdict.verdict) and not _not_ok(case.verdict):
            return case, case.verdict
    way = f" with {method}" if method else ""
    raise UsageError(f"no pair of the cases runs on {name} {version}{way} without a doubt")


def _filled(case: Case) -> Case:
    """The case with facts of other cases wherever a rule lacks one."""
    for lacking in _outcomes(case.verdict, Outcome.UNKNOWN):
        for other in cases_of(lacking.rule):
            moved = replace(case, body=_merged(case.body, _sides(other.body)))
            verdict = _judge(moved) if other.kind == "pass" and other.asked else None
            if verdict is not None and len(_not_ok(verdict)) < len(_not_ok(case.verdict)):
                case = moved
                break
    return case


def _judge(case: Case) -> EngineVerdict | None:
    """None where the method and the pair do not go together at all."""
    try:
        verdict = case.verdict
    except DraftcheckError:
        return None
    return verdict if verdict.findings else None


def _outcomes(verdict: EngineVerdict, outcome: Outcome) -> list[Finding]:
    return [found for found in verdict.findings if found.outcome is outcome]


def _failing(verdict: EngineVerdict) -> list[Finding]:
    """Without remarks that belong to the engine or the method, whatever the pair."""
    always = {row.id for row in asked_rows(verdict) if row.check == "always"}
    failing = _outcomes(verdict, Outcome.FAIL)
    return [found for found in failing if found.rule not in always]


def _not_ok(verdict: EngineVerdict) -> list[Finding]:
    return _failing(verdict) + _outcomes(verdict, Outcome.UNKNOWN)


def _sides(body: dict[str, Any]) -> dict[str, Any]:
    return {side: body[side] for side in SIDES if side in body}


def _merged(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Ours, and what only they have; a draft is never added."""
    added = {key: value for key, value in theirs.items() if key not in ours and key != "draft"}
    inner = {
        key: _merged(ours[key], value)
        for key, value in theirs.items()
        if isinstance(value, dict) and isinstance(ours.get(key), dict)
    }
    return {**ours, **inner, **added}


def _needs_files(body: dict[str, Any]) -> bool:
    """Whether a side names a tokenizer that lies beside its case."""
    return any("definition" in body.get(side, {}).get("tokenizer", {}) for side in SIDES)


def _question(case: Case) -> dict[str, Any]:
    return {name: case.body[name] for name in ("engine", "method") if name in case.body}


def _expected(verdict: EngineVerdict, row: Rule | None, kind: str) -> dict[str, Any]:
    """Of a pass, what is so today; of a fail, what the rule's row promises."""
    if kind != "fail" or row is None:
        reaction, decided_by, said = str(verdict.reaction), verdict.decided_by, verdict.verdict
        return {"reaction": reaction, "decided_by": decided_by, "verdict": str(said)}
    reaction = str(row.reaction)
    return {
        "reaction": reaction,
        "decided_by": None if reaction == "runs" else row.id,
        "verdict": VERDICTS.get(reaction, "incompatible"),
    }


def _advice(verdict: EngineVerdict, rule: str, kind: str, row: Rule | None) -> str:
    if row is None:
        return f"{rule} is in no rule file yet; then change the facts that it looks at"
    found = finding(verdict, rule)
    if found is not None and found.outcome is OUTCOMES[kind]:
        return f"{rule} says {found.outcome} already; cut away what it does not need"
    now = "is not asked here" if found is None else f"says {found.outcome}"
    return f"{rule} {now}; change the facts until it says {OUTCOMES[kind]}"


def text(body: dict[str, Any]) -> str:
    """JSON as the cases are written: one line for what fits on one."""
    return _pretty(body, 0) + "\n"


def _pretty(value: Any, depth: int) -> str:
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict) or (depth > 1 and len(line) <= WIDTH):
        return line
    inner = " " * (depth + 1)
    rows = [f"{inner}{json.dumps(key)}: {_pretty(item, depth + 1)}" for key, item in value.items()]
    return "{\n" + ",\n".join(rows) + "\n" + " " * depth + "}"


if __name__ == "__main__":
    sys.exit(main())
