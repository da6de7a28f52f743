"""The trial against the two ways to get the same answer: generating, and speculating for real.

    python -m benchmarks.trial            the embedded pair, on the CPU
    python -m benchmarks.trial --cuda     a pair of 8B and 2B parameters, made here, in bfloat16

The large pair needs no download and no training. Each token has one successor or, half of them,
four, written into the head; which of the four follows is decided by the layers. The draft is the
target's first four layers, and the rest of the target is turned up until the draft is right about
as often as drafts are. In bfloat16 a real run writes another text here and there, so the prediction
is also held against it for the very text that it wrote. Prints a table and, as its last line, JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

from draftcheck.trial import prompts
from draftcheck.trial.backends.backend import TargetText, TrialOptions, open_backend
from draftcheck.trial.backends.transformers import steps
from draftcheck.trial.backends.transformers.backend import TransformersBackend
from draftcheck.trial.model_places import ModelPlace
from draftcheck.trial.prompts import Prompt
from draftcheck.trial.simulate import answers, passes
from draftcheck.trial.simulate.traces import Trace, line_up
from draftcheck.trial.speedup import Costs

PAIR = Path(__file__).parent.parent / "fixtures" / "pair"
LENGTHS = (1, 2, 4, 8, 16)
SHAPE = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
         "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
         "eos_token_id": None, "bos_token_id": None}  # fmt: skip
LAYERS, KEPT, BRANCHES = 32, 4, 4
OPEN = 0.5
"""Share of the tokens that have several successors."""
OUTWEIGH = 2.5
WANTED = (0.6, 0.8)
"""Acceptance of a usual draft."""
COSTS = Costs(0.3, 1.0, {2: 1.0, 5: 1.1, 17: 1.2, 65: 1.6})


class Numbers:
    """Stands in for a tokenizer: a prompt is a number, its tokens are random."""

    chat_template = None

    def __call__(self, text: str) -> dict[str, list[int]]:
        rng = np.random.default_rng(int(text))
        return {"input_ids": rng.integers(0, SHAPE["vocab_size"], rng.integers(64, 256)).tolist()}


def _llama(layers: int, device: str) -> Any:
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        made = LlamaForCausalLM(LlamaConfig(num_hidden_layers=layers, **SHAPE))
    torch.set_default_dtype(torch.float32)
    return made.eval()


@torch.no_grad()
def large_pair(device: str) -> TransformersBackend:
    torch.manual_seed(0)
    target = _llama(LAYERS, device)
    table = target.get_input_embeddings().weight
    table.normal_()
    head = table[torch.randperm(len(table), device=device)].clone()
    open_ended = (torch.rand(len(table), 1, device=device) < OPEN).to(table.dtype)
    for _ in range(BRANCHES - 1):
        before = torch.randperm(len(table), device=device)
        head += table[before] * open_ended[before]
    target.get_output_embeddings().weight.copy_(head / 64)
    _lift(target)
    draft = _llama(KEPT, device)
    draft.load_state_dict(target.state_dict(), strict=False)
    places = ModelPlace("target", "target"), ModelPlace("draft", "draft")
    backend = TransformersBackend(places, target, draft, Numbers(), device)
    _turn_up(backend)
    return backend


def _lift(target: Any) -> None:
    """Make the first layers outweigh the token itself: then successors differ by more than ulps."""
    ids = torch.randint(0, SHAPE["vocab_size"], (4, 64), device=target.device)
    for _ in range(16):
        states = target.model(ids, output_hidden_states=True).hidden_states
        share = float((states[KEPT] - states[0]).float().norm() / states[0].float().norm())
        if share >= OUTWEIGH:
            print(f"the first {KEPT} layers outweigh a token {share:.1f} times", flush=True)
            return
        _scale(target.model.layers[:KEPT], 1.5)


def _scale(layers: Any, factor: float) -> None:
    """Scale what layers add."""
    for layer in layers:
        layer.self_attn.o_proj.weight.mul_(factor)
        layer.mlp.down_proj.weight.mul_(factor)


def _turn_up(backend: TransformersBackend) -> None:
    """Scale what the layers behind the draft's add until the acceptance is a usual one."""
    low, high, now = 0.0, None, 1.0
    few = [Prompt("made", ({"role": "user", "content": str(n)},)) for n in range(1000, 1016)]
    options = TrialOptions(tokens=32)
    for _ in range(12):
        traces = backend.read(backend.generate(few, options), options)
        hits = float(np.concatenate([trace.rank[1:] == 0 for trace in traces]).mean())
        print(f"later layers x {now:.3g}: the draft is right {hits:.0%} of the time", flush=True)
        if WANTED[0] <= hits <= WANTED[1]:
            return
        low, high = (now, high) if hits > WANTED[1] else (low, now)
        new = now * 4 if high is None else (low + high) / 2
        _scale(backend.target.model.layers[KEPT:], new / now)
        now = new


def timed(work: Callable[[], Any], rounds: int = 3) -> tuple[float, Any]:
    """The fastest of several runs, and what it returned; CPU time where the CPU does it all."""
    best, found = float("inf"), None
    for _ in range(rounds):
        before = clock()
        found = work()
        best = min(best, clock() - before)
    return best, found


def clock() -> float:
    if not torch.cuda.is_available():
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def plain(backend: TransformersBackend, texts: list[TargetText], options: TrialOptions) -> None:
    """The target alone writes the same tokens, in the same batch."""
    longest = max(len(text.prompt) for text in texts)
    ids = torch.zeros((len(texts), longest), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for i, text in enumerate(texts):
        ids[i, longest - len(text.prompt) :] = torch.from_numpy(text.prompt)
        mask[i, longest - len(text.prompt) :] = 1
    device = backend.target.device
    with torch.inference_mode():
        backend.target.generate(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            generation_config=backend._config(options),
        )


def cache_bytes(model: Any, tokens: int) -> int:
    config = model.config
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    each = 2 * config.num_hidden_layers * config.num_key_value_heads * size
    return int(each * tokens * model.dtype.itemsize)


def bytes_of(model: Any) -> int:
    return sum(p.numel() * p.element_size() for p in model.parameters())


def simulation() -> float:
    """Seconds for all settings over 100,000 positions, on one thread."""
    rng = np.random.default_rng(0)
    traces = [
        Trace(
            prompt=rng.integers(0, 30_000, 200),
            tokens=rng.integers(0, 30_000, 128),
            rank=np.where(rng.random(128) < 0.7, 0, rng.integers(1, 60, 128)),
            confidence=rng.random(128),
            category=str(n % 6),
        )
        for n in range(782)
    ]
    return timed(lambda: answers.answer(traces, COSTS))[0]


def measure(
    backend: TransformersBackend, asked: list[Prompt], options: TrialOptions
) -> dict[str, Any]:
    cuda = backend.device.startswith("cuda")
    texts = backend.generate(asked, options)  # warms up
    plain_s, _ = timed(lambda: plain(backend, texts, options))
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    write_s, texts = timed(lambda: backend.generate(asked, options))
    read_s, traces = timed(lambda: backend.read(texts, options))
    peak = torch.cuda.max_memory_allocated() if cuda else None
    sum_s, found = timed(lambda: answers.answer(traces, COSTS))
    tokens = sum(len(text.tokens) for text in texts)
    whole_s = write_s + read_s + sum_s
    result: dict[str, Any] = {
        "device": backend.device, "dtype": backend.dtype, "prompts": len(texts), "tokens": tokens,
        "acceptance": found.by_length[4].draft_efficiency, "plain_s": plain_s, "write_s": write_s,
        "read_s": read_s, "sum_s": sum_s, "whole_over_plain": whole_s / plain_s,
    }  # fmt: skip
    if peak is not None:
        width = max(len(text.prompt) for text in texts) + options.tokens
        kept = bytes_of(backend.target) + bytes_of(backend.draft)
        kept += cache_bytes(backend.target, width * len(texts))
        result |= {"peak_bytes": peak, "models_and_caches": kept, "peak_over_those": peak / kept}
    total, rows = 0.0, []
    for g in LENGTHS:
        before = clock()
        runs = [backend.assist(text, g, options) for text in texts]
        spent = clock() - before
        told = passes.lengths(line_up(traces, first=0), g)[g].tokens_per_pass
        real = sum(len(run[0]) for run in runs) / sum(run[1] for run in runs)
        same = sum(np.array_equal(r[0], t.tokens) for r, t in zip(runs, texts, strict=True))
        wrote = [replace(t, tokens=r[0]) for r, t in zip(runs, texts, strict=True)]
        own = passes.lengths(line_up(backend.read(wrote, options), first=0), g)[g]
        off = told / real - 1, own.tokens_per_pass / real - 1
        rows.append([g, told, real, *off, same, spent])
        total += spent
        print(
            f"  assisted with {g}: {spent:.1f} s, {same} of {len(texts)} texts the same", flush=True
        )
    result |= {"assisted": rows, "assisted_s": total, "assisted_over_whole": total / whole_s}
    return result


def report(found: dict[str, Any]) -> bool:
    """Print the promises; whether all were kept."""
    print(
        f"{found['device']}, {found['dtype']}: {found['prompts']} prompts, {found['tokens']}"
        f" tokens, acceptance {found['acceptance']:.2f} at 4 tokens"
    )
    near = 0.01 if found["dtype"] == "float32" else 0.02
    rows = [
        ("whole answer / plain generation", found["whole_over_plain"], 0.0, 1.3),
        ("assisted, five lengths / whole answer", found["assisted_over_whole"], 10.0, 1e9),
        ("simulation of 100k positions, seconds", found["simulation_s"], 0.0, 2.0),
    ]
    if "peak_over_those" in found:
        rows.append(("peak memory / models and caches", found["peak_over_those"], 0.0, 1.1))
    for g, _, _, off, own, *_ in found["assisted"]:
        name = f"predicted / real tokens per pass, {g} tokens"
        rows.append((name, 1 + off, 1 - near, 1 + near))
        if own != off:
            rows.append(("    for the text that the real run wrote", 1 + own, 1 - near, 1 + near))
    for name, value, low, high in rows:
        kept = "kept" if low <= value <= high else "NOT KEPT"
        print(f"  {name:45s} {value:8.3f}   {kept}")
    return all(low <= value <= high for _, value, low, high in rows)


def main() -> int:
    logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64)
    said = parser.parse_args()
    options = TrialOptions(tokens=said.tokens, device="cuda:0" if said.cuda else "cpu")
    if said.cuda:
        backend = large_pair("cuda:0")
        asked = [
            Prompt("made", ({"role": "user", "content": str(n)},)) for n in range(said.prompts)
        ]
    else:
        torch.set_num_threads(1)
        opened = open_backend(
            "transformers", *(str(PAIR / s) for s in ("target", "draft")), options
        )
        assert isinstance(opened, TransformersBackend)
        backend, asked = opened, prompts.load()[: said.prompts]
    found = {"simulation_s": simulation(), **measure(backend, asked, options)}
    if said.cuda:
        torch.cuda.reset_peak_memory_stats()
        costs = steps.measure(backend.target, backend.draft, backend.device, 64, 1024)
        kept = bytes_of(backend.target) + bytes_of(backend.draft)
        kept += cache_bytes(backend.target, 64 * 1089) + cache_bytes(backend.draft, 64 * 1025)
        found["timing_peak_over_those"] = torch.cuda.max_memory_allocated() / kept
        found["timing_64"] = costs and [costs.target_step, costs.draft_step, dict(costs.verify)]
    kept = report(found)
    print(json.dumps(found))
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
