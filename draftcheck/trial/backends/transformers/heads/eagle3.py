"""EAGLE-3: one decoder layer over the target's states from several depths.

    g(i) = fc([f_a(i), f_b(i), f_c(i)])            the states that layers a, b, c read; some heads
                                                   norm them first, together or one by one
    layer: attention over [input_layernorm(embedding), hidden_norm(g)], then as any decoder layer
    logits = lm_head(norm(out)), over a vocabulary of its own; d2t leads to the target's ids

Published heads call the layer `midlayer` and have no embeddings; the speculators format calls it
`layers.0` and nests the layer's config. The state fed back is the one before `norm`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.functional import embedding, linear
from transformers import AutoModel

from draftcheck.trial.backends.backend import BrokenDraft
from draftcheck.trial.backends.transformers.heads.layers import layer_config, numbered
from draftcheck.trial.backends.transformers.heads.readings import (
    DraftingStep,
    HeadSource,
    RecurrentHead,
    layers_read,
    own_ids,
    rms,
    setting,
)

LAYER_NAMES = ("midlayer.", "layers.0.")
KNOWN = (
    "midlayer.", "layers.", "fc.", "fc_norm.", "input_norm.", "norm.", "lm_head.", "embed_tokens.",
    "d2t", "t2d", "mask_hidden",
)  # fmt: skip
SLIDING = "sliding_attention"


class Eagle3Head(RecurrentHead):
    """A head and what it borrows from its target."""

    def __init__(self, source: HeadSource) -> None:
        source.refuse_others(*KNOWN)
        raw, target = source.raw, source.target
        config = layer_config(raw, "llama")
        part = raw.get("transformer_layer_config") or raw
        self._windows = [
            int(part["sliding_window"]) if kind == SLIDING else None
            for kind in part.get("layer_types") or [None] * config.num_hidden_layers
        ]
        self.device, self.dtype = source.embeddings.device, target.dtype
        self.width = config.hidden_size
        self.norm_before_residual = _norm_before_residual(source)
        self.norm_output = bool(raw.get("norm_output", False))
        with torch.device("meta"):
            model = AutoModel.from_config(config, attn_implementation="sdpa")
        self._layers, self._norm = model.layers, model.norm
        self._rotary = type(model.rotary_emb)(config=config).to(self.device)
        self._fit_first_layer(config)
        self._load(source)
        self._embed = source.tensor("embed_tokens.weight", default=source.embeddings)
        self._combining(source, config.rms_norm_eps)
        self._head = source.tensor("lm_head.weight", default=source.output)
        self.to_target = own_ids(source, len(self._head))

    def _combining(self, source: HeadSource, eps: float) -> None:
        """What makes one state of those that it reads; without it, it reads the last one as it is.

        Flags decide, not tensors: engines leave out norms that no flag asks for.
        """
        self._eps, self._fc = eps, None
        self._input_norm: torch.Tensor | None = None
        self._fc_norms: list[torch.Tensor] = []
        if setting(source.raw, "use_aux_hidden_state") is False:
            return
        self.layers_read = layers_read(source)
        self._fc = source.tensor("fc.weight")
        width = len(self.layers_read) * source.embeddings.shape[1]
        if self._fc.shape[1] != width:
            raise BrokenDraft(
                f"the head reads {self._fc.shape[1]:,} numbers of the target's states, and layers"
                f" {', '.join(map(str, self.layers_read))} of this target have {width:,}"
            )
        if setting(source.raw, "norm_before_fc"):
            self._input_norm = source.tensor("input_norm.weight")
        if source.raw.get("fc_norm"):
            names = [f"fc_norm.{at}.weight" for at in range(len(self.layers_read))]
            self._fc_norms = [source.tensor(name) for name in names]

    def choices(self, source: HeadSource) -> dict[str, object]:
        return {
            "layers": layers_read(source),
            "norm_before_residual": _norm_before_residual(source),
        }

    def _fit_first_layer(self, config: Any) -> None:
        """Queries, keys and values of the first layer read embedding and state side by side."""
        attention = self._layers[0].self_attn
        if not hasattr(attention, "k_proj"):
            raise BrokenDraft(f"EAGLE-3 with layers of {config.model_type} cannot be read yet")
        for name in ("q_proj", "k_proj", "v_proj"):
            old = getattr(attention, name)
            new = torch.nn.Linear(
                2 * config.hidden_size, old.out_features, bias=old.bias is not None, device="meta"
            )
            setattr(attention, name, new)
        norm = type(self._layers[0].input_layernorm)
        with torch.device("meta"):
            self._layers[0].hidden_norm = norm(config.hidden_size, eps=config.rms_norm_eps)

    def _load(self, source: HeadSource) -> None:
        for number, layer in enumerate(self._layers):
            prefixes = LAYER_NAMES if number == 0 else (f"layers.{number}.",)
            own = {k: v for prefix in prefixes for k, v in numbered(source, prefix).items()}
            load(layer, own, prefixes[-1])
        load(self._norm, {"weight": source.tensor("norm.weight")}, "norm.")

    def states(self, hidden: torch.Tensor) -> torch.Tensor:
        """hidden: the states of all depths, side by side."""
        hidden = hidden.to(self.dtype)
        if self._input_norm is not None:
            hidden = rms(hidden, self._input_norm, self._eps)
        if self._fc_norms:
            depths = zip(self._fc_norms, hidden.chunk(len(self._fc_norms), dim=-1), strict=True)
            hidden = torch.cat([rms(part, norm, self._eps) for norm, part in depths], dim=-1)
        return hidden if self._fc is None else linear(hidden, self._fc)

    def layer(self, step: DraftingStep) -> tuple[torch.Tensor, torch.Tensor]:
        shared = {
            "position_ids": step.positions[None], "past_key_values": step.cache, "use_cache": True,
            "position_embeddings": self._rotary(step.state, step.positions[None]),
        }  # fmt: skip
        masks = [narrowed(step, window) for window in self._windows]
        first = self._layers[0]
        normed = first.hidden_norm(step.state)
        residual = normed if self.norm_before_residual else step.state
        beside = first.input_layernorm(embedding(step.tokens, self._embed))
        both = torch.cat([beside, normed], dim=-1)
        hidden, _ = first.self_attn(both, attention_mask=masks[0], **shared)
        hidden = residual + hidden
        hidden = hidden + first.mlp(first.post_attention_layernorm(hidden))
        for layer, sight in zip(self._layers[1:], masks[1:], strict=True):
            hidden = layer(hidden, attention_mask=sight, **shared)
            hidden = hidden[0] if isinstance(hidden, tuple) else hidden
        behind = self._norm(hidden)
        return behind, behind if self.norm_output else hidden

    def logits(self, hidden: torch.Tensor, reading: int) -> torch.Tensor:
        return linear(hidden, self._head)


def narrowed(step: DraftingStep, window: int | None) -> torch.Tensor:
    """The mask of a layer that sees only so many places back; own drafts are never too far."""
    mask = step.mask
    if window is None:
        return mask
    slots = mask.shape[-1] - (step.reading - 1) * mask.shape[-2]  # keys of reading 1
    far = step.positions[:, None] - torch.arange(slots, device=mask.device) >= window
    near = mask[..., :slots].masked_fill(far, torch.finfo(mask.dtype).min)
    return torch.cat([near, mask[..., slots:]], dim=-1)


def load(module: Any, tensors: Mapping[str, torch.Tensor], where: str) -> None:
    """Give a module these tensors; BrokenDraft names what is missing or has another shape."""
    wanted = module.state_dict()
    if other := sorted(tensors.keys() - wanted.keys()):
        raise BrokenDraft(f"the head has {where}{other[0]}, and its config knows no such tensor")
    for name, tensor in wanted.items():
        if name not in tensors:
            raise BrokenDraft(f"the head's weights lack {where}{name}")
        if tensors[name].shape != tensor.shape:
            have, want = tuple(tensors[name].shape), tuple(tensor.shape)
            raise BrokenDraft(f"{where}{name} of the head is {have}, and its config says {want}")
    module.load_state_dict({name: tensors[name] for name in wanted}, assign=True)


def _norm_before_residual(source: HeadSource) -> bool:
    name = "norm_before_residual"
    told = None if name in source.way.ignores else setting(source.raw, name)
    form = source.raw.get("speculators_model_type", "checkpoint")
    return source.way.norm_before_residual[form] if told is None else bool(told)
