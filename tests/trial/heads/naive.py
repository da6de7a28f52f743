"""Speculation with a head as an engine does it, slowly: batch 1, no cache, no trick.

Everything is computed again at every step, with attention written out. Nothing is shared with the
code that is tested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

Tensors = Mapping[str, torch.Tensor]
Drafter = Callable[[list[int], int], list[int]]
"""Text so far and how many -> drafted tokens."""


def rms(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))


def rotate(x: torch.Tensor, theta: float) -> torch.Tensor:
    """x: heads x places x width."""
    width = x.shape[-1]
    inverse = theta ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)
    angle = torch.arange(x.shape[1], dtype=torch.float32)[:, None] * inverse
    cos, sin = (torch.cat([f(angle)] * 2, dim=-1) for f in (torch.cos, torch.sin))
    left, right = x[..., : width // 2], x[..., width // 2 :]
    return x * cos + torch.cat([-right, left], dim=-1) * sin


def attention(x: torch.Tensor, w: Tensors, prefix: str, config: Mapping[str, Any]) -> torch.Tensor:
    heads, kv, width = (
        config[k] for k in ("num_attention_heads", "num_key_value_heads", "head_dim")
    )
    q, k, v = (
        (x @ w[f"{prefix}self_attn.{n}_proj.weight"].T).view(len(x), -1, width).transpose(0, 1)
        for n in "qkv"
    )
    q, k = rotate(q, config["rope_theta"]), rotate(k, config["rope_theta"])
    k, v = (t.repeat_interleave(heads // kv, dim=0) for t in (k, v))
    scores = q @ k.transpose(1, 2) / width**0.5
    scores = scores.masked_fill(torch.ones(len(x), len(x)).triu(1).bool(), float("-inf"))
    mixed = (scores.softmax(-1) @ v).transpose(0, 1).reshape(len(x), -1)
    return mixed @ w[f"{prefix}self_attn.o_proj.weight"].T


def mlp(x: torch.Tensor, w: Tensors, prefix: str) -> torch.Tensor:
    gate, up, down = (w[f"{prefix}mlp.{n}_proj.weight"] for n in ("gate", "up", "down"))
    return (torch.nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T


def eagle3(
    target: Any, config: Mapping[str, Any], w: Tensors, ids: list[int], *, norm_output: bool = False
) -> Drafter:
    """The drafter of an EAGLE-3 head; ids: which layers' inputs it reads."""
    prefix = "midlayer." if any(name.startswith("midlayer.") for name in w) else "layers.0."
    eps = config["rms_norm_eps"]
    table = w.get("embed_tokens.weight", target.get_input_embeddings().weight)

    def forward(tokens: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        beside = rms(table[tokens], w[f"{prefix}input_layernorm.weight"], eps)
        normed = rms(states, w[f"{prefix}hidden_norm.weight"], eps)
        residual = normed if config.get("norm_before_residual") else states
        x = residual + attention(torch.cat([beside, normed], -1), w, prefix, config)
        return x + mlp(rms(x, w[f"{prefix}post_attention_layernorm.weight"], eps), w, prefix)

    def draft(text: list[int], count: int) -> list[int]:
        seen = target(torch.tensor([text]), output_hidden_states=True).hidden_states
        features = torch.cat([seen[i][0] for i in ids], dim=-1) @ w["fc.weight"].T
        tokens, states = torch.tensor(text[1:]), features[:-1]
        drafted: list[int] = []
        for _ in range(count):
            last = forward(tokens, states)[-1]
            normed = rms(last, w["norm.weight"], eps)
            head = w.get("lm_head.weight", target.get_output_embeddings().weight)
            choice = int((normed @ head.T).argmax())
            choice += int(w["d2t"][choice]) if "d2t" in w else 0
            drafted.append(choice)
            tokens = torch.cat([tokens, torch.tensor([choice])])
            states = torch.cat([states, (normed if norm_output else last)[None]])
        return drafted

    return draft


def speculate(
    target: Any, prompt: list[int], answer: list[int], draft: Drafter, g: int
) -> list[int]:
    """Accepted drafts of each pass along the target's own greedy answer."""
    taken, at = [], 1
    while at < len(answer):
        room = min(g, len(answer) - at - 1)
        proposed = draft(prompt + answer[:at], room)
        hits = 0
        while hits < room and proposed[hits] == answer[at + hits]:
            hits += 1
        taken.append(hits)
        at += hits + 1
    return taken
