"""Multi-token prediction: layers that a target brings along behind its last one.

    h(i) = project([norm_e(embedding of x(i+1)), norm_h(f(i))])      f: the target's last state
    out  = layer(h);  logits = head(norm(out))

Layouts differ in names, in the order of the two halves and in whose head and norm they are; a row
of LAYOUTS says it. What is fed back for the next draft is `out` itself or norm(out), by engine.

One layer is used again and again, as the readings have it. Of several layers the r-th makes the
r-th draft, and keeps keys of its own at every slot:

    layer r, slot i: token x(i+r) with what layer r-1 left at slot i, causal over layer r's slots

Engines compute slots whose tokens were rejected drafts anew, so the keys are always those of the
target's tokens: this is exact too. Beyond the number of layers it is not followed: an engine that
begins again with the first layer overwrites that layer's keys.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import embedding, linear
from transformers import DynamicCache

from draftcheck.trial.backends.backend import BrokenDraft
from draftcheck.trial.backends.transformers.heads import layers
from draftcheck.trial.backends.transformers.heads.readings import (
    DraftingStep,
    HeadSource,
    RecurrentHead,
    SlotTokens,
    TargetStates,
    causal,
)


@dataclass(frozen=True, slots=True)
class MtpLayout:
    """How a family names the parts of its MTP layers; {n} is the layer's number."""

    name: str
    """As head-ways.toml has it."""
    layer: str
    """Before the names of a decoder layer's own tensors."""
    embedding_norm: str
    hidden_norm: str
    project: str
    norm: str
    head: str | None = None
    embeddings: str | None = None
    hidden_first: bool = False
    behind_target: bool = False
    """{n} counts on from the target's last layer."""


LAYOUTS = (
    MtpLayout(
        name="deepseek",
        layer="model.layers.{n}.",
        embedding_norm="model.layers.{n}.enorm.weight",
        hidden_norm="model.layers.{n}.hnorm.weight",
        project="model.layers.{n}.eh_proj.weight",
        norm="model.layers.{n}.shared_head.norm.weight",
        head="model.layers.{n}.shared_head.head.weight",
        embeddings="model.layers.{n}.embed_tokens.weight",
        behind_target=True,
    ),
    MtpLayout(
        name="qwen",
        layer="mtp.layers.{n}.",
        embedding_norm="mtp.pre_fc_norm_embedding.weight",
        hidden_norm="mtp.pre_fc_norm_hidden.weight",
        project="mtp.fc.weight",
        norm="mtp.norm.weight",
    ),
    MtpLayout(
        name="mimo",
        layer="model.mtp_layers.{n}.",
        embedding_norm="model.mtp_layers.{n}.token_layernorm.weight",
        hidden_norm="model.mtp_layers.{n}.hidden_layernorm.weight",
        project="model.mtp_layers.{n}.input_proj.weight",
        norm="model.mtp_layers.{n}.final_layernorm.weight",
        hidden_first=True,
    ),
)


class MtpHead(RecurrentHead):
    """The MTP layers of a target."""

    def __init__(self, source: HeadSource) -> None:
        config = source.target.config.get_text_config()
        self._layout, first, self.count = _layout(source.weights, config.num_hidden_layers)
        way, name = source.way, self._layout.name
        if name not in way.in_turn:
            self.count = 1
        if self.count > 1 or not way.again:
            self.longest = self.count
        self._feeds_normed = _fed_back(source, name) == "normed"
        self._zero_first = name in way.first_embedding
        self._slot_before = way.slot_before
        numbers = range(first, first + self.count)
        own = self._own_names(numbers)
        tensors = {
            f"{at}.{name.removeprefix(prefix)}": source.tensor(name)
            for at, n in enumerate(numbers)
            if (prefix := self._layout.layer.format(n=n))
            for name in source.weights
            if name.startswith(prefix) and name not in own
        }
        self.device, self.dtype = source.embeddings.device, source.target.dtype
        self.width = config.hidden_size
        self._layers = layers.build(config, tensors, self.count, self.dtype, self.device)
        self._norm_like = source.target.get_decoder().norm
        self._part = [self._parts(source, n) for n in numbers]

    def choices(self, source: HeadSource) -> dict[str, object]:
        depth = source.target.config.get_text_config().num_hidden_layers
        layout, _, count = _layout(source.weights, depth)
        found: dict[str, object] = {
            "the state fed back": _fed_back(source, layout.name),
            "zeros for the first embedding": layout.name in source.way.first_embedding,
        }
        if count > 1:
            found["a layer for each draft"] = layout.name in source.way.in_turn
        return found

    def _own_names(self, numbers: range) -> set[str]:
        names = (
            self._layout.embedding_norm, self._layout.hidden_norm, self._layout.project,
            self._layout.norm, self._layout.head, self._layout.embeddings,
        )  # fmt: skip
        return {name.format(n=n) for name in names if name for n in numbers}

    def _parts(self, source: HeadSource, n: int) -> dict[str, Any]:
        layout = self._layout

        def named(name: str | None, default: torch.Tensor | None = None) -> torch.Tensor:
            names = () if name is None else (name.format(n=n),)
            return source.tensor(*names, default=default)

        return {
            "embeddings": named(layout.embeddings, source.embeddings),
            "project": named(layout.project),
            "head": named(layout.head, source.output),
            **{
                name: self._norm(named(getattr(layout, name)))
                for name in ("embedding_norm", "hidden_norm", "norm")
            },
        }

    def _norm(self, weight: torch.Tensor) -> Any:
        """A norm of the target's own kind (some add one to their weight) with this weight."""
        made = copy.deepcopy(self._norm_like)
        made.load_state_dict({"weight": weight})
        return made

    def states(self, hidden: torch.Tensor) -> torch.Tensor:
        """hidden: the target's last state behind its final norm."""
        return hidden

    def readings(self, text: SlotTokens, seen: TargetStates, count: int) -> Iterator[torch.Tensor]:
        count = min(count, self.longest)
        if self._slot_before:
            ids = torch.cat([text.ids[:, :1], text.ids], dim=1)
            none = torch.zeros_like(seen.hidden[:, :1])
            text = SlotTokens(ids, text.begin + 1)
            seen = TargetStates(torch.cat([none, seen.hidden], dim=1), seen.cache)
        if self.count == 1:
            yield from super().readings(text, seen, count)
            return
        state = seen.hidden[:, :-1]
        slots = state.shape[1]
        positions = torch.arange(slots, device=state.device)
        mask, cache = causal(slots, slots, 0, state), DynamicCache()
        for reading in range(1, count + 1):
            tokens = text.after(reading, 0, slots)
            step = DraftingStep(tokens, state, positions, mask, cache, reading)
            out, state = self.layer(step)
            yield out[:, text.begin :]

    def layer(self, step: DraftingStep) -> tuple[torch.Tensor, torch.Tensor]:
        at = self._at(step.reading)
        part = self._part[at]
        beside = embedding(step.tokens, part["embeddings"])
        if self._zero_first:
            beside = beside * (step.positions > 0)[:, None]
        halves = [part["embedding_norm"](beside), part["hidden_norm"](step.state)]
        joined = torch.cat(halves[::-1] if self._layout.hidden_first else halves, dim=-1)
        shared = self._layers.shared(step.state, step.positions, step.mask, step.cache)
        out = self._layers.forward(at, linear(joined, part["project"]), **shared)
        normed = part["norm"](out)
        return normed, normed if self._feeds_normed else out

    def logits(self, hidden: torch.Tensor, reading: int) -> torch.Tensor:
        return linear(hidden, self._part[self._at(reading)]["head"])

    def _at(self, reading: int) -> int:
        return reading - 1 if self.count > 1 else 0


def _fed_back(source: HeadSource, layout: str) -> str:
    kind = source.target.config.get_text_config().model_type.removesuffix("_text")
    return source.way.feeds.get(kind, source.way.feeds[layout])


def _layout(weights: Mapping[str, torch.Tensor], behind: int) -> tuple[MtpLayout, int, int]:
    """The layout that the tensors have, the first layer's number, and how many there are."""
    for layout in LAYOUTS:
        first = behind if layout.behind_target else 0
        count = 0
        while any(name.startswith(layout.layer.format(n=first + count)) for name in weights):
            count += 1
        if count and layout.project.format(n=first) in weights:
            return layout, first, count
    raise BrokenDraft("no MTP layers of a known layout in the weights")
