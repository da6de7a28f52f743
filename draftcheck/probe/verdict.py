"""From readings to a state and its likely cause: do the counters bear out what a server says?

The words of causes and the limits are data, in rules/probes.toml.
"""

from __future__ import annotations

from collections.abc import Mapping

from draftcheck import versions
from draftcheck.errors import RuleError, UsageError
from draftcheck.probe.readings import (
    ProbeCause,
    ProbeState,
    ServerCounts,
    ServerReading,
    SpeculationSwitch,
)
from draftcheck.rulebook import files
from draftcheck.rulebook.files import RuleRow, Text

FILE = "probes"
Verdict = tuple[ProbeState, str | None]
"""The state and the id of the cause, if one is to be named."""


class ProbeLimits(RuleRow, frozen=True):
    """From where on numbers say something."""

    broken_length: float
    broken_rate: float
    enough_drafts: int
    enough_drafted: int
    enough_tokens: int
    some_tokens: int


class CauseRow(RuleRow, frozen=True):
    """A likely cause in words; rows of one id are alternatives by engine and version."""

    id: Text
    text: Text
    fix: Text
    engine: str | None = None
    since: str | None = None
    until: str | None = None
    source: str | None = None


class ProbeFile(RuleRow, frozen=True):
    """rules/probes.toml."""

    limits: ProbeLimits
    builds: Mapping[str, str]
    """Engine -> the first build; its servers may tell versions of another kind."""
    cause: tuple[CauseRow, ...]


def _table() -> ProbeFile:
    return files.read(FILE, ProbeFile)


def find_causes(cause: str, engine: str | None, version: str | None) -> tuple[ProbeCause, ...]:
    """The rows of a cause that hold for this engine and version, likeliest first."""
    rows = [row for row in _table().cause if row.id == cause]
    own = [row for row in rows if row.engine == engine]
    chosen = own or [row for row in rows if row.engine is None]
    if not chosen:
        raise RuleError(f"{FILE}.toml: no cause {cause!r} for {engine}")
    return tuple(
        ProbeCause(cause, row.text, row.fix, row.source)
        for row in chosen
        if _holds(row, engine, version)
    )


def _holds(row: CauseRow, engine: str | None, version: str | None) -> bool:
    """Whether a row's window covers the version; one that cannot be placed excludes nothing."""
    numbered = _table().builds.get(engine or "", "")
    order = versions.ORDERS["build" if numbered else "pep440"]
    known = (version or "").partition("-")[0] if numbered else version
    try:
        if not known or (numbered and order(known) < versions.build(numbered)):
            return True
        return versions.covers(order, known, row.since, row.until)
    except UsageError:
        return True


def judge(reading: ServerReading, *latest: ServerCounts | None) -> Verdict:
    """Decide by the newest figures that say something; the server's own word comes after."""
    if reading.switch is SpeculationSwitch.OFF:
        return ProbeState.NOT_SPECULATING, reading.cause or "off"
    untold = reading.switch is SpeculationSwitch.UNTOLD
    in_vain = 0
    for counts in (*latest, reading.counts):
        if counts is not None and not counts.says_nothing:
            return _weigh(counts)
        if counts is not None and counts.none_drafted:
            in_vain = max(in_vain, counts.generated or 0)
        if in_vain >= _table().limits.enough_tokens:
            return ProbeState.NOT_SPECULATING, "off" if untold else "never-drafts"
    if untold:
        return ProbeState.UNKNOWN, reading.cause or "no-evidence"
    if in_vain >= _table().limits.some_tokens:
        return ProbeState.CONFIGURED, "never-drafts"
    if reading.switch is SpeculationSwitch.ON:
        return ProbeState.SPECULATING, None
    return ProbeState.CONFIGURED, reading.cause or "no-request"


def _weigh(counts: ServerCounts) -> Verdict:
    """Drafts were made: are they accepted?"""
    length, rate = counts.mean_length, counts.acceptance_rate
    by_tokens = counts.drafts is None and counts.drafted is not None
    if by_tokens and rate is not None:
        # Passes without a draft may be among them: the mean length would blame the draft.
        accepting = rate > _table().limits.broken_rate
    elif length is not None:
        accepting = length > _table().limits.broken_length
    else:
        return ProbeState.UNKNOWN, "no-figures"
    if accepting:
        return ProbeState.SPECULATING, None
    if counts.drafts is not None:
        enough = counts.drafts >= _table().limits.enough_drafts
    else:
        enough = counts.drafted is None or counts.drafted >= _table().limits.enough_drafted
    if enough:
        return ProbeState.NOT_ACCEPTING, "rejected"
    return ProbeState.UNKNOWN, "few-drafts"
