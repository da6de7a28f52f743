"""MTP layers of real families draft what a loop drafts that uses the library's own layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from safetensors.torch import load_file  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

from draftcheck.trial.backends.backend import BrokenDraft  # noqa: E402
from tests.trial.heads import naive  # noqa: E402
from tests.trial.heads.tables import agree  # noqa: E402
from tests.trial.heads.test_families import Made, head, randomized  # noqa: E402

SEEDS = (0, 1, 2)
V, H = 40, 16
ALL = {
    "vocab_size": V, "hidden_size": H, "intermediate_size": 24, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 256,
    "tie_word_embeddings": False,
}  # fmt: skip
EXPERTS = {"moe_intermediate_size": 8, "num_experts_per_tok": 2, "first_k_dense_replace": 1}
ROUTED = {**EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, "topk_group": 1}
FAMILIES: dict[str, dict[str, Any]] = {
    "glm4_moe": ROUTED,
    "deepseek_v3": {
        **ROUTED, "q_lora_rank": 12, "kv_lora_rank": 8, "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 8, "v_head_dim": 8, "num_key_value_heads": 4, "head_dim": 4,
    },
    "qwen3_next": {
        "layer_types": ["linear_attention", "full_attention"], "linear_num_value_heads": 4,
        "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
        "num_experts": 4, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8,
        "num_experts_per_tok": 2, "decoder_sparse_step": 1,
    },
    "qwen3_5_text": {
        "layer_types": ["linear_attention", "full_attention"], "linear_num_value_heads": 4,
        "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    },
    "exaone_moe": {**ROUTED, "num_experts": 4, "layer_types": ["full_attention"] * 2},
    "qwen2": {},
}  # fmt: skip
LAYOUTS = {
    "deepseek": ("model.layers.{n}.", "enorm", "hnorm", "eh_proj", "shared_head.norm"),
    "mimo": (
        "model.mtp_layers.{n}.", "token_layernorm", "hidden_layernorm", "input_proj",
        "final_layernorm",
    ),
    "qwen": ("mtp.", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc", "norm"),
}  # fmt: skip


def model(kind: str, layers: int, seed: int) -> Any:
    raw = {**ALL, **FAMILIES[kind], "num_hidden_layers": layers}
    if "layer_types" in raw and layers == 1:
        raw["layer_types"] = ["full_attention"]
    if layers == 1:
        raw |= {"first_k_dense_replace": 0, "mlp_layer_types": ["sparse"]}
    config = AutoConfig.for_model(kind, **raw)
    return randomized(AutoModelForCausalLM.from_config(config), seed)


def mtp_layer(
    kind: str, layout: str, n: int, seed: int, target: Any, tmp: Path, *, zero: bool, normed: bool
) -> tuple[dict[str, Any], naive.MtpStep]:
    """Tensors of one MTP layer as files have them, and what it does, by a model of one layer."""
    whole, made = model(kind, 1, seed), Made(seed + 1)
    whole.save_pretrained(tmp)
    saved = load_file(tmp / "model.safetensors")
    prefix, *names = LAYOUTS[layout]
    prefix = prefix.format(n=n)
    block = f"{prefix}layers.{n}." if layout == "qwen" else prefix
    w = {
        name.replace("model.layers.0.", block): tensor
        for name, tensor in saved.items()
        if name.startswith("model.layers.0.")
    }
    beside, before, project, behind = made.norm(), made.norm(), made.matrix(H, 2 * H), made.norm()
    tensors = zip(names, (beside, before, project, behind), strict=True)
    w |= {f"{prefix}{name}.weight": tensor for name, tensor in tensors}
    added = 1 if kind.startswith("qwen3") else 0  # these families norm by 1 + weight
    eps = whole.config.rms_norm_eps
    decoder = whole.get_decoder()

    def step(tokens: Any, states: Any) -> tuple[Any, Any]:
        embedded = target.get_input_embeddings().weight[tokens].clone()
        if zero:
            embedded[0] = 0
        halves = [
            naive.rms(embedded, beside + added, eps), naive.rms(states, before + added, eps)
        ]  # fmt: skip
        halves = halves[::-1] if layout == "mimo" else halves
        x = (torch.cat(halves, dim=-1) @ project.T)[None]
        places = torch.arange(len(tokens))[None]
        hidden = torch.full((len(tokens), len(tokens)), float("-inf")).triu(1)[None, None]
        out = decoder.layers[0](
            x, attention_mask=hidden, position_ids=places,
            position_embeddings=decoder.rotary_emb(x, places),
        )  # fmt: skip
        out = (out[0] if isinstance(out, tuple) else out)[0]
        behind_it = naive.rms(out, behind + added, eps)
        return behind_it, behind_it if normed else out

    return w, step


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("kind", "layout", "engine", "zero", "normed"),
    [
        ("glm4_moe", "deepseek", "vllm", True, False),
        ("glm4_moe", "deepseek", "sglang", False, True),
        ("deepseek_v3", "deepseek", "vllm", True, True),
        ("qwen3_next", "qwen", "vllm", False, True),
        ("qwen3_5_text", "qwen", "sglang", False, True),
        ("exaone_moe", "qwen", "vllm", False, True),
        ("qwen2", "mimo", "vllm", True, True),
    ],
)
def test_one_layer_again_and_again(
    kind: str, layout: str, engine: str, zero: bool, normed: bool, seed: int, tmp_path: Path
) -> None:
    target = model(kind, 2, seed)
    n = 2 if layout == "deepseek" else 0
    w, step = mtp_layer(
        kind, layout, n, seed + 50, target, tmp_path, zero=zero, normed=normed
    )  # fmt: skip
    reader = head("mtp", {}, w, target, engine)
    assert reader.longest > 5
    assert agree(reader, target, naive.mtp(target, [step]), seed) == 16


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("kind", "normed"), [("glm4_moe", False), ("deepseek_v3", True)])
def test_several_layers_in_turn(kind: str, normed: bool, seed: int, tmp_path: Path) -> None:
    target = model(kind, 2, seed)
    both = [
        mtp_layer(kind, "deepseek", n, seed + n, target, tmp_path, zero=True, normed=normed)
        for n in (2, 3, 4)
    ]
    reader = head("mtp", {}, {k: v for w, _ in both for k, v in w.items()}, target)
    assert reader.longest == 3
    assert agree(reader, target, naive.mtp(target, [step for _, step in both]), seed) == 9


def test_layers_that_choose_what_they_see_are_refused() -> None:
    """Sparse attention by an indexer: the mask of the readings does not reach it."""
    raw = {**ALL, **FAMILIES["deepseek_v3"], "num_hidden_layers": 2, "index_topk": 4}
    target = AutoModelForCausalLM.from_config(AutoConfig.for_model("deepseek_v32", **raw))
    w = {"model.layers.2.eh_proj.weight": torch.zeros(H, 2 * H)}
    with pytest.raises(BrokenDraft, match="choose what they see"):
        head("mtp", {}, w, target)


def test_an_engine_that_uses_each_layer_once(tmp_path: Path) -> None:
    target = model("glm4_moe", 2, 0)
    w, step = mtp_layer("glm4_moe", "deepseek", 2, 9, target, tmp_path, zero=False, normed=True)
    reader = head("mtp", {}, w, target, "transformers")
    assert reader.longest == 1
    assert agree(reader, target, naive.mtp(target, [step]), 0) == 2
