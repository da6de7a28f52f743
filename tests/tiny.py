"""Tiny random models of many kinds, for tests that run the real transformers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file

from tests import make

torch.set_num_threads(1)
BASE: dict[str, Any] = {
    "vocab_size": 260, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 128,
    "bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 258,
}  # fmt: skip
LINEAR: dict[str, Any] = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 8,
    "linear_value_head_dim": 8, "layer_types": ["linear_attention", "full_attention"],
    "num_hidden_layers": 2, "head_dim": 16,
}  # fmt: skip
EXPERTS: dict[str, Any] = {
    "n_routed_experts": 2, "num_experts_per_tok": 1, "n_group": 1, "topk_group": 1,
    "moe_intermediate_size": 16, "first_k_dense_replace": 1, "n_shared_experts": 1, "head_dim": 16,
}  # fmt: skip
MERGES = ("t h", "Ġ c", "Ġ t", "a t", "o n", "a n")


def merged_tokenizer() -> dict[str, Any]:
    """Six tokens more than the plain one: another cut of the same text."""
    vocab = make.byte_vocabulary()
    vocab.update({merge.replace(" ", ""): 256 + i for i, merge in enumerate(MERGES)})
    return make.tokenizer(vocab, merges=list(MERGES))


def write_tokenizer(path: Path, tokenizer: Mapping[str, Any] | None = None) -> None:
    make.write_json(path / "tokenizer.json", tokenizer or make.tokenizer())
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    make.write_json(
        path / "tokenizer_config.json",
        {
            **names,
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_input_names": ["input_ids", "attention_mask"],
        },
    )


def save(
    path: Path, config: str, tokenizer: Mapping[str, Any] | None = None, model: str = "", **ch: Any
) -> Path:
    """A model of that config class with random weights, and a tokenizer beside it."""
    torch.manual_seed(0)
    made = getattr(transformers, config)(**ch)
    if model:
        built = getattr(transformers, model)(made)
    else:
        built = transformers.AutoModelForCausalLM.from_config(made)
    built.save_pretrained(path)
    write_tokenizer(path, tokenizer)
    return path


def llama(path: Path, tokenizer: Mapping[str, Any] | None = None, **changes: Any) -> Path:
    return save(path, "LlamaConfig", tokenizer, **{**BASE, **changes})


def edit(path: Path, **changes: Any) -> Path:
    """The same model with other words in its config.json."""
    file = path / "config.json"
    make.write_json(file, {**json.loads(file.read_text(encoding="utf-8")), **changes})
    return path


def with_mtp(path: Path, layers: int, *, weights: bool = True, **changes: Any) -> Path:
    """A GLM-4 MoE with one MTP layer behind its own ones."""
    wanted = {**BASE, **EXPERTS, **changes, "num_hidden_layers": layers + 1}
    save(path, "Glm4MoeConfig", **wanted)
    tensors = load_file(path / "model.safetensors")
    width = wanted["hidden_size"]
    shapes: dict[str, Sequence[int]] = {
        "enorm": [width], "hnorm": [width], "eh_proj": [width, 2 * width],
        "shared_head.norm": [width],
    }  # fmt: skip
    for name, shape in shapes.items():
        tensors[f"model.layers.{layers}.{name}.weight"] = torch.full(tuple(shape), 0.5)
    if not weights:
        tensors = {k: v for k, v in tensors.items() if f"layers.{layers}." not in k}
    save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
    file = path / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    config.pop("num_mtp_layers", None)
    make.write_json(file, {**config, "num_hidden_layers": layers, "num_nextn_predict_layers": 1})
    return path


def block_drafter(path: Path, **changes: Any) -> Path:
    """The only DFlash drafter that has a class of its own: the assistant of Muse Glimmer."""
    wanted = {
        **{k: v for k, v in BASE.items() if k != "vocab_size"},
        "head_dim": 16, "block_size": 4, "mask_token_id": 259, "target_layer_ids": [0, 1],
        **changes,
    }  # fmt: skip
    torch.manual_seed(0)
    config = transformers.MuseGlimmerAssistantConfig(**wanted)
    transformers.AutoModel.from_config(config).save_pretrained(path)
    return path


GEMMA4: dict[str, Any] = {
    "head_dim": 16, "global_head_dim": 16, "sliding_window": 16, "num_hidden_layers": 2,
    "layer_types": ["sliding_attention", "full_attention"], "hidden_size_per_layer_input": 0,
}  # fmt: skip


def gemma4(path: Path) -> Path:
    wanted = {**BASE, **GEMMA4, "num_kv_shared_layers": 0, "vocab_size_per_layer_input": 260}
    return save(path, "Gemma4TextConfig", **wanted)


def assistant(path: Path) -> Path:
    """An assistant of Gemma 4; all of its layers read the cache of the target."""
    text = {**BASE, **GEMMA4, "model_type": "gemma4_text", "vocab_size_per_layer_input": 0}
    torch.manual_seed(0)
    config = transformers.Gemma4AssistantConfig(
        text_config=text, backbone_hidden_size=BASE["hidden_size"]
    )
    try:
        made = transformers.AutoModelForCausalLM.from_config(config)
    except ValueError:  # 5.23.0 builds none: what it says to one that was published is the question
        path.mkdir(parents=True, exist_ok=True)
        whole = {**config.to_dict(), "architectures": ["Gemma4AssistantForCausalLM"]}
        make.write_json(path / "config.json", whole)
        save_file({"model.norm.weight": torch.ones(1)}, path / "model.safetensors")
        return path
    made.generation_config.num_assistant_tokens = 3
    made.save_pretrained(path)
    return path
