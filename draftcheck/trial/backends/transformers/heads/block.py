"""Block heads (DFlash): all drafts of a pass at once, from masks behind the last token.

    context     c(i) = hidden_norm(fc([f_a(i), f_b(i), …])), keys and values of every layer
    block at i  token x(i+1), the anchor, then mask tokens; they see c(0) … c(i) and one another
    logits      lm_head(norm(out)): slot j of the block proposes x(i+1+j)

A block can begin at any slot, and blocks do not see one another: all of them go through at once,
under the mask [ context up to i | own block ]. Heads that sample from the anchor propose x(i+2)
at slot 0 already.

Most heads see their whole block, so the number of masks tells in every draft: an engine that makes
as many masks as it wants drafts gets other first drafts from a pass of 3 than from a pass of 7
(`leads` is False then). Layers with a sliding window see only the slots before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.nn.functional import embedding, linear
from transformers import AutoConfig, DynamicCache
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from draftcheck.trial.backends.backend import BrokenDraft
from draftcheck.trial.backends.transformers.heads import layers
from draftcheck.trial.backends.transformers.heads.readings import (
    Head,
    HeadSource,
    SlotTokens,
    TargetStates,
    additive,
    layers_read,
    own_ids,
    rms,
    setting,
)
from draftcheck.trial.backends.transformers.heads.ways import HeadWay

SLOTS_AT_ONCE = 1024
"""Of one text, and of all texts of a batch, that go through together in whole blocks."""
ALL_AT_ONCE = 6144
Context = list[tuple[torch.Tensor, torch.Tensor]]
"""Layer by layer the keys and values of the places before a block."""
SLIDING = "sliding_attention"
MUSE = "muse_glimmer_assistant"
"""A DFlash head whose sliding layers see the whole block too."""
UNREAD = ("attention_sink_bias", "add_swa_attention_sink_bias", "attention_value_scale")
MASKS = ("mask_token_id", "dspark_noise_token_id", "pard_token", "ptd_token_id")


class BlockHead(Head):
    """A DFlash head and what it borrows from its target."""

    at_once = True
    by_spans = True

    def __init__(self, source: HeadSource) -> None:
        source = replace(source, raw=_complete(source.raw))
        raw, target = source.raw, source.target
        self.device, self.dtype = source.embeddings.device, target.dtype
        part = dict(raw.get("transformer_layer_config") or raw)
        kinds: list[str | None] = list(part.get("layer_types") or ())
        config = layers.layer_config({**part, "model_type": "qwen3"}, "qwen3")
        kinds = kinds or [None] * config.num_hidden_layers
        mask, size = setting(raw, *MASKS), setting(raw, "block_size", "dspark_block_size")
        if mask is None or size is None:
            raise BrokenDraft("the head's config names no mask token or no block size")
        if unread := [name for name in UNREAD if setting(raw, name)]:
            raise BrokenDraft(f"block heads with {unread[0]} cannot be read yet")
        self.mask_id, self.block = int(mask), int(size)
        self.from_anchor = self.samples_anchor(raw)
        self.longest = self.block if self.from_anchor else self.block - 1
        self._kinds = kinds
        self._causal = [_causal(raw, kind, source.way) for kind in kinds]
        self._window = [_window(raw, part, kind, kinds) for kind in kinds]
        self._by_drafts = source.way.block == "drafts"
        self.leads = not self._by_drafts or all(self._causal)
        self.layers_read = layers_read(source)
        self._layers = layers.build(
            config, layers.numbered(source), config.num_hidden_layers, self.dtype, self.device
        )
        _in_one_kernel(self._layers.layers)
        self._eps = config.rms_norm_eps
        self._embeddings = source.tensor("embed_tokens.weight", default=source.embeddings)
        self._fc = source.tensor("fc.weight", "encoder.fc.weight")
        self._hidden_norm = source.tensor("hidden_norm.weight", "encoder.output_norm_enc.weight")
        self._norm = source.tensor("norm.weight")
        self._head = source.tensor("lm_head.weight", default=source.output)
        self.to_target = own_ids(source, len(self._head))

    def choices(self, source: HeadSource) -> dict[str, object]:
        source = replace(source, raw=_complete(source.raw))
        ahead = sum(not _causal(source.raw, kind, source.way) for kind in self._kinds)
        return {
            "slots of a block": source.way.block,
            "layers": layers_read(source),
            "layers that see their whole block": ahead,
        }

    def samples_anchor(self, raw: Mapping[str, Any]) -> bool:
        """The block's first slot, which holds the last token, proposes too."""
        return bool(setting(raw, "sample_from_anchor"))

    def readings(self, text: SlotTokens, seen: TargetStates, count: int) -> Iterator[torch.Tensor]:
        count, first = min(count, self.longest), 0 if self.from_anchor else 1
        size = count + first if self._by_drafts else self.block
        context, slots = self._context(seen.hidden), seen.hidden.shape[1] - 1
        spans = text.spans or [range(text.begin, slots)] * len(text.ids)
        begins = torch.tensor([span.start for span in spans], device=self.device)
        places = torch.arange(max(map(len, spans)), device=self.device)
        anchors = (begins[:, None] + places).clamp(max=slots - 1)
        blocks = max(1, min(SLOTS_AT_ONCE, ALL_AT_ONCE // len(spans)) // size)
        out = torch.cat(
            [self._blocks(text, context, part, size) for part in anchors.split(blocks, dim=1)],
            dim=1,
        )
        rows = torch.arange(len(spans), device=self.device)[:, None]
        for reading in range(count):
            found = out.new_zeros(len(spans), slots - text.begin, out.shape[-1])
            found[rows, anchors - text.begin] = out[:, :, first + reading]
            yield found

    def step(self, sequences: int, context: int) -> Callable[[], object]:
        width = self._fc.shape[1]
        seen = torch.zeros(sequences, context, width, dtype=self.dtype, device=self.device)
        ids = torch.zeros(sequences, context + 1, dtype=torch.long, device=self.device)
        text = SlotTokens(ids, 0)
        kept, last = self._context(seen), torch.full((1, 1), context - 1, device=self.device)
        return lambda: linear(self._blocks(text, kept, last, self.block), self._head).argmax(-1)

    def _context(self, hidden: torch.Tensor) -> Context:
        """Keys and values of every layer for the target's states at all places."""
        states = rms(linear(hidden.to(self.dtype), self._fc), self._hidden_norm, self._eps)
        places = torch.arange(states.shape[1], device=self.device)
        turned = self._layers.rotary(states, places[None])
        return [_keys_and_values(layer.self_attn, states, turned) for layer in self._layers.layers]

    def _blocks(
        self, text: SlotTokens, context: Context, anchors: torch.Tensor, size: int
    ) -> torch.Tensor:
        """Texts x blocks x slots x width; anchors: the slots where blocks begin, text by text."""
        texts, blocks = len(text.ids), anchors.shape[1]
        ids = torch.full((texts, blocks, size), self.mask_id, device=self.device)
        ids[:, :, 0] = text.ids.gather(1, (anchors + 1).expand(texts, -1))
        places = torch.arange(context[0][0].shape[2], device=self.device)
        in_block = (anchors[:, :, None] + 1 + torch.arange(size, device=self.device)).flatten(1)
        before = places <= anchors.repeat_interleave(size, dim=1)[:, :, None]
        number = torch.arange(blocks, device=self.device).repeat_interleave(size)
        own = (number[:, None] == number).expand(len(anchors), -1, -1)
        keys = torch.cat([places.expand(len(anchors), -1), in_block], dim=1)[:, None]
        hidden = embedding(ids.flatten(1), self._embeddings)
        cache = DynamicCache()
        for at, (before_keys, values) in enumerate(context):
            seen = torch.cat([before, own], dim=2)
            if self._causal[at]:
                seen &= keys <= in_block[:, :, None]
            if (window := self._window[at]) is not None:
                seen &= in_block[:, :, None] - keys < window
            cache.update(before_keys, values, at)
            mask = additive(seen, self.dtype)[:, None]
            shared = self._layers.shared(hidden, in_block, mask, cache)
            hidden = self._layers.forward(at, hidden, **shared)
        return rms(hidden, self._norm, self._eps).view(texts, blocks, size, -1)

    def logits(self, hidden: torch.Tensor, reading: int) -> torch.Tensor:
        return linear(hidden, self._head)


def _in_one_kernel(model: Any) -> None:
    """The norms of Qwen 3, whose six small steps a GPU would take as long for as for a product."""
    for module in list(model.modules()):
        for name, norm in list(module.named_children()):
            if isinstance(norm, Qwen3RMSNorm):
                one = torch.nn.RMSNorm(norm.weight.shape, norm.variance_epsilon, device="meta")
                one.weight = norm.weight
                setattr(module, name, one)


def _complete(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """With what files leave out because the library's config class says it."""
    if raw.get("model_type") != MUSE:
        return raw
    named = {name: value for name, value in raw.items() if name != "model_type"}
    return {"is_causal": False, **AutoConfig.for_model(MUSE, **named).to_dict()}


def _causal(raw: Mapping[str, Any], kind: str | None, way: HeadWay) -> bool:
    """Slots of a block see only those before them, in a layer of this kind."""
    told = setting(raw, "is_causal", "causal")
    if told is None and raw.get("speculators_model_type") == "dflash":
        told = not raw.get("sliding_window_non_causal", True)
        if told and way.causal == "sliding":
            told = None
    return kind == SLIDING if told is None else bool(told)


def _window(
    raw: Mapping[str, Any], part: Mapping[str, Any], kind: str | None, kinds: list[str | None]
) -> int | None:
    forced = setting(raw, "use_swa") and SLIDING not in kinds
    if kind != SLIDING and not forced:
        return None
    width = setting(raw, "swa_window_size") or part.get("sliding_window")
    if width is None:
        raise BrokenDraft("the head's config names a sliding window without a width")
    return int(width)


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
