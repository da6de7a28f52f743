"""What draftcheck expects of llama-server's speculating passes against what they really take.

    LLAMA_ARG_THREADS=1 python -m benchmarks.llama_speed LLAMA_SERVER [cuda | TARGET+DRAFT …]

Pairs of real depth with random weights, made in place (F16, 32,000 tokens). In turns, a trial's
costs are measured as `draftcheck trial` does it, and llama-server speculates for real, a server for
each length, whose own counters give seconds per pass; of both the calmest turn counts, since slow
minutes of a shared machine may fall on either. The last line is JSON; exit 1 when a pass is off by
more than 10 % in a cell. Nothing random is accepted: what a pass takes does not depend on it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import gguf
import numpy as np

from draftcheck.probe import client
from draftcheck.trial.backends.backend import TrialOptions
from draftcheck.trial.backends.llamacpp import backend as llamacpp
from draftcheck.trial.backends.llamacpp.server import LlamaServer
from draftcheck.trial.speedup import Costs

WORDS = 32_000
LENGTHS = (1, 2, 4, 8)
LIMIT = 0.10
CONTEXT, TURNS, ANSWERS = 256, 4, 3
FEW, MANY = 10, 20
"""Tokens of two answers: both end with the same short drafts, which their difference takes out."""
OPTIONS = TrialOptions(tokens=MANY, device="cuda:0" if "cuda" in sys.argv else "cpu")


@dataclass(frozen=True, slots=True)
class Shape:
    layers: int
    width: int
    heads: int


SHAPES = {
    "target": Shape(14, 768, 12),
    "deep": Shape(32, 512, 8),
    "draft": Shape(3, 384, 6),
    "thin": Shape(12, 256, 4),
    "3b": Shape(28, 3072, 24),
    "0.2b": Shape(4, 2048, 16),
    "0.1b": Shape(16, 768, 12),
}
PAIRS = (("target", "draft"), ("deep", "draft"), ("deep", "thin"))
ON_A_GPU = (("3b", "0.2b"), ("3b", "0.1b"))


def make(shape: Shape, out: Path, seed: int) -> Path:
    """A Llama with random weights."""
    draw = np.random.default_rng(seed)
    drawn = draw.standard_normal(1_000_003, dtype=np.float32)
    writer = gguf.GGUFWriter(out, "llama")
    inner = 8 * shape.width // 3 // 256 * 256
    writer.add_context_length(4096)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.heads)
    writer.add_rope_dimension_count(shape.width // shape.heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    kinds = gguf.TokenType
    words = [("<unk>", kinds.UNKNOWN), ("<s>", kinds.CONTROL), ("</s>", kinds.CONTROL)]
    words += [(f"<0x{i:02X}>", kinds.BYTE) for i in range(256)]
    words += [(f"▁w{i}", kinds.NORMAL) for i in range(WORDS - len(words))]
    writer.add_tokenizer_model("llama")
    writer.add_token_list([word for word, _ in words])
    writer.add_token_scores([-float(i) for i in range(WORDS)])
    writer.add_token_types([int(kind) for _, kind in words])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)

    def weights(name: str, rows: int, columns: int) -> None:
        values = np.roll(drawn, int(draw.integers(drawn.size)))
        values = np.resize(values, (rows, columns)) / np.sqrt(columns)
        writer.add_tensor(f"{name}.weight", values.astype(np.float16))

    def ones(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(shape.width, dtype=np.float32))

    weights("token_embd", WORDS, shape.width)
    weights("output", WORDS, shape.width)
    ones("output_norm")
    for i in range(shape.layers):
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            weights(f"blk.{i}.{part}", shape.width, shape.width)
        weights(f"blk.{i}.ffn_gate", inner, shape.width)
        weights(f"blk.{i}.ffn_up", inner, shape.width)
        weights(f"blk.{i}.ffn_down", shape.width, inner)
        ones(f"blk.{i}.attn_norm")
        ones(f"blk.{i}.ffn_norm")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


def expected(pair: tuple[Path, Path]) -> Costs:
    with closing(llamacpp.open(*map(str, pair), OPTIONS)) as sides:
        costs = sides.costs(1, CONTEXT)
    if costs is None or not costs.overhead:
        raise SystemExit(f"not measured: {sides.notes}")
    return costs


def answer(server: LlamaServer, seed: int) -> float:
    """Seconds per pass of answers, by their counters."""
    ids = [3 + (seed * 7919 + i * 31) % (WORDS - 3) for i in range(CONTEXT)]
    seconds, passes = [], []
    for tokens in (FEW, MANY):
        timed = client.part(server.complete(ids, tokens, OPTIONS), "timings")
        seconds.append(timed["predicted_ms"] / 1000)
        passes.append(timed["predicted_n"] - timed.get("draft_n_accepted", 0))
    return float((seconds[1] - seconds[0]) / (passes[1] - passes[0]))


def real(servers: Mapping[int, LlamaServer], turn: int) -> dict[int, float]:
    """Seconds per pass; 0: without the draft. Servers answer in turns."""
    seeds = range(turn * ANSWERS, (turn + 1) * ANSWERS)
    times = [{g: answer(server, seed) for g, server in servers.items()} for seed in seeds]
    return {g: median([one[g] for one in times]) for g in servers}


def compare(pair: tuple[Path, Path]) -> dict[str, Any]:
    sides = llamacpp.open(*map(str, pair), OPTIONS)
    sides.close()
    assert isinstance(sides, llamacpp.LlamaPair) and sides.real is not None
    costs, took = [], []
    with ExitStack() as stack:
        servers = {g: stack.enter_context(sides.real.server(g or None)) for g in (0, *LENGTHS)}
        for server in servers.values():
            answer(server, 0)
        for turn in range(TURNS):
            costs.append(expected(pair))
            took.append(real(servers, turn))
    cells = {}
    for g in LENGTHS:
        mine = [one.pass_step(g, g) for one in costs]
        real_ones = [one[g] for one in took]
        cells[g] = {
            "expected_ms": [seconds * 1e3 for seconds in mine],
            "real_ms": [seconds * 1e3 for seconds in real_ones],
            "off": min(mine) / min(real_ones) - 1,
        }
    return {
        "engine": costs[0].engine,
        "version": costs[0].version,
        "spread": [one.spread for one in costs],
        "plain_ms": [[one.target_step * 1e3 for one in costs], [one[0] * 1e3 for one in took]],
        "cells": cells,
    }


def main() -> int:
    os.environ["DRAFTCHECK_LLAMA_SERVER"] = sys.argv[1]
    pairs = ON_A_GPU if OPTIONS.device != "cpu" else PAIRS
    pairs = tuple(pair for pair in pairs if "+".join(pair) in sys.argv[2:]) or pairs
    found = {}
    with tempfile.TemporaryDirectory() as made:
        for names in pairs:
            files = [Path(made) / f"{name}.gguf" for name in names]
            for name, file in zip(names, files, strict=True):
                if not file.exists():
                    make(SHAPES[name], file, len(name))
            found[" + ".join(names)] = compare((files[0], files[1]))
            print(json.dumps(found[" + ".join(names)]), file=sys.stderr)
    off = [abs(cell["off"]) for one in found.values() for cell in one["cells"].values()]
    print(json.dumps({"limit": LIMIT, "worst": max(off), "pairs": found}))
    return int(max(off) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
