"""Which method for this target: the best draft of each, ranked as drafts are.

What was measured here comes first, then what is published, then what can be modelled. A way that
is published and whose files nobody has read here is named too, and that it was not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from draftcheck import versions
from draftcheck.evidence import methods
from draftcheck.evidence.known import TAKES, KnownWay
from draftcheck.evidence.matching import ModelNames, plain
from draftcheck.evidence.published import NO_DRAFT, OWN, PublishedFigure
from draftcheck.judge.decide import BEST_FIRST, Question
from draftcheck.recommend.ranking import (
    BEHIND,
    TIERS,
    KnownBy,
    Order,
    RankedDraft,
    evidence_order,
    measured_order,
    published_order,
)
from draftcheck.recommend.records import TrialRecord
from draftcheck.rulebook import book
from draftcheck.values.verdicts import EngineVerdict
from draftcheck.values.words import Verdict

NO_MODEL = TIERS["modelled"] + 1
"""What n-grams are worth depends on the text alone: behind everything that was trained."""


@dataclass(frozen=True, slots=True)
class RankedMethod:
    """One way of speculating, with the draft that speaks best for it."""

    name: str
    draft: str | None
    """None: the target itself has what it takes, or nothing is needed."""
    known_by: KnownBy
    engines: tuple[str, ...]
    """Those that run it; of what was not read, those that have such a method."""
    verdict: Verdict | None = None
    """None: its files were not read here."""
    speedup: float | None = None
    break_even: float | None = None
    way: KnownWay | None = None
    setup: EngineVerdict | None = None
    order: Order = (BEHIND,)

    @property
    def published(self) -> PublishedFigure | None:
        """What others measured of it, where nobody measured it here."""
        return self.way.best(None) if self.way is not None else None


def rank_methods(
    names: ModelNames,
    drafts: Sequence[RankedDraft],
    alone: Sequence[EngineVerdict],
    unread: Iterable[RankedMethod] = (),
    *,
    ways: Sequence[KnownWay] = (),
    own: TrialRecord | None = None,
) -> tuple[RankedMethod, ...]:
    """Best first, each method once.

    alone: what works without a draft; own: the trial of the target's own layers.
    """
    rows = [*map(_drafted, drafts), *_alone(names, alone, ways, own), *unread]
    best: dict[str, RankedMethod] = {}
    for row in sorted(rows, key=lambda row: row.order):
        best.setdefault(row.name, row)
    return tuple(best.values())


def unread_ways(
    names: ModelNames,
    ways: Iterable[KnownWay],
    seen: Collection[str],
    asked: Sequence[Question],
    *,
    gguf: bool,
) -> Iterator[RankedMethod]:
    """Published heads and drafts that nobody looked at. gguf: the target is such a file."""
    looked_at = [ModelNames(plain(ref)) for ref in seen]
    for way in ways:
        if not way.public or way.draft in (OWN, NO_DRAFT):
            continue
        if gguf is not ("gguf" in way.draft.lower()):
            continue
        if any(one.match(way.draft) for one in looked_at):
            continue
        if engines := tuple(_takers(way, asked)):
            yield RankedMethod(
                methods.called(way.method, way.draft), way.draft, "published", engines, way=way,
                order=published_order(way, names),
            )  # fmt: skip


def _takers(way: KnownWay, asked: Sequence[Question]) -> Iterator[str]:
    """Engines that have a method for such drafts."""
    kind = TAKES.get(way.method, way.method)
    for question in asked:
        engine = book.load(question.engine)
        version = engine.version(question.version)
        if any(
            kind in method.drafts
            and versions.covers(engine.order, version, method.since, method.until)
            and question.method in (None, method.id)
            for method in engine.methods
        ):
            yield engine.id


def _drafted(row: RankedDraft) -> RankedMethod:
    judged, order = row.judged, evidence_order(row)
    if row.known_by in ("modelled", "rules"):  # behind layers that the target itself has
        place = BEST_FIRST.index(judged.verdict)
        order = (order[0], place + 1, row.break_even is None, row.break_even or 0.0)
    return RankedMethod(
        name=methods.called(judged.role, judged.candidate.ref),
        draft=judged.candidate.ref,
        known_by=row.known_by,
        engines=judged.engines,
        verdict=judged.verdict,
        speedup=row.speedup,
        break_even=row.break_even,
        way=row.way,
        setup=judged.engine,
        order=order,
    )


def _alone(
    names: ModelNames,
    alone: Sequence[EngineVerdict],
    ways: Sequence[KnownWay],
    own: TrialRecord | None,
) -> Iterator[RankedMethod]:
    """The target's own layers, and what looks into the text."""
    kinds: dict[tuple[str, str], list[EngineVerdict]] = {}
    for entry in alone:
        kind = "dspark" if "dspark" in (entry.method or "").lower() else "mtp"
        who = (
            (OWN, kind) if book.uses_own_layers(entry.engine, entry.method) else (NO_DRAFT, "ngram")
        )
        kinds.setdefault(who, []).append(entry)
    for (draft, kind), entries in kinds.items():
        trial = own if draft == OWN else None
        if trial is not None and trial.broken:
            continue
        way = next((way for way in ways if (way.draft, way.method) == (draft, kind)), None)
        known_by: KnownBy = "rules"
        order: Order = (TIERS["rules"] if draft == OWN else NO_MODEL, 0)
        if trial is not None:
            known_by, order, way = "measured", measured_order(trial, trial.speedup), None
        elif way is not None:
            known_by, order = "published", published_order(way, names)
        ready = min(
            entries, key=lambda e: (BEST_FIRST.index(e.verdict), (e.setup or "").count("\n"))
        )
        yield RankedMethod(
            name=methods.called(kind, draft),
            draft=None,
            known_by=known_by,
            engines=tuple(dict.fromkeys(entry.engine for entry in entries)),
            verdict=ready.verdict,
            speedup=trial.speedup if trial is not None else None,
            way=way,
            setup=ready,
            order=order,
        )
