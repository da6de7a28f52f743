"""The drafters of naive.py for files: Medusa, MTP and DFlash heads as they are published."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count, takewhile
from typing import Any

import torch

from tests.trial.heads import naive
from tests.trial.heads.naive import Drafter, Tensors


def medusa(target: Any, w: Tensors) -> Drafter:
    """Medusa's own names, one layer in each block."""
    numbers = takewhile(lambda j: f"{j}.1.weight" in w, count())
    linear = "{}.0.linear.{}".format
    blocks = [
        ({part: w[linear(j, part)] for part in ("weight", "bias")}, w[f"{j}.1.weight"])
        for j in numbers
    ]
    return naive.medusa(target, blocks)


def mtp(
    target: Any, config: Mapping[str, Any], w: Tensors, *, feeds_normed: bool, zero_first: bool
) -> Drafter:
    """One dense layer in the layout of DeepSeek and GLM, used again and again."""
    prefix, eps = f"model.layers.{config['num_hidden_layers']}.", config["rms_norm_eps"]
    choose = naive.choose_by(w[f"{prefix}shared_head.head.weight"], {})

    def forward(tokens: torch.Tensor, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        beside = w[f"{prefix}embed_tokens.weight"][tokens]
        if zero_first:
            beside = torch.cat([torch.zeros_like(beside[:1]), beside[1:]])
        halves = (
            naive.rms(beside, w[f"{prefix}enorm.weight"], eps),
            naive.rms(states, w[f"{prefix}hnorm.weight"], eps),
        )
        joined = torch.cat(halves, dim=-1) @ w[f"{prefix}eh_proj.weight"].T
        last = naive.layer(joined, w, prefix, config)[-1]
        normed = naive.rms(last, w[f"{prefix}shared_head.norm.weight"], eps)
        return normed, normed if feeds_normed else last

    def draft(text: list[int], count: int) -> list[int]:
        states = naive.depths(target, text, None)[:-1]
        return naive.drafted_one_by_one(text[1:], states, count, forward, choose)

    return draft


def dflash(target: Any, config: Mapping[str, Any], w: Tensors) -> Drafter:
    """Whole blocks through one layer. Layers of the target are numbered by what they put out."""
    own = config["dflash_config"]
    ids = [number + 1 for number in own["target_layer_ids"]]
    return naive.block(
        target, {**config, **own}, w, ids, causal=[False], window=[None], size=config["block_size"]
    )
