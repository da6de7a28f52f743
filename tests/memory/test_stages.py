"""Pipelines: layers cut as the engines cut them, nothing lost, the draft on the last stage."""

from __future__ import annotations

import json

import pytest

from draftcheck.memory import plan
from tests.conftest import ROOT, Run

PAIR = ROOT / "fixtures" / "pair"

# What get_pp_indices of vLLM 0.32.0, vLLM 0.7.3 and SGLang 0.5.18 give.
CUTS = [
    ("middle-first", 61, 4, [15, 15, 16, 15]),
    ("middle-first", 80, 3, [27, 27, 26]),
    ("middle-first", 7, 5, [1, 1, 2, 2, 1]),
    ("middle-first", 28, 8, [3, 3, 3, 4, 4, 4, 4, 3]),
    ("last-takes-rest", 61, 4, [15, 15, 15, 16]),
    ("last-takes-rest", 80, 3, [26, 26, 28]),
    ("last-takes-rest", 28, 8, [3, 3, 3, 3, 3, 3, 3, 7]),
    ("last-ones", 80, 3, [26, 27, 27]),
    ("last-ones", 7, 5, [1, 1, 1, 2, 2]),
    ("last-ones", 32, 4, [8, 8, 8, 8]),
]


@pytest.mark.parametrize(("habit", "layers", "count", "expected"), CUTS)
def test_layers_are_cut_as_the_engine_cuts_them(
    habit: str, layers: int, count: int, expected: list[int]
) -> None:
    assert plan.cut(habit, layers, count) == expected


def memory(run: Run, *options: object, engine: str = "vllm") -> dict:
    ran = run("pair", PAIR / "target", PAIR / "draft", "--engine", engine, "--context", 256,
              "--format", "json", *options)  # fmt: skip
    return json.loads(ran.out)["memory"]


def test_stages_hold_the_whole_model_once(run: Run) -> None:
    whole = memory(run, "--gpu", "24GiB", "--tensor-parallel", 1)
    cut = memory(run, "--gpu", "2x 24GiB", "--pipeline-parallel", 2)
    first, last = cut["devices"]
    parts = [
        {(p["owner"], p["name"]): p["bytes"] for p in device["parts"]} for device in (first, last)
    ]
    spread = [part["target", "weights"] for part in parts]
    table = 1000 * 128 * 2  # the embedding is tied: it lies at both ends
    assert sum(spread) in (whole["target"]["weights_bytes"],
                           whole["target"]["weights_bytes"] + table)  # fmt: skip
    assert sum(part["target", "cache"] for part in parts) == whole["target"]["kv_bytes"]
    assert ("draft", "weights") not in parts[0]
    assert parts[1]["draft", "weights"] == whole["draft"]["weights_bytes"]


def test_stages_times_ranks_must_be_there(run: Run) -> None:
    ran = run("pair", PAIR / "target", PAIR / "draft", "--engine", "vllm", "--gpu", "2x 24GiB",
              "--tensor-parallel", 2, "--pipeline-parallel", 2)  # fmt: skip
    assert ran.code == 2
    assert "--tensor-parallel 2 --pipeline-parallel 2: --gpu names 2 GPUs" in ran.err


def test_engines_that_split_by_layers_say_so(run: Run) -> None:
    notes = memory(run, "--gpu", "2x 24GiB", "--pipeline-parallel", 2, engine="transformers")
    assert any("has no pipeline stages" in note for note in notes["notes"])


def test_the_setup_carries_the_stages(run: Run) -> None:
    ran = run("pair", PAIR / "target", PAIR / "heads" / "eagle3", "--engine", "vllm@0.33.0",
              "--method", "eagle3", "--pipeline-parallel", 2)  # fmt: skip
    assert ran.code == 0
    assert "--pipeline-parallel-size 2" in ran.out
