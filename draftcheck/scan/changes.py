"""The difference between two nights: which verdicts changed, and what changed them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from draftcheck.scan.rows import ChangeKind, PairRow, VerdictRow
from draftcheck.values.findings import most_telling

USABLE = ("compatible", "degraded")
WORSE = ("broke", "unclear", "gone", "worse")
"""Changes that nobody wants."""
LONGEST = 300


Origin = Mapping[str, str]
"""What a verdict was made from: cause -> the digest, or the version, that would show it."""


def origin(pair: PairRow, row: VerdictRow) -> Origin:
    """Name what a verdict of a pair was made from."""
    return {
        "target-files": pair.target_facts,
        "draft-files": pair.draft_facts,
        "engine-version": row.version,
        "rule": row.rules,
        "settings": pair.settings,
    }


def kind(before: str | None, after: str | None) -> ChangeKind | None:
    """Find the word for a change of verdict; None: nothing that anybody waits for."""
    was, is_now = before in USABLE, after in USABLE
    if before is None:
        return "new" if is_now else None
    if after is None:
        return "gone" if was else None
    if was and not is_now:
        return "unclear" if after == "undecided" else "broke"
    if is_now and not was:
        return "works"
    if was and before != after:
        return "worse" if after == "degraded" else "better"
    return None


def cause(before: Origin, after: Origin, *, gated: bool = False) -> str:
    """Name what is not the same any more; `several` where one alone cannot be blamed."""
    moved = _moved(before, after)
    if gated and any(name.endswith("-files") for name in moved):
        return "gated"
    return moved[0] if len(moved) == 1 else "several"


def blame(before: Origin, after: Origin, verdicts: tuple[str | None, str | None, str]) -> str:
    """Name the cause where files and rules changed; verdicts: before, the old files now, after."""
    was, between, is_now = verdicts
    moved = _moved(before, after)
    files = [name for name in moved if name.endswith("-files")]
    others = [name for name in moved if name not in files]
    if between == was and len(files) == 1:
        return files[0]
    if between == is_now and len(others) == 1:
        return others[0]
    return "several"


def _moved(before: Origin, after: Origin) -> list[str]:
    moved = [name for name in after if before[name] != after[name]]
    if "engine-version" in moved and "rule" in moved:
        moved.remove("rule")  # an engine's rules change with it
    return moved


def sentence(row: VerdictRow, cause: str, before: Origin | None, after: Origin) -> str:
    """Say what changed, and the finding that speaks now."""
    old, new = (before or {}).get("engine-version", "?"), after["engine-version"]
    phrases = {
        "engine-version": f"version {old} became {new}",
        "rule": "the rules changed",
        "target-files": "the target's files changed",
        "draft-files": "the draft's files changed",
        "settings": "the scan's settings changed",
        "gated": "access to the files was closed",
        "new-model": "the draft is new",
        "new-target": "the target is new",
        "newly-asked": "the engine is new in the scan",
    }
    moved = phrases.get(cause, "")
    if not moved and before is not None:
        moved = " and ".join(phrases[name] for name in _moved(before, after))
    telling = most_telling(row.findings, row.decided_by)
    said = f"{telling.rule}: {telling.saw}" if telling else next(iter(row.notes), "")
    return f"{moved}; {said[:LONGEST]}" if said else moved
