"""The scan's store -> what the site shows: typed rows, put together and ranked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, lru_cache
from itertools import chain, groupby
from pathlib import Path

from msgspec import ValidationError, convert, structs

from draftcheck import versions
from draftcheck.errors import ReadError, UsageError
from draftcheck.evidence.known import ways
from draftcheck.evidence.matching import ModelNames, plain
from draftcheck.judge.condensed import facts as condensed
from draftcheck.judge.decide import Question
from draftcheck.recommend import costs
from draftcheck.recommend.candidates import Candidate
from draftcheck.recommend.costs import DraftPrice
from draftcheck.recommend.methods import RankedMethod, rank_methods, unread_ways
from draftcheck.recommend.ranking import RankedDraft, rank
from draftcheck.recommend.records import parse
from draftcheck.recommend.screen import JudgedCandidate
from draftcheck.report.site import data
from draftcheck.report.site.data import EngineColumn, SiteData, SitePair
from draftcheck.rulebook import book as rulebook
from draftcheck.rulebook.book import Rule
from draftcheck.scan import rows
from draftcheck.scan.plan import repo_of
from draftcheck.scan.store import DAMAGED, ScanStore
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.comparison import Behaviour, Comparison, VocabularyComparison
from draftcheck.values.facts import ModelFacts
from draftcheck.values.verdicts import EngineVerdict
from draftcheck.values.words import Relation, Severity

EARLIER = 14
"""Scans whose changes are still told."""
KEPT = 512
"""Models whose facts are held while pairs are ranked."""
NEEDED = ("scans", "targets", "verdicts")
"""Tables without which there is nothing to show: one of them must give a row."""
NOTHING = "Run draftcheck scan --store PATH first."


def load(path: Path, title: str, served: Circumstances | None = None) -> tuple[SiteData, list[str]]:
    """Everything that a store holds of its targets, as of one moment; and what it left out.

    served: the GPU and the load that pairs are ranked for.
    """
    with ScanStore.open(path, readonly=True) as store:
        store.unread = {}
        store.db.execute("BEGIN")  # one snapshot, while a scan may go on writing
        site = _site(store, title, served or Circumstances())
        for table in NEEDED:
            if store.unread.get(table) and not store.found[table]:
                raise ReadError(store.unread[table][0], hint=DAMAGED)
        return site, list(dict.fromkeys(chain.from_iterable(store.unread.values())))


def _site(store: ScanStore, title: str, served: Circumstances) -> SiteData:
    scans = store.scans()
    latest = store.latest()
    if latest is None and not store.unread:
        raise ReadError(f"{store.path}: no scan is stored in it", hint=NOTHING)
    number = latest.number if latest else 0
    before = [s for s in scans if s.number < number and s.state != "running"]
    models = {model.ref: model for model in store.models()}
    listed = store.targets()
    ranking = StoreRanking(store, models, served)
    order = _asked(latest)
    columns: dict[str, EngineColumn] = {}
    pairs: dict[str, Sequence[SitePair]] = {}
    alone: dict[str, Sequence[rows.VerdictRow]] = {}
    methods: dict[str, Sequence[RankedMethod]] = {}
    for target in listed:
        verdicts = list(store.verdicts(target=target.ref))
        for row in verdicts:  # each question becomes a column, of the newest version judged
            if row.asked not in columns or row.since > columns[row.asked].since:
                columns[row.asked] = EngineColumn(row.asked, row.engine, row.version, row.since)
        verdicts.sort(key=lambda row: order(row.asked, row.engine))
        alone[target.ref] = _answers(row for row in verdicts if row.draft is None)
        ranked, methods[target.ref] = ranking.of(target.ref, verdicts)
        pairs[target.ref] = _with_setups(ranked, verdicts)
    nights = [(scan, store.changes(scan.number)) for scan in before[: -EARLIER - 1 : -1]]
    drafts = sorted({pair.draft for ranked in pairs.values() for pair in ranked})
    return SiteData(
        title=title,
        targets=[_model(target.ref, models, target.problem) for target in listed],
        drafts=[_model(ref, models) for ref in drafts],
        columns=sorted(columns.values(), key=lambda column: order(column.asked, column.engine)),
        pairs=pairs,
        alone={ref: answers for ref, answers in alone.items() if answers},
        methods=methods,
        scan=latest,
        previous=before[-1] if before else None,
        changes=store.changes(number),
        earlier=[(scan, changes) for scan, changes in nights if changes],
        pins=list(store.read(rows.PinRow)),
        unread=[model for model in models.values() if model.status != "read"],
        gated=_gated(store, models),
    )


def _model(
    ref: str, models: Mapping[str, rows.ModelRow], problem: str | None = None
) -> rows.ModelRow:
    """What is known of a model; why it could not be read this time counts most."""
    known = models.get(ref)
    if known is None:
        return rows.ModelRow(ref, "unknown", None, "unreadable", problem)
    return replace(known, status="unreadable", problem=problem) if problem else known


def _gated(store: ScanStore, models: Mapping[str, rows.ModelRow]) -> frozenset[str]:
    def closed(ref: str) -> bool:
        return any(repo.gated for repo in store.read(rows.RepoRow, "name = ?", repo_of(ref)))

    return frozenset(r for r, model in models.items() if model.status == "gated" or closed(r))


def _asked(scan: rows.ScanRow | None) -> Callable[[str, str], tuple[int, int, str]]:
    """The order of engines: as the scan was asked for them, then as in reports."""
    named = scan.settings.get("engines") if scan else None
    first = {text: at for at, text in enumerate(named)} if isinstance(named, list) else {}
    known = {engine: at for at, engine in enumerate(rulebook.engine_files())}
    return lambda asked, engine: (first.get(asked, len(first)), known.get(engine, 99), asked)


def _with_setups(pairs: list[SitePair], verdicts: Iterable[rows.VerdictRow]) -> list[SitePair]:
    """Only the best draft's setups are shown; a store has thousands."""
    if not pairs:
        return []
    setups = {(row.asked, row.method): row.setup for row in verdicts if row.draft == pairs[0].draft}
    answers = (
        replace(answer, setup=setups[answer.asked, answer.method]) for answer in pairs[0].answers
    )
    return [replace(pairs[0], answers=tuple(answers)), *pairs[1:]]


def _answers(
    verdicts: Iterable[rows.VerdictRow], *, once: bool = False
) -> tuple[rows.VerdictRow, ...]:
    """In the order of the columns; once: of several methods of an engine the best."""
    by_question = [list(group) for _, group in groupby(map(_answer, verdicts), lambda a: a.asked)]
    ranked = map(data.best_first, by_question)
    return tuple(chain.from_iterable(group[:1] if once else group for group in ranked))


def _answer(row: rows.VerdictRow) -> rows.VerdictRow:
    """The row with what speaks against it, the deciding rule first, in the rulebook's words."""
    telling = [saw for saw in row.findings if saw.severity != Severity.NOTE]
    telling.sort(key=lambda saw: (saw.rule != row.decided_by, saw.outcome != "fail"))
    worded = tuple(_worded(saw, row.engine, row.version, row.method) for saw in telling)
    return replace(row, findings=worded, setup=None)


@lru_cache(maxsize=65536)  # the same is seen in many pairs: one value stands for all
def _worded(
    saw: rows.FailedRuleRow, engine: str, version: str, method: str | None
) -> rows.FailedRuleRow:
    rule = _rule(saw.rule, engine, version, method)
    if rule is None:  # the rulebook no longer has it
        return saw
    return structs.replace(saw, slug=rule.slug, title=rule.title, fix=rule.fix)


@cache
def _rule(rule_id: str, engine: str, version: str, method: str | None) -> Rule | None:
    """The row whose window and method this is; another of the same id for want of it."""
    if engine not in rulebook.engine_files():
        return None
    book = rulebook.load(engine)
    same_id = [rule for rule in (*book.rules, *rulebook.truth()) if rule.id == rule_id]
    with suppress(UsageError):  # no version of this engine: the store is not trusted
        for rule in same_id:
            if rule.methods and method not in rule.methods:
                continue
            if rule not in book.rules or versions.covers(
                book.order, version, rule.since, rule.until
            ):
                return rule
    return same_id[0] if same_id else None


# ---- in the order that `draftcheck recommend` would give them ----


class StoreRanking:
    """Ranks pairs of one store; facts are restored once for many pairs."""

    def __init__(
        self, store: ScanStore, models: Mapping[str, rows.ModelRow], served: Circumstances
    ) -> None:
        self._models = models
        self._served = served
        self._store = store
        self._facts = lru_cache(KEPT)(self._restore)

    def of(
        self, target: str, verdicts: Sequence[rows.VerdictRow]
    ) -> tuple[list[SitePair], tuple[RankedMethod, ...]]:
        """Usable ones ranked, those that a trial found broken behind them, the rest by verdict; and
        the methods, each with its best draft."""
        by_draft = {pair.draft: pair for pair in self._pairs(target, verdicts)}
        usable = {draft: pair for draft, pair in by_draft.items() if pair.verdict in data.USABLE}
        judged = [self._judged(pair) for pair in usable.values()]
        records = {
            (target, draft): parse(
                {**pair.trial, "target": {"ref": target}, "draft": {"ref": draft}}
            )
            for draft, pair in usable.items()
            if pair.trial
        }
        facts = self._facts(target)
        names = ModelNames(plain(target)) if facts is None else ModelNames.of(facts)
        best_first = rank(judged, target, records, names)
        ranked = [
            replace(
                by_draft[row.judged.candidate.ref],
                why=row.why,
                speedup=row.speedup,
                break_even=row.judged.price.break_even,
                at_best=row.judged.price.at_best,
            )
            for row in best_first
        ]
        methods = self._methods(names, best_first, verdicts)
        rest = by_draft.keys() - {pair.draft for pair in ranked}
        others = []
        for pair in (by_draft[draft] for draft in rest):
            cause = (pair.trial or {}).get("broken")
            why = f"a trial found it broken: {cause}" if cause else pair.why
            others.append(replace(pair, why=why))
        others.sort(key=lambda pair: (data.place(pair.verdict), pair.draft))
        return [*ranked, *others], methods

    def _methods(
        self, names: ModelNames, drafts: Sequence[RankedDraft], verdicts: Sequence[rows.VerdictRow]
    ) -> tuple[RankedMethod, ...]:
        """What the scan did not look at is named where it is published."""
        known = ways(names)
        alone = [_engine(row) for row in verdicts if row.draft is None]
        engines = {row.engine for row in verdicts} & set(rulebook.engine_files())
        asked = [Question(engine) for engine in sorted(engines)]
        seen = {row.draft for row in verdicts if row.draft is not None}
        unread = unread_ways(names, known, seen, asked, gguf=names.own.endswith(".gguf"))
        works = [entry for entry in alone if entry.verdict in data.USABLE]
        return rank_methods(names, drafts, works, unread, ways=known)

    def _pairs(self, target: str, verdicts: Iterable[rows.VerdictRow]) -> Iterator[SitePair]:
        trials = self._trials(target)
        by_draft: dict[str, list[rows.VerdictRow]] = {}
        for row in verdicts:
            if row.draft is not None:
                by_draft.setdefault(row.draft, []).append(row)
        for draft, found in by_draft.items():
            trial = trials.get(draft)
            both = (self._models.get(target), self._models.get(draft))
            ours, theirs = (model.parameters if model else None for model in both)
            yield SitePair(
                target=target,
                draft=draft,
                answers=_answers(found, once=True),
                relation=next((row.relation for row in found if row.relation), "unknown"),
                size_ratio=theirs / ours if ours and theirs is not None else None,
                trial=trial.body if trial and trial.state == "done" else None,
                problem=trial.problem if trial and trial.state != "done" else None,
            )

    def _trials(self, target: str) -> dict[str, rows.TrialRow]:
        """The newest trial of each draft, where both models still are what was measured."""
        newest = {}
        for row in self._store.read(rows.TrialRow, "target = ?", target):
            models = (self._models.get(target), self._models.get(row.draft))
            if [m and m.revision for m in models] != [row.target_revision, row.draft_revision]:
                continue
            try:
                convert(row.body, data.TrialFigures)
            except ValidationError as error:
                self._store.leave_out("trials", f"{target} {row.draft}", error)
            else:
                newest[row.draft] = row
        return newest

    def _judged(self, pair: SitePair) -> JudgedCandidate:
        best = data.best_first(pair.answers)[0]
        model = self._models.get(pair.draft)
        engine = _engine(best)
        price, target, draft = DraftPrice(), self._facts(pair.target), self._facts(pair.draft)
        if target is not None and draft is not None:
            related = VocabularyComparison(Relation(pair.relation))
            sides = Comparison(target, draft, related, (), Behaviour(None, "not looked at"))
            price = costs.price(sides, self._served, engine)
        return JudgedCandidate(
            candidate=Candidate(
                pair.draft,
                downloads=(model and model.downloads) or 0,
                likes=(model and model.likes) or 0,
            ),
            role=(model and model.role) or "full",
            verdict=pair.verdict,
            engine=engine,
            engines=tuple(a.engine for a in pair.answers if a.verdict in data.USABLE),
            relation=Relation(pair.relation),
            price=price,
            parameters=model.parameters if model else None,
            size_ratio=pair.size_ratio,
            tie="verifier" if model and _repo(model.verifier) == _repo(pair.target) else "",
            warnings=tuple(saw.title for saw in best.findings if saw.outcome == "fail"),
        )

    def _restore(self, ref: str) -> ModelFacts | None:
        model = self._models.get(ref)
        if model is None or model.facts is None:
            return None
        try:
            return condensed.restore(self._store.facts(model.facts).facts, ref)
        except ReadError:  # of another version of draftcheck: the next scan reads it anew
            return None


def _engine(row: rows.VerdictRow) -> EngineVerdict:
    return EngineVerdict(
        row.engine, row.version, row.version_checked, row.method, row.reaction, row.verdict,
        setup=row.setup,
    )  # fmt: skip


def _repo(ref: str | None) -> str | None:
    """A head may name its target without the revision that was scanned."""
    return ref.rstrip("/").partition("@")[0].lower() if ref else None
