"""The gate: every setup of every file held against what is known of its models. A run, in order:

1. survey.py lists the files, reads their deployments, and adds the pairs, paths and versions of
   draftcheck.toml (manifest.py) and the comments that ignore a finding (ignores.py).
2. lock/format.py reads draftcheck.lock: the models and pairs that can be believed.
3. For each deployment that speculates, known_models.py tells which models its words mean, and what
   is known of them: from the lock, from this disk, or from the Hub.
4. The judge is asked about the pair, on the engine and version that the file means;
   minimums.py holds a recorded trial against what the manifest asks for.
5. What deploy/ found in the file, the verdict's findings and the lock's flaws become one list, each
   at its place, ignored ones marked: the GateReport (results.py). fixing.py applies its changes.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from draftcheck import versions
from draftcheck.deploy import discover
from draftcheck.deploy.deployment import Deployment
from draftcheck.errors import DraftcheckError, UsageError
from draftcheck.gate import ignores, known_models, minimums, survey
from draftcheck.gate.known_models import KnownModel, MissingModel, ModelReader
from draftcheck.gate.lock import format as locks
from draftcheck.gate.lock.format import GateLock
from draftcheck.gate.results import CheckedDeployment, GateReport, gate_finding
from draftcheck.gate.survey import DeploySurvey, SurveyedDeployment, SurveyedFile
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
from draftcheck.values.words import Outcome, Reaction, Severity, Verdict

HEADS = re.compile(r"eagle|medusa|speculator|accelerator|mtp|nextn|dflash|dspark", re.IGNORECASE)
"""Names of drafts for which an engine that is told no method may choose another one."""


MOST_NAMED = 20
"""Files that a finding lists."""


@dataclass(frozen=True, slots=True)
class GateRequest:
    """What `draftcheck gate` is asked for."""

    paths: tuple[str, ...] = ()
    """Files and folders; none: all that git has here."""
    diff_base: str | None = None
    """Only files that changed since this revision."""
    online: bool = False
    """Whether models that the lock does not have are read from the Hub."""
    lock: Path | None = None
    """Another file than draftcheck.lock at the root."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Engine -> version where no file tells it."""


@dataclass(frozen=True, slots=True)
class GateRun:
    """A report, and the files that it is about."""

    report: GateReport
    survey: DeploySurvey


def run(request: GateRequest) -> GateRun:
    surveyed = survey.take(request.paths, request.diff_base, request.versions)
    path = request.lock or surveyed.root / locks.NAME
    lock = locks.load(path)
    models = ModelReader(lock, online=request.online)
    report = _Gate(surveyed, lock, models, discover.shown(path)).report()
    return GateRun(report, surveyed)


class _Gate:
    def __init__(
        self, surveyed: DeploySurvey, lock: GateLock | None, models: ModelReader, lock_name: str
    ) -> None:
        self._survey, self._lock, self._models = surveyed, lock, models
        self._lock_name = lock_name
        self._judge = DeploymentJudge()
        self._setups: list[CheckedDeployment] = []
        self._missing: dict[tuple[str, FilePlace], str] = {}
        self._idle = 0

    def report(self) -> GateReport:
        findings: list[Finding] = []
        for file in self._survey.files:
            findings += self._file(file)
        told = [file.name for file in self._survey.files if file.mentions]
        if names := sorted(told):
            more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            saw = ", ".join(names[:MOST_NAMED]) + more
            findings.append(gate_finding("GAT018", FilePlace(names[0], 1), saw))
        for flaw in self._lock.flaws.values() if self._lock is not None else ():
            place = FilePlace(self._lock_name, flaw.line)
            findings.append(gate_finding(flaw.rule, place, flaw.saw))
        # Two commands may share the words of a variable: what is wrong with them is said once.
        once = {(f.rule, f.place, f.saw): f for f in reversed(findings)}
        findings = _ignored(list(reversed(once.values())), self._survey)
        keys = [self._missing.get((f.rule, f.place)) for f in findings if f.ignored is None]
        return GateReport(
            looked_at=self._survey.looked_at,
            setups=tuple(self._setups),
            findings=tuple(
                sorted(findings, key=lambda f: (f.place.file, f.place.line, f.place.column, f.rule))
            ),
            idle=self._idle,
            recipes=sum(file.recipes for file in self._survey.files),
            lock=self._lock_name if self._lock is not None else None,
            missing=tuple(dict.fromkeys(key for key in keys if key is not None)),
        )

    def _file(self, file: SurveyedFile) -> list[Finding]:
        findings: list[tuple[Finding, int | None]] = [(f, None) for f in file.findings]
        for setup in file.setups:
            number = len(self._setups) if setup.deployment.speculates else None
            about = [replace(finding, setup=number) for finding in setup.deployment.findings]
            if number is None:
                self._idle += 1
            else:
                about += self._setup(setup, number)
            findings += [(finding, setup.deployment.place.line) for finding in about]
        return ignores.apply(findings, file.ignores)

    def _setup(self, setup: SurveyedDeployment, number: int) -> list[Finding]:
        """The findings on one setup; it is added to those that were checked."""
        deployment = setup.deployment
        assumed = "" if deployment.fork else book.load(deployment.engine).checked
        said = setup.versions.get(deployment.engine)
        checked = CheckedDeployment(
            deployment.place,
            deployment.engine,
            Verdict.UNDECIDED,
            deployment.version or said or assumed or None,
            deployment.version_from,
            deployment.method,
            target=deployment.target.text if deployment.target else None,
            draft=deployment.draft.text if deployment.draft else None,
            name=deployment.name,
            fork=deployment.fork,
        )
        findings = list(_unclear(deployment, number))
        try:
            if not findings:
                checked, findings = self._pair(setup, checked, number)
        except DraftcheckError as error:
            findings.append(gate_finding("GAT006", deployment.place, error.message, setup=number))
        self._setups.append(checked)
        return findings

    def _pair(
        self, setup: SurveyedDeployment, checked: CheckedDeployment, number: int
    ) -> tuple[CheckedDeployment, list[Finding]]:
        deployment = setup.deployment
        question, told, doubt = ask(deployment, setup.versions, setup.gpu)
        checked = replace(checked, version=question.version, version_from=told)
        findings: list[Finding] = []
        if doubt:
            saw = f"{doubt}; judged as {question.engine} {question.version}"
            findings.append(gate_finding("GAT015", deployment.place, saw, setup=number))
        sides: list[KnownModel] = []
        for word in filter(None, (deployment.target, deployment.draft)):
            reference = known_models.of_word(word, self._survey.root, setup.paths)
            known = self._models.get(reference)
            if isinstance(known, MissingModel):
                findings.append(self._not_known(known, word.place, number))
            else:
                sides.append(known)
        if len(sides) < (1 if deployment.draft is None else 2):
            # What is wrong whatever the models are, where the file's own findings do not say it.
            said = any(finding.rule in ("FIL002", "FIL006") for finding in deployment.findings)
            sure = None if said else self._judge.whatever(deployment, question)
            if sure is not None and deployment.draft is not None:
                about = _verdict_findings(sure, deployment.draft.place, number)
                errors = [finding for finding in about if finding.severity is Severity.ERROR]
                if doubt:  # another version may well do it
                    unsaid = "which version runs here is not said"
                    held = f"{question.engine} {question.version}"
                    findings += [
                        replace(
                            f, severity=Severity.NOTE, saw=f"{f.saw}: holds for {held}; {unsaid}"
                        )
                        for f in errors
                    ]
                    return checked, findings
                findings += errors
                reaction = str(sure.reaction)
                checked = replace(
                    checked, verdict=sure.verdict, method=sure.method, reaction=reaction
                )
            return checked, findings
        target, draft = sides[0], sides[1] if deployment.draft is not None else None
        comparison = self._models.compare(target, draft, deployment.engine)
        place = deployment.draft.place if deployment.draft else deployment.place
        if isinstance(comparison, MissingModel):
            findings.append(self._not_known(comparison, place, number))
            return checked, findings
        verdict = self._judge.verdict(
            (target.key, draft.key if draft else None), comparison, question
        )
        findings += _verdict_findings(verdict, place, number)
        checked = replace(
            checked,
            verdict=verdict.verdict,
            method=verdict.method or checked.method,
            reaction=str(verdict.reaction),
            target=target.key,
            draft=draft.key if draft is not None else None,
        )
        if setup.wanted.min_acceptance is not None or setup.wanted.min_speedup is not None:
            trial, complaints = minimums.check(
                deployment.name, setup.wanted, target, draft, self._lock, self._survey.root
            )
            checked = replace(checked, trial=trial.body if trial is not None else None)
            findings += [
                gate_finding(rule, place, saw, fix=fix, setup=number)
                for rule, saw, fix in complaints
            ]
        return checked, findings

    def _not_known(self, missing: MissingModel, place: FilePlace, number: int) -> Finding:
        self._missing[missing.rule, place] = missing.key
        return gate_finding(missing.rule, place, missing.saw, setup=number)


def _unclear(deployment: Deployment, number: int) -> Iterator[Finding]:
    """Why the pair cannot even be looked for."""
    if deployment.fork:
        saw = f"{deployment.fork}, a fork of {deployment.engine}, told by {deployment.fork_from}"
        yield gate_finding("GAT016", deployment.place, saw, setup=number)
        return
    if deployment.seen:
        yield gate_finding("GAT017", deployment.place, deployment.seen, setup=number)
        return
    if deployment.part and (deployment.unknown or deployment.target is None):
        saw = "; ".join(each.text for each in deployment.unknown) or "no model is named here"
        yield gate_finding("GAT017", deployment.place, saw, setup=number)
        return
    for trouble in deployment.unknown:
        yield gate_finding("GAT001", trouble.place, trouble.text, setup=number)
    if deployment.unknown:
        return
    if deployment.target is None:
        saw = "no model is named here, so the pair is not known"
        yield gate_finding("GAT001", deployment.place, saw, setup=number)
    for word in filter(None, (deployment.target, deployment.draft)):
        if word.unknown:
            saw = f"{word.unknown} is not defined in this file, so the model is not known"
            yield gate_finding("GAT001", word.place, saw, setup=number)


def _ignored(findings: list[Finding], surveyed: DeploySurvey) -> list[Finding]:
    """The same, with those marked that a manifest ignores, and its idle ignores reported."""
    rules = surveyed.ignores
    looked = {file.name for file in surveyed.files}
    used: set[int] = set()
    done = []
    for finding in findings:
        for number, (_, entry) in enumerate(rules):
            named = entry.rule.lower() in (finding.rule.lower(), finding.slug.lower())
            path = discover.from_root(finding.place.file, surveyed.root) if named else ""
            if finding.ignored is None and named and fnmatch.fnmatchcase(path, entry.file):
                used.add(number)
                finding = replace(finding, ignored=entry.reason)  # noqa: PLW2901
        done.append(finding)
    for number, (place, entry) in enumerate(rules):
        if number not in used and place.file in looked:
            saw = f"no finding of {entry.rule.upper()} in {entry.file}"
            done.append(gate_finding("GAT013", place, saw))
    return done


# ---- one deployment and what is known of its models -> the verdict and its findings ----


def ask(
    deployment: Deployment, versions: Mapping[str, str], gpu: str | None
) -> tuple[Question, str, str]:
    """What it asks the judge, where its version stands (or nothing), why that is not known.

    versions: what the manifest or the command line says where a file does not.
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
    return Question(engine.id, version, deployment.method, circumstances), told, doubt


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
        target, draft = (ModelFacts(name, "hub") for name in names)
        verdict = self.verdict(names, compare(target, draft), question)
        return verdict if _errors(_failed(verdict)) else None

    def verdict(
        self, names: Iterable[str | None], comparison: Comparison, question: Question
    ) -> EngineVerdict:
        key = (*names, repr(question))
        if key not in self._done:
            pair = judge(comparison, [question], explicit=True)
            # Other methods and versions are tried by `draftcheck pair`; here only known ways out.
            pair = repairs.add(pair, [question], explicit=False)
            best = min(pair.engines, key=lambda entry: BEST_FIRST.index(entry.verdict))
            self._done[key] = _not_named(best) if question.method is None else best
        return self._done[key]


def _not_named(verdict: EngineVerdict) -> EngineVerdict:
    """Left open where what was read holds only for a setup that names the method."""
    engine = book.load(verdict.engine)
    read = [
        row
        for row in engine.methods
        if row.id == verdict.method
        and versions.in_window(engine.order, verdict.version, row.named_only)
    ]
    if not read or verdict.verdict is not Verdict.INCOMPATIBLE:
        return verdict
    note = f"it names no method; what {verdict.engine} {verdict.version} does then was not read"
    findings = tuple(
        replace(finding, outcome=Outcome.UNKNOWN) if finding.outcome is Outcome.FAIL else finding
        for finding in verdict.findings
    )
    return replace(
        verdict, verdict=Verdict.UNDECIDED, reaction=Reaction.UNKNOWN, findings=findings,
        notes=(*verdict.notes, note), repairs=(),
    )  # fmt: skip


def _verdict_findings(verdict: EngineVerdict, place: FilePlace, setup: int) -> Iterator[Finding]:
    """What there is to say about a pair."""
    failed = _failed(verdict)
    for finding in failed:
        yield replace(_advised(finding, verdict), place=place, setup=setup)
    if verdict.verdict is Verdict.INCOMPATIBLE and not _errors(failed):
        yield gate_finding("GAT007", place, "; ".join(verdict.notes), setup=setup)
    if verdict.verdict is Verdict.UNDECIDED:
        missing: dict[str, list[str]] = {}  # and the rules that wanted it
        for finding in verdict.findings:
            if finding.outcome is Outcome.UNKNOWN and finding.severity is Severity.ERROR:
                missing.setdefault(finding.saw, []).append(finding.rule)
        told = [f"{saw} ({', '.join(rules)})" for saw, rules in missing.items()]
        saw = "; ".join([*told, *verdict.notes]) or "nothing more is known"
        yield gate_finding("GAT006", place, saw, setup=setup)


def _failed(verdict: EngineVerdict) -> list[Finding]:
    return [finding for finding in verdict.findings if finding.outcome is Outcome.FAIL]


def _errors(failed: list[Finding]) -> bool:
    return any(finding.severity is Severity.ERROR for finding in failed)


def _advised(finding: Finding, verdict: EngineVerdict) -> Finding:
    """The same with ways out behind its fix, and the engine's own words behind its reason."""
    fix = finding.fix
    if finding.severity is Severity.ERROR and verdict.repairs:
        ways = dict.fromkeys(repair.title for repair in verdict.repairs)
        fix = f"{fix} Ways out: {'; '.join(list(ways)[:3])}."
    why = finding.why
    if finding.engine_says and finding.severity is not Severity.NOTE:
        why = f"{why} It says: {finding.engine_says}"
    return replace(finding, why=why, fix=fix)
