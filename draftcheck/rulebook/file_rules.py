"""The rules that are about no pair: rules/files.toml (deploy files), rules/gate.toml (the gate)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from draftcheck.errors import RuleError
from draftcheck.rulebook import files
from draftcheck.values.findings import RuleText
from draftcheck.values.words import Severity

FILES, GATE = "files", "gate"


@dataclass(frozen=True, slots=True)
class FileRule(RuleText):
    """One row of either file."""

    unknown: bool = False
    """Seen, it means that something could not be checked."""


@cache
def load(name: str) -> Mapping[str, FileRule]:
    """The rows of one of the two files, by id."""
    rows = {}
    for raw in files.load(name)["rule"]:
        try:
            rows[raw["id"]] = FileRule(**{**raw, "severity": Severity(raw["severity"])})
        except (TypeError, ValueError, KeyError) as error:
            raise RuleError(f"{name}.toml rule {raw.get('id', '?')}: {error}") from None
    return rows


def every() -> list[FileRule]:
    """Both files' rows, in the order of reports."""
    return [*load(FILES).values(), *load(GATE).values()]
