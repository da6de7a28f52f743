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


def rotate(x: torch.Tensor, theta: float, places: torch.Tensor | None = None) -> torch.Tensor:
    """x: heads x places x width."""
    width = x.shape[-1]
    inverse = theta ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)
    places = torch.arange(x.shape[1]) if places is None else places
    angle = places.float()[:, None] * inverse
    cos, sin = (torch.cat([f(angle)] * 2, dim=-1) for f in (torch.cos, torch.sin))
    left, right = x[..., : width // 2], x[..., width // 2 :]
    return x * cos + torch.cat([-right, left], dim=-1) * sin


def attention(
    x: torch.Tensor,
    w: Tensors,
    prefix: str,
    config: Mapping[str, Any],
    context: torch.Tensor | None = None,
    seen: torch.Tensor | None = None,
) -> torch.Tensor:
    """Over x itself, and states before it that only lend keys and values; seen: which see which."""
    heads, kv, width = (
        config[k] for k in ("num_attention_heads", "num_key_value_heads", "head_dim")
    )
    before = x[:0] if context is None else context
    places = torch.arange(len(before) + len(x))

    def projected(name: str, y: torch.Tensor) -> torch.Tensor:
        made = (y @ w[f"{prefix}self_attn.{name}_proj.weight"].T).view(len(y), -1, width)
        norm = w.get(f"{prefix}self_attn.{name}_norm.weight")
        made = made if norm is None else rms(made, norm, config["rms_norm_eps"])
        return made.transpose(0, 1)

    q = rotate(projected("q", x), config["rope_theta"], places[len(before) :])
    k, v = (projected(n, torch.cat([before, x])) for n in "kv")
    k = rotate(k, config["rope_theta"])
    k, v = (t.repeat_interleave(heads // kv, dim=0) for t in (k, v))
    scores = q @ k.transpose(1, 2) / width**0.5
    if seen is None:
        seen = places[None] <= places[len(before) :, None]
    mixed = scores.masked_fill(~seen, float("-inf")).softmax(-1) @ v
    return mixed.transpose(0, 1).reshape(len(x), -1) @ w[f"{prefix}self_attn.o_proj.weight"].T


def mlp(x: torch.Tensor, w: Tensors, prefix: str) -> torch.Tensor:
    gate, up, down = (w[f"{prefix}mlp.{n}_proj.weight"] for n in ("gate", "up", "down"))
    return (torch.nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T


def layer(
    x: torch.Tensor, w: Tensors, prefix: str, config: Mapping[str, Any], **over: Any
) -> torch.Tensor:
    """A decoder layer; without an input norm where the weights have none."""
    eps, norm = config["rms_norm_eps"], w.get(f"{prefix}input_layernorm.weight")
    read = x if norm is None else rms(x, norm, eps)
    x = x + attention(read, w, prefix, config, **over)
    return x + mlp(rms(x, w[f"{prefix}post_attention_layernorm.weight"], eps), w, prefix)


def depths(target: Any, text: list[int], ids: list[int] | None) -> torch.Tensor:
    """Places x width: what the layers with these numbers read, side by side; None: the last state.

    The number of layers means what stands before the final norm.
    """
    behind: list[torch.Tensor] = []
    hook = target.get_decoder().norm.register_forward_pre_hook(lambda _, x: behind.append(x[0]))
    seen = target(torch.tensor([text]), output_hidden_states=True).hidden_states
    hook.remove()
    read = [seen[-1]] if ids is None else [([*seen[:-1], behind[0]])[i] for i in ids]
    return torch.cat([states[0] for states in read], dim=-1)


def drafted_one_by_one(
    tokens: list[int],
    states: torch.Tensor,
    count: int,
    forward: Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
    choose: Callable[[torch.Tensor], int],
) -> list[int]:
    """forward: tokens and states of all slots -> the last one's state for the logits, and fed."""
    drafted: list[int] = []
    for _ in range(count):
        out, fed = forward(torch.tensor([*tokens, *drafted]), states)
        drafted.append(choose(out))
        states = torch.cat([states, fed[None]])
    return drafted


def choose_by(head: torch.Tensor, w: Tensors) -> Callable[[torch.Tensor], int]:
    def choose(out: torch.Tensor) -> int:
        choice = int((out @ head.T).argmax())
        return choice + (int(w["d2t"][choice]) if "d2t" in w else 0)

    return choose


def eagle3(
    target: Any,
    config: Mapping[str, Any],
    w: Tensors,
    ids: list[int] | None,
    *,
    norm_output: bool = False,
) -> Drafter:
    """The drafter of an EAGLE-3 head; ids: which layers' inputs it reads."""
    first = "midlayer." if any(name.startswith("midlayer.") for name in w) else "layers.0."
    eps, mask = config["rms_norm_eps"], config.get("mask_token_id")
    table = w.get("embed_tokens.weight", target.get_input_embeddings().weight)
    choose = choose_by(w.get("lm_head.weight", target.get_output_embeddings().weight), w)

    def combined(states: torch.Tensor) -> torch.Tensor:
        if config.get("norm_before_fc"):
            states = rms(states, w["input_norm.weight"], eps)
        if config.get("fc_norm"):
            parts = enumerate(states.chunk(len(ids or ()), dim=-1))
            states = torch.cat([rms(x, w[f"fc_norm.{i}.weight"], eps) for i, x in parts], dim=-1)
        return states @ w["fc.weight"].T if "fc.weight" in w else states

    def forward(tokens: torch.Tensor, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        beside = rms(table[tokens], w[f"{first}input_layernorm.weight"], eps)
        normed = rms(states, w[f"{first}hidden_norm.weight"], eps)
        residual = normed if config.get("norm_before_residual") else states
        windows = config.get("windows", [len(tokens)] * config["num_hidden_layers"])
        places = torch.arange(len(tokens))
        seen = [(g >= 0) & (g < n) for n in windows for g in [places[:, None] - places[None]]]
        x = residual + attention(torch.cat([beside, normed], -1), w, first, config, seen=seen[0])
        x = x + mlp(rms(x, w[f"{first}post_attention_layernorm.weight"], eps), w, first)
        for number in range(1, config["num_hidden_layers"]):
            x = layer(x, w, f"layers.{number}.", config, seen=seen[number])
        out = rms(x[-1], w["norm.weight"], eps)
        return out, out if norm_output else x[-1]

    def draft(text: list[int], count: int) -> list[int]:
        states = combined(depths(target, text, ids)[:-1])
        if mask is None:
            return drafted_one_by_one(text[1:], states, count, forward, choose)
        # All at once: what is before them, and then masks that see those before them.
        tokens = torch.tensor([*text[1:], *[mask] * (count - 1)])
        unknown = combined(w["mask_hidden"].view(1, -1)).expand(count - 1, -1)
        states = torch.cat([states, unknown])
        outs = [forward(tokens[:n], states[:n])[0] for n in range(len(text) - 1, len(tokens) + 1)]
        return [choose(out) for out in outs]

    return draft


def eagle(target: Any, config: Mapping[str, Any], w: Tensors) -> Drafter:
    """EAGLE-1: the target's last state beside the embedding."""
    table = w.get("embed_tokens.weight", target.get_input_embeddings().weight)
    choose = choose_by(target.get_output_embeddings().weight, w)

    def forward(tokens: torch.Tensor, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.cat([table[tokens], states], dim=-1) @ w["fc.weight"].T
        for number in range(config["num_hidden_layers"]):
            x = layer(x, w, f"layers.{number}.", config)
        return x[-1], x[-1]

    def draft(text: list[int], count: int) -> list[int]:
        states = depths(target, text, None)[:-1]
        return drafted_one_by_one(text[1:], states, count, forward, choose)

    return draft


MtpStep = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Tokens and states of all slots -> all slots' states for the logits, and those fed on."""


def mtp(target: Any, steps: list[MtpStep]) -> Drafter:
    """One layer is used again and again; of several each makes one draft."""
    choose = choose_by(target.get_output_embeddings().weight, {})

    def forward(tokens: torch.Tensor, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, fed = steps[0](tokens, states)
        return out[-1], fed[-1]

    def draft(text: list[int], count: int) -> list[int]:
        states = depths(target, text, None)[:-1]
        if len(steps) == 1:
            return drafted_one_by_one(text[1:], states, count, forward, choose)
        drafted: list[int] = []
        for number, step in enumerate(steps[:count], start=1):
            tokens = torch.tensor([*text, *drafted][number:])
            out, states = step(tokens, states)
            drafted.append(choose(out[-1]))
        return drafted

    return draft


def medusa(target: Any, blocks: list[tuple[Tensors, torch.Tensor]]) -> Drafter:
    """Per head the linear layer and the output matrix."""

    def draft(text: list[int], count: int) -> list[int]:
        f = depths(target, text, None)[-2]
        outs = [
            (f + torch.nn.functional.silu(f @ w["weight"].T + w["bias"])) @ head.T
            for w, head in blocks[:count]
        ]
        return [int(out.argmax()) for out in outs]

    return draft


def mlp_speculator(target: Any, config: Mapping[str, Any], w: Tensors) -> Drafter:
    """Every number has its own tensors; where they are tied the first one's."""

    def plain(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean() + 1e-6)

    def draft(text: list[int], count: int) -> list[int]:
        total, width = config["n_predict"], config["inner_dim"]
        share = 0.5 ** (0.5 / total)
        other = ((1 - share**2) * width / 2) ** 0.5
        state, last, drafted = depths(target, text, None)[-2], text[-1], []
        if config["scale_input"]:
            state = plain(state) / 2**0.5
        for j in range(count):
            n = 0 if config["tie_weights"] else j
            proj = w[f"proj.{min(j, 1) if config['tie_weights'] else j}.weight"]
            state = share * (proj @ state) + other * w[f"emb.{n}.weight"][last]
            state = plain(state) * w[f"ln.{n}.weight"] + w[f"ln.{n}.bias"]
            state = torch.nn.functional.gelu(state)
            last = int((w[f"head.{n}.weight"] @ state).argmax())
            drafted.append(last)
        return drafted

    return draft


def block(
    target: Any,
    config: Mapping[str, Any],
    w: Tensors,
    ids: list[int],
    *,
    causal: list[bool],
    window: list[int | None],
    anchor: bool = False,
    size: int | None = None,
) -> Drafter:
    """DFlash, and DSpark where there is a Markov head; size: always so many slots."""
    eps = config["rms_norm_eps"]
    table = target.get_input_embeddings().weight
    head = w.get("lm_head.weight", target.get_output_embeddings().weight)

    def draft(text: list[int], count: int) -> list[int]:
        states = depths(target, text, ids)[:-1] @ w["fc.weight"].T
        context = rms(states, w["hidden_norm.weight"], eps)
        slots = size or count + (0 if anchor else 1)
        x = table[torch.tensor([text[-1], *[config["mask_token_id"]] * (slots - 1)])]
        keys = torch.arange(len(context) + slots)
        rows = keys[len(context) :, None]
        for number in range(config["num_hidden_layers"]):
            seen = torch.ones(slots, len(keys), dtype=torch.bool)
            if causal[number]:
                seen &= keys[None] <= rows
            if (width := window[number]) is not None:
                seen &= rows - keys[None] < width
            x = layer(x, w, f"layers.{number}.", config, context=context, seen=seen)
        scores = rms(x, w["norm.weight"], eps) @ head.T
        drafted: list[int] = []
        for row in scores[0 if anchor else 1 :][:count]:
            if "markov_head.markov_w1.weight" in w:
                last = drafted[-1] if drafted else text[-1]
                row = (
                    row
                    + w["markov_head.markov_w2.weight"] @ w["markov_head.markov_w1.weight"][last]
                )
            choice = int(row.argmax())
            drafted.append(choice + (int(w["d2t"][choice]) if "d2t" in w else 0))
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
