"""EAGLE-3: one decoder layer over the target's states from several depths.

    g(i) = fc([f_a(i), f_b(i), f_c(i)])            the states that layers a, b, c read
    layer: attention over [input_layernorm(embedding), hidden_norm(g)], then as any decoder layer
    logits = lm_head(norm(out)), over a vocabulary of its own; d2t leads to the target's ids

Published heads call the layer `midlayer` and have no embeddings; the speculators format calls it
`layers.0` and nests the layer's config. The state fed back is the one before `norm`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers import AutoConfig, AutoModel

from draftcheck.trial.backends.backend import BrokenDraft
from draftcheck.trial.backends.transformers.heads.readings import (
    HeadSource,
    RecurrentHead,
    given_layers,
    setting,
)

LAYER_NAMES = ("midlayer.", "layers.0.")


class Eagle3Head(RecurrentHead):
    """A head and what it borrows from its target."""

    def __init__(self, source: HeadSource) -> None:
        raw, target = source.raw, source.target
        config = _layer_config(raw)
        self.device, self.dtype = source.embeddings.device, target.dtype
        form = "speculators" if "speculators_model_type" in raw else "checkpoint"
        told = setting(raw, "norm_before_residual")
        usual = source.way.norm_before_residual[form]
        self.width = config.hidden_size
        self.norm_before_residual = usual if told is None else bool(told)
        self.norm_output = bool(raw.get("norm_output", False))
        depth = target.config.get_text_config().num_hidden_layers
        self.layers_read = source.way.layers(given_layers(raw), depth)
        with torch.device("meta"):
            model = AutoModel.from_config(config, attn_implementation="sdpa")
        self._layers, self._norm = model.layers, model.norm
        self._rotary = type(model.rotary_emb)(config=config).to(self.device)
        self._fit_first_layer(config)
        self._load(source)
        self._embed = source.tensor("embed_tokens.weight", default=source.embeddings)
        self._fc = source.tensor("fc.weight")
        width = len(self.layers_read) * source.embeddings.shape[1]
        if self._fc.shape[1] != width:
            raise BrokenDraft(
                f"the head reads {self._fc.shape[1]:,} numbers of the target's states, and layers"
                f" {', '.join(map(str, self.layers_read))} of this target have {width:,}"
            )
        self._head = source.tensor("lm_head.weight", default=source.output)
        if "d2t" in source.weights:
            own = torch.arange(len(self._head), device=self.device)
            self.to_target = own + source.tensor("d2t").long()

    def _fit_first_layer(self, config: Any) -> None:
        """Queries, keys and values of the first layer read embedding and state side by side."""
        attention = self._layers[0].self_attn
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
            own = {
                name.removeprefix(prefix): source.tensor(name)
                for prefix in prefixes
                for name in source.weights
                if name.startswith(prefix)
            }
            load(layer, own, prefixes[-1])
        load(self._norm, {"weight": source.tensor("norm.weight")}, "norm.")

    def states(self, hidden: torch.Tensor) -> torch.Tensor:
        """hidden: the states of all depths, side by side."""
        return torch.nn.functional.linear(hidden.to(self.dtype), self._fc)

    def layer(
        self,
        tokens: torch.Tensor,
        state: torch.Tensor,
        *,
        positions: torch.Tensor,
        mask: torch.Tensor,
        cache: Any,
        reading: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rotary = self._rotary(state, positions[None])
        shared = {
            "attention_mask": mask, "position_ids": positions[None], "past_key_values": cache,
            "position_embeddings": rotary, "use_cache": True,
        }  # fmt: skip
        first = self._layers[0]
        normed = first.hidden_norm(state)
        residual = normed if self.norm_before_residual else state
        beside = first.input_layernorm(torch.nn.functional.embedding(tokens, self._embed))
        hidden, _ = first.self_attn(torch.cat([beside, normed], dim=-1), **shared)
        hidden = residual + hidden
        hidden = hidden + first.mlp(first.post_attention_layernorm(hidden))
        for layer in self._layers[1:]:
            hidden = layer(hidden, **shared)
            hidden = hidden[0] if isinstance(hidden, tuple) else hidden
        behind = self._norm(hidden)
        return behind, behind if self.norm_output else hidden

    def logits(self, hidden: torch.Tensor, reading: int) -> torch.Tensor:
        return torch.nn.functional.linear(hidden, self._head)


def _layer_config(raw: Mapping[str, Any]) -> Any:
    """The config of the head's layers as transformers has it."""
    part = dict(raw.get("transformer_layer_config") or raw)
    kind = part.pop("model_type", "llama")
    for name in ("architectures", "auto_map", "torch_dtype", "dtype", "layer_types"):
        part.pop(name, None)
    part["num_hidden_layers"] = int(part.get("num_hidden_layers") or 1)
    return AutoConfig.for_model("llama" if kind in ("eagle3", "llama") else kind, **part)


def load(module: Any, tensors: Mapping[str, torch.Tensor], where: str) -> None:
    """Give a module these tensors; BrokenDraft names what is missing or has another shape."""
    wanted = module.state_dict()
    for name, tensor in wanted.items():
        if name not in tensors:
            raise BrokenDraft(f"the head's weights lack {where}{name}")
        if tensors[name].shape != tensor.shape:
            have, want = tuple(tensors[name].shape), tuple(tensor.shape)
            raise BrokenDraft(f"{where}{name} of the head is {have}, and its config says {want}")
    module.load_state_dict({name: tensors[name] for name in wanted}, assign=True)
