"""`draftcheck trial TARGET`: the target's own MTP layers, and transformers' own run of them."""

from __future__ import annotations

import importlib.util
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from draftcheck.trial.backends import backend
from tests.conftest import FIXTURES, Run

torch = pytest.importorskip("torch", reason="the trial extra is not installed")
transformers = pytest.importorskip("transformers", reason="the trial extra is not installed")
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
    few = ("--tokens", 10)  # 46 layers are slow, however small
    found = measured(run, target, tmp_path, "--engine", "transformers", "--verify", *few)
    assert found["head"]["kind"] == "mtp" and found["head"]["engine"] == "transformers"
    [row] = found["lengths"]  # it uses a layer once
    assert 1.1 < row["tokens_per_pass"] < 1.95  # some drafts hold, some do not
    real = found["verified"]
    assert real["tokens_per_pass"] == pytest.approx(row["tokens_per_pass"])
    assert real["predicted_tokens_per_pass"] == pytest.approx(row["tokens_per_pass"])
    assert real["identical_output"] is True


def test_without_vllm_transformers_runs_as_many_drafts_as_it_can(
    run: Run, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(backend, "find_spec", lambda name: None if name == "vllm" else there(name))
    found = measured(run, target, tmp_path, "--verify", "--tokens", 10)
    assert len(found["lengths"]) == 8
    assert found["verified"]["draft_tokens"] == 1
    one = found["lengths"][0]["tokens_per_pass"]
    assert found["verified"]["predicted_tokens_per_pass"] == pytest.approx(one)
    assert found["verified"]["tokens_per_pass"] == pytest.approx(one, rel=0.02)


def test_tensors_of_the_layers_are_not_reported(run: Run, target: Path, tmp_path: Path) -> None:
    """transformers prints a table of what it found no use for."""
    said: list[str] = []
    listener = logging.Handler()
    listener.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    library = logging.getLogger("transformers")
    library.addHandler(listener)
    transformers.logging.set_verbosity_warning()
    try:
        measured(run, FIXTURES / "pair/heads/target-mtp", tmp_path)
    finally:
        library.removeHandler(listener)
    assert not [text for text in said if "LOAD REPORT" in text]


def test_engines_that_use_the_layer_again(run: Run, target: Path, tmp_path: Path) -> None:
    found = measured(run, target, tmp_path)
    assert found["head"]["engine"] == "vllm"
    assert [row["draft_tokens"] for row in found["lengths"]] == list(range(1, 9))
    assert any("sglang runs it otherwise" in note for note in found["notes"])
    assert found["target"] == found["draft"]
