"""Predicted against what the driver reports: a transformers pair on a CUDA GPU.

    PYTHONPATH=. python3 -m benchmarks.gpu_memory            # 8B + 1B, three contexts; 7B + 0.5B
    PYTHONPATH=. python3 -m benchmarks.gpu_memory --contexts 4096,16384

Needs torch and transformers, no network and no weights: the models are made from their configs
with random weights, on the device. Every row is a process of its own, so peaks do not mix.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from typing import Any

MIB = 1 << 20
NEW_TOKENS = 64
DRAFT_TOKENS = 5
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}
QWEN: dict[str, Any] = {
    "model_type": "qwen2",
    "vocab_size": 152064,
    "max_position_embeddings": 131072,
}
PAIRS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "8B+1B": (
        {**LLAMA, "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336,
         "num_attention_heads": 32, "num_key_value_heads": 8},
        {**LLAMA, "num_hidden_layers": 16, "hidden_size": 2048, "intermediate_size": 8192,
         "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
         "tie_word_embeddings": True},
    ),
    "7B+0.5B": (
        {**QWEN, "num_hidden_layers": 28, "hidden_size": 3584, "intermediate_size": 18944,
         "num_attention_heads": 28, "num_key_value_heads": 4},
        {**QWEN, "num_hidden_layers": 24, "hidden_size": 896, "intermediate_size": 4864,
         "num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": True},
    ),
    "tiny": (
        {**LLAMA, "vocab_size": 512, "num_hidden_layers": 2, "hidden_size": 64,
         "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2},
        {**LLAMA, "vocab_size": 512, "num_hidden_layers": 1, "hidden_size": 32,
         "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2},
    ),
}  # fmt: skip


def driver_used() -> int:
    """Bytes in use on the first GPU before we start; 0 where nvidia-smi does not say."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return 0
    command = [program, "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    line = done.stdout.strip().splitlines()[:1]
    return int(line[0]) * MIB if line and line[0].isdigit() else 0


def build(config: dict[str, Any], device: str) -> Any:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    body = {name: value for name, value in config.items() if name != "model_type"}
    made = AutoConfig.for_model(config["model_type"], **body)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(made, dtype=torch.bfloat16)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model.eval()


def facts_of(config: dict[str, Any], model: Any) -> Any:
    """What the headers of such a checkpoint would say."""
    from draftcheck.models.readers import config as configs
    from draftcheck.values.facts import ModelFacts, Tensor, WeightFacts

    tensors = {
        name: Tensor("BF16", tuple(one.shape), "model.safetensors", one.numel() * 2)
        for name, one in model.named_parameters()
    }
    body = {**config, "torch_dtype": "bfloat16"}
    weights = WeightFacts(tensors=tensors, nbytes=sum(t.nbytes or 0 for t in tensors.values()))
    return ModelFacts(
        ref=f"{config['num_hidden_layers']} layers", kind="folder", role="full",
        config=configs.from_dict(body, None, "config.json"), weights=weights,
    )  # fmt: skip


def predict(pair: str, models: tuple[Any, Any], context: int, total: int) -> Any:
    import transformers

    from draftcheck.judge.compare import compare
    from draftcheck.memory import fit as memory
    from draftcheck.values.circumstances import Circumstances
    from draftcheck.values.memory import Gpu, Machine
    from draftcheck.versions import pep440

    target, draft = (facts_of(c, m) for c, m in zip(PAIRS[pair], models, strict=True))
    machine = Machine("here", (Gpu("here", total),))
    said = Circumstances(context=context, draft_tokens=DRAFT_TOKENS, machine=machine)
    return memory.fit(
        compare(target, draft), said, machine, engine="transformers",
        version=transformers.__version__, order=pep440,
    )  # fmt: skip


def measure(pair: str, context: int, before: int, device: str) -> dict[str, Any]:
    """One row, in this process: make both models, generate up to the context, ask the driver."""
    import torch

    cuda = device == "cuda"
    row: dict[str, Any] = {"pair": pair, "context": context}

    def used() -> int:
        if not cuda:
            return 0
        torch.cuda.synchronize()
        free, whole = torch.cuda.mem_get_info()
        return int(whole - free) - before

    if cuda:
        torch.cuda.init()
        torch.zeros(1, device=device)
        row["context_bytes"] = used() - torch.cuda.memory_reserved()
    start = time.perf_counter()
    target, draft = (build(config, device) for config in PAIRS[pair])
    if cuda:
        row["weights_allocated"] = torch.cuda.memory_allocated()
        row["weights_reserved"] = torch.cuda.memory_reserved()
    prompt = torch.randint(3, 500, (1, context - NEW_TOKENS), device=device)
    with torch.inference_mode():
        target.generate(
            prompt, attention_mask=torch.ones_like(prompt), assistant_model=draft,
            max_new_tokens=NEW_TOKENS, do_sample=False, num_assistant_tokens=DRAFT_TOKENS,
            num_assistant_tokens_schedule="constant",
        )  # fmt: skip
    row["seconds"] = round(time.perf_counter() - start, 1)
    row["measured"] = used()
    if cuda:
        row["peak_allocated"] = torch.cuda.max_memory_allocated()
        row["reserved"] = torch.cuda.memory_reserved()
        row["outside_torch"] = row["measured"] - row["reserved"]
        row["gpu"] = torch.cuda.get_device_name()
        row["torch"] = torch.__version__
    total = torch.cuda.mem_get_info()[1] if cuda else 1 << 40
    fit = predict(pair, (target, draft), context, int(total))
    found = fit.devices[0]
    row["predicted"], row["low"], row["high"] = found.required, found.low, found.high
    row["parts"] = {f"{part.owner} {part.name}": part.nbytes for part in found.parts}
    return row


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'pair':10}{'context':>9}{'predicted':>12}{'driver':>12}{'off by':>12}{'':>9} range")
    for row in rows:
        if "error" in row:
            print(f"{row['pair']:10}{row['context']:>9}  failed: {row['error'][-300:]}")
            continue
        off = row["predicted"] - row["measured"]
        share = 100 * off / max(row["measured"], 1)
        good = abs(off) <= max(0.015 * row["measured"], 300 * MIB)
        print(
            f"{row['pair']:10}{row['context']:>9,}{row['predicted'] / MIB:>8,.0f} MiB"
            f"{row['measured'] / MIB:>8,.0f} MiB{off / MIB:>+8,.0f} MiB{share:>+7.2f} %"
            f" {row['low'] / MIB:,.0f} to {row['high'] / MIB:,.0f}"
            f" {'ok' if good else 'NOT within 1.5 % or 300 MiB'}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contexts", default="2048,8192,32768")
    parser.add_argument("--pairs", default="8B+1B,7B+0.5B")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--one", nargs=3, metavar=("PAIR", "CONTEXT", "BEFORE"))
    given = parser.parse_args()
    if given.one:
        pair, context, before = given.one
        print(json.dumps(measure(pair, int(context), int(before), given.device)))
        return 0
    rows = []
    contexts = [int(text) for text in given.contexts.split(",")]
    for number, pair in enumerate(given.pairs.split(",")):
        # The second pair is a check on the first: one context is enough.
        for context in contexts if number == 0 else contexts[1:2] or contexts[:1]:
            command = [sys.executable, "-m", "benchmarks.gpu_memory", "--device", given.device]
            command += ["--one", pair, str(context), str(driver_used())]
            done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
            last = done.stdout.strip().splitlines()[-1:]
            if done.returncode or not last:
                rows.append({"pair": pair, "context": context, "error": done.stderr.strip()})
            else:
                rows.append(json.loads(last[0]))
    show(rows)
    print(json.dumps(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
