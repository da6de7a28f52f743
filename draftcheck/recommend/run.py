"""A target -> its drafts, ranked: where to look, how much to look at, and the answer.

A funnel, from cheap to dear; whoever falls out keeps the reason (a Rejection):

    search, local   rows of the Hub's list, models on this disk, or what the user names
      screen        by the row alone: task, files, size              nothing to read
      _open         the list of files, 100 models at a time          one request each
      reading       config.json; the tokenizer, once per file        kilobytes; 10 MB at most twelve
                    headers of the weights -> facts                  a few requests
      screen.judge  rules, memory, what ties a head, cost            arithmetic
      ranking       the order, by what is known                      arithmetic
      records       the first three, measured (--trial)              minutes on a GPU

Of a long list not all are looked at: the most promising first, by names, cards and digests of
tokenizers, until enough of them are near the target (_promise, _near).
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from draftcheck.errors import ReadError, UsageError
from draftcheck.evidence.known import ways
from draftcheck.evidence.matching import ModelNames
from draftcheck.judge import questions
from draftcheck.judge.compare import compare
from draftcheck.judge.condensed import facts as condensed
from draftcheck.judge.decide import Question, judge, usable
from draftcheck.models import names
from draftcheck.models.read import read_all
from draftcheck.models.refs import parse
from draftcheck.recommend import local, reading, screen
from draftcheck.recommend import records as trials
from draftcheck.recommend import search as hub
from draftcheck.recommend.candidates import Candidate, Rejection
from draftcheck.recommend.methods import RankedMethod, rank_methods, unread_ways
from draftcheck.recommend.ranking import RankedDraft, Records, rank
from draftcheck.recommend.reading import CandidateContext, CandidateReader, Result, Say, quiet
from draftcheck.recommend.screen import JudgedCandidate
from draftcheck.recommend.search import DraftSearch
from draftcheck.rulebook import book
from draftcheck.trial.backends.backend import HEADS
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.facts import ModelFacts
from draftcheck.values.results import PublicResult
from draftcheck.values.verdicts import EngineVerdict
from draftcheck.values.words import Verdict

LIMIT = 10
TRIALS = 3
OPENED_AT_ONCE, MOST_OPENED = 100, 600
"""Models of a search whose list of files is asked for."""
LEAST_READ, READ_PER_ROW = 80, 6
"""Models of these that are read: so many, or so many for each one that is to be shown."""
LEAST_GGUFS_READ, GGUFS_READ_PER_ROW = 20, 2
"""The same of GGUF files, whose headers are megabytes."""
REMOTE = ("hub", "named", "beside")
"""Sources whose models may have to be opened over the network."""


@dataclass(frozen=True, slots=True)
class RecommendRequest:
    engines: tuple[str, ...] = ()
    method: str | None = None
    circumstances: Circumstances = field(default_factory=Circumstances)
    limit: int = LIMIT
    largest: int | None = None
    """Parameters that a draft may have."""
    tags: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    """Candidates that the user names; then nothing is searched."""
    local: bool = False
    folders: tuple[Path, ...] = ()
    offline: bool = False
    records: Records = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class LocalModel:
    candidate: Candidate
    facts: ModelFacts
    family: str | None
    """Of its ordinary tokens; None where they were not read."""

    @property
    def group(self) -> tuple[str | None, bool]:
        """Models of one group may draft for each other: one vocabulary, one kind of files."""
        return self.family, self.facts.gguf is None


@dataclass(frozen=True, slots=True)
class Recommendation(PublicResult):
    """The drafts of one target, best first, and what became of all others."""

    target: ModelFacts
    plan: RecommendRequest
    drafts: tuple[RankedDraft, ...] = ()
    more: int = 0
    """Drafts beyond the limit."""
    alone: tuple[EngineVerdict, ...] = ()
    """Methods that need no draft, where they work."""
    methods: tuple[RankedMethod, ...] = ()
    """Every way of speculating, best first, each with the draft that speaks best for it."""
    rejected: tuple[Rejection, ...] = ()
    unseen: int = 0
    """Listed models that nobody looked at."""
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        best = [row.judged for row in self.drafts[:1]]
        first = "".join(f", first {row.candidate.ref!r} ({row.verdict})" for row in best)
        return (
            f"<Recommendation for {self.target.ref!r}: {len(self.drafts)} drafts{first};"
            f" {len(self.rejected)} turned away>"
        )


def recommend(text: str, plan: RecommendRequest, say: Say = quiet) -> Recommendation:
    ref = parse(text)
    asked = _questions(plan)
    reader = CandidateReader(offline=plan.offline)
    try:
        say("reading the target")
        target = reader.target(ref)
        if target.role not in screen.NO_HEAD:
            raise UsageError(f"{text}: a head ({target.role}), not a target")
        search = hub.wanted(target, tags=plan.tags, largest=plan.largest)
        candidates, early, notes = _gather(reader, plan, search, say)
        bases = [c.base_models for c in candidates if c.ref == search.repo]
        context = CandidateContext(
            target, asked, bool(plan.engines), search,
            frozenset(itertools.chain(target.bases, *bases)), reading.own_tokenizer(ref),
            shared=not screen.translates(asked),
        )  # fmt: skip
        results, unseen = _CandidateFunnel(reader, context, plan.limit, say).look(candidates)
    finally:
        reader.opener.close()
    return _answer(target, plan, asked, [*early, *results], unseen, notes)


def everything(plan: RecommendRequest, say: Say = quiet) -> list[Recommendation]:
    """Find which of the models on this disk can draft for which: one answer per target.

    Pairs are made only inside families of one vocabulary, and of heads with what they name.
    """
    asked = _questions(plan)
    notes: list[str] = []
    rows, unread = _read_disk(plan, say, notes)
    families: dict[tuple[str | None, bool], list[LocalModel]] = {}
    heads = [row for row in rows if row.facts.role not in screen.NO_HEAD]
    for row in rows:
        if row.family is not None and row not in heads:
            families.setdefault(row.group, []).append(row)
    answers = []
    for number, row in enumerate(rows, 1):
        say(f"pairing {number} of {len(rows)} models")
        if row.facts.role != "full":
            continue
        search = hub.wanted(row.facts, largest=plan.largest)
        results = [
            screen.judge(
                other.candidate,
                compare(row.facts, other.facts),
                asked,
                explicit=bool(plan.engines),
                search=search,
            )
            for other in (*families.get(row.group, ()), *heads)
            if other is not row and _may_draft(row.facts, other, search)
        ]
        if any(isinstance(result, JudgedCandidate) for result in results):
            answers.append(_answer(row.facts, plan, asked, results, 0, ()))
    if unread or notes:
        none = ModelFacts("", "none")
        answers.append(Recommendation(none, plan, rejected=tuple(unread), notes=tuple(notes)))
    return answers


def measured(answer: Recommendation, say: Say = quiet) -> Recommendation:
    """Try the first few, and rank anew."""
    whole = [row.judged for row in answer.drafts if row.judged.role in ("full", *HEADS)]
    records, rejected = dict(answer.plan.records), list(answer.rejected)
    unmeasured = [j for j in whole if (answer.target.ref, j.candidate.ref) not in records]
    called = {j.candidate.path or j.candidate.ref: j for j in unmeasured[:TRIALS]}
    notes = list(answer.notes)
    for name, record in trials.measure(answer.target.called, list(called), say):
        judged = called[name]
        if isinstance(record, str):
            notes.append(f"{judged.candidate.ref}: no trial: {record}")
            continue
        records[answer.target.ref, judged.candidate.ref] = record
        if record.broken:
            rejected.insert(0, Rejection(judged.candidate.ref, "trial", record.broken))
    broken = {row.draft for row in rejected if row.rule == "trial"}
    plan = replace(answer.plan, records=records)
    left = (row.judged for row in answer.drafts if row.judged.candidate.ref not in broken)
    target = answer.target
    ranked = rank(left, target.ref, records, ModelNames.of(target))
    drafts = tuple(_at_its_length(row, answer) for row in ranked)
    seen = {row.judged.candidate.ref for row in drafts} | broken
    others = [row for row in answer.methods if row.draft is not None and row.draft not in seen]
    return replace(
        answer,
        plan=plan,
        drafts=drafts,
        methods=_methods(target, plan, drafts, answer.alone, others),
        rejected=tuple(rejected),
        notes=tuple(notes),
    )


def _at_its_length(row: RankedDraft, answer: Recommendation) -> RankedDraft:
    """The setup with the draft length that the trial found best."""
    length, entry = row.record.length if row.record else None, row.judged.engine
    circumstances = answer.plan.circumstances
    if length is None or entry.setup is None or circumstances.draft_tokens is not None:
        return row
    draft = row.judged.candidate.path or row.judged.candidate.ref
    facts = read_all(parse(answer.target.called), parse(draft), offline=answer.plan.offline)
    at_length = questions.settle(replace(circumstances, draft_tokens=length))
    engine = f"{entry.engine}@{entry.version}"
    asked = questions.ask([engine], method=entry.method, circumstances=at_length)
    setup = judge(compare(*facts), asked, explicit=True).engines[0].setup
    return replace(row, judged=replace(row.judged, engine=replace(entry, setup=setup)))


def exit_code(answers: Sequence[Recommendation], *, strict: bool) -> int:
    """Say 0 if some draft, or the target's own layers, will do; 1: none; 3: none was decided."""
    for answer in answers:
        verdicts = [row.judged.verdict for row in answer.drafts]
        verdicts += [
            entry.verdict
            for entry in answer.alone
            if book.uses_own_layers(entry.engine, entry.method)
        ]
        if any(v is Verdict.COMPATIBLE or (usable(v) and not strict) for v in verdicts):
            return 0
    read = [r for answer in answers for r in answer.rejected if r.rule != "listing"]
    if any(row.verdict is None for answer in answers for row in answer.methods):
        return 3  # somebody pairs it with a draft that was not read here
    return 3 if read and all(r.verdict is Verdict.UNDECIDED for r in read) else 1


def _questions(plan: RecommendRequest) -> list[Question]:
    given = questions.settle(plan.circumstances)
    return questions.ask(plan.engines, method=plan.method, circumstances=given)


def _gather(
    reader: CandidateReader, plan: RecommendRequest, search: DraftSearch, say: Say
) -> tuple[list[Candidate], list[Rejection], tuple[str, ...]]:
    """Where candidates come from: those named, this disk, the caches, or the Hub."""
    rows: list[Candidate | Rejection] = [Candidate(text, "named") for text in plan.named]
    if not plan.named:
        rows += reader.beside
    notes: list[str] = []
    if plan.local or plan.folders:
        local.check(plan.folders)
        rows += local.find(plan.folders, notes)
    elif plan.offline and not plan.named:
        known = reader.opener.hub.known()
        rows += [Candidate(repo, revision=commit) for repo, commit in known.items()]
        rows += [row for row in local.find((), notes) if row.source == "hub-cache"]
        notes.append("offline: only what was read or downloaded from the Hub before was looked at")
    elif not plan.named:
        say("searching the Hub")
        failures: list[ReadError] = []
        rows += hub.search(reader.opener.hub, search, failures)
        notes += dict.fromkeys(f"a search ended early: {error.message}" for error in failures)
    candidates = [row for row in rows if isinstance(row, Candidate)]
    early = [row for row in rows if isinstance(row, Rejection)]
    return candidates, early, tuple(notes)


@dataclass(frozen=True, slots=True)
class _CandidateFunnel:
    """Looks at candidates, the most promising first, and not at all of many."""

    reader: CandidateReader
    context: CandidateContext
    limit: int
    say: Say

    def look(self, candidates: Sequence[Candidate]) -> tuple[list[Result], int]:
        """What becomes of each, and how many were not looked at."""
        results: list[Result] = []
        rows = []
        for row in sorted(candidates, key=lambda row: _promise(row, self.context.search)):
            if self._is_target(row):
                continue
            by_listing = screen.by_listing(row, self.context.search)
            if by_listing is None or row.source == "named":
                rows.append(row)
            else:
                results.append(by_listing)
        least, each = LEAST_READ, READ_PER_ROW
        if self.context.search.gguf:
            least, each = LEAST_GGUFS_READ, GGUFS_READ_PER_ROW
        searched = any(row.source == "hub" for row in rows)
        most = max(least, each * self.limit) if searched else len(rows)
        near, further = self._open(rows, most)
        chosen = near[:most]
        done = self.reader.judge(chosen, self.context, lambda text: self.say(f"looking at {text}"))
        same = [self.reader.known(row) for row in near[most:]]
        unread = [row for row in (*same, *further) if isinstance(row, Rejection)]
        return [*done, *unread, *results], len(near[most:]) + len(further) - len(unread)

    def _open(
        self, rows: Sequence[Candidate], most: int
    ) -> tuple[list[Candidate], list[Candidate | Rejection]]:
        """Candidates in the order of reading, those with the target's own tokenizer first.

        Opens more until there are as many near ones as will be read. Behind them, what could not be
        opened, and what was too far away to be.
        """
        on_disk = [row for row in rows if row.source not in REMOTE]
        remote = [row for row in rows if row.source in REMOTE]
        opened: list[Candidate] = []
        lost: list[Candidate | Rejection] = []
        asked = 0
        while asked < min(len(remote), MOST_OPENED) and sum(map(self._near, opened)) < most:
            batch = remote[asked : asked + OPENED_AT_ONCE]
            for row in self.reader.open(batch, lambda text: self.say(f"opening {text}")):
                (opened if isinstance(row, Candidate) else lost).append(row)  # type: ignore[arg-type]
            asked += len(batch)
        # Behind the near ones, first one model of each tokenizer: it tells about all of them.
        nth: Counter[frozenset[str]] = Counter()
        place = {}
        for row in sorted(opened, key=lambda row: not self._near(row)):
            digests = frozenset(row.digests.values())
            place[row.ref] = 0 if self._near(row) else 1 + nth[digests]
            nth[digests] += 1
        opened.sort(key=lambda row: place[row.ref])
        return [*on_disk, *opened], [*lost, *remote[asked:]]

    def _is_target(self, candidate: Candidate) -> bool:
        if candidate.source == "named":
            return False
        target = self.context.target
        if candidate.ref in (self.context.search.repo, target.ref):
            return True
        on_disk = candidate.source != "hub" and target.kind in ("folder", "gguf")
        path = candidate.path or candidate.ref
        return on_disk and os.path.realpath(path) == os.path.realpath(target.ref)

    def _near(self, candidate: Candidate) -> bool:
        """The target's own tokenizer; or a head, a GGUF, a relative, of which no digest tells."""
        if not self.reader.digests.isdisjoint(candidate.digests.values()):
            return True
        return candidate.source == "named" or _promise(candidate, self.context.search)[0] <= 1


def _promise(candidate: Candidate, search: DraftSearch) -> tuple[int, int, str]:
    """How near a listed model is to the target; only the order of looking depends on it."""
    ref = candidate.ref
    named = any(names.mentions(ref, name) for name in search.names)
    carded = search.repo is not None and search.repo in candidate.base_models
    small = candidate.looks_like_a_head or "draft" in ref.lower()
    typed = search.model_type in (candidate.model_type, *candidate.tags)
    same_author = candidate.author == search.author
    if candidate.source != "hub" or (small and (named or carded)):
        level = 0
    elif names.family(ref) == search.family or (typed and same_author):
        level = 1
    elif typed or same_author:
        level = 2
    else:
        level = 3 if named or carded or small else 4
    return level, -candidate.downloads, ref


def _answer(
    target: ModelFacts,
    plan: RecommendRequest,
    asked: Sequence[Question],
    results: Sequence[Result],
    unseen: int,
    notes: tuple[str, ...],
) -> Recommendation:
    names = ModelNames.of(target)
    usable_drafts = [result for result in results if isinstance(result, JudgedCandidate)]
    ranked = rank(usable_drafts, target.ref, plan.records, names)
    engines: Sequence[EngineVerdict] = ()
    if not plan.method:
        engines = judge(compare(target, None), asked, explicit=False).engines
    works = (entry for entry in engines if usable(entry.verdict))
    alone = sorted(works, key=lambda entry: not book.uses_own_layers(entry.engine, entry.method))
    rejected = tuple(result for result in results if isinstance(result, Rejection))
    unread: Iterable[RankedMethod] = ()
    if not (plan.named or plan.local or plan.folders):
        seen = [result.candidate.ref for result in usable_drafts]
        seen += [row.draft for row in rejected if row.verdict is Verdict.INCOMPATIBLE]
        unread = unread_ways(names, ways(names), seen, asked, gguf=target.gguf is not None)
    return Recommendation(
        target=target,
        plan=plan,
        drafts=tuple(ranked[: plan.limit]),
        more=len(ranked[plan.limit :]),
        alone=tuple(alone),
        methods=_methods(target, plan, ranked, alone, unread),
        rejected=rejected,
        unseen=unseen,
        notes=notes,
    )


def _methods(
    target: ModelFacts,
    plan: RecommendRequest,
    drafts: Sequence[RankedDraft],
    alone: Sequence[EngineVerdict],
    unread: Iterable[RankedMethod],
) -> tuple[RankedMethod, ...]:
    names = ModelNames.of(target)
    own = plan.records.get((target.ref, target.ref))  # as trials of its own layers are called
    return rank_methods(names, drafts, alone, unread, ways=ways(names), own=own)


def _read_disk(
    plan: RecommendRequest, say: Say, notes: list[str]
) -> tuple[list[LocalModel], list[Rejection]]:
    """Every model on this disk; those of one vocabulary share its table."""
    local.check(plan.folders)
    tables: dict[str, tuple[Any, str | None]] = {}
    rows, unread = [], []
    named = [Candidate(text, "named") for text in plan.named]
    for number, row in enumerate(itertools.chain(named, local.find(plan.folders, notes)), 1):
        say(f"reading model {number}")
        try:
            facts = reading.local_facts(row)
        except (ReadError, UsageError) as error:
            unread.append(hub.unread(row, error))
            continue
        key, family = condensed.fingerprint(facts), None
        if key is not None:
            if key not in tables:
                tables[key] = facts.tokenizer.tokens, condensed.family(facts)
            tokens, family = tables[key]
            facts = replace(facts, tokenizer=replace(facts.tokenizer, tokens=tokens))
        rows.append(LocalModel(row, facts, family))
    return rows, unread


def _may_draft(target: ModelFacts, other: LocalModel, search: DraftSearch) -> bool:
    """Whether a pair is worth a judgement: smaller, or a head that names the target."""
    draft = other.facts
    if (target.gguf is None) is not (draft.gguf is None):
        return False
    if draft.role not in screen.NO_HEAD:
        made_for = draft.verifier or other.candidate.ref
        return any(names.mentions(made_for, name) for name in search.names)
    ours, theirs = target.weights.parameters, draft.weights.parameters
    return bool(ours and theirs and theirs <= screen.LARGEST * ours)
