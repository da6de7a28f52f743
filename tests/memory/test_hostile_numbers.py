"""Numbers that no deployment has: refused where they enter, or as cheap as ordinary ones."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import draftcheck
from draftcheck.errors import UsageError
from tests.conftest import FIXTURES, Run
from tests.memory.test_fits_on_gpus import fit

PAIR = (FIXTURES / "pair" / "target", FIXTURES / "pair" / "draft")
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
from draftcheck.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits there")
@pytest.mark.parametrize(
    "options",
    [
        ("--engine", "vllm", "--tensor-parallel", 2**40),
        ("--engine", "sglang", "--tensor-parallel", 30_000_000),
        ("--engine", "vllm", "--tensor-parallel", 2**40, "--draft-tensor-parallel", 1),
        ("--engine", "vllm", "--pipeline-parallel", 2**40),
        ("--engine", "sglang", "--pipeline-parallel", 1000, "--tensor-parallel", 2**40),
        ("--engine", "vllm", "--context", 2**40, "--sequences", 2**40, "--draft-tokens", 2**40),
    ],
)
def test_ranks_and_stages_cost_nothing(options: tuple[object, ...]) -> None:
    words = ["pair", *PAIR, "--gpu", "h200", "--format", "json", *options]
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED, *map(str, words)], capture_output=True, check=False
    )
    assert ran.returncode in (0, 1, 3), ran.stderr
    found = json.loads(ran.stdout)["memory"]
    assert len(found["devices"]) <= 3 * 1024
    assert found["answer"] != "cannot-tell" or "stages is not counted" in found["notes"][-1]


def test_equal_ranks_are_listed_up_to_the_most_that_a_machine_has() -> None:
    assert len(fit("h200", tensor_parallel=8).devices) == 8
    assert len(fit("h200", tensor_parallel=1024).devices) == 1024
    found = fit("h200", tensor_parallel=10**6, draft_tensor_parallel=1)
    assert len(found.devices) == 1024 and len(set(found.devices)) == 2
    assert any("1,000,000 GPUs" in note for note in found.notes)
    few = fit("h200", tensor_parallel=10**6, draft_tensor_parallel=1, pipeline_parallel=2)
    assert few.fullest in few.devices and len(set(few.devices)) > 1


def test_the_gpu_for_the_draft_is_the_first_that_has_room() -> None:
    sizes = {"Llama-3.1-8B": 16_060_522_496, "Llama-3.2-1B": 2_471_628_800}
    found = fit("1023x 10GiB + 80GiB", "llama.cpp", "b11312", sizes=sizes, context=131072)
    assert len(found.devices) == 1024 and len(set(found.devices)) <= 4


@pytest.mark.parametrize(
    "words",
    [
        {"context": 10**400},
        {"sequences": 10**5000},
        {"tensor_parallel": 0},
        {"draft_tensor_parallel": -1},
        {"pipeline_parallel": 2.5},
        {"draft_tokens": 2**41},
        {"draft_gpu": -1},
        {"memory_fraction": float("nan")},
        {"memory_fraction": float("inf")},
        {"memory_fraction": 0},
    ],
)
def test_circumstances_that_cannot_be(words: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as error:
        draftcheck.check(*map(str, PAIR), gpu="h200", **words)
    assert next(iter(words)) in error.value.message and len(error.value.message) < 100


VALUES = ["1" + "0" * 400, "-1", "NaN", "1e308", str(2**63), "0", "[1, 2]", "{}", "true", "1e999"]
KEYS = ["num_hidden_layers", "head_dim", "num_attention_heads", "num_key_value_heads",
        "hidden_size", "intermediate_size", "vocab_size", "sliding_window", "kv_lora_rank",
        "max_position_embeddings"]  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_numbers_of_a_config(run: Run, tmp_path: Path, key: str) -> None:
    shutil.copytree(PAIR[0], tmp_path / "model")
    config = json.loads((PAIR[0] / "config.json").read_text(encoding="utf-8"))
    for value in VALUES:
        text = json.dumps({**config, key: "HERE"}).replace('"HERE"', value)
        (tmp_path / "model" / "config.json").write_text(text, encoding="utf-8")
        ran = run("pair", tmp_path / "model", PAIR[1], "--gpu", "h200", "--engine", "vllm")
        assert ran.code in (0, 1, 3), (value[:20], ran.err)
        assert "Traceback" not in ran.err and len(ran.err) < 500


def test_a_tensor_name_with_endless_digits(run: Run, tmp_path: Path) -> None:
    shutil.copytree(PAIR[0], tmp_path / "model")
    name = f"model.layers.{'9' * 5000}.mlp.up_proj.weight"
    entry = {"dtype": "F16", "shape": [4, 4], "data_offsets": [0, 32]}
    header = json.dumps({name: entry}).encode()
    data = struct.pack("<Q", len(header)) + header + bytes(32)
    (tmp_path / "model" / "model.safetensors").write_bytes(data)
    ran = run("pair", tmp_path / "model", PAIR[1], "--gpu", "h200", "--engine", "vllm")
    assert ran.code in (1, 3) and "Traceback" not in ran.err
