"""Rules x comparison -> findings -> reaction, verdict and setup text. Decides; never prints."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from draftcheck import rulebook, versions
from draftcheck.checks import CHECKS, llama
from draftcheck.errors import UsageError
from draftcheck.llama.vocab import LlamaVocab
from draftcheck.rulebook import Engine, Method, Rule
from draftcheck.types import (
    Comparison,
    EngineVerdict,
    Finding,
    ModelFacts,
    Outcome,
    PairVerdict,
    Reaction,
    Setup,
    Severity,
    Verdict,
)

LONGEST = 1000
"""Characters of what a check saw: texts of models can be of any length."""
BEST_FIRST = (Verdict.COMPATIBLE, Verdict.DEGRADED, Verdict.UNDECIDED, Verdict.INCOMPATIBLE)


@dataclass(frozen=True, slots=True)
class Question:
    """Which engine, and under which circumstances."""

    engine: str
    version: str | None = None
    method: str | None = None
    context: int | None = None
    tensor_parallel: int | None = None
    draft_tensor_parallel: int | None = None


def judge(comparison: Comparison, questions: Sequence[Question], *, explicit: bool) -> PairVerdict:
    """One verdict per question, and the pair's own.

    explicit: the user named the engines, so each counts; otherwise the best one does, and
    engines that do not load this kind of file are left out.
    """
    verdicts = tuple(
        judge_engine(comparison, question)
        for question in questions
        if explicit or _takes_format(comparison, rulebook.load(question.engine))
    )
    ranked = sorted((v.verdict for v in verdicts), key=BEST_FIRST.index)
    if not ranked:
        return PairVerdict(comparison, (), Verdict.UNDECIDED)
    return PairVerdict(comparison, verdicts, ranked[-1] if explicit else ranked[0])


def loaded(facts: ModelFacts) -> Mapping[str, object] | None:
    """What llama.cpp holds of this model's vocabulary after loading it; None for no GGUF."""
    if facts.gguf is None:
        return None
    engine = rulebook.load("llama.cpp")
    method = engine.methods[0]
    setup = _setup(engine, engine.checked, method, Question(engine.id))
    view = llama.load(facts, setup)
    if not isinstance(view, LlamaVocab):
        return {"build": engine.checked, "does not load": _cut(str(view))}
    return {
        "build": engine.checked,
        "type": view.type,
        "tokens": view.n,
        "bos": view.bos,
        "eos": view.eos,
        "add_bos": view.add_bos,
        "add_eos": view.add_eos,
    }


def _setup(engine: Engine, version: str, method: Method, question: Question) -> Setup:
    rules = active(engine, version, method)
    return Setup(
        engine=engine.id,
        version=version,
        method=method.id,
        order=engine.order,
        checked=engine.checked,
        tables=engine.tables,
        failures=frozenset(r.params["failure"] for r in rules if "failure" in r.params),
        context=question.context,
        tensor_parallel=question.tensor_parallel,
        draft_tensor_parallel=question.draft_tensor_parallel,
    )


def judge_engine(comparison: Comparison, question: Question) -> EngineVerdict:
    """What one engine, version and method will do with the pair, and what we say to it."""
    engine = rulebook.load(question.engine)
    version = engine.version(question.version)
    checked = engine.order(version) <= engine.order(engine.checked)
    method, note = _method(comparison, engine, version, question.method)
    if method is None:
        return EngineVerdict(
            engine.id, version, checked, question.method, Reaction.UNKNOWN, Verdict.UNDECIDED,
            notes=(note,),
        )  # fmt: skip
    setup = _setup(engine, version, method, question)
    own = [_finding(rule, comparison, setup) for rule in active(engine, version, method)]
    general = [_finding(rule, comparison, setup) for rule in _truth(method, comparison)]
    engine_findings = [finding for finding in own if finding is not None]
    findings = tuple(engine_findings + [finding for finding in general if finding is not None])
    reaction, decided_by = _reaction(engine_findings)
    verdict = _verdict(findings)
    return EngineVerdict(
        engine=engine.id,
        version=version,
        version_checked=checked,
        method=method.id,
        reaction=reaction,
        verdict=verdict,
        findings=findings,
        decided_by=decided_by,
        setup=_setup_text(method, comparison) if _usable(verdict) else None,
        notes=() if checked else (_not_verified(engine, version),),
    )


def active(engine: Engine, version: str, method: Method) -> list[Rule]:
    """The engine's rules that hold for this version and method, in the engine's order."""
    return [
        rule
        for rule in engine.rules
        if (not rule.methods or method.id in rule.methods)
        and versions.covers(engine.order, version, rule.since, rule.until)
    ]


def _truth(method: Method, comparison: Comparison) -> list[Rule]:
    """The rules that hold everywhere, less those that a method of this kind escapes."""
    spoken = method.vocabulary
    if spoken == "by-size":
        sizes = {comparison.target.config.vocab_size, comparison.draft.config.vocab_size}
        spoken = "translated" if len(sizes - {None}) == 2 else "shared"
    return [
        rule
        for rule in rulebook.truth()
        if rule.vocabulary in ("any", spoken)
        and (not rule.drafts or set(rule.drafts) & set(method.drafts))
    ]


def formats(comparison: Comparison) -> set[str]:
    """Which kinds of files the pair is made of."""
    sides = (comparison.target, comparison.draft)
    return {"gguf" if facts.gguf is not None else "folder" for facts in sides}


def _takes_format(comparison: Comparison, engine: Engine) -> bool:
    return any(formats(comparison) <= set(method.formats) for method in engine.methods)


def _method(
    comparison: Comparison, engine: Engine, version: str, wanted: str | None
) -> tuple[Method | None, str]:
    """The method to judge, or the reason why there is none."""
    if wanted is not None and wanted not in {method.id for method in engine.methods}:
        known = ", ".join(dict.fromkeys(method.id for method in engine.methods))
        raise UsageError(f"{engine.id} has no method {wanted!r}", hint=f"Known: {known}.")
    there = [
        method
        for method in engine.methods
        if versions.covers(engine.order, version, method.since, method.until)
        and (wanted is None or method.id == wanted)
    ]
    if not there:
        what = wanted or "speculation with a draft"
        return (
            None,
            f"{what} in {engine.name} {version}: older than what was read ({engine.oldest})",
        )
    fitting = [method for method in there if formats(comparison) <= set(method.formats)]
    if not fitting:
        kinds = " and ".join(sorted(formats(comparison)))
        return None, f"the rulebook does not cover {kinds} files with {engine.name}"
    if wanted is not None:
        return fitting[0], ""
    role = comparison.draft.role or "full"
    for method in fitting:
        if method.automatic and role in method.drafts:
            return method, ""
    return None, f"the rulebook has no method of {engine.name} for a draft of kind {role} yet"


def _finding(rule: Rule, comparison: Comparison, setup: Setup) -> Finding | None:
    seen = CHECKS[rule.check](comparison, setup, **rule.params)
    if seen.outcome is Outcome.NOT_APPLICABLE:
        return None
    return Finding(
        rule=rule.id,
        slug=rule.slug,
        title=rule.title,
        severity=rule.severity,
        outcome=seen.outcome,
        reaction=rule.reaction,
        saw=_cut(seen.saw),
        why=rule.why,
        fix=rule.fix,
        source=rule.source,
        basis=rule.basis,
        engine_says=rule.engine_says,
    )


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def _reaction(findings: Iterable[Finding]) -> tuple[Reaction, str | None]:
    """The first failed rule that keeps the engine from simply running decides."""
    doubtful = False
    for finding in findings:
        if finding.reaction is Reaction.RUNS:
            continue
        if finding.outcome is Outcome.FAIL and finding.severity is not Severity.NOTE:
            return finding.reaction, finding.rule
        if finding.severity is Severity.ERROR and finding.outcome is Outcome.UNKNOWN:
            doubtful = True
    return (Reaction.UNKNOWN if doubtful else Reaction.RUNS), None


def _verdict(findings: Iterable[Finding]) -> Verdict:
    seen = {(finding.severity, finding.outcome) for finding in findings}
    if (Severity.ERROR, Outcome.FAIL) in seen:
        return Verdict.INCOMPATIBLE
    if (Severity.ERROR, Outcome.UNKNOWN) in seen:
        return Verdict.UNDECIDED
    if (Severity.WARNING, Outcome.FAIL) in seen:
        return Verdict.DEGRADED
    return Verdict.COMPATIBLE


def _usable(verdict: Verdict) -> bool:
    return verdict in (Verdict.COMPATIBLE, Verdict.DEGRADED)


def _not_verified(engine: Engine, version: str) -> str:
    return (
        f"not verified for {engine.name} {version}: the rules were read up to {engine.checked}"
        f" ({engine.checked_on})"
    )


def _setup_text(method: Method, comparison: Comparison) -> str:
    """The commands or config to paste, with names quoted for where they stand."""
    steps, names = [], []
    for facts in (comparison.target, comparison.draft):
        name = facts.called
        if method.convert and facts.gguf is None:
            name = f"{PurePath(name).name}.gguf"
            step = method.convert.replace("{model}", shlex.quote(facts.called))
            steps.append(step.replace("{file}", shlex.quote(name)))
        names.append(name)
    target, draft = names
    values = {
        "{target}": shlex.quote(target),
        "{draft}": shlex.quote(draft),
        "{draft_json}": json.dumps(draft)[1:-1].replace("'", "'\\''"),
        "{target_python}": repr(target),
        "{draft_python}": repr(draft),
    }
    text = method.setup
    for name, value in values.items():
        text = text.replace(name, value)
    return "\n".join([*steps, text.strip()])
