"""How the rulebook would have an engine run a pair, for real runs."""

from __future__ import annotations

from collections.abc import Sequence

from draftcheck.judge import commands, methods
from draftcheck.rulebook import book
from draftcheck.rulebook.book import Method
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.comparison import Behaviour, Comparison, VocabularyComparison
from draftcheck.values.facts import ModelFacts
from draftcheck.values.words import Relation


def side_by_side(models: Sequence[ModelFacts]) -> Comparison:
    """A target, and its draft if it has one, with nothing compared."""
    target, draft = models[0], models[1] if len(models) > 1 else None
    nothing = VocabularyComparison(Relation.UNKNOWN)
    return Comparison(target, draft, nothing, (), Behaviour(None, ""))


def method(engine: str, version: str, models: Sequence[ModelFacts]) -> Method | None:
    """The one that the engine takes such a draft by, or the target's own layers; None: none."""
    chosen = methods.choose(side_by_side(models), book.load(engine), version, None).methods
    return chosen[0] if chosen else None


def setup(engine: str, version: str, models: Sequence[ModelFacts], g: int) -> str | None:
    """The command that switches drafts of g tokens on; None: the engine takes no such draft."""
    found = method(engine, version, models)
    if found is None:
        return None
    said = Circumstances(draft_tokens=g)
    return commands.render(found.setup, side_by_side(models), said, found)


def engines_for(models: Sequence[ModelFacts]) -> list[str]:
    """The engines that run such a draft, in their newest version that was read."""
    kind = methods.roles(side_by_side(models))[0]
    return [
        name
        for name in book.engine_files()
        if any(
            kind in row.drafts and row.automatic
            for row in methods.in_version(book.load(name), book.load(name).checked)
        )
    ]
