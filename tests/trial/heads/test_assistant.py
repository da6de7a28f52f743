"""Assistants draft what the library's own models draft, called step by step."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import (  # noqa: E402
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    DynamicCache,
)
from transformers.cache_utils import DFlashCache  # noqa: E402

from draftcheck.trial.backends.backend import BrokenDraft  # noqa: E402
from tests.trial.heads.naive import Drafter, depths  # noqa: E402
from tests.trial.heads.tables import agree, table  # noqa: E402
from tests.trial.heads.test_families import LAYER, SEEDS, head, llama, randomized  # noqa: E402

V = 40
TEXT = {
    "vocab_size": V, "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "global_head_dim": 8, "sliding_window": 4, "hidden_size_per_layer_input": 0,
    "vocab_size_per_layer_input": 0, "max_position_embeddings": 256,
}  # fmt: skip
KINDS = ["sliding_attention", "full_attention"]


def gemma(seed: int) -> Any:
    config = AutoConfig.for_model(
        "gemma4_text", **TEXT, hidden_size=16, num_hidden_layers=4, layer_types=KINDS * 2,
        num_kv_shared_layers=1,
    )  # fmt: skip
    return randomized(AutoModelForCausalLM.from_config(config), seed)


def assistant(seed: int, ordered: bool) -> Any:
    text = {**TEXT, "hidden_size": 12, "num_hidden_layers": 2, "layer_types": KINDS}
    config = AutoConfig.for_model(
        "gemma4_assistant", text_config=text, backbone_hidden_size=16,
        use_ordered_embeddings=ordered, num_centroids=8, centroid_intermediate_top_k=2,
    )  # fmt: skip
    made = randomized(AutoModelForCausalLM.from_config(config), seed + 10)
    if ordered:
        order = torch.randperm(V, generator=torch.Generator().manual_seed(seed))
        made.masked_embedding.token_ordering.copy_(order)
    return made


def drafter(target: Any, made: Any, behind: int) -> Drafter:
    """The keys that count are those of the text; sliding layers see as many as the window says."""

    def draft(text: list[int], count: int) -> list[int]:
        seen = target(
            torch.tensor([text[:-1]]), output_hidden_states=True, return_shared_kv_states=True,
            past_key_values=DynamicCache(),
        )  # fmt: skip
        shared = dict(seen.shared_kv_states)
        shared["sliding_attention"] = tuple(x[:, :, -4:] for x in shared["sliding_attention"])
        state, drafted = seen.hidden_states[-1][:, -1:], [text[-1]]
        for _ in range(count):
            beside = target.get_input_embeddings()(torch.tensor([drafted[-1:]]))
            out = made(
                inputs_embeds=torch.cat([beside, state], dim=-1), shared_kv_states=shared,
                position_ids=torch.tensor([[len(text) - 2 + behind]]),
            )  # fmt: skip
            state = out.last_hidden_state
            drafted.append(int(out.logits[0, -1].argmax()))
        return drafted[1:]

    return draft


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("engine", "behind", "ordered"), [("vllm", 0, False), ("vllm", 0, True), ("transformers", 1, 0)]
)
def test_readings_of_an_assistant(seed: int, engine: str, behind: int, ordered: bool) -> None:
    target, made = gemma(seed), assistant(seed, bool(ordered))
    raw = made.config.to_dict()
    reader = head("mtp", raw, made.state_dict(), target, engine)
    assert reader.shares_cache
    assert agree(reader, target, drafter(target, made, behind), seed) == 16


@pytest.mark.parametrize("seed", SEEDS)
def test_a_muse_glimmer_assistant(seed: int) -> None:
    """A DFlash head under another name: its layers see their whole block."""
    target, fields = llama(seed), ("hidden_size", "intermediate_size", "num_attention_heads")
    config = AutoConfig.for_model(
        "muse_glimmer_assistant", **{name: LAYER[name] for name in fields}, num_hidden_layers=2,
        num_key_value_heads=2, head_dim=8, block_size=6, mask_token_id=39, pad_token_id=0,
        target_layer_ids=[0, 4], layer_types=KINDS,
    )  # fmt: skip
    made = randomized(AutoModel.from_config(config), seed + 20)

    def draft(text: list[int], count: int) -> list[int]:
        context = depths(target, text, [1, 5])[None, :-1]
        cache = DFlashCache(config=config)
        cache.set_previous_accepted_tokens(context.shape[1])
        block = target.get_input_embeddings()(torch.tensor([[text[-1], *[39] * 5]]))
        out = made(noise_embeds=block, context_hidden_states=context, past_key_values=cache)
        scores = target.get_output_embeddings()(out.last_hidden_state[0, 1:])
        return scores.argmax(-1).tolist()[:count]

    raw = config.to_dict()
    del raw["rope_parameters"]  # its default is not that of other heads
    reader = head("dflash", raw, made.state_dict(), target, "transformers")
    assert reader.layers_read == (1, 5)
    assert agree(reader, target, draft, seed) == 16


def test_a_cache_that_forgot_is_refused() -> None:
    """Sliding layers of a cache with the target's config keep only the last places."""
    from tests.trial.heads import tables

    target, made = gemma(0), assistant(0, False)
    reader = head("mtp", made.config.to_dict(), made.state_dict(), target)
    forgetful = DynamicCache(config=target.config)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(BrokenDraft, match="all places"):
        patch.setattr(tables, "DynamicCache", lambda: forgetful)
        table(reader, target, list(range(12)), 1, 2)
