"""What doctor asks about, and what it found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class AssumptionState(StrEnum):
    HOLDS = "holds"
    DIFFERS = "differs"
    """Not as recorded, but draftcheck works all the same."""
    FAILS = "fails"
    UNKNOWN = "unknown"
    """It could not be asked."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something about a Hub that draftcheck takes for granted."""

    name: str
    text: str
    otherwise: str
    """What follows when it does not hold."""
    copes: bool = False
    """Whether draftcheck gives right answers all the same."""


@dataclass(frozen=True, slots=True)
class AssumptionCheck:
    assumption: Assumption
    state: AssumptionState
    asked: str = ""
    """Path and query of the question."""
    status: int | None = None
    saw: str = ""


@dataclass(frozen=True, slots=True)
class DoctorReport:
    endpoint: str
    model: str
    has_token: bool
    leads_to: str | None
    """The Hub that answers behind the endpoint, where that is a mirror."""
    checks: tuple[AssumptionCheck, ...]
    next_step: str

    def in_state(self, *states: AssumptionState) -> list[AssumptionCheck]:
        return [check for check in self.checks if check.state in states]
