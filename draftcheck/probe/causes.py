"""Likely causes and limits: the words and numbers are data, in rules/probes.toml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from draftcheck import versions
from draftcheck.errors import RuleError, UsageError
from draftcheck.probe.readings import ProbeCause
from draftcheck.rulebook import files
from draftcheck.rulebook.files import RuleRow, Text

FILE = "probes"


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


@cache
def limit(name: str) -> float:
    """A number from the table of limits."""
    return float(getattr(_table().limits, name))


def find(cause: str, engine: str | None, version: str | None) -> tuple[ProbeCause, ...]:
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
