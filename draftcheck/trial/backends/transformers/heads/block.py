"""Block heads (DFlash): all drafts of a pass at once, from masks behind the last token.

    context     c(i) = hidden_norm(fc([f_a(i), f_b(i), …])), keys and values of every layer
    block at i  token x(i+1), the anchor, then mask tokens; they see c(0) … c(i) and one another
    logits      lm_head(norm(out)): slot j of the block proposes x(i+1+j)

A block can begin at any slot, and blocks do not see one another: all of them go through at once,
under the mask [ context up to i | own block ]. Heads that sample from the anchor propose x(i+2)
at slot 0 already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.functional import embedding, linear
from transformers import AutoConfig, DynamicCache

from draftcheck.trial.backends.transformers.heads import layers
from draftcheck.trial.backends.transformers.heads.readings import (
    Head,
    HeadSource,
    SlotTokens,
    TargetStates,
    additive,
    given_layers,
    setting,
)

BLOCKS_AT_ONCE = 64
Context = list[tuple[torch.Tensor, torch.Tensor]]
"""Layer by layer the keys and values of the places before a block."""


class BlockHead(Head):
    """A DFlash head and what it borrows from its target."""

    at_once = True

    def __init__(self, source: HeadSource) -> None:
        raw, target = source.raw, source.target
        self.device, self.dtype = source.embeddings.device, target.dtype
        part = dict(raw.get("transformer_layer_config") or raw)
        config = AutoConfig.for_model(
            "qwen3", **{k: v for k, v in part.items() if k != "model_type"}
        )
        self.block = int(setting(raw, "block_size"))
        self.mask_id = int(setting(raw, "mask_token_id") or 0)
        self.from_anchor = bool(raw.get("sample_from_anchor", False))
        self.longest = self.block if self.from_anchor else self.block - 1
        self.causal = bool(setting(raw, "causal"))
        depth = target.config.get_text_config().num_hidden_layers
        self.layers_read = source.way.layers(given_layers(raw), depth)
        if outputs := setting(raw, "target_layer_ids"):  # in every engine: what they put out
            self.layers_read = tuple(number + 1 for number in outputs)
        tensors = {
            name.removeprefix("layers."): source.tensor(name)
            for name in source.weights
            if name.startswith("layers.")
        }
        self._layers = layers.build(
            config, tensors, config.num_hidden_layers, self.dtype, self.device
        )
        self._eps = config.rms_norm_eps
        self._embeddings = source.tensor("embed_tokens.weight", default=source.embeddings)
        self._fc = source.tensor("fc.weight")
        self._hidden_norm = source.tensor("hidden_norm.weight")
        self._norm = source.tensor("norm.weight")
        self._head = source.tensor("lm_head.weight", default=source.output)

    def readings(self, text: SlotTokens, seen: TargetStates, count: int) -> Iterator[torch.Tensor]:
        context = self._context(seen.hidden)
        slots = seen.hidden.shape[1] - 1
        parts = [
            self._blocks(text, context, range(at, min(at + BLOCKS_AT_ONCE, slots)))
            for at in range(text.begin, slots, BLOCKS_AT_ONCE)
        ]
        out = torch.cat(parts, dim=1)
        first = 0 if self.from_anchor else 1
        for reading in range(min(count, self.longest)):
            yield out[:, :, first + reading]

    def step(self, sequences: int, context: int) -> Callable[[], object]:
        width = self._fc.shape[1]
        seen = torch.zeros(sequences, context, width, dtype=self.dtype, device=self.device)
        text = SlotTokens(torch.zeros(sequences, context, dtype=torch.long, device=self.device), 0)
        kept, last = self._context(seen), range(context - 1, context)
        return lambda: self.logits(self._blocks(text, kept, last), 1).argmax(-1)

    def _context(self, hidden: torch.Tensor) -> Context:
        """Keys and values of every layer for the target's states at all places."""
        projected = linear(hidden.to(self.dtype), self._fc)
        states = _rms(projected, self._hidden_norm, self._eps)
        places = torch.arange(states.shape[1], device=self.device)
        turned = self._layers.rotary(states, places[None])
        return [_keys_and_values(layer.self_attn, states, turned) for layer in self._layers.layers]

    def _blocks(self, text: SlotTokens, context: Context, begins: range) -> torch.Tensor:
        """Texts x blocks x slots x width."""
        texts, size = len(text.ids), self.block
        ids = torch.full((texts, len(begins), size), self.mask_id, device=self.device)
        ids[:, :, 0] = text.after(1, begins[0], len(begins))
        anchors = torch.arange(begins[0], begins[-1] + 1, device=self.device)
        places = torch.arange(context[0][0].shape[2], device=self.device)
        in_block = (anchors[:, None] + 1 + torch.arange(size, device=self.device)).flatten()
        before = places[None] <= anchors.repeat_interleave(size)[:, None]
        number = torch.arange(len(begins), device=self.device).repeat_interleave(size)
        own = number[:, None] == number[None]
        if self.causal:
            own &= in_block[:, None] >= in_block[None]
        mask = additive(torch.cat([before, own], dim=1), self.dtype)[None, None]
        hidden = embedding(ids.flatten(1), self._embeddings)
        cache = DynamicCache()
        for at, (keys, values) in enumerate(context):
            cache.update(keys, values, at)
            shared = self._layers.shared(hidden, in_block, mask, cache)
            hidden = self._layers.forward(at, hidden, **shared)
        return _rms(hidden, self._norm, self._eps).view(texts, len(begins), size, -1)

    def logits(self, hidden: torch.Tensor, reading: int) -> torch.Tensor:
        return linear(hidden, self._head)


def _keys_and_values(
    attention: Any, states: torch.Tensor, turned: tuple[torch.Tensor, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """What a layer keeps of the context: its own projections, normed and turned."""
    shape = (*states.shape[:-1], -1, attention.head_dim)
    keys = attention.k_norm(attention.k_proj(states).view(shape)).transpose(1, 2)
    values = attention.v_proj(states).view(shape).transpose(1, 2)
    cos, sin = (part[:, None] for part in turned)
    half = keys.shape[-1] // 2
    keys = keys * cos + torch.cat([-keys[..., half:], keys[..., :half]], dim=-1) * sin
    return keys, values


def _rms(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)
