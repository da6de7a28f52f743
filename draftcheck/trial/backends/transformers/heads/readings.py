"""Every draft length of a head, exactly, from k readings of the target's own text.

A head drafts from the target's hidden states, and then from its own. Let x be prompt and answer,
f(i) what the target left at place i. Slot i of the head holds token x(i+1) beside f(i):

    reading 1   token x(i+1) with f(i), causal over the slots before it   -> proposes x(i+2)
    reading r   token x(i+r) with the state that reading r-1 left here    -> proposes x(i+r+1)

Reading r is what the head drafts r-th in a pass that begins at slot i. Its earlier drafts count
only if they were the target's tokens, so the target's tokens stand in for them. What it attends to:
the keys of reading 1 at all slots up to its own (an engine fills them with the target's states once
tokens are accepted) and those of readings 2 … r at its own slot alone. So the mask of reading r is

    [ causal | own slot | … | own slot ]

and all slots go through at once. A pass takes the leading hits of one slot over readings 1 … k;
hits along the text, as for an ordinary draft, would overstate it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import rms_norm

from draftcheck.trial.backends.backend import BrokenDraft
from draftcheck.trial.backends.transformers.heads.ways import OUTPUTS, HeadWay


@dataclass(frozen=True, slots=True)
class HeadSource:
    """What a head is made of."""

    raw: Mapping[str, Any]
    """Its config.json."""
    weights: Mapping[str, torch.Tensor]
    """Its tensors under the names of the files, still on the CPU."""
    target: Any
    way: HeadWay

    @property
    def embeddings(self) -> torch.Tensor:
        """The target's own."""
        found: torch.Tensor = self.target.get_input_embeddings().weight
        return found

    @property
    def output(self) -> torch.Tensor:
        """The target's own output matrix."""
        made = self.target.get_output_embeddings()
        return self.embeddings if made is None else made.weight

    def tensor(self, *names: str, default: torch.Tensor | None = None) -> torch.Tensor:
        """The first of these that there is, where and how the target computes."""
        for name in names:
            if name in self.weights:
                found = self.weights[name].to(self.embeddings.device)
                return found.to(self.target.dtype) if found.is_floating_point() else found
        if default is None:
            raise BrokenDraft(f"the head's weights lack {names[0]}")
        return default

    def refuse_others(self, *known: str) -> None:
        """A tensor whose use is not known means a head that is built otherwise."""
        other = next((name for name in self.weights if not name.startswith(known)), None)
        if other is not None:
            raise BrokenDraft(f"heads of this kind with {other} cannot be read yet")


@dataclass(frozen=True, slots=True)
class TargetStates:
    """What the target left at every place of a batch of texts."""

    hidden: torch.Tensor
    """Texts x places x width: the states of the layers that the head reads, side by side."""
    cache: Any = None
    """Keys and values of the target, for heads that share them."""


@dataclass(frozen=True, slots=True)
class SlotTokens:
    """Texts of one batch as a head sees them, padded behind their ends."""

    ids: torch.Tensor
    """Prompt and answer, one text in a row."""
    begin: int
    """The first slot where a pass can begin: behind the shortest prompt of the batch."""
    spans: Sequence[range] = ()
    """The slots of each text where passes can begin; none: all from `begin` on."""

    def after(self, reading: int, first_slot: int, slots: int) -> torch.Tensor:
        """The token beside each slot in a reading; behind the end of the texts the last one."""
        places = torch.arange(slots, device=self.ids.device) + first_slot + reading
        return self.ids[:, places.clamp(max=self.ids.shape[1] - 1)]


class Head(ABC):
    """A head that is loaded: what its readings are made of."""

    longest: int = 1 << 10
    """Tokens that it can draft in one pass; readings beyond are not made."""
    layers_read: tuple[int, ...] = ()
    """Layers of the target whose inputs it reads; none: the last state, behind the final norm."""
    shares_cache: bool = False
    """It reads the target's keys and values too."""
    leads: bool = True
    """The drafts of a short pass are the first ones of a long pass; else readings of `count` hold
    for passes of that length only."""
    by_spans: bool = False
    """It reads no slots but those of SlotTokens.spans: texts of any lengths go together."""
    to_target: torch.Tensor | None = None
    """Its own id -> the target's; None: they are the same."""

    at_once: bool = False
    """One step gives all drafts of a pass."""

    def choices(self, source: HeadSource) -> dict[str, object]:
        """Where engines differ: what the engine's way comes to for this head."""
        return {}

    @abstractmethod
    def step(self, sequences: int, context: int) -> Callable[[], object]:
        """One step of drafting behind so many slots, to be timed."""

    @abstractmethod
    def readings(self, text: SlotTokens, seen: TargetStates, count: int) -> Iterator[torch.Tensor]:
        """Reading by reading the states to take logits of: texts x slots x width.

        Slots from text.begin on, without the last place, behind which nothing is proposed; what
        is outside of a text's span, if it has one, says nothing.
        """

    @abstractmethod
    def logits(self, hidden: torch.Tensor, reading: int) -> torch.Tensor:
        """Scores of its own ids."""


@dataclass(frozen=True, slots=True)
class DraftingStep:
    """What a head's layers get for one token more at all slots."""

    tokens: torch.Tensor
    state: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    cache: Any
    reading: int = 1


class RecurrentHead(Head):
    """One or more decoder layers that read tokens beside states, and feed their own states back."""

    device: Any
    dtype: torch.dtype

    @abstractmethod
    def states(self, hidden: torch.Tensor) -> torch.Tensor:
        """What reading 1 takes of the target's states."""

    def readings(self, text: SlotTokens, seen: TargetStates, count: int) -> Iterator[torch.Tensor]:
        from transformers import DynamicCache

        states = self.states(seen.hidden)
        slots, begin = states.shape[1] - 1, text.begin
        cache = DynamicCache()
        mask = causal(slots, slots, 0, states)
        state, first = states[:, :slots], 0
        for reading in range(1, count + 1):
            tokens = text.after(reading, first, state.shape[1])
            places = torch.arange(state.shape[1], device=state.device) + first + reading - 1
            out, fed = self.layer(DraftingStep(tokens, state, places, mask, cache, reading))
            if reading == 1:
                # Slots inside the prompt only serve as keys: no pass begins there.
                out, fed, first = out[:, begin:], fed[:, begin:], begin
                mask = causal(slots - begin, slots, begin, states)
            yield out
            state = fed
            own = torch.eye(slots - begin, dtype=torch.bool, device=states.device)
            mask = torch.cat([mask, additive(own, states.dtype)[None, None]], dim=-1)

    width: int
    """Of its states."""

    def step(self, sequences: int, context: int) -> Callable[[], object]:
        from transformers import DynamicCache

        like = torch.zeros(sequences, context, self.width, dtype=self.dtype, device=self.device)
        tokens = torch.zeros(sequences, context, dtype=torch.long, device=self.device)
        cache: Any = DynamicCache()
        places = torch.arange(context + 1, device=self.device)
        mask = causal(context, context, 0, like)
        self.layer(DraftingStep(tokens, like, places[:-1], mask, cache))
        held = [(layer.keys, layer.values) for layer in cache.layers]
        mask = mask.new_zeros(1, 1, 1, context + 1)

        def step() -> object:
            for layer, (keys, values) in zip(cache.layers, held, strict=True):
                layer.keys, layer.values = keys, values  # as if nothing had been drafted yet
            one = DraftingStep(tokens[:, :1], like[:, :1], places[-1:], mask, cache)
            out, _ = self.layer(one)
            return self.logits(out, 1).argmax(-1)

        return step

    @abstractmethod
    def layer(self, step: DraftingStep) -> tuple[torch.Tensor, torch.Tensor]:
        """The state for the logits, and the one fed back."""


def causal(rows: int, keys: int, first: int, like: torch.Tensor) -> torch.Tensor:
    """Row i stands for slot first + i and sees the slots up to its own."""
    seen = torch.ones(rows, keys, dtype=torch.bool, device=like.device).tril(first)
    return additive(seen, like.dtype)[None, None]


def additive(seen: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    mask = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
    return mask.masked_fill(~seen, torch.finfo(dtype).min)


def rms(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return rms_norm(x, weight.shape, weight, eps)


AUX = ("eagle_aux_hidden_state_layer_ids", "aux_hidden_state_layer_ids", *OUTPUTS)
PARTS = ("eagle_config", "dflash_config", "dspark_config")


def setting(raw: Mapping[str, Any], *names: str) -> Any:
    """The first of these names in the config, or in the part of it that heads have; None."""
    places = [raw, *(raw[part] for part in PARTS if isinstance(raw.get(part), dict))]
    return next((place[name] for name in names for place in places if name in place), None)


def layers_read(source: HeadSource) -> tuple[int, ...]:
    """The target's layers whose inputs a head reads, as the engine counts them.

    The number of layers itself is the state behind the last one, before the final norm.
    """
    raw = source.raw if source.way.eagle_config else {**source.raw, "eagle_config": None}
    names = (name for name in AUX if setting(raw, name))
    given = next(((name, tuple(map(int, setting(raw, name)))) for name in names), None)
    return source.way.layers(given, source.target.config.get_text_config().num_hidden_layers)


def own_ids(source: HeadSource, rows: int) -> torch.Tensor | None:
    """The target's id of each id of a head with a vocabulary of its own: d2t holds offsets."""
    if "d2t" not in source.weights:
        return None
    offsets = source.tensor("d2t").long()
    return torch.arange(rows, device=offsets.device) + offsets
