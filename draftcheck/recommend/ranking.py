"""The order of drafts: by what is known, never by guesses dressed as numbers.

What was measured here comes first, then what others published of the very pair: what the target's
own publisher names before all others. Without both: the verdict, the acceptance from which the
draft pays, its cache per token, how the vocabularies are related; popularity breaks ties.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from draftcheck.evidence.known import KnownWay, named_by, ways
from draftcheck.evidence.matching import ModelNames, plain
from draftcheck.evidence.published import PublishedFigure
from draftcheck.judge.decide import BEST_FIRST
from draftcheck.recommend.records import TrialRecord
from draftcheck.recommend.screen import JudgedCandidate
from draftcheck.trial import speedup
from draftcheck.values.sizes import short_count
from draftcheck.values.words import Relation, Verdict

Records = Mapping[tuple[str, str], TrialRecord]
"""Measured trials by target and draft."""
RELATED = {
    Relation.IDENTICAL: "the same tokenizer",
    Relation.PADDED: "the same tokens with other padding",
    Relation.UNKNOWN: "",
    Relation.SPECIALS_DIFFER: "other special tokens",
    Relation.DIFFERS: "some other tokens",
}
"""How the vocabularies are related, the closest first."""
KnownBy = Literal["measured", "published", "modelled", "rules"]
TIERS: Mapping[KnownBy, int] = {"measured": 0, "published": 1, "modelled": 2, "rules": 2}
Order = tuple[float, ...]
BEHIND = 9
"""What was measured to be no faster than no draft."""
WORTHLESS = 1.05
"""Tokens per pass up to which a draft is broken rather than bad."""
TIED = {
    "verifier": "that names this target",
    "verifier of its base": "made for the model that this target was made from",
    "name": "whose name says that it is for this target (it names no target itself)",
    "card": "whose card alone names this target",
    "you": "that you named",
}


@dataclass(frozen=True, slots=True)
class RankedDraft:
    """One draft, and why it stands where it does."""

    judged: JudgedCandidate
    why: str
    record: TrialRecord | None = None
    way: KnownWay | None = None
    """What others published of the pair; None where it was measured here."""
    named_by: int = 0
    """By whom: 0 the target's own publisher … 4 nobody, it was only measured."""

    @property
    def published(self) -> PublishedFigure | None:
        return self.way.best(None) if self.way is not None else None

    @property
    def speedup(self) -> float | None:
        """Of a real run, else of the engine's modelled passes, else as the trial has it."""
        modelled = served(self.judged, self.record)
        return modelled or (self.record.speedup if self.record else None)

    @property
    def known_by(self) -> KnownBy:
        if self.speedup is not None or (self.record and self.record.longest):
            return "measured"
        if self.way is not None and (self.published is None or self.expected[1] > 1.0):
            return "published"
        return "rules" if self.break_even is None else "modelled"

    @property
    def expected(self) -> tuple[bool, float]:
        """What published tokens per pass come to where the passes are modelled, else themselves."""
        row, costs = self.published, self.judged.price.costs
        if row is None or row.length is None:
            return False, 0.0
        if costs is None or row.tokens is None or row.tree:
            return False, row.length.middle
        return True, speedup.of_pass(row.length.middle, row.tokens, costs)

    @property
    def break_even(self) -> float | None:
        """To the hundredth: finer differences say nothing while the acceptance is not known."""
        known = self.judged.price.break_even
        return None if known is None else round(known, 2)


def served(judged: JudgedCandidate, record: TrialRecord | None) -> float | None:
    """What a measured acceptance comes to in the engine's passes, at the user's load."""
    costs = judged.price.costs
    if record is None or record.real or costs is None:
        return None
    gains = (speedup.of_pass(tokens, g, costs) for g, tokens in record.tokens_per_pass.items())
    return max(gains, default=None)


def rank(
    judged: Iterable[JudgedCandidate],
    target: str,
    records: Records,
    names: ModelNames | None = None,
) -> list[RankedDraft]:
    """Order drafts, best first; equal ones by popularity, then by name.

    names: what the target is called elsewhere.
    """
    rows = []
    names = names or ModelNames(plain(target))
    known = ways(names)
    for entry in judged:
        record = records.get((target, entry.candidate.ref))
        if record is not None and record.broken:
            continue
        draft = ModelNames(plain(entry.candidate.ref))
        told = None if record else next((way for way in known if draft.match(way.draft)), None)
        place = 0 if told is None else named_by(told, names.own)
        row = RankedDraft(entry, "", record, told, place)
        rows.append(replace(row, why=why(entry, record, row.published)))
    return sorted(rows, key=rank_key)


def why(
    judged: JudgedCandidate,
    record: TrialRecord | None = None,
    published: PublishedFigure | None = None,
) -> str:
    """Say what is known of a draft, in one sentence."""
    parts = []
    price = judged.price
    if gain := served(judged, record):
        parts.append(
            f"{gain:.2f}x in {price.where}, modelled with the acceptance that was measured"
        )
    elif record is not None and record.speedup is not None:
        parts.append(f"measured {record.speedup:.2f}x ({record.where})")
    if published is not None:
        on = f" on {published.dataset}" if published.dataset else ""
        drafted = f" with {published.tokens} drafted" if published.tokens else ""
        parts.append(f"published: {published.tokens_per_pass} tokens per pass{on}{drafted}")
    if judged.tie:
        article = "an" if judged.role[:1] in "aeiom" else "a"
        parts.append(f"{article} {judged.role} head {TIED[judged.tie]}")
    if judged.parameters is not None:
        share = "" if judged.size_ratio is None else f" ({judged.size_ratio:.1%} of the target)"
        parts.append(f"{short_count(judged.parameters)} parameters{share}")
    if RELATED[judged.relation] and not judged.tie:
        parts.append(RELATED[judged.relation])
    if price.break_even is not None:
        best = " at best (the target is a mixture of experts)" if price.at_best else ""
        where = f" in {price.where}" if price.where else ""
        parts.append(f"pays from {price.break_even:.0%} acceptance on{where}{best}")
    if price.kv_per_token:
        parts.append(f"{nbytes(price.kv_per_token)} of cache a token")
    if judged.verdict is Verdict.DEGRADED and judged.warnings:
        parts.append(f"but: {judged.warnings[0][:1].lower()}{judged.warnings[0][1:]}")
    if judged.candidate.gated:
        parts.append("gated: whoever serves it needs access")
    return ", ".join(parts) or "nothing but its verdict is known"


def nbytes(count: int) -> str:
    return f"{count / 1024:,.0f} KiB" if count >= 10 * 1024 else f"{count:,} bytes"


def evidence_order(row: RankedDraft) -> Order:
    """By what is known of its worth: the smaller, the better."""
    if row.known_by == "measured" and row.record is not None:
        return measured_order(row.record, row.speedup)
    (modelled, expected), figure = row.expected, row.published
    tree = figure is not None and bool(figure.tree)
    return (TIERS[row.known_by], row.named_by != 0, not modelled, row.named_by, tree, -expected)


def published_order(way: KnownWay, names: ModelNames) -> Order:
    """The same of what was not read here."""
    best, place = way.best(None), named_by(way, names.own)
    length = best.length.middle if best is not None and best.length is not None else 0.0
    return (TIERS["published"], place != 0, True, place, bool(best and best.tree), -length)


def measured_order(record: TrialRecord, speedup: float | None) -> Order:
    """A trial that timed nothing stands behind those that did."""
    gains = record.longest > WORTHLESS if speedup is None else speedup > 1.0
    tier = TIERS["measured"] if gains else BEHIND
    return (tier, False, speedup is None, -(record.longest if speedup is None else speedup))


def rank_key(row: RankedDraft) -> tuple[object, ...]:
    judged, price = row.judged, row.judged.price
    kept = price.kv_per_token
    return (
        *evidence_order(row),
        BEST_FIRST.index(judged.verdict),
        row.break_even is None,
        row.break_even or 0.0,
        kept is None,
        kept or 0,
        list(RELATED).index(judged.relation),
        -judged.candidate.downloads,
        -judged.candidate.likes,
        judged.candidate.ref,
    )
