"""The difference between two nights: which verdicts changed, and what changed them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

USABLE = ("compatible", "degraded")
LONGEST = 300


@dataclass(frozen=True, slots=True)
class VerdictOrigin:
    """What a verdict was made from."""

    target_facts: str
    draft_facts: str
    settings: str
    rules: str
    version: str


@dataclass(frozen=True, slots=True)
class News:
    kind: str
    cause: str
    why: str


def kind(before: str | None, after: str | None) -> str | None:
    """The word for a change of verdict; None: nothing that anybody waits for."""
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


def cause(before: VerdictOrigin, after: VerdictOrigin, *, gated: bool = False) -> str:
    """What is not the same any more; `several` where one alone cannot be blamed."""
    found = _moved(before, after)
    if gated and any(name.endswith("-files") for name in found):
        return "gated"
    return found[0] if len(found) == 1 else "several"


def blame(
    before: VerdictOrigin, after: VerdictOrigin, verdicts: tuple[str | None, str | None, str]
) -> str:
    """The cause where files and rules changed; verdicts: before, the old files now, after."""
    was, between, is_now = verdicts
    moved = _moved(before, after)
    files = [name for name in moved if name.endswith("-files")]
    others = [name for name in moved if name not in files]
    if between == was and len(files) == 1:
        return files[0]
    if between == is_now and len(others) == 1:
        return others[0]
    return "several"


def _moved(before: VerdictOrigin, after: VerdictOrigin) -> list[str]:
    files = [
        name
        for name, old, new in (
            ("target-files", before.target_facts, after.target_facts),
            ("draft-files", before.draft_facts, after.draft_facts),
        )
        if old != new
    ]
    found = list(files)
    if before.version != after.version:
        found.append("engine-version")  # its rules changed with it
    elif before.rules != after.rules:
        found.append("rule")
    if before.settings != after.settings:
        found.append("settings")
    return found


def words(
    row: Mapping[str, Any] | None, made: str, before: VerdictOrigin | None, after: VerdictOrigin
) -> str:
    """One sentence: what changed, and the finding that speaks now."""
    known = {
        "engine-version": f"version {before.version if before else '?'} became {after.version}",
        "rule": "the rules changed",
        "target-files": "the target's files changed",
        "draft-files": "the draft's files changed",
        "settings": "the scan's settings changed",
        "gated": "access to the files was closed",
        "new-model": "the draft is new",
        "new-target": "the target is new",
        "newly-asked": "the engine is new in the scan",
    }
    moved = known.get(made, "")
    if not moved and before is not None:
        moved = " and ".join(known[name] for name in _moved(before, after))
    seen = first(row)
    return f"{moved}; {seen}" if seen else moved


def first(row: Mapping[str, Any] | None) -> str:
    """The finding that explains a verdict best: what failed, else what is unknown."""
    if row is None:
        return ""
    found = json.loads(row["findings"])
    ranked = sorted(
        (entry for entry in found if entry[2] != "note"),
        key=lambda entry: (entry[0] != row["decided_by"], entry[1] != "fail", entry[2] != "error"),
    )
    if not ranked:
        return next(iter(json.loads(row["notes"])), "")[:LONGEST]
    rule, _, _, _, saw = ranked[0]
    return f"{rule}: {saw}"[:LONGEST]
