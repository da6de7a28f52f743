"""The drafts of a target in the order that `draftcheck recommend` would give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from draftcheck.errors import ReadError
from draftcheck.judge.condensed import facts as condensed
from draftcheck.recommend import costs
from draftcheck.recommend.candidates import Candidate
from draftcheck.recommend.costs import DraftPrice
from draftcheck.recommend.ranking import rank
from draftcheck.recommend.records import TrialRecord, parse
from draftcheck.recommend.screen import JudgedCandidate
from draftcheck.report.site.data import USABLE, SitePair, best_first, place
from draftcheck.scan import rows
from draftcheck.scan.store import ScanStore
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.comparison import Behaviour, Comparison, VocabularyComparison
from draftcheck.values.facts import ModelFacts
from draftcheck.values.verdicts import EngineVerdict
from draftcheck.values.words import Reaction, Relation, Verdict

KEPT = 512
"""Models whose facts are held while pairs are ranked."""


class StoreRanking:
    """Ranks pairs of one store; facts are restored once for many pairs."""

    def __init__(self, store: ScanStore, models: Mapping[str, rows.ModelRow]) -> None:
        self._models = models
        self._store = store
        self._facts = lru_cache(KEPT)(self._restore)

    def of(self, target: str, pairs: Iterable[SitePair]) -> list[SitePair]:
        """Usable ones ranked, those that a trial found broken behind them, the rest by verdict."""
        by_draft = {pair.draft: pair for pair in pairs}
        usable = {draft: pair for draft, pair in by_draft.items() if pair.verdict in USABLE}
        judged = [self._judged(pair) for pair in usable.values()]
        records = {(target, draft): _record(pair) for draft, pair in usable.items() if pair.trial}
        ranked = [
            replace(
                by_draft[row.judged.candidate.ref],
                why=row.why,
                speedup=row.speedup,
                break_even=row.judged.price.break_even,
                at_best=row.judged.price.at_best,
            )
            for row in rank(judged, target, records)
        ]
        rest = by_draft.keys() - {pair.draft for pair in ranked}
        others = [replace(by_draft[draft], why=_broken(by_draft[draft])) for draft in rest]
        others.sort(key=lambda pair: (place(pair.verdict), pair.draft))
        return [*ranked, *others]

    def _judged(self, pair: SitePair) -> JudgedCandidate:
        best = best_first(pair.answers)[0]
        model = self._models.get(pair.draft)
        warnings = tuple(saw.title for saw in best.findings if saw.outcome == "fail")
        return JudgedCandidate(
            candidate=Candidate(
                pair.draft,
                downloads=(model and model.downloads) or 0,
                likes=(model and model.likes) or 0,
            ),
            role=(model and model.role) or "full",
            verdict=pair.verdict,
            engine=_verdict(best),
            engines=tuple(a.engine for a in pair.answers if a.verdict in USABLE),
            relation=Relation(pair.relation),
            price=self._price(pair),
            parameters=model.parameters if model else None,
            size_ratio=pair.size_ratio,
            tie="verifier" if model and _repo(model.verifier) == _repo(pair.target) else "",
            warnings=warnings,
        )

    def _price(self, pair: SitePair) -> DraftPrice:
        target, draft = self._facts(pair.target), self._facts(pair.draft)
        if target is None or draft is None:
            return DraftPrice()
        related = VocabularyComparison(Relation(pair.relation))
        sides = Comparison(target, draft, related, (), Behaviour(None, "not looked at"))
        return costs.price(sides, Circumstances())

    def _restore(self, ref: str) -> ModelFacts | None:
        model = self._models.get(ref)
        if model is None or model.facts is None:
            return None
        try:
            return condensed.restore(self._store.facts(model.facts).facts, ref)
        except ReadError:  # of another version of draftcheck: the next scan reads it anew
            return None


def _record(pair: SitePair) -> TrialRecord:
    body: dict[str, Any] = {
        **(pair.trial or {}), "target": {"ref": pair.target}, "draft": {"ref": pair.draft},
    }  # fmt: skip
    return parse(body)


def _repo(ref: str | None) -> str | None:
    """A head may name its target without the revision that was scanned."""
    return ref.rstrip("/").partition("@")[0].lower() if ref else None


def _broken(pair: SitePair) -> str:
    cause = (pair.trial or {}).get("broken")
    return f"a trial found it broken: {cause}" if cause else pair.why


def _verdict(answer: rows.VerdictRow) -> EngineVerdict:
    return EngineVerdict(
        answer.engine, answer.version, answer.version_checked, answer.method,
        Reaction(answer.reaction), Verdict(answer.verdict), setup=answer.setup,
    )  # fmt: skip
