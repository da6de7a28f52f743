"""What passes take in vLLM: plain and speculating, by draft length and by sequences at once.

    python -m benchmarks.vllm_speed 8b:-:0 8b:eagle3:1,2,4,8 14b:thin:2,4 [--json FILE]

TARGET:DRAFT:LENGTHS, shapes below; "-" drafts nothing. All models have random weights (vLLM's
"dummy" format, nothing is read from disk; an EAGLE-3 head is written, so that vLLM sees that it has
an output layer of its own), so nothing is accepted, a pass is a step, and its time does not depend
on texts. Drafts differ in width from their targets: random weights of the same width would agree.

Each engine is a process of its own: starts take most of the time, so --together start at once and
are timed in turns, round by round, each alone: a slow minute of the machine then falls on all of
them. quiet_ms: the calmest moment of a calm round, as in a trial; slow_ms: the middle of the
slowest round. (Lines before 2026-11-17T12: what a fifth of the passes stay below, and exceed; to
T23: the middle of the fastest round; to 18T07: not by the engine's clock.) own_s: what a trial in
vLLM would measure, in the same minute.
benchmarks.fit_engine_speed makes rules/tables/engine-speed.toml of it. Needs vllm.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from draftcheck.trial.backends.backend import TrialOptions
from draftcheck.trial.backends.vllm import pass_times
from draftcheck.trial.backends.vllm.engines import VllmEngines

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
    "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 5e5, "vocab_size": 128256,
    "max_position_embeddings": 8192, "bos_token_id": 1, "eos_token_id": 2,
    "attention_bias": False, "tie_word_embeddings": False,
}  # fmt: skip
QWEN = {**LLAMA, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
        "vocab_size": 151936, "rope_theta": 1e6}  # fmt: skip


def shape(
    base: dict[str, Any], hidden: int, inner: int, layers: int, heads: int, kv: int, **more: Any
) -> dict[str, Any]:
    size = more.pop("head_dim", hidden // heads)
    return {**base, "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": size,
            **more}  # fmt: skip


SHAPES = {
    "8b": shape(LLAMA, 4096, 14336, 32, 32, 8),
    "shallow": shape(LLAMA, 3584, 18944, 4, 28, 4),
    "deep": shape(LLAMA, 2048, 8192, 16, 32, 8, tie_word_embeddings=True),
    "eagle3": shape(LLAMA, 4096, 14336, 1, 32, 8, draft_vocab_size=32000,
                    architectures=["LlamaForCausalLMEagle3"]),
    "head14b": shape(QWEN, 5120, 17408, 1, 40, 8, draft_vocab_size=32000,
                     architectures=["LlamaForCausalLMEagle3"], model_type="llama"),
    "14b": shape(QWEN, 5120, 17408, 40, 40, 8),
    "0.6b": shape(QWEN, 1024, 3072, 28, 16, 8, head_dim=128, tie_word_embeddings=True),
    "thin": shape(QWEN, 2560, 9728, 6, 20, 4, head_dim=128, tie_word_embeddings=True),
    "tiny": shape(LLAMA, 128, 256, 2, 4, 2, vocab_size=1000),
}  # fmt: skip
METHODS = {"eagle3": "eagle3", "head14b": "eagle3"}
LOADS = (1, 4, 16, 64)
PROMPT, TOKENS, ROUNDS = 256, 40, 6
SKIPPED = 8
"""Passes at the start that are not counted."""
CONTEXT = 2048
READY, GO = "ready", "go"
CORES = 4
ALL_CORES = os.sched_getaffinity(0)
LONGEST_S = 120
"""A round of an engine that takes longer is stuck."""
SPARE = 1.5
"""Of the cache: with less, sequences wait for each other."""


def write_head(folder: Path, said: dict[str, Any]) -> None:
    """Random tensors of an EAGLE-3 head, under the names of published ones."""
    import torch
    from safetensors.torch import save_file

    hidden, inner = said["hidden_size"], said["intermediate_size"]
    kv, ids = said["num_key_value_heads"] * said["head_dim"], said["draft_vocab_size"]
    sizes = {"fc": (hidden, 3 * hidden), "lm_head": (ids, hidden),
             "midlayer.self_attn.q_proj": (hidden, 2 * hidden),
             "midlayer.self_attn.k_proj": (kv, 2 * hidden),
             "midlayer.self_attn.v_proj": (kv, 2 * hidden),
             "midlayer.self_attn.o_proj": (hidden, hidden),
             "midlayer.mlp.gate_proj": (inner, hidden), "midlayer.mlp.up_proj": (inner, hidden),
             "midlayer.mlp.down_proj": (hidden, inner)}  # fmt: skip
    device = "cuda" if torch.cuda.is_available() else "cpu"
    made = {name: torch.randn(size, device=device) * 0.02 for name, size in sizes.items()}
    norms = ("norm", "midlayer.hidden_norm", "midlayer.input_layernorm",
             "midlayer.post_attention_layernorm")  # fmt: skip
    made |= {name: torch.ones(hidden) for name in norms}
    tensors = {f"{name}.weight": tensor.bfloat16().cpu() for name, tensor in made.items()}
    tensors["d2t"] = torch.arange(ids) * 3
    save_file(tensors, folder / "model.safetensors")


def cache_bytes(names: Sequence[str]) -> int:
    """For all sequences at once."""
    shapes = [SHAPES[name] for name in names]
    each = sum(
        4 * s["num_hidden_layers"] * s["num_key_value_heads"] * s["head_dim"] for s in shapes
    )
    return int(SPARE * each * max(LOADS) * (PROMPT + TOKENS))


def arguments(target: str, draft: str, length: int, folder: Path) -> dict[str, Any]:
    import torch

    made: dict[str, Any] = {
        "model": str(folder / target), "load_format": "dummy", "skip_tokenizer_init": True,
        "max_model_len": CONTEXT, "max_num_seqs": 256, "disable_log_stats": False,
        "enable_prefix_caching": False, "seed": 0,
    }  # fmt: skip
    if torch.cuda.is_available():
        names = [target] if draft == "-" else [target, draft]
        made |= {"gpu_memory_utilization": 0.1, "kv_cache_memory_bytes": cache_bytes(names)}
    if draft != "-":
        made["speculative_config"] = {
            "method": METHODS.get(draft, "draft_model"),
            "model": str(folder / draft),
            "num_speculative_tokens": length,
        }
        if draft in METHODS:
            made["speculative_config"]["draft_load_config"] = {"load_format": "auto"}
    return made


def launch_us() -> float | None:
    """Microseconds that this machine's CPU takes to launch a small kernel."""
    import torch

    if not torch.cuda.is_available():
        return None
    small = torch.zeros(64, device="cuda")
    best = float("inf")
    for _ in range(20):
        torch.cuda.synchronize()
        before = time.perf_counter()
        for _ in range(200):
            small.add_(1)
        best = min(best, time.perf_counter() - before)
    torch.cuda.synchronize()
    return best / 200 * 1e6


def python_us() -> float:
    """Microseconds that this machine's CPU takes for a little Python."""
    best = float("inf")
    for _ in range(5):
        before = time.perf_counter()
        made: dict[str, int] = {}
        for i in range(2000):
            made[str(i)] = len(made)
        best = min(best, time.perf_counter() - before)
    return best / 2000 * 1e6


def family() -> list[int]:
    """This process, those that it started, and their threads."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    mine, before = {os.getpid()}, 0
    while len(mine) > before:
        before = len(mine)
        mine |= {pid for pid, parent in parents.items() if parent in mine}
    return [int(task.name) for pid in mine for task in Path(f"/proc/{pid}/task").glob("*")]


def calm_cores() -> set[int]:
    """Move to the cores that are fastest just now, one thread of each.

    Half of a rented machine's cores may be at half their speed, shared with others' threads.
    """
    speeds = core_speeds(ALL_CORES)
    taken: set[str] = set()
    chosen: set[int] = set()
    for core in sorted(speeds, key=speeds.__getitem__):
        place = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        siblings = place.read_text() if place.exists() else str(core)
        if siblings not in taken and len(chosen) < CORES:
            taken.add(siblings)
            chosen.add(core)
    for task in family():
        with contextlib.suppress(OSError):
            os.sched_setaffinity(task, chosen)
    return chosen


def core_speeds(cores: set[int]) -> dict[int, float]:
    speeds = {}
    for core in sorted(cores):
        os.sched_setaffinity(0, {core})
        speeds[core] = python_us()
    os.sched_setaffinity(0, cores)
    return speeds


def measure(target: str, draft: str, length: int, folder: Path) -> dict[str, Any]:
    began = time.time()
    from vllm import LLM, SamplingParams, __version__

    llm = LLM(**arguments(target, draft, length, folder))
    result: dict[str, Any] = {
        "target": target, "draft": draft, "length": length, "vllm": __version__,
        "runner": os.environ.get("VLLM_USE_V2_MODEL_RUNNER", "default"),
        "start_s": time.time() - began, "loads": {},
    }  # fmt: skip
    engine, settings = (
        llm.llm_engine,
        SamplingParams(temperature=0.0, max_tokens=TOKENS, ignore_eos=True, detokenize=False),
    )
    words = SHAPES[target]["vocab_size"] - 100

    def run(sequences: int) -> list[float]:
        """When passes ended that had every sequence."""
        for n in range(sequences):
            ids = [(7 * i + 13 * n) % words + 50 for i in range(PROMPT)]
            engine.add_request(f"{time.perf_counter_ns()}-{n}", {"prompt_token_ids": ids}, settings)
        ends = []
        while engine.has_unfinished_requests():
            outputs = engine.step()
            if len(outputs) == sequences:
                ends.append(outputs[0].metrics.last_token_ts)
        return ends[SKIPPED:]

    own = VllmEngines(TrialOptions(tokens=TOKENS), [], None)
    own.context = CONTEXT

    def trial(sequences: int) -> list[float]:
        timed = pass_times.time_engine(own, str(folder / target), llm, [sequences], rounds=1)
        return timed[sequences]

    loads: dict[int, dict[str, list[Any]]] = {
        n: {"calm_ms": [], "median_ms": [], "launch_us": [], "python_us": [], "own_s": []}
        for n in LOADS
    }
    for sequences in LOADS:
        run(sequences)  # kernels that are made at their first use
    print(READY, flush=True)
    while sys.stdin.readline().strip() == GO:
        for sequences in LOADS:
            cores = calm_cores()
            loads[sequences]["launch_us"].append(launch_us())
            ends = run(sequences)
            if len(ends) > 1:
                passes = [after - before for before, after in pairwise(ends)]
                loads[sequences]["calm_ms"].append(pass_times.calmest(ends) * 1e3)
                loads[sequences]["median_ms"].append(statistics.median(passes) * 1e3)
            if length in (pass_times.PLAIN, *pass_times.LENGTHS):
                loads[sequences]["own_s"] += trial(sequences)
            loads[sequences]["python_us"].append(core_speeds(cores))
        print(READY, flush=True)
    result["own_s"] = {n: load.pop("own_s") for n, load in loads.items()}
    for sequences, load in loads.items():
        if rounds := load["median_ms"]:
            result["loads"][sequences] = {
                "pass_ms": statistics.median(rounds), "quiet_ms": pass_times.calm(load["calm_ms"]),
                "slow_ms": max(rounds), **load,
            }  # fmt: skip
    result["accepted"] = sum(
        metric.value for metric in llm.get_metrics()
        if metric.name == "vllm:spec_decode_num_accepted_tokens"
    )  # fmt: skip
    llm.llm_engine.engine_core.shutdown()
    return result


class Engine:
    """A process with one engine."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.errors = name, folder / f"{name.replace(':', '-')}.log"
        with self.errors.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.vllm_speed", name, "--one", str(folder)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip

    def wait(self) -> None:
        """Until it started, or has done what it was told."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == READY:
                return

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{word}\n")
            self.process.stdin.flush()

    def round(self) -> None:
        stuck = threading.Timer(LONGEST_S, self.process.kill)
        stuck.start()
        self.tell(GO)
        self.wait()
        stuck.cancel()

    def result(self) -> str | None:
        """Its line, once told to end; None: it failed."""
        out, _ = self.process.communicate()
        lines = [line for line in out.splitlines() if line.startswith('{"target"')]
        return lines[-1] if lines else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engines", nargs="+", metavar="TARGET:DRAFT:LENGTHS")
    parser.add_argument("--json", type=Path, help="append each engine's line here")
    parser.add_argument("--together", type=int, default=1, help="engines in memory at once")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of timing")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    said = parser.parse_args()
    if said.one is not None:
        target, draft, length = said.engines[0].split(":")
        print(json.dumps(measure(target, draft, int(length), said.one)), flush=True)
        os._exit(0)  # the rest of an engine ends in its own time
    began, failed = time.time(), 0
    asked = (name.rsplit(":", 1) for name in said.engines)
    names = [f"{pair}:{length}" for pair, lengths in asked for length in lengths.split(",")]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, config in SHAPES.items():
            (folder / name).mkdir()
            (folder / name / "config.json").write_text(json.dumps(config))
        for head in METHODS:
            if any(f":{head}:" in name for name in names):
                write_head(folder / head, SHAPES[head])
        while names and time.time() - began < said.seconds:
            engines = [Engine(name, folder) for name in names[: said.together]]
            del names[: said.together]
            for engine in engines:
                engine.wait()
            for engine in said.rounds * engines:
                if time.time() - began < said.seconds:
                    engine.round()
            for engine in engines:
                engine.tell("end")
            for engine in engines:
                line = engine.result()
                if line is None:
                    failed += 1
                    print(
                        f"{engine.name} failed:\n{engine.errors.read_text()[-3000:]}",
                        file=sys.stderr,
                    )
                    continue
                row = json.loads(line)
                medians = {n: round(load["pass_ms"], 2) for n, load in row["loads"].items()}
                print(f"{engine.name}: ms by load {medians}, started in {row['start_s']:.0f} s",
                      flush=True)  # fmt: skip
                if said.json is not None:
                    with said.json.open("a") as file:
                        file.write(line + "\n")
    return 1 if failed or names else 0


if __name__ == "__main__":
    sys.exit(main())
