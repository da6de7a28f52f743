"""What speaks against a candidate, stage by stage, from cheap to dear.

by_listing needs a row of the Hub's list, by_config a config.json, judge the facts of both models:
rules and memory, then what ties a head to the target, then the cost. Whoever is turned away keeps
the reason (a Rejection); who is left is a JudgedCandidate. The stages follow each other in
reading.py, the whole funnel is drawn in run.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from draftcheck import versions
from draftcheck.judge.decide import BEST_FIRST, Question, usable
from draftcheck.judge.decide import judge as judge_pair
from draftcheck.models import names
from draftcheck.recommend import costs
from draftcheck.recommend.candidates import Candidate, Rejection
from draftcheck.recommend.costs import DraftPrice
from draftcheck.recommend.search import REPO, DraftSearch
from draftcheck.rulebook import book
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import ConfigFacts, ModelFacts
from draftcheck.values.sizes import short_count
from draftcheck.values.verdicts import EngineVerdict
from draftcheck.values.words import Outcome, Relation, Severity, Verdict

NOT_SMALLER = "TRU004"
OTHER_VERIFIER = "TRU104"
LARGEST = 0.9
"""Of the target's parameters: beyond it no draft is worth a look."""
ROWS_APART, SHARE_APART = 1024, 0.05
"""Vocabularies that differ by more than both are not one vocabulary with padding."""
TASKS = (
    "text-generation", "text2text-generation", "image-text-to-text", "any-to-any", "other",
    "video-text-to-text", "audio-text-to-text", "feature-extraction", "image-to-text",
)  # fmt: skip
"""What a repo that holds a language model, or a head of one, may say it is for."""
NO_HEAD = (None, "full", "encoder")


@dataclass(frozen=True, slots=True)
class JudgedCandidate:
    """A candidate that can draft, and what is known of it."""

    candidate: Candidate
    role: str
    verdict: Verdict
    engine: EngineVerdict
    """The one that speaks for it: of those asked, the worst; of all, the best."""
    engines: tuple[str, ...]
    """All that run it."""
    relation: Relation
    price: DraftPrice
    parameters: int | None = None
    size_ratio: float | None = None
    tie: str = ""
    """What ties a head to the target: verifier, card or name."""
    warnings: tuple[str, ...] = ()
    revision: str | None = None


def by_listing(candidate: Candidate, search: DraftSearch) -> Rejection | None:
    """Reject what the list alone speaks against; None: it has to be looked at."""
    if candidate.disabled:
        return candidate.reject("listing", "disabled by the Hub")
    if candidate.source == "hub" and names.TOY.search(candidate.ref):
        return candidate.reject("listing", "its name says that its weights are random, for tests")
    if candidate.task is not None and candidate.task not in TASKS:
        return candidate.reject("listing", f"a model for {candidate.task}")
    kind, files = candidate.kind, candidate.files
    if kind == "adapter":
        return candidate.reject("listing", "an adapter, not a model of its own")
    if kind == "other":
        return candidate.reject("listing", "no weights among its files")
    if kind == "gguf" and not search.gguf:
        return candidate.reject("listing", "GGUF files only; the target is a checkpoint")
    if search.gguf and files is not None and not any(name.endswith(".gguf") for name in files):
        return candidate.reject("listing", "no GGUF file; the target is one")
    # Elements of packed weights are fewer than parameters: enough to be too many, never less.
    listed = candidate.parameters
    if listed is not None and search.largest is not None and listed > search.largest:
        return candidate.reject("max-size", f"{short_count(listed)} parameters listed")
    if listed is None or search.parameters is None or candidate.looks_like_a_head:
        return None
    return too_large(candidate, listed, search.parameters)


def too_large(candidate: Candidate, theirs: int, ours: int) -> Rejection | None:
    """Reject a draft that is hardly smaller than its target: it saves nothing."""
    if theirs <= LARGEST * ours:
        return None
    sizes = f"draft {short_count(theirs)} parameters, target {short_count(ours)}"
    return candidate.reject(NOT_SMALLER, f"{sizes} ({theirs / ours:.0%})")


def translates(questions: Sequence[Question]) -> bool:
    """Whether some engine that is asked can use a draft with another vocabulary."""
    for question in questions:
        engine = book.load(question.engine)
        version = engine.version(question.version)
        methods = [
            method
            for method in engine.methods
            if versions.covers(engine.order, version, method.since, method.until)
            and "full" in method.drafts
            and (method.automatic if question.method is None else method.id == question.method)
        ]
        if methods and methods[0].vocabulary != "shared":
            return True
    return False


def by_config(
    candidate: Candidate,
    config: ConfigFacts,
    role: str | None,
    target: ModelFacts,
    *,
    shared: bool = True,
) -> Rejection | None:
    """Reject what config.json alone speaks against; shared: both must use the same ids."""
    if role not in NO_HEAD:
        return None
    ours, theirs = target.config, config
    same = (ours.layers, ours.hidden, ours.feed_forward)
    if None not in same and same == (theirs.layers, theirs.hidden, theirs.feed_forward):
        same_size = f"{theirs.layers} layers of {theirs.hidden:,}, as the target"
        if (ours.experts or 0) <= (theirs.experts or 0):
            return candidate.reject(NOT_SMALLER, f"{same_size}: a copy of it, however it is packed")
    rows, mine = target.rows, theirs.vocab_size
    if rows is None or mine is None or not shared:
        return None
    gap = abs(rows - mine)
    if gap > ROWS_APART and gap > SHARE_APART * max(rows, mine):
        return candidate.reject("config", f"a vocabulary of {mine:,} rows, the target has {rows:,}")
    return None


def judge(
    candidate: Candidate,
    comparison: Comparison,
    questions: Sequence[Question],
    *,
    explicit: bool,
    search: DraftSearch,
    lineage: Collection[str] = (),
) -> JudgedCandidate | Rejection:
    """Hold a pair against rules, memory and cost; facts may be whole or restored from a store.

    lineage: the models that the target was made from; a head of one of them is not turned away.
    """
    target, draft = comparison.target, comparison.drafter
    ours, theirs = target.weights.parameters, draft.weights.parameters
    if ours and theirs and draft.role in NO_HEAD:
        refused = too_large(candidate, theirs, ours)
        if refused is not None:
            return refused
    pair = judge_pair(comparison, questions, explicit=explicit)
    if not pair.engines:
        words = "no engine of the rulebook takes these two kinds of files"
        return candidate.reject("format", words)
    elsewhere = _made_for_another(candidate, draft, pair.engines, lineage)
    if elsewhere is not None:
        return elsewhere
    if not usable(pair.verdict):
        return _refused(candidate, pair.engines, pair.verdict, draft)
    takers = [entry for entry in pair.engines if usable(entry.verdict)]
    # Of engines that were asked for the worst, of all the best; with the shortest way to it.
    sign = -1 if explicit else 1
    engine = min(
        takers, key=lambda e: (sign * BEST_FIRST.index(e.verdict), (e.setup or "").count("\n"))
    )
    tie = _tie(candidate, draft, search, lineage) if draft.role not in NO_HEAD else ""
    if isinstance(tie, Rejection):
        return tie
    said = questions[0].circumstances if questions else Circumstances()
    price = costs.price(comparison, said, engine)
    if price.hopeless:
        dear = f"a step of it reads {price.ratio:.0%} of what a step of the target reads"
        if price.where:
            dear = f"passes with it are too slow in {price.where} (modelled)"
        return candidate.reject("cost", f"{dear}: no acceptance pays for that")
    if search.largest is not None and theirs is not None and theirs > search.largest:
        return candidate.reject("max-size", f"{short_count(theirs)} parameters")
    return JudgedCandidate(
        candidate=replace(candidate, gated=candidate.gated or bool(draft.gated)),
        role=draft.role or "full",
        verdict=pair.verdict,
        engine=engine,
        engines=tuple(dict.fromkeys(entry.engine for entry in takers)),
        relation=comparison.vocabulary.relation,
        price=price,
        parameters=theirs,
        size_ratio=theirs / ours if ours and theirs else None,
        tie=tie,
        warnings=tuple(
            finding.title
            for finding in engine.findings
            if finding.outcome is Outcome.FAIL and finding.severity is Severity.WARNING
        ),
        revision=draft.revision or candidate.revision,
    )


def _made_for_another(
    candidate: Candidate,
    draft: ModelFacts,
    engines: Sequence[EngineVerdict],
    lineage: Collection[str],
) -> Rejection | None:
    """A head that names another target, whatever its card says: the reason before all others."""
    for finding in (finding for entry in engines for finding in entry.findings):
        if finding.rule == OTHER_VERIFIER and finding.outcome is Outcome.FAIL:
            related = draft.verifier is not None and draft.verifier in lineage
            return None if related else candidate.reject(OTHER_VERIFIER, finding.saw)
    return None


def _tie(
    candidate: Candidate, draft: ModelFacts, search: DraftSearch, lineage: Collection[str]
) -> str | Rejection:
    """What says that a head was made for this target; its card alone may name a donor."""
    if draft.verifier in lineage:
        return "verifier of its base"
    made_for = names.short(draft.verifier) if draft.verifier else ""
    ours = [name.lower() for name in search.names]
    if made_for.lower() in ours:
        return "verifier"
    if any(names.mentions(name, made_for) for name in search.names):
        return "verifier of its base"
    if draft.verifier and REPO.fullmatch(draft.verifier):
        return candidate.reject(OTHER_VERIFIER, f"the head was made for {draft.verifier[:200]}")
    if any(names.mentions(candidate.ref, name) for name in search.names):
        return "name"
    if search.repo is not None and search.repo in candidate.base_models:
        return "card"
    if candidate.source == "named":
        return "you"
    return candidate.reject("head", "it names no target, and nothing ties it to this one")


def _refused(
    candidate: Candidate, engines: Sequence[EngineVerdict], verdict: Verdict, draft: ModelFacts
) -> Rejection:
    """The finding that speaks against the pair on most engines."""
    if verdict is Verdict.UNDECIDED and draft.refused:
        return candidate.reject("read", draft.refused, verdict)
    wanted = Outcome.FAIL if verdict is Verdict.INCOMPATIBLE else Outcome.UNKNOWN
    rows = [
        finding
        for entry in engines
        if entry.verdict is verdict
        for finding in entry.findings
        if finding.outcome is wanted and finding.severity is Severity.ERROR
    ]
    if not rows:
        reasons = (entry.reason for entry in engines if entry.verdict is verdict)
        return candidate.reject("engine", next(reasons, None) or "no engine runs it", verdict)
    [(rule, _)] = Counter(finding.rule for finding in rows).most_common(1)
    first = next(finding for finding in rows if finding.rule == rule)
    return candidate.reject(rule, first.saw, verdict)
