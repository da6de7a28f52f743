"""What is known of a target with any draft, head or method, or with one of them.

Ways that publishers and engines' makers name come first, the target's own publisher before all
others; with a kind of work in mind, what was measured for it does. Figures of one way do not add
up: each stands for itself, with its source.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

from draftcheck import versions
from draftcheck.errors import UsageError
from draftcheck.evidence import published
from draftcheck.evidence.matching import Match, ModelNames, plain
from draftcheck.evidence.profiles import SpeculationProfile
from draftcheck.evidence.published import OWN, PublishedFigure, PublishedPair
from draftcheck.models import names
from draftcheck.rulebook import book

TAKES = {"draft_model": "full", "p-eagle": "peagle", "pard": "full"}
"""Methods whose drafts the rulebook calls otherwise."""
REFUSES = {"refuses", "crashes", "unknown"}
WITHOUT_FILES = {"always", "draft_is_full_model"}
"""Checks whose outcome for a head is known before a file of it is read."""


@dataclass(frozen=True)
class NamedEngine:
    """An engine that a publisher names for a pair, held against the rules."""

    engine: str
    since: str
    """The oldest version that the source names, or nothing."""
    row: PublishedPair
    refused: str
    """What the rules say against that version, or nothing."""


@dataclass
class KnownWay:
    """One draft, head or method for the target."""

    draft: str
    """A repo, "own", "none", or the source's words for what has no public file."""
    method: str
    how: Match
    targets: set[str] = field(default_factory=set)
    pairs: list[PublishedPair] = field(default_factory=list)
    figures: list[PublishedFigure] = field(default_factory=list)

    @property
    def public(self) -> bool:
        return "/" in self.draft or self.draft in (OWN, published.NO_DRAFT)

    @property
    def engines(self) -> list[NamedEngine]:
        found: dict[str, NamedEngine] = {}
        for row in self.pairs:
            for engine, since in row.since.items():
                if engine not in found or (since and not found[engine].since):
                    said = refused(engine, since, self.method, self.draft)
                    found[engine] = NamedEngine(engine, since, row, said)
        return list(found.values())

    def best(self, work: str | None) -> PublishedFigure | None:
        return published.best(self.figures, work)


def ways(
    target: ModelNames,
    draft: str | None = None,
    *,
    work: str | None = None,
    engine: str | None = None,
) -> list[KnownWay]:
    """Best first."""
    if engine is not None:
        book.load(engine)  # an unknown one is refused, with those that are known
    found: dict[tuple[str, str], KnownWay] = {}

    def way(who: str, method: str, how: Match, of: str) -> KnownWay:
        one = found.setdefault((who, method), KnownWay(who, method, how))
        one.how = min(one.how, how, key=get_args(Match).index)
        one.targets.add(of)
        return one

    for pair in published.holding(published.pairs, target):
        if (how := target.match(pair.target)) and _asked(pair.draft, pair.method, draft):
            way(published.repo(pair.draft), pair.method, how, pair.target).pairs.append(pair)
    for row in published.holding(published.figures, target):
        if (how := target.match(row.target)) and _asked(row.who, row.method, draft):
            way(published.repo(row.who), row.method, how, row.target).figures.append(row)
    kept = [one for one in found.values() if engine is None or _runs_in(one, engine)]
    return sorted(kept, key=lambda one: _order(one, target.own, work))


def profile(found: list[KnownWay]) -> SpeculationProfile:
    """Of the first way that has a figure by position."""
    rows = [row for way in found for row in way.figures if row.positions_are == "marginal"]
    if not rows:
        raise UsageError("no rates by position are published: there is no profile to write")
    row = max(rows, key=_weight_by_position)
    return SpeculationProfile(
        marginal=tuple(row.by_position),
        method=row.method,
        draft=row.draft if row.draft != OWN else None,
        target=row.target,
        conditions={
            "dataset": row.dataset or None,
            "temperature": row.temperature,
            "engine": row.engine or None,
            "engine_version": row.version or None,
        },
        own={"evidence": row.id, "source": row.source, "thinking": row.thinking},
    )


def _weight_by_position(row: PublishedFigure) -> tuple[bool, float]:
    return (not row.second_hand, sum(row.by_position))


def _asked(who: str, method: str, draft: str | None) -> bool:
    return draft is None or draft == method or ModelNames(plain(draft)).match(who) is not None


def _runs_in(way: KnownWay, engine: str) -> bool:
    named = {one.engine for one in way.engines} | {row.engine for row in way.figures}
    return engine in named


def _order(way: KnownWay, target: str, work: str | None) -> tuple[float, ...]:
    best = way.best(work)
    length = best.length.middle if best is not None and best.length is not None else 0.0
    named = named_by(way, target)
    if work is not None:
        return (not way.public, not length, bool(best and best.tree), -length, named)
    return (not way.public, named, bool(best and best.tree), -length)


def named_by(way: KnownWay, target: str) -> int:
    """0: the target's own publisher … 4: nobody; it was only measured."""
    # Who only packs a model is not its publisher, unless that packing is asked about.
    originals = [name for name in way.targets if names.short(name) == name.partition("/")[2]]
    owners = {name.partition("/")[0].lower() for name in (target, *originals)}
    theirs = way.draft == OWN or way.draft.partition("/")[0].lower() in owners
    if way.pairs and theirs and way.method != "draft_model":
        return 0
    kinds = {pair.kind for pair in way.pairs}
    for place, kind in enumerate(("engine recipe", "publisher", "community"), 1):
        if kind in kinds:
            return place
    return 4


def refused(engine: str, version: str, method: str, draft: str) -> str:
    """What the rules say of a method at the oldest version that a publisher names, or nothing.

    Only what holds for every pair: files were not read.
    """
    if not version:
        return ""
    found = book.load(engine)
    order = versions.ORDERS[found.versions]
    kind = "itself" if draft == OWN else TAKES.get(method, method)
    takes = [one for one in found.methods if kind in one.drafts]
    if not takes:
        return ""
    here = [one for one in takes if versions.covers(order, version, one.since, one.until)]
    if not here:
        oldest = min((one.since for one in takes if one.since), key=order, default="")
        return f"{engine} {version} has no such method" + (f": from {oldest} on" if oldest else "")
    if kind == "full":
        return ""  # rules about ordinary drafts look at their files
    said = [_against(found, order, version, one.id, kind) for one in here]
    return said[0] if all(said) else ""


def _against(found: book.Engine, order: versions.Key, version: str, method: str, kind: str) -> str:
    for rule in found.rules:
        if (
            _holds_without_files(rule, kind)
            and method in rule.methods
            and rule.severity == "error"
            and rule.reaction in REFUSES
            and versions.covers(order, version, rule.since, rule.until)
        ):
            return f"{rule.id}: {rule.title}. {rule.fix}"
    return ""


def _holds_without_files(rule: book.Rule, kind: str) -> bool:
    """Whether the rule is against every head of this kind, whatever its files say."""
    if rule.check == "head_kind_in":
        return kind not in rule.params["kinds"] and kind in rule.params.get("fails", [kind])
    return rule.check in WITHOUT_FILES
