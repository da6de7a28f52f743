"""EAGLE-1 and EAGLE-2: decoder layers over the target's last state. (2 drafts trees; same files.)

    h(i) = fc([embedding of x(i+1), f(i)])         f: the target's last state, behind its final norm
    out  = layers(h);  logits = the target's own output matrix on out, without a norm between

The first layer has no input norm. What is fed back for the next draft is `out` itself.
"""

from __future__ import annotations

import torch
from torch.nn.functional import embedding, linear

from draftcheck.trial.backends.transformers.heads import layers
from draftcheck.trial.backends.transformers.heads.readings import (
    DraftingStep,
    HeadSource,
    RecurrentHead,
)

INPUT_NORM = "0.input_layernorm.weight"


class EagleHead(RecurrentHead):
    """A head and what it borrows from its target."""

    def __init__(self, source: HeadSource) -> None:
        source.refuse_others("fc.", "layers.", "embed_tokens.", "lm_head.")
        config = layers.layer_config(source.raw, "llama")
        self.device, self.dtype = source.embeddings.device, source.target.dtype
        self.width = source.embeddings.shape[1]
        tensors = layers.numbered(source)
        tensors[INPUT_NORM] = torch.ones(config.hidden_size)  # not used: see below
        self._layers = layers.build(
            config, tensors, config.num_hidden_layers, self.dtype, self.device
        )
        self._layers.layers[0].input_layernorm = torch.nn.Identity()
        self._embeddings = source.tensor("embed_tokens.weight", default=source.embeddings)
        self._fc = source.tensor("fc.weight")
        self._bias = source.tensor("fc.bias") if "fc.bias" in source.weights else None
        self._head = source.tensor("lm_head.weight", default=source.output)

    def states(self, hidden: torch.Tensor) -> torch.Tensor:
        """hidden: the target's last state behind its final norm."""
        return hidden

    def layer(self, step: DraftingStep) -> tuple[torch.Tensor, torch.Tensor]:
        beside = embedding(step.tokens, self._embeddings)
        hidden = linear(torch.cat([beside, step.state], dim=-1), self._fc, self._bias)
        shared = self._layers.shared(hidden, step.positions, step.mask, step.cache)
        for number in range(len(self._layers.layers)):
            hidden = self._layers.forward(number, hidden, **shared)
        return hidden, hidden

    def logits(self, hidden: torch.Tensor, reading: int) -> torch.Tensor:
        return linear(hidden, self._head)
