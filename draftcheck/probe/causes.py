"""Likely causes and limits: the words and numbers are data, in rules/probes.toml."""

from __future__ import annotations

from functools import cache
from typing import Any

from draftcheck import versions
from draftcheck.errors import RuleError, UsageError
from draftcheck.probe.readings import ProbeCause
from draftcheck.rulebook import files

FILE = "probes"


@cache
def limit(name: str) -> float:
    """A number from the table of limits."""
    return float(files.load(FILE)["limits"][name])


def find(cause: str, engine: str | None, version: str | None) -> tuple[ProbeCause, ...]:
    """The rows of a cause that hold for this engine and version, likeliest first."""
    rows = [row for row in files.load(FILE)["cause"] if row["id"] == cause]
    own = [row for row in rows if row.get("engine") == engine]
    chosen = own or [row for row in rows if "engine" not in row]
    if not chosen:
        raise RuleError(f"{FILE}.toml: no cause {cause!r} for {engine}")
    return tuple(
        ProbeCause(cause, row["text"], row["fix"], row.get("source"))
        for row in chosen
        if _holds(row, engine, version)
    )


def _holds(row: dict[str, Any], engine: str | None, version: str | None) -> bool:
    """Whether a row's window covers the version; one that cannot be placed excludes nothing."""
    numbered = str(files.load(FILE)["builds"].get(engine or "", ""))
    order = versions.ORDERS["build" if numbered else "pep440"]
    known = (version or "").partition("-")[0] if numbered else version
    try:
        if not known or (numbered and order(known) < versions.build(numbered)):
            return True
        return versions.covers(order, known, row.get("since"), row.get("until"))
    except UsageError:
        return True
