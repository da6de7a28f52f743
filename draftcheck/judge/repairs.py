"""Ways out of a verdict that is not good: a repair, another method, another version.

Other methods and versions are not guessed: each is judged like the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from draftcheck import versions
from draftcheck.judge import bind, commands
from draftcheck.judge.checks import see
from draftcheck.judge.decide import BEST_FIRST, Question, judge_methods, setup_for, usable
from draftcheck.judge.methods import in_version, needs_no_draft
from draftcheck.rulebook import book
from draftcheck.rulebook.book import Engine, Method, Rule
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.comparison import Comparison
from draftcheck.values.verdicts import EngineVerdict, JudgedPair, PairVerdict, Repair
from draftcheck.values.words import Outcome, Severity, Verdict

VERSIONS = 6
"""So many other versions are tried, the nearest first."""


def add(verdict: PairVerdict, questions: Sequence[Question], *, explicit: bool) -> PairVerdict:
    """The verdict with the ways out of every engine that does not simply run the pair.

    explicit: the user named the engines; otherwise others stand beside them, and no other
    methods and versions are tried.
    """
    if verdict.comparison.draft is None:
        return verdict
    said = {question.engine: question.circumstances for question in questions}
    engines = []
    for entry in verdict.engines:
        failed = [f for f in entry.findings if f.outcome is Outcome.FAIL]
        bad = not usable(entry.verdict) or any(f.severity is not Severity.NOTE for f in failed)
        found: Iterable[Repair] = entry.repairs
        if bad and entry.verdict is not Verdict.UNDECIDED:
            found = _repairs(verdict.comparison, entry, said[entry.engine], explicit)
        engines.append(replace(entry, repairs=tuple(found)))
    return replace(verdict, engines=tuple(engines))


def _repairs(
    comparison: Comparison, entry: EngineVerdict, circumstances: Circumstances, explicit: bool
) -> Iterator[Repair]:
    engine = bind.engine(entry.engine)
    yield from _advised(comparison, engine, entry, circumstances)
    if usable(entry.verdict) or not explicit:
        return
    base = Question(entry.engine, entry.version, None, circumstances)
    # Methods of the same version that take the same draft.
    role = comparison.drafter.role or "full"
    names = dict.fromkeys(
        method.id
        for method in in_version(engine, entry.version)
        if method.id != entry.method and role in method.drafts and not needs_no_draft(method)
    )
    for name in names:
        for other in judge_methods(comparison, replace(base, method=name)):
            if usable(other.verdict):
                title = f"with {engine.name}'s {name} instead: {other.verdict}"
                yield Repair("other-method", title, other.setup or "")
    yield from _other_version(comparison, engine, entry, base)


def _advised(
    comparison: Comparison, engine: Engine, entry: EngineVerdict, circumstances: Circumstances
) -> Iterator[Repair]:
    """Rows of the rulebook whose rule failed and whose check comes out ok."""
    failed = {finding.rule for finding in entry.findings if finding.outcome is Outcome.FAIL}
    forms = in_version(engine, entry.version, entry.method)
    if entry.method is None or not forms:
        return
    pair = JudgedPair.of(comparison, setup_for(engine, entry.version, forms[0], circumstances))
    for row in (*engine.repairs, *book.truth_repairs()):
        if not failed & set(row.rules) or (row.methods and entry.method not in row.methods):
            continue
        own = row in engine.repairs
        if own and not versions.covers(engine.order, entry.version, row.since, row.until):
            continue
        if row.resizes and not _runs_resized(comparison, entry, circumstances):
            continue
        if row.check is None or see(row.check, pair, row.params).outcome is Outcome.OK:
            text = commands.render(row.text, comparison, circumstances) if row.text else ""
            yield Repair(row.id, row.title, text, row.source)


def _runs_resized(
    comparison: Comparison, entry: EngineVerdict, circumstances: Circumstances
) -> bool:
    """No rule refuses the pair once the draft has as many rows as the target."""
    draft, rows = comparison.drafter, comparison.target.config.vocab_size
    resized = replace(draft, config=replace(draft.config, vocab_size=rows))
    question = Question(entry.engine, entry.version, entry.method, circumstances)
    (found,) = judge_methods(replace(comparison, draft=resized), question)
    return found.verdict is not Verdict.INCOMPATIBLE


def _other_version(
    comparison: Comparison, engine: Engine, entry: EngineVerdict, base: Question
) -> Iterator[Repair]:
    """The nearest version, newer ones first, that takes the pair better."""
    failed = {f.rule for f in entry.findings if f.outcome is Outcome.FAIL}
    # Where the failed rules begin and end, on the side where they do not hold.
    order, here = engine.order, engine.order(entry.version)
    texts = edges([rule for rule in engine.rules if rule.id in failed], engine.methods)
    low, high = order(engine.oldest), order(engine.checked)
    newer = sorted((t for t in texts if here < order(t) <= high), key=order)
    older = sorted((t for t in texts if low <= order(t) < here), key=order, reverse=True)
    before = [_before(engine, text) for text in (*older, entry.version)]
    nearest = list(dict.fromkeys([*newer, *filter(None, before), *older]))
    for version in nearest[:VERSIONS]:
        found = judge_methods(comparison, replace(base, version=version, method=entry.method))
        best = min(found, key=lambda one: BEST_FIRST.index(one.verdict))
        if usable(best.verdict):
            title = f"with {engine.name} {version} instead: {best.verdict}"
            yield Repair("other-version", title, best.setup or "")
            return


def _before(engine: Engine, version: str) -> str | None:
    """The last version known before this one; builds are counted."""
    at = engine.order(version)
    if engine.versions == "build":
        return f"b{at - 1}" if at > engine.order(engine.oldest) else None
    known = edges(engine.rules, engine.methods)
    older = [text for text in known if engine.order(engine.oldest) <= engine.order(text) < at]
    return max(older, key=engine.order, default=None)


def edges(rules: Iterable[Rule], methods: Iterable[Method]) -> set[str]:
    """Every version from which on something is another way."""
    rows: list[Rule | Method] = [*rules, *methods]
    edges = {edge for row in rows for edge in (row.since, row.until)}
    return {edge.removeprefix("<=") for edge in edges if edge is not None}
