"""Heads without attention: Medusa and MLP speculators. Each slot is read by itself.

Medusa has a head per place ahead, all on the target's last state f(i):
    logits_j = lm_head_j(x + silu(linear_j(x))),  x = f(i)

An MLP speculator carries a state from token to token:
    s(0) = f(i);  s(j) = gelu(norm_j(w_s proj_j(s(j-1)) + w_e emb_j(x(i+j))))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch.nn.functional import embedding, gelu, linear, silu

from draftcheck.trial.backends.backend import BrokenDraft
from draftcheck.trial.backends.transformers.heads.readings import (
    Head,
    HeadSource,
    SlotTokens,
    TargetStates,
)


class MedusaHead(Head):
    """Names as Medusa's own files have them, or as vLLM's."""

    at_once = True

    def __init__(self, source: HeadSource) -> None:
        like = source.output
        weights = {
            name.removeprefix("medusa_head."): source.tensor(name) for name in source.weights
        }
        biased = _biases_count(source)
        self._has_biases = any(name.endswith(".bias") for name in weights)
        self.blocks: list[list[tuple[torch.Tensor, torch.Tensor | None]]] = []
        self.heads: list[torch.Tensor] = []
        while True:
            j = len(self.blocks)
            block = [
                (weights[f"{name}.weight"], weights.get(f"{name}.bias") if biased else None)
                for at in range(64)
                for name in (f"{j}.{at}.linear", f"blocks.{j}.layers.{at}")
                if f"{name}.weight" in weights
            ]
            if not block:
                break
            names = (f"{j}.{len(block)}.weight", f"lm_heads.{j}.weight", "lm_head.weight")
            self.heads.append(next((weights[n] for n in names if n in weights), like))
            self.blocks.append(block)
        self.longest = len(self.blocks)

    def choices(self, source: HeadSource) -> dict[str, object]:
        return {"its biases": _biases_count(source)} if self._has_biases else {}

    def step(self, sequences: int, context: int) -> Callable[[], object]:
        like = self.blocks[0][0][0]
        hidden = torch.zeros(sequences, 2, like.shape[1], dtype=like.dtype, device=like.device)
        text = SlotTokens(torch.zeros(sequences, 2, dtype=torch.long, device=like.device), 0)
        seen = TargetStates(hidden)

        def step() -> object:
            states = enumerate(self.readings(text, seen, self.longest), start=1)
            return [self.logits(state, j).argmax(-1) for j, state in states]

        return step

    def readings(self, text: SlotTokens, seen: TargetStates, count: int) -> Iterator[torch.Tensor]:
        for block in self.blocks[:count]:
            x = seen.hidden[:, text.begin : -1]
            for weight, bias in block:
                x = x + silu(linear(x, weight, bias))
            yield x

    def logits(self, hidden: torch.Tensor, reading: int) -> torch.Tensor:
        return linear(hidden, self.heads[reading - 1])


def _biases_count(source: HeadSource) -> bool:
    return source.way.medusa_bias == "always" or bool(source.raw.get("medusa_fc_bias"))


class MlpSpeculatorHead(Head):
    """IBM's speculators; tied weights stand under the first number."""

    def __init__(self, source: HeadSource) -> None:
        raw = source.raw
        self._weights = {
            name.removeprefix("speculator."): source.tensor(name) for name in source.weights
        }
        predicts = int(raw["n_predict"])
        inner = int(raw.get("inner_dim") or 0) or int(raw["emb_dim"])
        self.longest = predicts
        self._scale = bool(raw.get("scale_input", False))
        self._state_weight = 0.5 ** (0.5 / predicts)
        self._embedding_weight = math.sqrt((1 - self._state_weight**2) * (inner / 2))

    def step(self, sequences: int, context: int) -> Callable[[], object]:
        like = self._of("proj.weight", 0)
        hidden = torch.zeros(sequences, 2, like.shape[1], dtype=like.dtype, device=like.device)
        text = SlotTokens(torch.zeros(sequences, 2, dtype=torch.long, device=like.device), 0)
        seen = TargetStates(hidden)
        return lambda: [self.logits(s, 1).argmax(-1) for s in self.readings(text, seen, 1)]

    def _of(self, name: str, j: int) -> torch.Tensor:
        first, _, rest = name.partition(".")
        for number in (j, min(j, 1), 0):
            found = self._weights.get(f"{first}.{number}.{rest}")
            if found is not None:
                return found
        raise BrokenDraft(f"the head's weights lack {first}.{j}.{rest}")

    def readings(self, text: SlotTokens, seen: TargetStates, count: int) -> Iterator[torch.Tensor]:
        state = seen.hidden[:, text.begin : -1]
        state = _norm(state) / math.sqrt(2) if self._scale else state
        for j in range(min(count, self.longest)):
            beside = embedding(
                text.after(j + 1, text.begin, state.shape[1]), self._of("emb.weight", j)
            )
            state = linear(state, self._of("proj.weight", j)) * self._state_weight
            state = _norm(state + beside * self._embedding_weight)
            state = gelu(state * self._of("ln.weight", j) + self._of("ln.bias", j))
            yield state

    def logits(self, hidden: torch.Tensor, reading: int) -> torch.Tensor:
        return linear(hidden, self._of("head.weight", reading - 1))


def _norm(x: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)
