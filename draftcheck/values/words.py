"""The words that verdicts are made of; the same in code, docs and JSON.

Outcome is what a check saw, reaction what the engine will do, verdict what we say; severity is
how bad a failed rule is, relation how two vocabularies stand to each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """What a check saw."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not-applicable"


class Reaction(StrEnum):
    """What the engine will do."""

    RUNS = "runs"
    REFUSES = "refuses"
    CRASHES = "crashes"
    FALLS_BACK = "falls-back"
    IGNORES_DRAFT = "ignores-draft"
    UNKNOWN = "unknown"


class Verdict(StrEnum):
    """What we say."""

    COMPATIBLE = "compatible"
    DEGRADED = "degraded"
    INCOMPATIBLE = "incompatible"
    UNDECIDED = "undecided"


class Severity(StrEnum):
    """How bad a failed rule is; a note never changes a verdict."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Relation(StrEnum):
    """How two vocabularies relate."""

    IDENTICAL = "identical"
    PADDED = "padded"
    SPECIALS_DIFFER = "specials-differ"
    DIFFERS = "differs"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """What one check saw, with the proof in words."""

    outcome: Outcome
    saw: str
