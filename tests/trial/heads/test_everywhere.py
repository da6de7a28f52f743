"""Heads wherever a trial is made: after a verdict, for a recommendation, from a pickle."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import FIXTURES, Run

torch = pytest.importorskip("torch", reason="the trial extra is not installed")
pytest.importorskip("transformers", reason="the trial extra is not installed")
files = pytest.importorskip("safetensors.torch", reason="the trial extra is not installed")

pytestmark = pytest.mark.transformers
TARGET = FIXTURES / "pair" / "target"
HEADS = FIXTURES / "pair" / "heads"
BRIEF = ("--tokens", 24, "--device", "cpu", "--budget", 4)


def answered(run: Run, *words: object, code: int = 0) -> Any:
    ran = run(*words, "--format", "json")
    assert ran.code == code, ran.err
    return json.loads(ran.out)


def test_a_verdict_and_a_measurement(run: Run, tmp_path: Path) -> None:
    head = tmp_path / "head"
    shutil.copytree(HEADS / "eagle3", head)
    config = json.loads((head / "config.json").read_text(encoding="utf-8"))
    # SGLang counts one further than vLLM, and hands out no state behind the last layer.
    config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = [0, 1, 2]
    (head / "config.json").write_text(json.dumps(config), encoding="utf-8")
    found = answered(run, "pair", TARGET, head, "--engine", "sglang", "--trial", *BRIEF)
    assert found["trial"]["head"]["engine"] == "sglang"
    assert found["trial"]["head"]["layers"] == [1, 2, 3]


def test_layers_of_its_own_after_a_verdict(run: Run, tmp_path: Path) -> None:
    target = HEADS / "target-mtp"
    found = answered(run, "pair", target, "--engine", "vllm@0.32.0", "--trial", *BRIEF)
    assert found["trial"]["head"]["kind"] == "mtp" and found["trial"]["draft"]["ref"] == str(target)
    saved = tmp_path / "trial.json"
    saved.write_text(json.dumps(found["trial"]), encoding="utf-8")
    again = answered(run, "pair", target, "--engine", "vllm@0.32.0", "--trial-from", saved)
    assert again["trial"] == found["trial"]


def test_a_recommended_head_is_measured(run: Run, tmp_path: Path) -> None:
    head = tmp_path / "head"
    shutil.copytree(HEADS / "eagle3", head)
    config = json.loads((head / "config.json").read_text(encoding="utf-8"))
    config["speculators_model_type"] = "eagle3"
    config["norm_before_residual"] = False
    config["speculators_config"] = {"verifier": {"name_or_path": str(TARGET)}}
    (head / "config.json").write_text(json.dumps(config), encoding="utf-8")
    found = answered(
        run, "recommend", TARGET, "--local", tmp_path, "--engine", "vllm@0.32.0", "--trial"
    )
    [row] = found["candidates"]
    assert (
        row["draft"] == str(head) and row["acceptance"] > 0.4 and row["why"].startswith("measured")
    )


def test_a_pickled_head_is_not_opened(run: Run, tmp_path: Path) -> None:
    head = tmp_path / "head"
    shutil.copytree(HEADS / "medusa", head)
    [file] = head.glob("*.safetensors")
    torch.save(files.load_file(file), head / "medusa_lm_head.pt")
    file.unlink()
    ran = run("trial", TARGET, head, *BRIEF)
    assert ran.code == 3 and "pickled" in ran.err and "--trust-remote-code" in ran.err
    trusted = run("trial", TARGET, head, "--trust-remote-code", "--no-cost", *BRIEF)
    assert trusted.code == 0, trusted.err


def test_a_picture(run: Run, tmp_path: Path) -> None:
    picture = tmp_path / "curve.svg"
    ran = run("trial", TARGET, HEADS / "medusa", "--no-cost", "--plot", picture, *BRIEF)
    assert ran.code == 0 and "(medusa)" in ran.out
    assert picture.read_text(encoding="utf-8").startswith("<svg")


def test_engines_whose_way_nobody_read(run: Run) -> None:
    ran = run("trial", TARGET, HEADS / "eagle3", "--engine", "ollama", *BRIEF)
    assert ran.code == 2 and "--engine takes vllm" in ran.err


def test_tensors_of_another_width_are_a_broken_head(run: Run, tmp_path: Path) -> None:
    head = tmp_path / "narrow"
    shutil.copytree(HEADS / "medusa", head)
    (file,) = head.glob("*.safetensors")
    narrow = {
        name: tensor[:, :64].contiguous() if name.endswith("linear.weight") else tensor
        for name, tensor in files.load_file(file).items()
    }
    files.save_file(narrow, file)
    ran = run("trial", TARGET, head, "--no-cost", *BRIEF)
    assert ran.code == 1 and ran.out.startswith("broken: the head's tensors do not fit the target")
