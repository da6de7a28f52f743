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

from draftcheck.trial.backends.transformers.heads.readings import RecurrentHead

LAYER_NAMES = ("midlayer.", "layers.0.")


class Eagle3Head(RecurrentHead):
    """A head and what it borrows from its target."""

    def __init__(
        self, raw: Mapping[str, Any], weights: Mapping[str, torch.Tensor], target: Any
    ) -> None:
        config = _layer_config(raw)
        like = target.get_input_embeddings().weight
        self.device, self.dtype = like.device, target.dtype
        weights = {name: tensor.to(self.device) for name, tensor in weights.items()}
        self.norm_before_residual = bool(raw.get("norm_before_residual", False))
        self.norm_output = bool(raw.get("norm_output", False))
        with torch.device("meta"):
            model = AutoModel.from_config(config, attn_implementation="sdpa")
        self._layers = model.layers
        self._norm = model.norm
        self._rotary = type(model.rotary_emb)(config=config).to(self.device)
        self._fit_first_layer(config)
        self._load(weights)
        self._embed = weights.get("embed_tokens.weight", like).to(self.dtype)
        self._fc = weights["fc.weight"].to(self.dtype)
        out = target.get_output_embeddings()
        self._head = weights.get("lm_head.weight", out.weight if out is not None else like)
        self._head = self._head.to(self.dtype)
        self.to_target = _target_ids(weights.get("d2t"), len(self._head), self.device)

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

    def _load(self, weights: Mapping[str, torch.Tensor]) -> None:
        for number, layer in enumerate(self._layers):
            prefixes = LAYER_NAMES if number == 0 else (f"layers.{number}.",)
            own = {
                name.removeprefix(prefix): tensor.to(self.dtype)
                for prefix in prefixes
                for name, tensor in weights.items()
                if name.startswith(prefix)
            }
            layer.load_state_dict(own, assign=True)
        self._norm.load_state_dict({"weight": weights["norm.weight"].to(self.dtype)}, assign=True)

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


def _target_ids(d2t: torch.Tensor | None, rows: int, device: Any) -> torch.Tensor:
    """Draft id -> target id; d2t holds what is to be added."""
    ids = torch.arange(rows, device=device)
    return ids if d2t is None else ids + d2t.to(device).long()
