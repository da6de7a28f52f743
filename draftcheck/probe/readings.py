"""What a running server tells: counters, a state, causes. No I/O, no opinions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from draftcheck.evidence.published import OWN
from draftcheck.evidence.usual import UsualRange, usual
from draftcheck.rulebook.files import RuleRow, Text
from draftcheck.values.results import PublicResult


class ProbeState(StrEnum):
    SPECULATING = "speculating"
    CONFIGURED = "configured"
    """Set up to speculate; nothing shows yet that drafts are accepted."""
    NOT_ACCEPTING = "not-accepting"
    NOT_SPECULATING = "not-speculating"
    UNKNOWN = "unknown"


class SpeculationSwitch(StrEnum):
    """What the server says of itself, counters apart."""

    ON = "on"
    """It says that it is speculating, after it tried the pair."""
    SET = "set"
    """Its settings name a draft or a method."""
    OFF = "off"
    UNTOLD = "untold"


@dataclass(frozen=True, slots=True)
class ServerCounts:
    """Running totals, or what was added between two readings."""

    drafts: int | None = None
    """Verification passes that held a draft."""
    drafted: int | None = None
    accepted: int | None = None
    generated: int | None = None
    by_position: tuple[int, ...] = ()
    """Drafts whose first i + 1 tokens were all accepted."""
    told_length: float | None = None
    """Mean accepted length where drafts are not counted: told, or tokens per pass of an answer."""
    told_rate: float | None = None

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted over drafted tokens."""
        if self.drafted and self.accepted is not None and self.accepted <= self.drafted:
            return self.accepted / self.drafted
        return self.told_rate

    @property
    def mean_length(self) -> float | None:
        """Tokens per verification pass, the target's own included."""
        if self.told_length is not None:
            return self.told_length
        if self.drafts and self.accepted is not None:
            return 1 + self.accepted / self.drafts
        return None

    @property
    def rates(self) -> tuple[float, ...]:
        """Share of the drafts that were accepted up to each position."""
        return tuple(count / self.drafts for count in self.by_position) if self.drafts else ()

    @property
    def conditional_rates(self) -> tuple[float | None, ...]:
        """The same, given that the position before was accepted."""
        if not self.drafts:
            return ()
        before = (self.drafts, *self.by_position)
        return tuple(
            count / last if last else None
            for last, count in zip(before, self.by_position, strict=False)
        )

    @property
    def weight(self) -> int:
        """How many drafts stand behind the figures; drafted tokens where passes are not told."""
        return self.drafts if self.drafts is not None else self.drafted or 0

    @property
    def none_drafted(self) -> bool:
        """Whether it is told that not one draft was made."""
        return not self.weight and (self.drafts is not None or self.drafted is not None)

    @property
    def says_nothing(self) -> bool:
        """Whether no figure can be made of it."""
        return not self.weight and self.told_length is None and self.told_rate is None


def since(later: ServerCounts, earlier: ServerCounts) -> ServerCounts | None:
    """Tell what was added between two readings; None when a counter went back (a restart)."""
    gained: list[int | None] = []
    for name in ("drafts", "drafted", "accepted", "generated"):
        now, then = getattr(later, name), getattr(earlier, name)
        gained.append(None if now is None or then is None else now - then)
    old = earlier.by_position + (0,) * len(later.by_position)
    positions = tuple(a - b for a, b in zip(later.by_position, old, strict=False))
    if any(count is not None and count < 0 for count in (*gained, *positions)):
        return None
    drafts, drafted, accepted, generated = gained
    return ServerCounts(drafts, drafted, accepted, generated, positions)


@dataclass(frozen=True, slots=True)
class ServerReading:
    switch: SpeculationSwitch = SpeculationSwitch.UNTOLD
    says: str | None = None
    """The server's own statement, with the address it came from."""
    counts: ServerCounts | None = None
    method: str | None = None
    draft: str | None = None
    model: str | None = None
    cause: str | None = None
    """Id of a cause in rules/probes.toml that the answers point to."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CompletionReply:
    counts: ServerCounts | None = None
    draftless: bool = False
    """The answer itself says that no draft model took part."""


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """Who answers, and how that was seen."""

    engine: str
    version: str | None
    seen: str


class ProbeCause(RuleRow, frozen=True):
    """Why, and what to do: of rules/probes.toml; one id has alternatives by engine and version."""

    id: Text
    text: Text
    fix: Text
    engine: str | None = None
    since: str | None = None
    until: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class ProbeResult(PublicResult):
    url: str
    state: ProbeState
    server: ServerIdentity | None = None
    reading: ServerReading | None = None
    since_start: ServerCounts | None = None
    interval: ServerCounts | None = None
    seconds: float | None = None
    prompt: ServerCounts | None = None
    causes: tuple[ProbeCause, ...] = ()
    notes: tuple[str, ...] = ()
    asked: tuple[tuple[str, int], ...] = ()
    """Every address asked and the HTTP status it gave (0: no answer)."""
    expected: tuple[str, str] | None = None
    """Target and draft that the user says it runs."""

    def __repr__(self) -> str:
        who = self.server.engine if self.server else "server"
        return f"<ProbeResult {self.state}: {who} at {self.url}>"

    @property
    def counts(self) -> ServerCounts | None:
        """Of the prompt, else of the interval, else since the server's start."""
        return self.prompt or self.interval or self.since_start

    @property
    def published(self) -> UsualRange | None:
        """What was published of the expected pair, or of the one that the server tells."""
        counts, read = self.counts, self.reading
        told = (read.model, read.draft) if read is not None else (None, None)
        target, draft = self.expected or told
        if counts is None or not counts.drafts or not counts.drafted or not target:
            return None
        if (length := counts.mean_length) is None:
            return None
        own = draft in (None, OWN, target)
        tokens = max(1, round(counts.drafted / counts.drafts))
        return usual(target, None if own else draft, tokens, length)
