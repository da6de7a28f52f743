"""Rules x comparison -> findings -> reaction, verdict and setup text. Decides; never prints.

For each engine and method: the rules of that version and method, and those that hold everywhere,
are held against the comparison, in the engine's own order. Each gives a finding or does not
apply. The first failed rule of the engine that keeps it from simply running tells its reaction;
the verdict is the worst that any finding says: an error that failed, one that could not be
checked, a warning that failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from draftcheck import versions
from draftcheck.judge import bind, commands
from draftcheck.judge.checks import see
from draftcheck.judge.checks.outcomes import NO_LENGTH
from draftcheck.judge.compare import compare
from draftcheck.judge.methods import choose, needs_no_draft, takes_format
from draftcheck.rulebook import book
from draftcheck.rulebook.book import Engine, Method, Rule
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.comparison import Comparison, recorded_name
from draftcheck.values.findings import Finding
from draftcheck.values.memory import Fit, MemoryFit
from draftcheck.values.verdicts import (
    TO_TRY,
    EngineSetup,
    EngineVerdict,
    JudgedPair,
    PairVerdict,
    Repair,
)
from draftcheck.values.words import Outcome, Reaction, Severity, Verdict

LONGEST = 1000
"""Characters of what a check saw: texts of models can be of any length."""
TOO_LARGE = "MEM001"
OF_THE_ENGINE = ("source", "reaction", "basis", "engine_says", "unread")
"""What a finding says besides the words that every rule has."""
DOUBTS = (Outcome.FAIL, Outcome.UNKNOWN)
STOPS = (Reaction.REFUSES, Reaction.CRASHES)
MOST_KEPT = 4096
MOST_LONGER = 16
"""Draft lengths above the usual one that are looked at."""
# Thousands of pairs are judged in a row, and most rules see the same of most of them. An entry
# holds the engine or the rule that it was made from, and counts only for that very object.
_active: dict[tuple[str, str, str], tuple[Engine, list[Rule]]] = {}
_worded: dict[tuple[str, Outcome, str], tuple[Rule, Finding]] = {}
K = TypeVar("K")
V = TypeVar("V")
WORST_FIRST = {
    (Severity.ERROR, Outcome.FAIL): Verdict.INCOMPATIBLE,
    (Severity.ERROR, Outcome.UNKNOWN): Verdict.UNDECIDED,
    (Severity.WARNING, Outcome.FAIL): Verdict.DEGRADED,
}
BEST_FIRST = (Verdict.COMPATIBLE, Verdict.DEGRADED, Verdict.UNDECIDED, Verdict.INCOMPATIBLE)


@dataclass(frozen=True, slots=True)
class Question:
    """Which engine, and under which circumstances."""

    engine: str
    version: str | None = None
    method: str | None = None
    circumstances: Circumstances = field(default_factory=Circumstances)
    found: str = ""
    """How the engine was found on this machine, when it was looked for."""
    code: str = ""
    """How far its installed code is the code that the rules were read from."""
    verified: bool = False
    """Whether all of it is, so that a version beyond the rulebook is verified here."""


def judge(comparison: Comparison, questions: Sequence[Question], *, explicit: bool) -> PairVerdict:
    """One verdict per question and method, and the pair's own.

    explicit: the user named the engines, so each counts; otherwise the best one does, and
    engines that do not load this kind of file are left out.
    """
    verdicts = [
        verdict
        for question in questions
        if explicit or takes_format(comparison, book.load(question.engine))
        for verdict in judge_methods(comparison, question)
    ]
    if comparison.draft is None and not explicit:
        verdicts = [verdict for verdict in verdicts if verdict.method is not None]
    # The worst engine's verdict counts; of several methods without a draft, the best.
    best: dict[tuple[str, str], Verdict] = {}
    for entry in verdicts:
        key = (entry.engine, entry.version)
        best[key] = min(best.get(key, entry.verdict), entry.verdict, key=BEST_FIRST.index)
    ranked = sorted(best.values(), key=BEST_FIRST.index)
    whole = ranked[-1 if explicit else 0] if ranked else Verdict.UNDECIDED
    return PairVerdict(comparison, tuple(verdicts), whole)


def _at(engine: Engine, version: str, table: Mapping[str, str]) -> dict[str, str]:
    """What the table, "since:value …" by name, holds for this version."""
    found = {n: versions.value_at(engine.order, version, entry) for n, entry in table.items()}
    return {name: value for name, value in found.items() if value}


def setup_for(
    engine: Engine,
    version: str,
    method: Method,
    circumstances: Circumstances,
    fit: MemoryFit | None = None,
) -> EngineSetup:
    """What checks may know of the engine and of the deployment."""
    rules = active(engine, version, method)
    return EngineSetup(
        engine=engine.id,
        version=version,
        method=method.id,
        order=engine.order,
        checked=engine.checked,
        tables=engine.tables,
        untyped=_at(engine, version, engine.untyped),
        unsized={name: int(n) for name, n in _at(engine, version, engine.unsized).items()},
        contexts={name: int(n) for name, n in _at(engine, version, engine.contexts).items()},
        quant_file=versions.in_window(engine.order, version, engine.quant_file),
        failures=frozenset(r.params["failure"] for r in rules if "failure" in r.params),
        memory=fit,
        **{name: getattr(circumstances, name) for name in book.CIRCUMSTANCES},
    )


def judge_methods(comparison: Comparison, question: Question) -> list[EngineVerdict]:
    """What an engine will do with the pair, and what we say to it.

    One verdict for every method that speaks for the pair: several when there is no draft.
    """
    engine = bind.engine(question.engine)
    version = engine.version(question.version)
    choice = choose(comparison, engine, version, question.method)
    notes = tuple(note for note in (question.found, question.code) if note)
    checked = question.verified or engine.order(version) <= engine.order(engine.checked)
    if not checked:
        told = f"the rules were read up to {engine.checked} ({engine.checked_on})"
        notes += (f"not verified for {engine.name} {version}: {told}",)
    if choice.note:
        notes += (choice.note,)
    if choice.methods:
        said = question.circumstances
        verdicts = [_judge(comparison, engine, version, method, said) for method in choice.methods]
        return [replace(v, version_checked=checked, notes=notes + v.notes) for v in verdicts]
    verdict = Verdict.INCOMPATIBLE if choice.impossible else Verdict.UNDECIDED
    return [
        EngineVerdict(
            engine.id, version, checked, question.method, Reaction.UNKNOWN, verdict, notes=notes,
            applies=choice.applies,
        )
    ]  # fmt: skip


def _judge(
    comparison: Comparison, engine: Engine, version: str, method: Method, said: Circumstances
) -> EngineVerdict:
    notes: tuple[str, ...] = ()
    if needs_no_draft(method) and comparison.draft is not None:
        if not comparison.one_model:
            notes = (f"{method.id} uses no draft model: {comparison.draft.ref} is not looked at",)
        comparison = compare(comparison.target, None)
    fit = None
    if said.machine is not None:
        # Imported here: most verdicts are asked for without a GPU.
        from draftcheck.memory import fit as memory

        fit = memory.fit(
            comparison, said, said.machine,
            engine=engine.id, version=version, order=engine.order, drafts=method.drafts,
        )  # fmt: skip
    assumed = _assumed(said, fit, comparison)
    pair = JudgedPair.of(comparison, setup_for(engine, version, method, assumed, fit))
    waiting: list[Rule] = []
    own = _findings(active(engine, version, method), pair, waiting)
    everywhere = _findings(_truth(method, comparison), pair)
    if fit is not None:
        named = said.gpu is not None
        own += [_too_large(f, fit, named=named) for f in everywhere if f.rule == TOO_LARGE]
        everywhere = [finding for finding in everywhere if finding.rule != TOO_LARGE]
    findings = (*own, *everywhere)
    reaction, decided_by = _reaction(own)
    if reaction not in STOPS:  # then broken weights are met first
        broken, rule = _reaction(everywhere)
        reaction, decided_by = (broken, rule) if rule else (reaction, decided_by)
    seen = {(finding.severity, finding.outcome) for finding in findings}
    verdict = next((v for bad, v in WORST_FIRST.items() if bad in seen), Verdict.COMPATIBLE)
    refused = next((f.refused for _, f in comparison.sides if f.refused), None)
    if refused and usable(verdict):  # nothing spoke against it, but hardly anything was read
        verdict, notes = Verdict.UNDECIDED, (*notes, refused)
        reaction = Reaction.UNKNOWN if reaction is Reaction.RUNS else reaction
    basis = next((f.basis for f in findings if f.rule == decided_by), method.basis)
    if waiting and usable(verdict):
        usual = commands.usual_tokens(method, comparison)
        length = _length_that_runs(usual, waiting, pair) if usual else None
        assumed = replace(assumed, draft_tokens=length)
    text = commands.render(method.setup, comparison, assumed, method)
    if fit is not None and fit.answer is Fit.DOES_NOT_FIT:
        for option in fit.when_full["without"]:
            text = text.replace(f" {option}", "")
    return EngineVerdict(
        engine=engine.id,
        version=version,
        version_checked=True,
        method=method.id,
        reaction=reaction,
        verdict=verdict,
        findings=findings,
        decided_by=decided_by,
        basis=None if reaction is Reaction.UNKNOWN else basis,
        setup=text if usable(verdict) else None,
        repairs=tuple(_to_try(engine, version, findings, text)),
        memory=fit,
        notes=notes,
    )


def _to_try(
    engine: Engine, version: str, findings: Sequence[Finding], text: str
) -> Iterator[Repair]:
    """Where all that speaks against it is that the engine was not read for such a setup."""
    errors = [f for f in findings if f.severity is Severity.ERROR and f.outcome in DOUBTS]
    if errors and all(finding.not_found_out for finding in errors):
        title = f"try it with {engine.name} {version}: nothing that was read speaks against it"
        yield Repair(TO_TRY, title, text)


def _assumed(said: Circumstances, fit: MemoryFit | None, comparison: Comparison) -> Circumstances:
    """What the command must say too, so that what the memory answer assumed comes true."""
    if fit is None or said.gpu is None or not fit.devices:
        return said
    if said.tensor_parallel is None and fit.ranks > 1:
        said = replace(said, tensor_parallel=fit.ranks)
    config = comparison.target.config
    own, longest = config.scaled_context or config.context, fit.limits.context
    if said.context is None and own and longest is not None and longest < own:
        said = replace(said, context=fit.context)
    return said


def _too_large(finding: Finding, fit: MemoryFit, *, named: bool) -> Finding:
    """The engine's own way of failing on a GPU that is too small.

    A remark where nobody named a GPU: the one of this machine need not be the one that serves.
    """
    if not named:
        return replace(finding, reaction=Reaction.RUNS, severity=Severity.NOTE)
    how = fit.when_full
    reaction, severity = Reaction(how["reaction"]), Severity(how["severity"])
    return replace(finding, reaction=reaction, severity=severity, engine_says=how["says"])


def active(engine: Engine, version: str, method: Method) -> list[Rule]:
    """The engine's rules that hold for this version and method, in the engine's order."""
    key = (engine.id, version, method.id)
    known = _active.get(key)
    if known is None or known[0] is not engine:
        mine = (rule for rule in engine.rules if not rule.methods or method.id in rule.methods)
        order = engine.order
        known = engine, [r for r in mine if versions.covers(order, version, r.since, r.until)]
        _keep(_active, key, known)
    return known[1]


def _keep(kept: dict[K, V], key: K, value: V) -> None:
    if len(kept) >= MOST_KEPT:
        kept.clear()
    kept[key] = value


def _truth(method: Method, comparison: Comparison) -> list[Rule]:
    """The rules that hold everywhere, less those that a method of this kind escapes."""
    spoken = method.vocabulary
    if spoken == "by-size":
        sizes = {comparison.target.config.vocab_size, comparison.drafter.config.vocab_size}
        spoken = "translated" if len(sizes - {None}) == 2 else "shared"
    return [
        rule
        for rule in bind.truth()
        if rule.vocabulary in ("any", spoken)
        and (not rule.drafts or set(rule.drafts) & set(method.drafts))
    ]


def _length_that_runs(usual: int, rules: Sequence[Rule], pair: JudgedPair) -> int:
    """The draft length to write: the usual one, or the nearest that no rule fails, longer first.

    rules: those that look at the length, where none is asked for. A block drafter may go wrong on
    less than its block; on more it only guesses.
    """
    hard = [rule for rule in rules if rule.severity is Severity.ERROR]
    lengths: list[int] = [*range(usual, usual + 1 + MOST_LONGER), *range(usual - 1, 0, -1)]
    for length in lengths:
        asked = replace(pair, setup=replace(pair.setup, draft_tokens=length))
        if all(see(r.check, asked, r.params).outcome is not Outcome.FAIL for r in hard):
            return length
    return usual


def _findings(
    rules: Iterable[Rule], pair: JudgedPair, waiting: list[Rule] | None = None
) -> list[Finding]:
    """What the rules that apply say, in their order; waiting: takes those that want a length."""
    found, recorded, over, unread = [], pair.recorded, False, False
    for rule in rules:
        if over if rule.methods else unread:
            continue
        seen = recorded.get(recorded_name(rule.check, rule.params)) if recorded else None
        seen = seen or see(rule.check, pair, rule.params)
        if seen.outcome is Outcome.NOT_APPLICABLE:
            if waiting is not None and seen.saw == NO_LENGTH:
                waiting.append(rule)
            continue
        if rule.stops and seen.outcome is Outcome.FAIL:
            over = True
        if rule.unread_behind and seen.outcome is Outcome.UNKNOWN:
            unread = True
        saw = cut(seen.saw)
        key = (rule.id, seen.outcome, saw)
        known = _worded.get(key)
        if known is None or known[0] is not rule:
            told = {name: getattr(rule, name) for name in OF_THE_ENGINE}
            known = rule, Finding.of(rule, seen.outcome, saw, **told)
            _keep(_worded, key, known)
        found.append(known[1])
    return found


def cut(text: str) -> str:
    """What a check saw, no longer than is shown."""
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


def usable(verdict: Verdict) -> bool:
    """Whether the engine will speculate with it."""
    return verdict in (Verdict.COMPATIBLE, Verdict.DEGRADED)
