"""DSpark: a block head whose drafts know the one before them.

    logits of the r-th draft = lm_head(norm(out)) + W2 W1[x(i+r)]

The second term, of low rank, looks the token before up: the last draft, so here the target's own.
A confidence head, where there is one, decides how much is verified; it changes no draft.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.nn.functional import embedding, linear

from draftcheck.trial.backends.backend import BrokenDraft
from draftcheck.trial.backends.transformers.heads.block import BlockHead
from draftcheck.trial.backends.transformers.heads.readings import (
    HeadSource,
    SlotTokens,
    TargetStates,
)


class MarkovBlockHead(BlockHead):
    """As DeepSeek publishes them, and in the speculators format."""

    def __init__(self, source: HeadSource) -> None:
        super().__init__(source)
        kind = source.raw.get("markov_head_type", "vanilla")
        if kind != "vanilla":
            raise BrokenDraft(f"DSpark with a Markov head of kind {kind} cannot be read yet")
        self._before = source.tensor("markov_head.markov_w1.weight", "markov_w1.weight")
        self._bias = source.tensor("markov_head.markov_w2.weight", "markov_w2.weight")
        self._candidates = source.raw.get("dspark_draft_topk")

    def samples_anchor(self, raw: Mapping[str, Any]) -> bool:
        return bool(raw.get("sample_from_anchor", "speculators_model_type" not in raw))

    def step(self, sequences: int, context: int) -> Callable[[], object]:
        block = super().step(sequences, context)
        first = torch.zeros(sequences, dtype=torch.long, device=self.device)

        def step() -> object:
            tokens, found = first, block()
            for _ in range(self.longest):  # one draft after the other
                tokens = linear(embedding(tokens, self._before), self._bias).argmax(-1)
            return tokens, found

        return step

    def readings(self, text: SlotTokens, seen: TargetStates, count: int) -> Iterator[torch.Tensor]:
        for reading, out in enumerate(super().readings(text, seen, count), start=1):
            before = embedding(text.after(reading, text.begin, out.shape[1]), self._before)
            yield torch.cat([out, before], dim=-1)

    def logits(self, hidden: torch.Tensor, reading: int) -> torch.Tensor:
        out, before = hidden.split([self._norm.shape[0], self._before.shape[1]], dim=-1)
        scores = super().logits(out, reading)
        if self._candidates is not None:
            lowest = scores.topk(int(self._candidates), dim=-1).values[..., -1:]
            scores = scores.masked_fill(scores < lowest, float("-inf"))
        return scores + linear(before, self._bias)
