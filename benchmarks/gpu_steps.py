"""Step costs on a CUDA machine: random weights of real shapes, CUDA graphs, several loads.

    PYTHONPATH=. python3 -m benchmarks.gpu_steps

Prints a table and, as its last line, JSON.
"""

from __future__ import annotations

import json

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from draftcheck.trial.backends.transformers import steps

SHAPES = {
    "8B": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
           "num_attention_heads": 32, "num_key_value_heads": 8},
    "1B": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
           "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
           "tie_word_embeddings": True},
}  # fmt: skip


def model(name: str) -> LlamaForCausalLM:
    config = LlamaConfig(vocab_size=128256, max_position_embeddings=131072, **SHAPES[name])
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        made = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return made.eval()


def main() -> None:
    target, draft = model("8B"), model("1B")
    floor = steps.floor(target, draft, "cuda:0")
    assert floor is not None
    rows = [("floor", 1, floor)]
    for sequences in (1, 4, 16, 64):
        found = steps.measure(target, draft, "cuda:0", sequences, 1024)
        if found is not None:
            rows.append((found.how, sequences, found))
    for how, sequences, costs in rows:
        widths = "  ".join(f"{w}: {s * 1e3:.2f}" for w, s in costs.verify.items())
        print(
            f"{how:20s} x{sequences:<3d} target {costs.target_step * 1e3:.2f} ms,"
            f" draft {costs.draft_step * 1e3:.2f} ms, verify {widths}"
        )
    print(json.dumps([[how, n, c.target_step, c.draft_step, dict(c.verify)] for how, n, c in rows]))


if __name__ == "__main__":
    main()
