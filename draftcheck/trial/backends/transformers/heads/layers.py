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
from transformers import AutoConfig, AutoModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from draftcheck.trial.backends.backend import BrokenDraft
from draftcheck.trial.backends.transformers.heads.readings import HeadSource

FULL_ATTENTION = "full_attention"
COMPUTED = "rotary_emb.inv_freq"
"""What old files hold although it follows from the config."""


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
        """What every layer is told besides its input; positions: of all texts, or text by text."""
        positions = positions.view(-1, positions.shape[-1])
        return {
            "attention_mask": mask,
            "position_ids": positions,
            "past_key_values": cache,
            "position_embeddings": self.rotary(state, positions),
            "use_cache": True,
        }


def layer_config(raw: Mapping[str, Any], usual: str) -> Any:
    """The config of a head's layers as transformers has it; usual: the family if it names none."""
    part = dict(raw.get("transformer_layer_config") or raw)
    kind = part.pop("model_type", usual)
    for name in ("architectures", "auto_map", "torch_dtype", "dtype", "layer_types"):
        part.pop(name, None)
    part["num_hidden_layers"] = int(part.get("num_hidden_layers") or 1)
    return AutoConfig.for_model(kind if kind in CONFIG_MAPPING else usual, **part)


def numbered(source: HeadSource, prefix: str = "layers.") -> dict[str, torch.Tensor]:
    """The tensors of a head's layers under the names that build() takes."""
    return {
        name.removeprefix(prefix): source.tensor(name)
        for name in source.weights
        if name.startswith(prefix) and not name.endswith(COMPUTED)
    }


def build(
    config: Any, tensors: Mapping[str, torch.Tensor], count: int, dtype: torch.dtype, device: Any
) -> HeadLayers:
    """tensors: named as "0.self_attn.q_proj.weight". Raises BrokenDraft for missing ones."""
    if getattr(config, "index_topk", None):
        raise BrokenDraft(f"layers of {config.model_type} choose what they see: not read yet")
    small = copy.deepcopy(config)
    small.num_hidden_layers, small.vocab_size, small.pad_token_id = count, 1, None
    for name in ("first_k_dense_replace", "moe_layer_start_index"):
        if hasattr(small, name):  # the head's layers are counted on from the target's last one
            setattr(small, name, max(0, (getattr(small, name) or 0) - config.num_hidden_layers))
    if getattr(small, "layer_types", None):
        small.layer_types = [FULL_ATTENTION] * count
    if getattr(small, "mlp_layer_types", None):
        small.mlp_layer_types = [config.mlp_layer_types[-1]] * count
    with torch.device("meta"):
        empty = AutoModel.from_config(small)
    own = {f"layers.{name}": tensor for name, tensor in tensors.items()}
    own |= {  # what a model has besides layers, so that nothing is reported as missing
        name: torch.zeros(tensor.shape, dtype=tensor.dtype)
        for name, tensor in empty.state_dict().items()
        if not name.startswith("layers.")
    }
    model = loaded(empty, small, own, dtype)
    model.eval().to(device)
    return HeadLayers(model.layers, model.rotary_emb)


def loaded(empty: Any, config: Any, tensors: Mapping[str, torch.Tensor], dtype: torch.dtype) -> Any:
    """A model of the kind of this empty one, with these tensors and no others."""
    model, report = type(empty).from_pretrained(
        None, config=config, state_dict=dict(tensors), output_loading_info=True, dtype=dtype,
        attn_implementation="sdpa",
    )  # fmt: skip
    missing = sorted(report["missing_keys"])
    if missing:
        raise BrokenDraft(f"the head lacks {missing[0]} and {len(missing) - 1} more tensors")
    if report["unexpected_keys"]:
        raise BrokenDraft(
            f"the head has {sorted(report['unexpected_keys'])[0]}, which no layer of"
            f" {config.model_type} has"
        )
    if report["mismatched_keys"]:
        name, have, want = sorted(report["mismatched_keys"])[0]
        raise BrokenDraft(f"{name} of the head is {tuple(have)}, not {tuple(want)}")
    return model
