"""What an engine would gain: the part of a trial's result about engines that were not run."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from draftcheck.trial.strict_json import AboveZero, Number, Text, Whole

WORTH = 1.005
"""A gain below this is none."""


class LoadSpeedup(msgspec.Struct, frozen=True, kw_only=True):
    """So many sequences at once, with the best draft length for them."""

    sequences: Whole
    draft_tokens: Whole
    """0: not speculating is best."""
    speedup: Number
    """Of the best length that speculates, also where it loses."""
    tokens_per_s: AboveZero
    """All sequences together, with that length."""
    plain_tokens_per_s: Number
    by_length: dict[Text, Number] = {}
    """Draft length -> tokens per second of all sequences together."""

    @property
    def ms_per_token(self) -> float:
        """That one sequence waits for a token, on average."""
        return 1e3 * self.sequences / self.tokens_per_s


class EngineSpeedup(msgspec.Struct, frozen=True, kw_only=True):
    """One engine's answer."""

    engine: Text
    version: Text
    gpu: Text
    source: Text
    measured: Text | None = None
    """The version whose passes were timed for it; None: they were only read."""
    sequences: Whole
    draft_tokens: Whole
    speedup: Number
    speedup_ci95: tuple[Number, Number] | None = None
    break_even_tokens_per_pass: Number
    """Tokens per pass from which that length pays."""
    stops_paying_at: Whole | None = None
    """Sequences at once from which no length pays any more."""
    loads: Annotated[tuple[LoadSpeedup, ...], Meta(max_length=64)] = ()
    schedule: Text | None = None
    """The draft length by load, as the engine takes it; None: it has no such setting."""

    @property
    def pays(self) -> bool:
        return self.speedup >= WORTH
