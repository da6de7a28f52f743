"""rules/tables/speculation-ways.toml: which ways of speculating an engine offers."""

from __future__ import annotations

from draftcheck.rulebook import files
from draftcheck.rulebook.files import Names, RuleRow, Text
from draftcheck.trial.result import SpeculationFigures


class EngineWays(RuleRow, frozen=True):
    """One engine's; the table explains the fields."""

    name: Text
    version: Text
    ways: Names
    greedy_draft: bool
    ngram_from_one: bool
    source: Text

    def offers(self, row: SpeculationFigures) -> bool:
        return row.method in self.ways and not (self.ngram_from_one and (row.min or 1) > 1)


class EngineWaysFile(RuleRow, frozen=True):
    engine: tuple[EngineWays, ...]


def of(engine: str | None) -> EngineWays:
    """Of an engine that was not read: draft lengths alone."""
    known = files.read("tables/speculation-ways", EngineWaysFile).engine
    unread = EngineWays(engine or "any", "any", ("draft_model",), True, False, "none")
    return next((row for row in known if row.name == engine), unread)
