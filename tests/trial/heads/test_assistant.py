"""A Gemma 4 assistant drafts what the library's own model drafts, called step by step."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache  # noqa: E402

from draftcheck.trial.backends.backend import BrokenDraft  # noqa: E402
from tests.trial.heads.naive import Drafter  # noqa: E402
from tests.trial.heads.tables import agree, table  # noqa: E402
from tests.trial.heads.test_families import SEEDS, head, randomized  # noqa: E402

V = 40
TEXT = {
    "vocab_size": V, "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "global_head_dim": 8, "sliding_window": 4, "hidden_size_per_layer_input": 0,
    "vocab_size_per_layer_input": 0, "max_position_embeddings": 256,
}  # fmt: skip
KINDS = ["sliding_attention", "full_attention"]


def gemma(seed: int) -> Any:
    torch.set_num_threads(1)
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


def test_a_cache_that_forgot_is_refused() -> None:
    """Sliding layers of a cache with the target's config keep only the last places."""
    from tests.trial.heads import tables

    target, made = gemma(0), assistant(0, False)
    reader = head("mtp", made.config.to_dict(), made.state_dict(), target)
    forgetful = DynamicCache(config=target.config)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(BrokenDraft, match="all places"):
        patch.setattr(tables, "DynamicCache", lambda: forgetful)
        table(reader, target, list(range(12)), 1, 2)
