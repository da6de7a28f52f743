"""A real family: real tokenizers and shapes, weights that cost nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import make
from tests.hub import Hub, models
from tests.hub.process import Draftcheck, assert_calm

pytest.importorskip("huggingface_hub")
pytestmark = pytest.mark.realdata


def shape(kind: str, vocab: int, wide: int, deep: int, layers: int, heads: int, kv: int) -> Any:
    classes = {"qwen3": "Qwen3ForCausalLM", "qwen2": "Qwen2ForCausalLM"}
    return {
        "model_type": kind,
        "architectures": [classes.get(kind, "LlamaForCausalLM")],
        "vocab_size": vocab,
        "hidden_size": wide,
        "intermediate_size": deep,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "head_dim": 64 if kind == "qwen2" else 128,
        "max_position_embeddings": 40960,
        "tie_word_embeddings": wide < 3000,
        "dtype": "bfloat16",
    }


MODELS = {
    "Qwen/Qwen3-32B": ("qwen3", shape("qwen3", 151936, 5120, 25600, 64, 64, 8)),
    "Qwen/Qwen3-8B": ("qwen3", shape("qwen3", 151936, 4096, 12288, 36, 32, 8)),
    "Qwen/Qwen3-1.7B": ("qwen3", shape("qwen3", 151936, 2048, 6144, 28, 16, 8)),
    "Qwen/Qwen3-0.6B": ("qwen3", shape("qwen3", 151936, 1024, 3072, 28, 16, 8)),
    "Qwen/Qwen2.5-0.5B": ("qwen2_5", shape("qwen2", 151936, 896, 4864, 24, 14, 2)),
    "meta-llama/Llama-3.2-1B": ("llama3_2", shape("llama", 128256, 2048, 8192, 16, 32, 8)),
    "meta-llama/Llama-3.1-70B": ("llama3_1", shape("llama", 128256, 8192, 28672, 80, 64, 8)),
}


def add(hub: Hub, realdata: Path, name: str, downloads: int) -> None:
    tokenizer, config = MODELS[name]
    source = realdata / "tokenizers" / tokenizer
    rows = {key: (dtype, tuple(sides)) for key, (dtype, sides) in make.weights(config).items()}
    files: models.Files = {path.name: path.read_bytes() for path in source.iterdir()}
    files |= {"config.json": json.dumps(config), "model.safetensors": models.safetensors(rows)}
    hub.add_repo(name, files, downloads=downloads, tags=(config["model_type"],))


def test_drafts_for_qwen3_and_llama(hub: Hub, draftcheck: Draftcheck, realdata: Path) -> None:
    for number, name in enumerate(MODELS):
        add(hub, realdata, name, number)
    ran = draftcheck("recommend", "Qwen/Qwen3-32B", "--format", "json")
    assert_calm(ran)
    rows = ran.json["candidates"]
    assert [(row["draft"], row["verdict"], row["relation"]) for row in rows] == [
        ("Qwen/Qwen3-0.6B", "compatible", "identical"),
        ("Qwen/Qwen3-1.7B", "compatible", "identical"),
        ("Qwen/Qwen3-8B", "compatible", "identical"),
        # The same size, but other special tokens from id 151,665 on.
        ("Qwen/Qwen2.5-0.5B", "degraded", "specials-differ"),
    ]
    assert rows[0]["params"] == 596_049_920 and rows[0]["kv_bytes_per_token"] == 114_688
    assert 0.02 <= rows[0]["break_even_acceptance"] <= 0.05
    away = {row["draft"]: row["rule"] for row in ran.json["rejected"]}
    assert away["meta-llama/Llama-3.2-1B"] == "config"
    llama = draftcheck(
        "recommend", "meta-llama/Llama-3.1-70B", "--engine", "vllm", "--format", "json"
    )
    assert [row["draft"] for row in llama.json["candidates"]] == ["meta-llama/Llama-3.2-1B"]
    # Every tokenizer once in both runs, however many models have it.
    texts = [e for e in hub.log if (e.file or "").endswith("/tokenizer.json") and e.status == 200]
    assert len({e.file for e in texts}) == len(texts) <= 4, hub.story()
