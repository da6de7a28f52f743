"""Decoder layers of a head, made by transformers from the head's own tensors.

A head's layers are those of some model family. A model of that family with as many layers and a
vocabulary of one token is built, and loads the tensors under its own names, so that whatever the
library does to tensors of that family (experts joined, names changed) is done to the head's too.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModel

from draftcheck.trial.backends.backend import BrokenDraft

FULL_ATTENTION = "full_attention"


@dataclass(frozen=True, slots=True)
class HeadLayers:
    """Layers in order, and the positions that they read."""

    layers: Any
    rotary: Any

    def forward(self, number: int, hidden: torch.Tensor, **shared: Any) -> torch.Tensor:
        out = self.layers[number](hidden, **shared)
        state: torch.Tensor = out[0] if isinstance(out, tuple) else out
        return state

    def shared(
        self, state: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor, cache: Any
    ) -> dict[str, Any]:
        """What every layer is told besides its input."""
        return {
            "attention_mask": mask,
            "position_ids": positions[None],
            "past_key_values": cache,
            "position_embeddings": self.rotary(state, positions[None]),
            "use_cache": True,
        }


def build(
    config: Any, tensors: Mapping[str, torch.Tensor], count: int, dtype: torch.dtype, device: Any
) -> HeadLayers:
    """tensors: named as "0.self_attn.q_proj.weight". Raises BrokenDraft for missing ones."""
    small = copy.deepcopy(config)
    small.num_hidden_layers, small.vocab_size, small.pad_token_id = count, 1, None
    for name in ("first_k_dense_replace", "moe_layer_start_index"):
        if hasattr(small, name):  # the head's layers are counted on from the target's last one
            setattr(small, name, max(0, (getattr(small, name) or 0) - config.num_hidden_layers))
    if getattr(small, "layer_types", None):
        small.layer_types = [FULL_ATTENTION] * count
    if getattr(small, "mlp_layer_types", None):
        small.mlp_layer_types = [config.mlp_layer_types[-1]] * count
    kind = type(AutoModel.from_config(small))
    own = {f"layers.{name}": tensor for name, tensor in tensors.items()}
    model, report = kind.from_pretrained(
        None, config=small, state_dict=own, output_loading_info=True, dtype=dtype,
        attn_implementation="sdpa",
    )  # fmt: skip
    missing = sorted(name for name in report["missing_keys"] if name.startswith("layers."))
    if missing:
        raise BrokenDraft(f"the head lacks {missing[0]} and {len(missing) - 1} more tensors")
    if report["mismatched_keys"]:
        name, have, want = sorted(report["mismatched_keys"])[0]
        raise BrokenDraft(f"{name} of the head is {tuple(have)}, not {tuple(want)}")
    model.eval().to(device)
    return HeadLayers(model.layers, model.rotary_emb)
