"""What each page shows, worked out from the site's values; templates only lay it out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from draftcheck.report import charts
from draftcheck.report.layout import plural
from draftcheck.report.recommend import method_words
from draftcheck.report.site import words
from draftcheck.report.site.data import (
    NOT_APPLICABLE,
    ORDER,
    USABLE,
    SiteData,
    SitePair,
    place,
    reasons,
    word,
)
from draftcheck.scan.rows import ChangeRow, FailedRuleRow, ModelRow, PinRow, VerdictRow
from draftcheck.values.words import Verdict

TOP = 5
"""Drafts of a target that are told engine by engine on its page; the matrix has all."""
BEST = 10
"""Measured pairs on the first page."""
SHOWN_CHANGES = 8
MANY = 4
"""Engines that are named one by one where all agree."""
GIB = 1 << 30
MOST_UNREAD = 100
WORSE = ("broke", "worse", "gone", "unclear")
"""Changes that nobody wants."""
KINDS = (*WORSE, "works", "better", "new")
"""Changes in the order in which somebody wants to know of them."""
WORDS = {
    "broke": "broke", "worse": "got worse", "gone": "gone", "unclear": "no longer clear",
    "works": "work now", "better": "got better", "new": "new",
}  # fmt: skip


def entries(found: Sequence[ChangeRow]) -> list[dict[str, Any]]:
    """One per pair, pinned ones and the worst first; engines that agree share a step."""
    pairs: dict[tuple[str, str | None], list[ChangeRow]] = {}
    for change in sorted(found, key=lambda change: (not change.pinned, KINDS.index(change.kind))):
        pairs.setdefault((change.target, change.draft), []).append(change)
    shown = []
    for (target, draft), changes in pairs.items():
        alike: dict[tuple[Verdict | None, Verdict | None, str], list[str]] = {}
        for change in changes:
            key = (change.before, change.after, change.why or change.cause.replace("-", " "))
            alike.setdefault(key, []).append(change.where)
        steps = [
            {"engines": engines, "before": before, "after": after, "why": why}
            for (before, after, why), engines in alike.items()
        ]
        pinned = any(change.pinned for change in changes)
        kind = changes[0].kind
        shown.append(
            {"kind": kind, "target": target, "draft": draft, "pinned": pinned, "steps": steps}
        )
    return shown


def headline(
    site: SiteData, changed: Sequence[Mapping[str, Any]], pins: Sequence[Mapping[str, Any]]
) -> tuple[str, str]:
    """What somebody must look at first, in one sentence, and its colour."""
    states = Counter(row["state"] for row in pins)
    kinds = Counter(entry["kind"] for entry in changed)
    parts = [f"{kinds[kind]:,} {WORDS[kind]}" for kind in KINDS if kinds[kind]]
    if broken := states["broken"]:
        also = f", {states['worse']:,} got worse" if states["worse"] else ""
        what = f"{plural(broken, 'pinned pair')} {'is' if broken == 1 else 'are'} broken"
        return f"{broken:,} {what}{also}.", "incompatible"
    if worse := states["worse"]:
        return f"{worse:,} {plural(worse, 'pinned pair')} got worse.", "degraded"
    if parts:
        colour = "degraded" if kinds.keys() & set(WORSE) else "compatible"
        return f"Since the last scan: {', '.join(parts)}.", colour
    if site.previous:
        return "Nothing changed since the last scan.", "compatible"
    usable = sum(pair.verdict in USABLE for pair in site.every())
    return f"{usable:,} usable {plural(usable, 'pair')}. There is no earlier scan.", "compatible"


def overview(site: SiteData) -> dict[str, Any]:
    every = site.every()
    usable = [pair for pair in every if pair.verdict in USABLE]
    changed = entries(site.changes)
    counts: dict[str, Counter[str]] = {column.asked: Counter() for column in site.columns}
    for pair in every:
        for answer in pair.answers:
            counts[answer.asked][word(answer)] += 1
    shown = [str(verdict) for verdict in ORDER]
    if any(NOT_APPLICABLE in found for found in counts.values()):
        shown.append(NOT_APPLICABLE)
    measured = sum(pair.trial is not None for pair in every)
    pins = sorted((_pin(site, pin) for pin in site.pins), key=lambda row: PINS[row["state"]])
    return {
        "headline": headline(site, changed, pins),
        "figures": [
            (len(site.targets), plural(len(site.targets), "target")),
            (len(site.drafts), plural(len(site.drafts), "draft")),
            (len(every), f"{plural(len(every), 'pair')} judged"),
            (len(usable), "usable"),
            (measured, "measured"),
        ],
        "changes": changed[:SHOWN_CHANGES],
        "changed": len(changed),
        "pins": pins,
        "unread": site.unread[:MOST_UNREAD],
        "best": sorted(
            (pair for pair in usable if pair.speedup), key=lambda pair: -(pair.speedup or 0)
        )[:BEST],
        "rows": [_summary(site, target) for target in site.targets],
        "shown": shown,
        "engines": [
            (column, [(verdict, counts[column.asked][verdict]) for verdict in shown])
            for column in site.columns
        ],
    }


PINS = {"broken": 0, "worse": 1, "not judged": 2, "holds": 3}
"""What becomes of a pinned pair, the first to be looked at first."""


def _pin(site: SiteData, pin: PinRow) -> dict[str, Any]:
    """A pinned pair and what the engines that count say now."""
    pairs = site.pairs.get(pin.target, ())
    pair = next((pair for pair in pairs if pair.draft == pin.draft), None)
    answers = [a for a in pair.answers if a.asked in (pin.engines or (a.asked,))] if pair else []
    good = [answer.verdict in USABLE for answer in answers]
    # Every engine that is named must take it; where none is named, one is enough.
    missing = len(pin.engines) > len(answers)
    holds = (all(good) and not missing) if pin.engines else any(good)
    worse = any(
        change.kind in WORSE and change.asked in (pin.engines or (change.asked,))
        for change in site.changes
        if (change.target, change.draft) == (pin.target, pin.draft)
    )
    state = (
        "not judged" if not answers else "broken" if not holds else "worse" if worse else "holds"
    )
    return {"pin": pin, "state": state, "answers": answers}


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
            "href": f"#draft-{rank}" if rank <= TOP else in_matrix(pair.target, pair.draft),
            "order": place(pair.verdict),
            # Many good verdicts sort first.
            "engines": sum(3 - place(answer.verdict) for answer in pair.answers),
        }
        for rank, pair in enumerate(good, 1)
    ]
    best = good[0] if good else None
    # How to switch the best draft on; where it is compatible rather than degraded.
    pays = best is not None and (best.speedup is None or best.speedup > 1)
    ready = [answer for answer in best.answers if answer.setup] if best and pays else []
    compatible = [answer for answer in ready if answer.verdict == Verdict.COMPATIBLE]
    return {
        "target": model,
        "methods": [
            {"row": row, "words": method_words(row)} for row in site.methods.get(model.ref, ())
        ],
        "best": best,
        "pays": pays,
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
        same = (word(answer), answer.reaction, answer.version_checked, reasons(answer))
        key = (answer.asked, answer.version, *same, answer.memory)
        alike.setdefault(key, []).append(answer)
    return [
        replace(group[0], method=", ".join(answer.method or "" for answer in group) or None)
        for group in alike.values()
    ]


def by_verdict(answers: Sequence[VerdictRow]) -> list[tuple[str, list[str]]]:
    """Verdicts, the best first, each with the engines that gave it."""
    found: dict[str, list[str]] = {verdict: [] for verdict in (*ORDER, NOT_APPLICABLE)}
    for answer in answers:
        found[word(answer)].append(answer.asked)
    every = [f"all {len(answers)} engines"]
    return [
        (verdict, every if MANY < len(engines) == len(answers) else engines)
        for verdict, engines in found.items()
        if engines
    ]


def in_matrix(target: str, draft: str) -> str:
    return f"matrix.html#pair={words.ref_digest(target)}.{words.ref_digest(draft)}"


def _rejected(pairs: Iterator[SitePair]) -> Iterator[Mapping[str, Any]]:
    """Drafts that fail for the same rules; same: the same was seen for each."""
    # Rules that failed -> pairs, each with the first rule that failed on each engine.
    by_rules: dict[object, list[tuple[SitePair, tuple[FailedRuleRow, ...]]]] = {}
    for pair in pairs:
        found = [reasons(answer)[0] for answer in pair.answers if reasons(answer)]
        first = {reason.rule or reason.saw: reason for reason in found}
        causes = tuple(first[rule] for rule in sorted(first))
        key = tuple((reason.rule or reason.saw, reason.outcome) for reason in causes)
        by_rules.setdefault(key, []).append((pair, causes))
    for entries in sorted(by_rules.values(), key=lambda entries: -len(entries)):
        same = len({tuple(reason.saw for reason in causes) for _, causes in entries}) == 1
        yield {"reasons": entries[0][1], "pairs": [pair for pair, _ in entries], "same": same}


def _trials(pairs: Sequence[SitePair]) -> dict[str, Any]:
    """The measured pairs of a target, as figures and as curves of the first six; and memory."""
    measured = [pair for pair in pairs if pair.trial]
    shown = measured[: len(charts.SERIES)]
    drawn = []
    if gains := list(_curves(shown, "speedup")):
        drawn.append(charts.curves(gains, "Speed-up", "draft tokens", "times faster", one=True))
    elif tokens := list(_curves(shown, "tokens_per_pass")):
        drawn.append(charts.curves(tokens, "Tokens per pass", "draft tokens", "tokens", one=True))
    if loads := list(_loads(shown)):
        drawn.append(charts.loads(loads, "Speed-up by load"))
    shares = [(pair.draft, _by_position(pair.trial or {})) for pair in shown]
    places = [
        charts.ChartLine(draft, range(1, len(by_position) + 1), by_position)
        for draft, by_position in shares
        if len(by_position) > 1
    ]
    if places:
        drawn.append(charts.curves(places, "Accepted by position", "position", "share", one=False))
    trials = [_trial(pair) for pair in measured[: 2 * BEST]]
    return {"trials": trials, "charts": drawn, "memory": _memory(pairs)}


def _by_position(trial: Mapping[str, Any]) -> Sequence[float]:
    """Shares of drafts accepted up to a place: of the trial's own length, or of a longer one."""
    lengths = [row.get("acceptance_by_position") or () for row in trial.get("lengths") or ()]
    longer = [shares for shares in lengths if len(shares) <= charts.POSITIONS]
    return max([trial.get("acceptance_by_position") or (), *longer], key=len)


def _loads(pairs: Sequence[SitePair]) -> Iterator[charts.ChartLine]:
    """The gain over the sequences at once: of the engine asked for first, else as measured."""
    for pair in pairs:
        trial = pair.trial or {}
        engine: Mapping[str, Any] = next(iter(trial.get("speeds") or ()), {})
        rows = engine.get("loads") or trial.get("loads") or ()
        if len(rows) > 1:
            where = f", {engine['engine']} {engine['version']}" if engine else ""
            yield charts.ChartLine(
                pair.draft + where,
                [row["sequences"] for row in rows],
                [row["speedup"] for row in rows],
            )


def _memory(pairs: Sequence[SitePair]) -> str | None:
    """What the first drafts take beside the target, against the card."""
    shown = [
        (pair.draft, memory)
        for pair in pairs[:TOP]
        if pair.verdict in USABLE
        and (memory := pair.memory) is not None
        and None not in (memory.required_bytes, memory.target_bytes, memory.draft_bytes)
        and memory.available_bytes is not None
    ]
    if not shown:
        return None
    rows = {}
    for draft, memory in shown:
        target, own = (memory.target_bytes or 0) / GIB, (memory.draft_bytes or 0) / GIB
        rest = max((memory.required_bytes or 0) / GIB - target - own, 0)
        rows[draft] = {"target and cache": target, "draft and cache": own, "engine": rest}
    card = shown[0][1]
    limit = (f"to use on {card.gpu}:", (card.available_bytes or 0) / GIB)
    return charts.stacked(rows, "Memory with each draft", "GiB", limit)


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
