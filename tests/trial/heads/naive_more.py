"""The drafters of Medusa, MTP and DFlash heads, written out as naive.py has EAGLE-3's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tests.trial.heads import naive
from tests.trial.heads.naive import Drafter, Tensors


def medusa(target: Any, w: Tensors) -> Drafter:
    """Medusa's own names, one layer in each block."""

    def draft(text: list[int], count: int) -> list[int]:
        # The target has chosen the last token, but not read it.
        state = target.base_model(torch.tensor([text[:-1]])).last_hidden_state[0, -1]
        drafted: list[int] = []
        while len(drafted) < count and f"{len(drafted)}.1.weight" in w:
            j = len(drafted)
            inner = w[f"{j}.0.linear.weight"] @ state + w[f"{j}.0.linear.bias"]
            x = state + torch.nn.functional.silu(inner)
            drafted.append(int((w[f"{j}.1.weight"] @ x).argmax()))
        return drafted

    return draft


def mtp(
    target: Any, config: Mapping[str, Any], w: Tensors, *, feeds_normed: bool, zero_first: bool
) -> Drafter:
    """One dense layer in the layout of DeepSeek and GLM, used again and again."""
    prefix, eps = f"model.layers.{config['num_hidden_layers']}.", config["rms_norm_eps"]

    def forward(tokens: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        beside = w[f"{prefix}embed_tokens.weight"][tokens]
        if zero_first:
            beside = torch.cat([torch.zeros_like(beside[:1]), beside[1:]])
        halves = (
            naive.rms(beside, w[f"{prefix}enorm.weight"], eps),
            naive.rms(states, w[f"{prefix}hnorm.weight"], eps),
        )
        x = torch.cat(halves, dim=-1) @ w[f"{prefix}eh_proj.weight"].T
        normed = naive.rms(x, w[f"{prefix}input_layernorm.weight"], eps)
        x = x + naive.attention(normed, w, prefix, config)
        normed = naive.rms(x, w[f"{prefix}post_attention_layernorm.weight"], eps)
        return x + naive.mlp(normed, w, prefix)

    def draft(text: list[int], count: int) -> list[int]:
        states = target.base_model(torch.tensor([text[:-1]])).last_hidden_state[0]
        tokens = torch.tensor(text[1:])
        drafted: list[int] = []
        for _ in range(count):
            last = forward(tokens, states)[-1]
            normed = naive.rms(last, w[f"{prefix}shared_head.norm.weight"], eps)
            drafted.append(int((w[f"{prefix}shared_head.head.weight"] @ normed).argmax()))
            tokens = torch.cat([tokens, torch.tensor(drafted[-1:])])
            states = torch.cat([states, (normed if feeds_normed else last)[None]])
        return drafted

    return draft


def dflash(target: Any, config: Mapping[str, Any], w: Tensors) -> Drafter:
    """Whole blocks through one layer. Layers of the target are numbered by what they put out."""
    own, eps, width = config["dflash_config"], config["rms_norm_eps"], config["head_dim"]
    table, output = target.get_input_embeddings().weight, target.get_output_embeddings().weight
    groups = config["num_attention_heads"] // config["num_key_value_heads"]

    def by_head(x: torch.Tensor, name: str) -> torch.Tensor:
        made = (x @ w[f"layers.0.self_attn.{name}_proj.weight"].T).view(len(x), -1, width)
        if name != "v":
            made = naive.rms(made, w[f"layers.0.self_attn.{name}_norm.weight"], eps)
        return made.transpose(0, 1)

    def draft(text: list[int], count: int) -> list[int]:
        seen = target(torch.tensor([text[:-1]]), output_hidden_states=True).hidden_states
        context = torch.cat([seen[n + 1][0] for n in own["target_layer_ids"]], dim=-1)
        context = naive.rms(context @ w["fc.weight"].T, w["hidden_norm.weight"], eps)
        masks = [own["mask_token_id"]] * (config["block_size"] - 1)
        x = table[torch.tensor([text[-1], *masks])]
        normed = naive.rms(x, w["layers.0.input_layernorm.weight"], eps)
        both = torch.cat([context, normed])
        q, k = (naive.rotate(by_head(both, name), config["rope_theta"]) for name in "qk")
        k, v = (part.repeat_interleave(groups, dim=0) for part in (k, by_head(both, "v")))
        scores = q[:, len(context) :] @ k.transpose(1, 2) / width**0.5
        mixed = (scores.softmax(-1) @ v).transpose(0, 1).flatten(1)
        x = x + mixed @ w["layers.0.self_attn.o_proj.weight"].T
        normed = naive.rms(x, w["layers.0.post_attention_layernorm.weight"], eps)
        x = naive.rms(x + naive.mlp(normed, w, "layers.0."), w["norm.weight"], eps)
        drafted: list[int] = (x[1 : count + 1] @ output.T).argmax(-1).tolist()
        return drafted

    return draft
