"""One deployment and what is known of its models -> the verdict and its findings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from draftcheck.deploy.deployment import Deployment
from draftcheck.errors import UsageError
from draftcheck.gate.known_models import KnownModel
from draftcheck.gate.results import gate_finding
from draftcheck.judge import repairs
from draftcheck.judge.compare import compare
from draftcheck.judge.decide import BEST_FIRST, Question, judge
from draftcheck.memory import gpus
from draftcheck.rulebook import book
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import ModelFacts
from draftcheck.values.findings import FilePlace, Finding
from draftcheck.values.verdicts import EngineVerdict
from draftcheck.values.words import Outcome, Severity, Verdict

WAYS = 3
"""Ways out that a finding tells."""
HEADS = re.compile(r"eagle|medusa|speculator|accelerator|mtp|nextn|dflash|dspark", re.IGNORECASE)
"""Names of drafts for which an engine that is told no method may choose another one."""


@dataclass(frozen=True, slots=True)
class DeploymentQuestion:
    """What one deployment asks the judge."""

    question: Question
    told: str = ""
    """Where the version stands; empty: it is not known."""
    doubt: str = ""
    """Why the version is not known."""


def ask(deployment: Deployment, versions: Mapping[str, str], gpu: str | None) -> DeploymentQuestion:
    """The question; versions: what the manifest or the command line says where a file does not.

    A UsageError says what of the circumstances makes no sense.
    """
    engine = book.load(deployment.engine)
    text, told, doubt = deployment.version, deployment.version_from, ""
    if text is None and deployment.engine in versions:
        text, told = versions[deployment.engine], "said for the gate"
    if text is None:
        doubt = deployment.version_note or "nothing in or beside the file says it"
        told = ""
    try:
        version = engine.version(text)
    except UsageError as error:
        version, told, doubt = engine.checked, "", error.message
    circumstances = gpus.placed(Circumstances(**{"gpu": gpu, **deployment.circumstances}))
    return DeploymentQuestion(
        Question(engine.id, version, deployment.method, circumstances), told, doubt
    )


class DeploymentJudge:
    """Judges each pair and question once."""

    def __init__(self) -> None:
        self._done: dict[tuple[Any, ...], EngineVerdict] = {}

    def whatever(self, deployment: Deployment, question: Question) -> EngineVerdict | None:
        """The verdict if it is the same for all models: the version cannot speculate like this."""
        names = [word.text for word in (deployment.target, deployment.draft) if word is not None]
        guessed = len(set(names)) < 2 or HEADS.search(names[-1]) is not None
        if deployment.draft is None or (question.method is None and guessed):
            return None
        key = (*names, repr(question))
        if key not in self._done:
            target, draft = (ModelFacts(name, "hub") for name in names)
            self._done[key] = _judge(compare(target, draft), question)
        verdict = self._done[key]
        return verdict if _errors(_failed(verdict)) else None

    def verdict(
        self,
        target: KnownModel,
        draft: KnownModel | None,
        comparison: Comparison,
        question: Question,
    ) -> EngineVerdict:
        key = (target.key, draft.key if draft else None, repr(question))
        if key not in self._done:
            self._done[key] = _judge(comparison, question)
        return self._done[key]


def _judge(comparison: Comparison, question: Question) -> EngineVerdict:
    pair = judge(comparison, [question], explicit=True)
    # Other methods and versions are tried by `draftcheck pair`; here only known ways out are told.
    pair = repairs.add(pair, [question], explicit=False)
    return min(pair.engines, key=lambda entry: BEST_FIRST.index(entry.verdict))


def findings(verdict: EngineVerdict, place: FilePlace, setup: int) -> Iterator[Finding]:
    """What there is to say about a pair."""
    failed = _failed(verdict)
    for finding in failed:
        yield replace(_advised(finding, verdict), place=place, setup=setup)
    if verdict.verdict is Verdict.INCOMPATIBLE and not _errors(failed):
        yield gate_finding("GAT007", place, "; ".join(verdict.notes), setup=setup)
    if verdict.verdict is Verdict.UNDECIDED:
        yield gate_finding("GAT006", place, _undecided(verdict), setup=setup)


def _failed(verdict: EngineVerdict) -> list[Finding]:
    return [finding for finding in verdict.findings if finding.outcome is Outcome.FAIL]


def _errors(failed: list[Finding]) -> bool:
    return any(finding.severity is Severity.ERROR for finding in failed)


def _undecided(verdict: EngineVerdict) -> str:
    """What was missing, with the rules that wanted it."""
    reasons: dict[str, list[str]] = {}
    for finding in verdict.findings:
        if finding.outcome is Outcome.UNKNOWN and finding.severity is Severity.ERROR:
            reasons.setdefault(finding.saw, []).append(finding.rule)
    told = [f"{saw} ({', '.join(rules)})" for saw, rules in reasons.items()]
    return "; ".join([*told, *verdict.notes]) or "nothing more is known"


def _advised(finding: Finding, verdict: EngineVerdict) -> Finding:
    """The same with ways out behind its fix, and the engine's own words behind its reason."""
    fix = finding.fix
    if finding.severity is Severity.ERROR and verdict.repairs:
        ways = dict.fromkeys(repair.title for repair in verdict.repairs)
        fix = f"{fix} Ways out: {'; '.join(list(ways)[:WAYS])}."
    why = finding.why
    if finding.engine_says and finding.severity is not Severity.NOTE:
        why = f"{why} It says: {finding.engine_says}"
    return replace(finding, why=why, fix=fix)
