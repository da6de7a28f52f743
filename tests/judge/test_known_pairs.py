"""Pairs that people really use, from their real tokenizers, engine by engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import make
from tests.conftest import Ran, Run

pytestmark = pytest.mark.realdata

QWEN = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "bos_token_id": 151643}
QWEN3 = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "bos_token_id": 151643}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen2.5-72b": ("qwen2_5", {**QWEN, "vocab_size": 152064, "max_position_embeddings": 32768}),
    "qwen2.5-0.5b": ("qwen2_5", {**QWEN, "vocab_size": 151936, "max_position_embeddings": 32768}),
    "qwen3-32b": ("qwen3", {**QWEN3, "vocab_size": 151936, "max_position_embeddings": 40960}),
    "qwen3-0.6b": ("qwen3", {**QWEN3, "vocab_size": 151936, "max_position_embeddings": 40960}),
    "llama-3.1-8b": ("llama3_1", {"vocab_size": 128256, "max_position_embeddings": 131072}),
    "llama-3.2-1b": ("llama3_2", {"vocab_size": 128256, "max_position_embeddings": 131072}),
    "llama-2-7b": ("llama2", {"vocab_size": 32000, "max_position_embeddings": 4096}),
    "tinyllama": ("llama2", {"vocab_size": 32000, "max_position_embeddings": 2048}),
    "codellama": ("llama2", {"vocab_size": 32016, "max_position_embeddings": 16384}),
}


@pytest.fixture
def ask(run: Run, realdata: Path, tmp_path: Path) -> Any:
    """Judge two of the models above on one engine."""

    def model(name: str, layers: int) -> Path:
        tokenizer, config = MODELS[name]
        ids = {"bos_token_id": 1, "eos_token_id": 2}
        path = make.folder(tmp_path / name, config={**ids, **config}, layers=layers)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            (path / file).unlink()
            (path / file).write_bytes((realdata / "tokenizers" / tokenizer / file).read_bytes())
        return path

    def ask_engine(target: str, draft: str, engine: str, *options: object) -> dict[str, Any]:
        ran: Ran = run(
            "pair",
            model(target, 9),
            model(draft, 1),
            "--engine",
            engine,
            "--format",
            "json",
            *options,
        )
        body = json.loads(ran.out)
        return {**body["engines"][0], "relation": body["vocabulary"]["relation"]}

    return ask_engine


EXPECTED = [
    # target, draft, engine, relation, reaction, verdict
    ("qwen2.5-72b", "qwen2.5-0.5b", "llama.cpp", "padded", "runs", "compatible"),
    ("qwen2.5-72b", "qwen2.5-0.5b", "llama.cpp@b4164", "padded", "runs", "compatible"),
    ("qwen2.5-72b", "qwen2.5-0.5b", "vllm", "padded", "refuses", "incompatible"),
    ("qwen2.5-72b", "qwen2.5-0.5b", "vllm@0.6.5", "padded", "crashes", "incompatible"),
    ("qwen2.5-72b", "qwen2.5-0.5b", "transformers", "padded", "refuses", "incompatible"),
    ("qwen2.5-72b", "qwen2.5-0.5b", "sglang", "padded", "refuses", "incompatible"),
    ("qwen2.5-72b", "qwen2.5-0.5b", "sglang@0.5.14", "padded", "runs", "degraded"),
    ("qwen3-32b", "qwen3-0.6b", "llama.cpp", "identical", "runs", "compatible"),
    ("qwen3-32b", "qwen3-0.6b", "vllm", "identical", "runs", "compatible"),
    ("qwen3-32b", "qwen3-0.6b", "vllm@0.13.0", "identical", "refuses", "incompatible"),
    ("qwen3-32b", "qwen3-0.6b", "sglang", "identical", "runs", "compatible"),
    ("qwen3-32b", "qwen3-0.6b", "transformers", "identical", "runs", "compatible"),
    ("qwen2.5-0.5b", "qwen3-0.6b", "llama.cpp", "specials-differ", "ignores-draft", "incompatible"),
    ("qwen2.5-0.5b", "qwen3-0.6b", "llama.cpp@b9108", "specials-differ", "falls-back", "degraded"),
    ("qwen2.5-0.5b", "qwen3-0.6b", "llama.cpp@b6044", "specials-differ", "refuses", "incompatible"),
    ("qwen2.5-0.5b", "qwen3-0.6b", "vllm", "specials-differ", "runs", "degraded"),
    ("qwen2.5-0.5b", "qwen3-0.6b", "transformers", "specials-differ", "runs", "degraded"),
    ("qwen2.5-0.5b", "qwen3-0.6b", "sglang", "specials-differ", "runs", "degraded"),
    (
        "llama-3.1-8b",
        "llama-3.2-1b",
        "llama.cpp",
        "specials-differ",
        "ignores-draft",
        "incompatible",
    ),
    ("llama-3.1-8b", "llama-3.2-1b", "vllm", "specials-differ", "runs", "degraded"),
    ("llama-2-7b", "tinyllama", "llama.cpp", "identical", "runs", "compatible"),
    ("llama-2-7b", "tinyllama", "transformers", "identical", "runs", "compatible"),
    ("llama-2-7b", "tinyllama", "vllm", "identical", "runs", "degraded"),
    ("llama-2-7b", "tinyllama", "sglang", "identical", "refuses", "incompatible"),
    ("llama-3.1-8b", "tinyllama", "llama.cpp", "differs", "ignores-draft", "incompatible"),
    ("llama-3.1-8b", "tinyllama", "vllm", "differs", "refuses", "incompatible"),
    ("llama-2-7b", "codellama", "llama.cpp", "padded", "runs", "compatible"),
    ("llama-2-7b", "codellama", "vllm", "padded", "refuses", "incompatible"),
]


@pytest.mark.parametrize(("target", "draft", "engine", "relation", "reaction", "verdict"), EXPECTED)
def test_known_pair(
    ask: Any, target: str, draft: str, engine: str, relation: str, reaction: str, verdict: str
) -> None:
    found = ask(target, draft, engine)
    failed = [(f["rule"], f["saw"]) for f in found["findings"] if f["outcome"] != "ok"]
    assert (found["relation"], found["reaction"], found["verdict"]) == (
        relation,
        reaction,
        verdict,
    ), failed


def test_a_shorter_window_is_cured_by_serving_less(ask: Any) -> None:
    for engine in ("vllm", "sglang"):
        assert ask("llama-2-7b", "tinyllama", engine, "--context", 2048)["verdict"] == "compatible"


def test_the_reason_llama_cpp_hides(ask: Any) -> None:
    found = ask("qwen2.5-0.5b", "qwen3-0.6b", "llama.cpp")
    assert found["decided_by"] == "LCP004"
    saw = next(f["saw"] for f in found["findings"] if f["rule"] == "LCP004")
    assert "token 151665 is '[PAD151665]' in the target, '<tool_response>' in the draft" in saw
