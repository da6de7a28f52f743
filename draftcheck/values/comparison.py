"""Comparison: two sets of facts side by side. No opinion, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from draftcheck.values.facts import ModelFacts
from draftcheck.values.words import CheckOutcome, Relation


@dataclass(frozen=True, slots=True)
class Difference:
    """One id whose text is not the same on both sides."""

    id: int
    target: bytes | None
    draft: bytes | None


@dataclass(frozen=True, slots=True)
class VocabularyComparison:
    relation: Relation
    target_size: int | None = None
    draft_size: int | None = None
    differing_ids: int | None = None
    differences: tuple[Difference, ...] = ()
    """The first few, in order of id."""
    only_special: bool | None = None
    overlap: float | None = None
    """Share of the draft's token texts that the target has too, whatever their ids."""
    same_file: bool = False
    """Both sides have the same tokenizer file by its digest, so nobody read its texts."""

    @property
    def size_gap(self) -> int | None:
        if self.target_size is None or self.draft_size is None:
            return None
        return abs(self.target_size - self.draft_size)


@dataclass(frozen=True, slots=True)
class SpecialToken:
    """One named special token, side by side (id, text)."""

    name: str
    target_id: int | None
    draft_id: int | None
    target_text: bytes | None
    draft_text: bytes | None


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Whether both tokenizers cut the same text into the same ids."""

    same: bool | None
    detail: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sets of facts side by side; no opinion."""

    target: ModelFacts
    draft: ModelFacts | None
    """None: there is no draft; n-grams or the target's own layers draft."""
    vocabulary: VocabularyComparison
    specials: tuple[SpecialToken, ...]
    behaviour: Behaviour
    recorded: Mapping[str, CheckOutcome] = field(default_factory=dict)
    """What checks saw while the token texts were at hand, by recorded_name()."""

    @property
    def drafter(self) -> ModelFacts:
        """The model that drafts: the draft or, where there is none, the target itself."""
        return self.target if self.draft is None else self.draft

    @property
    def drafter_side(self) -> str:
        """The name of the side on which the drafter stands."""
        return "target" if self.draft is None else "draft"

    @property
    def one_model(self) -> bool:
        """There is no draft, or the draft is the target by name."""
        return self.draft is None or self.draft.ref == self.target.ref

    @property
    def both(self) -> tuple[tuple[str, ModelFacts], tuple[str, ModelFacts]]:
        """The target and the drafter, for checks whose words name both sides in any case."""
        return ("target", self.target), ("draft", self.drafter)

    def model(self, side: str) -> ModelFacts:
        """The target, or the drafter where the side is "draft"."""
        return self.target if side == "target" else self.drafter

    @property
    def sides(self) -> tuple[tuple[str, ModelFacts], ...]:
        """Every model with its name, the target first; one where there is no draft."""
        return self.both[:1] if self.draft is None else self.both


def recorded_name(check: str, params: Mapping[str, Any]) -> str:
    """The name under which a comparison records what a check saw."""
    return " ".join([check, *(f"{name}={params[name]!r}" for name in sorted(params))])
