"""`draftcheck trial TARGET`: the target's own MTP layers, and transformers' own run of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run

torch = pytest.importorskip("torch", reason="the trial extra is not installed")
pytest.importorskip("transformers", reason="the trial extra is not installed")
files = pytest.importorskip("safetensors.torch", reason="the trial extra is not installed")

pytestmark = pytest.mark.transformers
LAYERS = 46
"""transformers looks for GLM's MTP weights at certain numbers only."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target that nearly follows a table of successors, and an MTP layer that knows the table."""
    from tests import tiny

    path = tiny.with_mtp(tmp_path_factory.mktemp("mtp") / "t", LAYERS)
    file = path / "model.safetensors"
    tensors = files.load_file(file)
    generator = torch.Generator().manual_seed(7)
    for name, tensor in tensors.items():
        if tensor.dim() < 2:
            continue
        tensors[name] = torch.randn(tensor.shape, generator=generator) * 0.3
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            tensors[name] *= 0.01 if f"layers.{LAYERS}." not in name else 0.0
    width = tensors["model.embed_tokens.weight"].shape[1]
    keep = torch.zeros(width, 2 * width)
    keep[:, :width] = torch.eye(width)
    tensors[f"model.layers.{LAYERS}.eh_proj.weight"] = keep
    files.save_file(tensors, file, metadata={"format": "pt"})
    return path


def measured(run: Run, target: Path, tmp_path: Path, *more: object) -> dict[str, Any]:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("one\ntwo\nthree\nfour\n", encoding="utf-8")
    ran = run(
        "trial", target, "--prompts", prompts, "--tokens", 32, "--device", "cpu", "--no-cost",
        "--format", "json", *more,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


def test_transformers_makes_the_passes_that_were_foretold(
    run: Run, target: Path, tmp_path: Path
) -> None:
    found = measured(run, target, tmp_path, "--engine", "transformers", "--verify")
    assert found["head"]["kind"] == "mtp" and found["head"]["engine"] == "transformers"
    [row] = found["lengths"]  # it uses a layer once
    assert 1.2 < row["tokens_per_pass"] < 1.95
    real = found["verified"]
    assert real["tokens_per_pass"] == pytest.approx(row["tokens_per_pass"])
    assert real["predicted_tokens_per_pass"] == pytest.approx(row["tokens_per_pass"])
    assert real["identical_output"] is True


def test_engines_that_use_the_layer_again(run: Run, target: Path, tmp_path: Path) -> None:
    found = measured(run, target, tmp_path)
    assert found["head"]["engine"] == "vllm"
    assert [row["draft_tokens"] for row in found["lengths"]] == list(range(1, 9))
    assert any("sglang runs it otherwise" in note for note in found["notes"])
    assert found["target"] == found["draft"]
