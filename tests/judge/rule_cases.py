"""The cases in fixtures/rules: one folder per rule id, one file per case.

A file holds two sets of facts, a question (engine@version, method, circumstances) and what the
whole verdict must be: reaction, decided_by, verdict. The first word of its name is the outcome of
the folder's rule: pass, fail or unknown. pass-before-, pass-after- and pass-other-method- say that
the rule is not asked there. CONTRIBUTING.md shows one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from unittest import mock

from draftcheck import versions
from draftcheck.judge import tokenizers_agree
from draftcheck.judge.compare import compare
from draftcheck.judge.decide import Question, active, judge_methods
from draftcheck.memory import gpus
from draftcheck.models import stored
from draftcheck.rulebook import book
from draftcheck.rulebook.book import Engine, Rule
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import ModelFacts
from draftcheck.values.verdicts import EngineVerdict, Finding
from draftcheck.values.words import Outcome

FOLDER = Path(__file__).parents[2] / "fixtures" / "rules"
OUTCOMES = {"pass": Outcome.OK, "fail": Outcome.FAIL, "unknown": Outcome.UNKNOWN}
NOT_ASKED = ("pass-before-", "pass-after-", "pass-other-method-")


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
        given = gpus.placed(Circumstances(**said))
        return Question(engine, version, self.body.get("method"), given)

    @cached_property
    def comparison(self) -> Comparison:
        target = self.facts("target")
        draft = self.facts("draft") if "draft" in self.body else None
        return compare(target, draft)

    @cached_property
    def verdicts(self) -> list[EngineVerdict]:
        with mock.patch.object(tokenizers_agree, "cut", _cut_once):
            return judge_methods(self.comparison, self.question())

    @property
    def verdict(self) -> EngineVerdict:
        return self.verdicts[0]


_real_cut = tokenizers_agree.cut
_cuts: dict[tuple[object, ...], tuple[list[int], list[int]] | None] = {}


def _cut_once(
    paths: tuple[str, str], text: str, *, special: bool = False
) -> tuple[list[int], list[int]] | None:
    """What the tokenizers library says in a process of its own, asked once for the same files."""
    digests = [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths]
    key = (*digests, text, special)
    if key not in _cuts:
        _cuts[key] = _real_cut(paths, text, special=special)
    return _cuts[key]


@cache
def cases_of(rule: str) -> tuple[Case, ...]:
    files = sorted((FOLDER / rule).glob("*.json"))
    return tuple(Case(file, json.loads(file.read_text(encoding="utf-8"))) for file in files)


@cache
def cases() -> tuple[Case, ...]:
    return tuple(case for folder in sorted(FOLDER.iterdir()) for case in cases_of(folder.name))


def rows() -> Iterator[tuple[Engine | None, Rule]]:
    """Every row with its engine; no engine for the rules that hold everywhere."""
    for name in sorted(book.engine_files()):
        engine = book.load(name)
        yield from ((engine, rule) for rule in engine.rules)
    yield from ((None, rule) for rule in book.truth())


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
