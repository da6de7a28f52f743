"""rules/tables/head-ways.toml: how an engine runs heads, where engines differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import structs

from draftcheck.errors import UsageError
from draftcheck.rulebook import files
from draftcheck.rulebook.files import Names, RuleRow, Text

USUAL = "vllm"
OUTPUTS = ("target_layer_ids", "dspark_target_layer_ids")
"""Block heads number the target's layers by what they put out, in every engine."""


class HeadWay(RuleRow, frozen=True):
    """One engine's; the table explains the fields."""

    engine: Text
    version: Text
    added: int
    eagle_config: bool
    sorted: bool
    norm_before_residual: Mapping[str, bool]
    ignores: Names
    feeds: Mapping[str, Literal["normed", "plain"]]
    first_embedding: Names
    slot_before: bool
    in_turn: Names
    again: bool
    medusa_bias: Literal["always", "configured"]
    block: Literal["drafts", "whole"]
    causal: Literal["all", "sliding"]
    assistant_position: int

    def layers(self, given: tuple[str, tuple[int, ...]] | None, depth: int) -> tuple[int, ...]:
        """The target's layers whose inputs a head reads; given: key and numbers of its config."""
        numbers: tuple[int, ...] = (2, depth // 2, depth - 3)  # as EAGLE-3 has it
        if given is not None:
            added = 1 if given[0] in OUTPUTS else self.added
            numbers = tuple(number + added for number in given[1])
        return tuple(sorted(set(numbers))) if self.sorted else numbers


class HeadWaysFile(RuleRow, frozen=True):
    way: tuple[HeadWay, ...]


def _known() -> dict[str, HeadWay]:
    return {row.engine: row for row in files.read("tables/head-ways", HeadWaysFile).way}


def others(taken: HeadWay) -> list[HeadWay]:
    return [row for row in _known().values() if row != taken]


def first_known(engines: Sequence[str]) -> str | None:
    """The first of these engines ("vllm@0.32.0") whose way was read."""
    names = (engine.partition("@")[0] for engine in engines)
    return next((name for name in names if name in _known()), None)


def way(engine: str | None) -> HeadWay:
    """None: the usual engine's, with all that the head's files hold."""
    known = _known()
    if engine is None:
        return structs.replace(known[USUAL], medusa_bias="always")
    if engine not in known:
        raise UsageError(
            f"how {engine} runs heads was not read", hint=f"--engine takes {', '.join(known)}."
        )
    return known[engine]
