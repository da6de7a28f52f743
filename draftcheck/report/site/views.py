"""What each page shows, worked out from the site's values; templates only lay it out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from draftcheck.report import charts
from draftcheck.report.recommend import method_words
from draftcheck.report.site import words
from draftcheck.report.site.data import ORDER, USABLE, SiteData, SitePair, place
from draftcheck.scan.rows import ChangeRow, FailedRuleRow, ModelRow, PinRow, VerdictRow
from draftcheck.values.words import Verdict

TOP = 5
"""Drafts of a target that are told engine by engine on its page; the matrix has all."""
BEST = 10
"""Measured pairs on the first page."""
SHOWN_CHANGES = 8
MOST_UNREAD = 100
KINDS = ("broke", "worse", "gone", "works", "better", "new", "unclear")
"""Changes in the order in which somebody wants to know of them."""


def entries(found: Sequence[ChangeRow]) -> list[dict[str, Any]]:
    """One per pair and kind, pinned ones and the worst first; engines that agree share a step."""
    pairs: dict[tuple[str, str, str | None], list[ChangeRow]] = {}
    for change in sorted(found, key=lambda change: (not change.pinned, KINDS.index(change.kind))):
        pairs.setdefault((change.kind, change.target, change.draft), []).append(change)
    shown = []
    for (kind, target, draft), changes in pairs.items():
        alike: dict[tuple[Verdict | None, Verdict | None, str], list[str]] = {}
        for change in changes:
            key = (change.before, change.after, change.why or change.cause.replace("-", " "))
            alike.setdefault(key, []).append(change.where)
        steps = [
            {"engines": engines, "before": before, "after": after, "why": why}
            for (before, after, why), engines in alike.items()
        ]
        pinned = any(change.pinned for change in changes)
        shown.append(
            {"kind": kind, "target": target, "draft": draft, "pinned": pinned, "steps": steps}
        )
    return shown


def overview(site: SiteData) -> dict[str, Any]:
    every = site.every()
    usable = [pair for pair in every if pair.verdict in USABLE]
    changed = entries(site.changes)
    counts: dict[str, Counter[Verdict]] = {column.asked: Counter() for column in site.columns}
    for pair in every:
        for answer in pair.answers:
            counts[answer.asked][answer.verdict] += 1
    return {
        "figures": [
            ("targets", len(site.targets)),
            ("drafts", len(site.drafts)),
            ("pairs judged", len(every)),
            ("usable pairs", len(usable)),
            ("measured pairs", sum(pair.trial is not None for pair in every)),
            ("changes", len(site.changes)),
        ],
        "changes": changed[:SHOWN_CHANGES],
        "changed": len(changed),
        "pins": [_pin(site, pin) for pin in site.pins],
        "unread": site.unread[:MOST_UNREAD],
        "best": sorted(
            (pair for pair in usable if pair.speedup), key=lambda pair: -(pair.speedup or 0)
        )[:BEST],
        "rows": [_summary(site, target) for target in site.targets],
        "engines": [
            (column, [counts[column.asked].get(verdict, 0) for verdict in ORDER])
            for column in site.columns
        ],
        "chart": charts.verdicts(counts, "Verdicts by engine") if every else None,
    }


def _pin(site: SiteData, pin: PinRow) -> dict[str, Any]:
    """A pinned pair and what the engines that count say now."""
    pairs = site.pairs.get(pin.target, ())
    pair = next((pair for pair in pairs if pair.draft == pin.draft), None)
    answers = [a for a in pair.answers if a.asked in (pin.engines or (a.asked,))] if pair else []
    good = [answer.verdict in USABLE for answer in answers]
    # Every engine that is named must take it; where none is named, one is enough.
    missing = len(pin.engines) > len(answers)
    holds = (all(good) and not missing) if pin.engines else any(good)
    return {"pin": pin, "answers": answers, "told": told(answers), "holds": bool(answers) and holds}


def changes(found: Sequence[ChangeRow]) -> list[tuple[str, list[dict[str, Any]]]]:
    """By kind, the worst first."""
    ordered = sorted(entries(found), key=lambda entry: KINDS.index(entry["kind"]))
    return [(kind, list(group)) for kind, group in groupby(ordered, lambda entry: entry["kind"])]


def _summary(site: SiteData, target: ModelRow) -> dict[str, Any]:
    """A target in the list of all."""
    pairs = site.pairs.get(target.ref, ())
    usable = [pair for pair in pairs if pair.verdict in USABLE]
    best = usable[0] if usable else None
    return {
        "target": target,
        "best": best,
        "usable": len(usable),
        "pairs": len(pairs),
        "order": place(best.verdict) if best else len(ORDER),
        "speedup": best.speedup if best else None,
        "method": next((row.name for row in site.methods.get(target.ref, ())), ""),
    }


def target(site: SiteData, model: ModelRow, drafts: Mapping[str, ModelRow]) -> dict[str, Any]:
    pairs = site.pairs.get(model.ref, ())
    good = [pair for pair in pairs if pair.verdict in USABLE]
    usable = [
        {
            "rank": rank,
            "pair": pair,
            "draft": drafts[pair.draft],
            "anchor": f"draft-{rank}",
            "href": f"#draft-{rank}" if rank <= TOP else _in_matrix(pair),
            "order": place(pair.verdict),
            # Many good verdicts sort first.
            "engines": sum(3 - place(answer.verdict) for answer in pair.answers),
        }
        for rank, pair in enumerate(good, 1)
    ]
    best = good[0] if good else None
    # How to switch the best draft on; where it is compatible rather than degraded.
    ready = [answer for answer in best.answers if answer.setup] if best else []
    compatible = [answer for answer in ready if answer.verdict == Verdict.COMPATIBLE]
    return {
        "target": model,
        "methods": [
            {"row": row, "words": method_words(row)} for row in site.methods.get(model.ref, ())
        ],
        "best": best,
        "setups": compatible or ready,
        "usable": usable,
        "detailed": usable[:TOP],
        "rejected": list(_rejected(pair for pair in pairs if pair.verdict not in USABLE)),
        "alone": _alone(site.alone.get(model.ref, ())),
        **_trials(pairs),
    }


def _alone(answers: Sequence[VerdictRow]) -> list[VerdictRow]:
    """Methods of an engine that come out alike share a line."""
    alike: dict[tuple[object, ...], list[VerdictRow]] = {}
    for answer in answers:
        same = (answer.verdict, answer.reaction, answer.version_checked, answer.findings)
        key = (answer.asked, answer.version, *same, answer.memory)
        alike.setdefault(key, []).append(answer)
    return [
        replace(group[0], method=", ".join(answer.method or "" for answer in group))
        for group in alike.values()
    ]


def told(answers: Sequence[VerdictRow]) -> str:
    """A row of marks in words: the verdicts, and the engines where there are few."""
    parts = []
    for verdict in ORDER:
        engines = [answer.asked for answer in answers if answer.verdict == verdict]
        if engines:
            parts.append(f"{verdict}: {', '.join(engines) if len(engines) < 4 else len(engines)}")
    return "; ".join(parts)


def _in_matrix(pair: SitePair) -> str:
    return f"matrix.html#pair={words.ref_digest(pair.target)}.{words.ref_digest(pair.draft)}"


def _rejected(pairs: Iterator[SitePair]) -> Iterator[Mapping[str, Any]]:
    """Drafts that fail for the same rules; same: the same was seen for each."""
    # Rules that failed -> pairs, each with the first rule that failed on each engine.
    by_rules: dict[object, list[tuple[SitePair, tuple[FailedRuleRow, ...]]]] = {}
    for pair in pairs:
        first = {
            answer.findings[0].rule: answer.findings[0]
            for answer in pair.answers
            if answer.findings
        }
        reasons = tuple(first[rule] for rule in sorted(first))
        key = tuple((reason.rule, reason.outcome) for reason in reasons)
        by_rules.setdefault(key, []).append((pair, reasons))
    for entries in sorted(by_rules.values(), key=lambda entries: -len(entries)):
        same = len({tuple(reason.saw for reason in reasons) for _, reasons in entries}) == 1
        yield {"reasons": entries[0][1], "pairs": [pair for pair, _ in entries], "same": same}


def _trials(pairs: Sequence[SitePair]) -> dict[str, Any]:
    """The measured pairs of a target, as figures and as curves of the first six."""
    measured = [pair for pair in pairs if pair.trial]
    shown = measured[: len(charts.SERIES)]
    drawn = []
    if gains := list(_curves(shown, "speedup")):
        drawn.append(charts.curves(gains, "Speed-up", "draft tokens", "times faster", one=True))
    elif tokens := list(_curves(shown, "tokens_per_pass")):
        drawn.append(charts.curves(tokens, "Tokens per pass", "draft tokens", "tokens", one=True))
    shares = [(p.draft, (p.trial or {}).get("acceptance_by_position") or ()) for p in shown]
    places = [
        charts.ChartLine(draft, range(1, len(by_position) + 1), by_position)
        for draft, by_position in shares
        if len(by_position) > 1
    ]
    if places:
        drawn.append(charts.curves(places, "Accepted by position", "position", "share", one=False))
    return {"trials": [_trial(pair) for pair in measured[: 2 * BEST]], "charts": drawn}


def _curves(pairs: Sequence[SitePair], figure: str) -> Iterator[charts.ChartLine]:
    for pair in pairs:
        rows = [row for row in (pair.trial or {}).get("lengths") or () if row.get(figure)]
        if len(rows) > 1:
            yield charts.ChartLine(
                pair.draft, [row["draft_tokens"] for row in rows], [row[figure] for row in rows]
            )


def _trial(pair: SitePair) -> dict[str, Any]:
    trial = pair.trial or {}
    best = trial.get("best") or {}
    parts = (trial.get("backend"), trial.get("device"), trial.get("dtype"))
    how = ", ".join(str(part) for part in parts if part)
    prompts = trial.get("prompts")
    return {
        "draft": pair.draft,
        "trial": trial,
        "speedup": pair.speedup,
        "length": best.get("draft_tokens") or trial.get("length"),
        "tokens": best.get("tokens_per_pass"),
        "how": f"{how}, {prompts} prompts" if prompts else how,
        "broken": trial.get("broken"),
    }
