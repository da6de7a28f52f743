"""Gemma 4 assistants: a small model that reads the target's states, and its keys and values.

    h(i) = pre_projection([embedding of x(i+r), s]),   s = f(i), the target's last state, at first
    out  = layers(h): queries only, over the target's keys and values at places 0 … i
    logits = lm_head(out);  fed back: s = post_projection(out)

Each layer reads the last layer of its kind, sliding or full, that keeps keys in the target. The
query stays at one position for the whole pass, and nothing is written: so the readings of a slot
see the same keys, and slots do not see one another. Some assistants score only the tokens of the
groups that their centroids find.

Exact for engines that forget the keys of rejected drafts. transformers' own loop leaves the first
of them in sight, which no reading of the accepted text can show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.nn.functional import linear
from transformers import AutoConfig, AutoModelForCausalLM

from draftcheck.trial.backends.backend import BrokenDraft
from draftcheck.trial.backends.transformers.heads import layers
from draftcheck.trial.backends.transformers.heads.readings import (
    Head,
    HeadSource,
    SlotTokens,
    TargetStates,
    additive,
)

KeysAndValues = tuple[torch.Tensor, torch.Tensor]


class AssistantHead(Head):
    """An assistant and the target whose cache it shares."""

    shares_cache = True

    def __init__(self, source: HeadSource) -> None:
        raw = dict(source.raw)
        config = AutoConfig.for_model(raw.pop("model_type"), **raw)
        with torch.device("meta"):
            empty = AutoModelForCausalLM.from_config(config)
        tensors = {name: source.tensor(name) for name in source.weights}
        self._model = layers.loaded(empty, config, tensors, source.target.dtype)
        self._model.eval().to(source.embeddings.device)
        self._embed = source.target.get_input_embeddings()
        self._position = source.way.assistant_position
        self._window = config.get_text_config().sliding_window
        text = source.target.config.get_text_config()
        keeping = text.num_hidden_layers - (getattr(text, "num_kv_shared_layers", 0) or 0)
        self._shared = {kind: at for at, kind in enumerate(text.layer_types[:keeping])}
        self._target_layers = source.target.get_decoder().layers

    def choices(self, source: HeadSource) -> dict[str, object]:
        return {"the query's place behind the last one": source.way.assistant_position}

    def readings(self, text: SlotTokens, seen: TargetStates, count: int) -> Iterator[torch.Tensor]:
        places = torch.arange(seen.hidden.shape[1], device=seen.hidden.device)
        slots = places[text.begin : -1]
        shared = {
            kind: (seen.cache.layers[at].keys, seen.cache.layers[at].values)
            for kind, at in self._shared.items()
        }
        if any(keys.shape[2] != len(places) for keys, _ in shared.values()):
            raise BrokenDraft("the target's cache does not hold all places of the text")
        before = slots[:, None] >= places[None]
        near = before & (slots[:, None] - places[None] < self._window)
        state = seen.hidden[:, text.begin : -1]
        for reading in range(1, count + 1):
            tokens = text.after(reading, text.begin, len(slots))
            out = self._layers(tokens, state, slots + self._position, shared, (before, near))
            yield out
            state = self._model.post_projection(out)

    def _layers(
        self,
        tokens: torch.Tensor,
        state: torch.Tensor,
        positions: torch.Tensor,
        shared: Mapping[str, KeysAndValues],
        sights: tuple[torch.Tensor, torch.Tensor],
    ) -> torch.Tensor:
        """sights: which places full and sliding layers see, slot by slot."""
        masks = {
            kind: additive(seen, state.dtype)[None, None]
            for kind, seen in zip(("full_attention", "sliding_attention"), sights, strict=True)
        }
        out: torch.Tensor = self._model.model(
            inputs_embeds=self._model.pre_projection(torch.cat([self._embed(tokens), state], -1)),
            attention_mask=masks,
            position_ids=positions[None],
            shared_kv_states=shared,
            use_cache=False,
        ).last_hidden_state
        return out

    def step(self, sequences: int, context: int) -> Callable[[], object]:
        like = self._model.post_projection.weight
        shared = {}
        for kind, at in self._shared.items():
            attention = self._target_layers[at].self_attn
            heads = attention.k_proj.out_features // attention.head_dim
            keys = like.new_zeros(sequences, heads, context, attention.head_dim)
            shared[kind] = (keys, keys)
        tokens = torch.zeros(sequences, 1, dtype=torch.long, device=like.device)
        state = like.new_zeros(sequences, 1, like.shape[0])
        place = torch.full((1,), context, device=like.device)
        seen = torch.ones(1, context, dtype=torch.bool, device=like.device)

        def step() -> object:
            out = self._layers(tokens, state, place, shared, (seen, seen))
            return self._model.post_projection(out), self.logits(out, 1).argmax(-1)

        return step

    def logits(self, hidden: torch.Tensor, reading: int) -> torch.Tensor:
        scores = linear(hidden, self._model.lm_head.weight)
        groups: Any = self._model.masked_embedding
        if groups is None:
            return scores
        nearest = groups.centroids(hidden).topk(groups.centroid_intermediate_top_k, dim=-1).indices
        ids = groups.token_ordering.view(groups.num_centroids, -1)[nearest].flatten(-2)
        none = torch.full_like(scores, torch.finfo(scores.dtype).min)
        return none.scatter(-1, ids, scores.gather(-1, ids))
