"""Heads against plain generation: what reading a head for every draft length costs.

    python -m benchmarks.heads            small random ones, on the CPU
    python -m benchmarks.heads --cuda     8B target, EAGLE-3 of one layer and 32,000 draft tokens,
                                          DFlash block of 16 tokens and five layers, bfloat16

All are made in place with random weights: nothing is accepted, and nothing of what is measured
here depends on it. Prints a table and, as its last line, JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from typing import Any

import torch
from transformers.utils import logging

from benchmarks import trial
from benchmarks.trial import Numbers, bytes_of, cache_bytes, clock, plain, timed
from draftcheck.trial.backends.backend import TrialOptions
from draftcheck.trial.backends.transformers.heads import ways
from draftcheck.trial.backends.transformers.heads.backend import HeadBackend, made
from draftcheck.trial.backends.transformers.heads.readings import HeadSource
from draftcheck.trial.model_places import ModelPlace
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.simulate import answers

SMALL = {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 2000}  # fmt: skip
LOADS = (1, 4, 16, 64)
ROUNDS = 3


def layer(
    shape: dict[str, Any], prefix: str, inputs: int, norms: tuple[str, ...]
) -> dict[str, Any]:
    """Random tensors of one decoder layer."""
    hidden, wide = shape["hidden_size"], shape["intermediate_size"]
    size = hidden // shape["num_attention_heads"]
    kv = shape["num_key_value_heads"] * size
    sizes = {"self_attn.q_proj": (hidden, inputs), "self_attn.k_proj": (kv, inputs),
             "self_attn.v_proj": (kv, inputs), "self_attn.o_proj": (hidden, hidden),
             "mlp.gate_proj": (wide, hidden), "mlp.up_proj": (wide, hidden),
             "mlp.down_proj": (hidden, wide)}  # fmt: skip
    made = {f"{prefix}{name}.weight": torch.randn(size) * 0.02 for name, size in sizes.items()}
    made |= {f"{prefix}{name}.weight": torch.ones(hidden) for name in norms}
    return made


def eagle3(shape: dict[str, Any], ids: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Config and tensors of an EAGLE-3 head as it is published."""
    hidden = shape["hidden_size"]
    raw = {**shape, "model_type": "llama", "num_hidden_layers": 1, "draft_vocab_size": ids,
           "head_dim": hidden // shape["num_attention_heads"], "rope_theta": 5e5,
           "rms_norm_eps": 1e-5}  # fmt: skip
    norms = ("hidden_norm", "input_layernorm", "post_attention_layernorm")
    chosen = torch.randperm(shape["vocab_size"])[:ids].sort().values
    weights = {
        **layer(shape, "midlayer.", 2 * hidden, norms),
        "fc.weight": torch.randn(hidden, 3 * hidden) * 0.02,
        "norm.weight": torch.ones(hidden),
        "lm_head.weight": torch.randn(ids, hidden) * 0.02,
        "d2t": chosen - torch.arange(ids),
    }
    return raw, weights


def dflash(shape: dict[str, Any], layers: int, block: int) -> tuple[dict[str, Any], dict[str, Any]]:
    hidden = shape["hidden_size"]
    size = hidden // shape["num_attention_heads"]
    raw = {**shape, "model_type": "qwen3", "num_hidden_layers": layers, "head_dim": size,
           "rms_norm_eps": 1e-6, "block_size": block,
           "dflash_config": {"mask_token_id": 5, "target_layer_ids": [1, 2, 3]}}  # fmt: skip
    norms = ("input_layernorm", "post_attention_layernorm")
    weights = {"fc.weight": torch.randn(hidden, 3 * hidden) * 0.02}
    weights |= {f"{name}.weight": torch.ones(hidden) for name in ("norm", "hidden_norm")}
    for n in range(layers):
        weights |= layer(shape, f"layers.{n}.", hidden, norms)
        weights |= {f"layers.{n}.self_attn.{k}_norm.weight": torch.ones(size) for k in "qk"}
    return raw, weights


def measure(
    name: str, backend: HeadBackend, asked: list[Prompt], options: TrialOptions, head_bytes: int
) -> dict[str, Any]:
    cuda = backend.device.startswith("cuda")
    texts = backend.generate(asked, options)
    backend.read(texts, options)  # warms up
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    rounds = []
    for _ in range(ROUNDS):  # in turns: what else the machine does hits all of them
        times = [timed(lambda: plain(backend, texts, options), 1)[0]]
        times.append(timed(lambda: backend.generate(asked, options), 1)[0])
        taken, traces = timed(lambda: backend.read(texts, options), 1)
        rounds.append([*times, taken])
    plain_s, write_s, read_s = (statistics.median(column) for column in zip(*rounds, strict=True))
    longest = backend.limits().longest
    sum_s, _ = timed(lambda: answers.answer(traces, trial.COSTS, longest))
    result = {"head": name, "longest": longest, "plain_s": plain_s, "write_s": write_s,
              "read_s": read_s, "sum_s": sum_s, "rounds": rounds,
              "whole_over_plain": (write_s + read_s + sum_s) / plain_s}  # fmt: skip
    if cuda:
        peak = torch.cuda.max_memory_allocated()
        width = max(len(text.prompt) for text in texts) + options.tokens
        kept = (
            bytes_of(backend.target) + head_bytes + cache_bytes(backend.target, width * len(texts))
        )
        result |= {"peak_bytes": peak, "models_and_caches": kept, "peak_over_those": peak / kept}
    result["steps_ms"] = {}
    for sequences in LOADS if cuda else LOADS[:1]:
        before = clock()
        costs = backend.costs(sequences, 1024 if cuda else 128)
        if costs is not None:
            result["steps_ms"][sequences] = [costs.target_step * 1e3, costs.draft_step * 1e3,
                                             costs.verify[5] * 1e3, clock() - before]  # fmt: skip
    result["notes"] = list(backend.notes)
    return result


def main() -> int:
    logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=128)
    said = parser.parse_args()
    device = "cuda:0" if said.cuda else "cpu"
    options = TrialOptions(tokens=said.tokens if said.cuda else 32, device=device)
    shape = {k: v for k, v in trial.SHAPE.items() if "token_id" not in k}
    if not said.cuda:
        torch.set_num_threads(1)
        trial.SHAPE.update(SMALL)
        shape |= SMALL
    torch.manual_seed(0)
    target = trial._llama(trial.LAYERS if said.cuda else 8, device)
    target.get_input_embeddings().weight.data.normal_()
    asked = [Prompt("made", ({"role": "user", "content": str(n)},)) for n in range(said.prompts)]
    places = ModelPlace("target", "target"), ModelPlace("head", "head")
    kinds = {
        "eagle3": lambda: eagle3(shape, 32_000 if said.cuda else 500),
        "dflash": lambda: dflash(shape, 5 if said.cuda else 2, 16 if said.cuda else 4),
    }
    found = []
    for kind, make in kinds.items():
        with torch.device(device):
            raw, weights = make()
        head_bytes = sum(t.numel() * 2 for t in weights.values() if t.is_floating_point())
        head = made(kind, HeadSource(raw, weights, target, ways.way(None)))
        del weights
        backend = HeadBackend(places, target, head, Numbers(), device)
        found.append(measure(kind, backend, asked, options, head_bytes))
        del backend, head
    kept = True
    for row in found:
        print(f"{row['head']}, lengths 1 to {row['longest']}:")
        for name, most in (("whole_over_plain", 1.3), ("peak_over_those", 1.1)):
            if name in row:
                good = row[name] <= most
                kept &= good
                print(f"  {name:20s} {row[name]:7.3f}   {'kept' if good else 'NOT KEPT'}")
        for sequences, (step, head_step, five, _) in row["steps_ms"].items():
            print(f"  {sequences:3} at once: target step {step:.2f} ms, head {head_step:.3f} ms,"
                  f" pass over 5 tokens {five:.2f} ms")  # fmt: skip
    print(json.dumps(found))
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
