"""Heads run for real (--verify): by transformers' own generators, and by vLLM.

In float32 the passes of the real run are the foretold ones, not nearly but exactly.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the trial extra is not installed")
transformers = pytest.importorskip("transformers", reason="the trial extra is not installed")

from safetensors.torch import load_file, save_file  # noqa: E402

from draftcheck.trial.backends import backend  # noqa: E402
from tests.conftest import FIXTURES, ROOT, Run  # noqa: E402
from tests.trial import play_vllm  # noqa: E402

pytestmark = [pytest.mark.transformers, pytest.mark.filterwarnings("ignore")]
TARGET, HEADS = FIXTURES / "pair/target", FIXTURES / "pair/heads"
COMMON = ("--tokens", "40", "--device", "cpu", "--no-cost", "--verify", "--format", "json")
KINDS = ["sliding_attention", "full_attention"]
GEMMA = {
    "vocab_size": 1000, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "global_head_dim": 8, "sliding_window": 64,
    "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0, "layer_types": KINDS,
    "num_hidden_layers": 2, "max_position_embeddings": 256,
}  # fmt: skip


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.txt"
    names = ("Greta", "Viktor", "Nadia")
    file.write_text("\n".join(f"Tell me about {name}." for name in names), encoding="utf-8")
    return file


def without_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(backend, "find_spec", lambda name: None if name == "vllm" else there(name))


def assert_foretold(trial: dict[str, Any], engine: str) -> None:
    real = trial["verified"]
    assert real is not None, trial["notes"]
    assert real["engine"] == engine
    assert real["draft_tokens"] == 4
    assert real["tokens_per_pass"] == pytest.approx(real["predicted_tokens_per_pass"])
    assert real["tokens_per_pass"] > 1.3
    assert real["identical_output"] is True


# ---- transformers ----


@pytest.fixture
def block_head(tmp_path: Path) -> Path:
    """The trained DFlash head in the files of the one block head that transformers has."""
    raw = json.loads((HEADS / "dflash/config.json").read_text(encoding="utf-8"))
    names = {"fc": "encoder.fc", "hidden_norm": "encoder.output_norm_enc"}
    tensors = {
        ".".join((names.get(stem, stem), last)): tensor.float()
        for name, tensor in load_file(HEADS / "dflash/model.safetensors").items()
        for stem, _, last in [name.rpartition(".")]
    }
    config = transformers.AutoConfig.for_model(
        "muse_glimmer_assistant", **raw["dflash_config"], layer_types=KINDS[1:],
        rope_parameters={"rope_type": "default", "rope_theta": raw["rope_theta"]},
        **{
            name: raw[name]
            for name in (
                "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                "num_key_value_heads", "head_dim", "rms_norm_eps", "block_size", "pad_token_id",
            )
        },
    )  # fmt: skip
    folder = tmp_path / "blocks"
    config.architectures = ["MuseGlimmerAssistantModel"]
    config.save_pretrained(folder)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_transformers_drafts_blocks(run: Run, prompts: Path, block_head: Path) -> None:
    asked = ("--engine", "transformers", "--prompts", prompts)
    ran = run("trial", TARGET, block_head, *asked, *COMMON)
    assert ran.code == 0, ran.err
    assert_foretold(ran.json, "transformers")


def gemma_pair(folder: Path) -> tuple[Path, Path]:
    """Both mostly follow one table of successors; the assistant does not look back at all.

    So it does not matter that transformers leaves it a key of what was rejected.
    """
    target = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model("gemma4_text", **GEMMA, eos_token_id=2)
    )
    config = transformers.AutoConfig.for_model(
        "gemma4_assistant", text_config=GEMMA, backbone_hidden_size=16, use_ordered_embeddings=False
    )
    small = transformers.AutoModelForCausalLM.from_config(config)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in [*target.named_parameters(), *small.named_parameters()]:
            if weight.dim() > 1:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3)
            elif "post_attention" in name or "post_feedforward" in name:
                weight.fill_(0.3)
        for layer in small.model.layers:
            layer.post_attention_layernorm.weight.zero_()
        small.pre_projection.weight.copy_(torch.cat([torch.eye(16), torch.zeros(16, 16)], dim=1))
        small.lm_head.weight.copy_(target.lm_head.weight)
    for name, model in (("target", target), ("assistant", small)):
        model.save_pretrained(folder / name)
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        shutil.copy(TARGET / name, folder / "target" / name)
    return folder / "target", folder / "assistant"


def test_transformers_drafts_with_an_assistant(run: Run, prompts: Path, tmp_path: Path) -> None:
    pair = gemma_pair(tmp_path)
    ran = run("trial", *pair, "--engine", "transformers", "--prompts", prompts, *COMMON)
    assert ran.code == 0, ran.err
    assert_foretold(ran.json, "transformers")


@pytest.mark.parametrize(
    ("head", "engine", "why"),
    [
        ("eagle3", "transformers", "cannot run this head; vllm can, where it is installed"),
        ("dflash", "transformers", "cannot run this head; vllm can, where it is installed"),
        ("medusa", None, "cannot run this head; vllm can, where it is installed: --engine vllm"),
        ("eagle3", "vllm", "vllm is not installed"),
        ("eagle3", "sglang", "sglang is not started from here"),
    ],
)
def test_what_cannot_be_run_is_said(
    run: Run, prompts: Path, monkeypatch: pytest.MonkeyPatch, head: str, engine: str, why: str
) -> None:
    without_vllm(monkeypatch)
    asked = ("--engine", engine) if engine else ()
    ran = run("trial", TARGET, HEADS / head, *asked, "--prompts", prompts, *COMMON)
    assert ran.code == 0, ran.err
    assert ran.json["verified"] is None
    [note] = [note for note in ran.json["notes"] if note.startswith("not verified: ")]
    assert why in note


# ---- vLLM ----


def test_vllm_runs_a_head_as_the_rulebook_has_it(
    run: Run, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without being asked for, since it is here and its way was taken."""
    play_vllm.install(monkeypatch)
    ran = run("trial", TARGET, HEADS / "eagle3", "--prompts", prompts, *COMMON)
    assert ran.code == 0, ran.err
    assert_foretold(ran.json, "vllm")
    plain, fast = play_vllm.LLM.started
    assert "speculative_config" not in plain and fast["dtype"] == "float32"
    assert fast["speculative_config"] == {
        "method": "eagle3", "model": str(HEADS / "eagle3"), "num_speculative_tokens": 4
    }  # fmt: skip
    real = ran.json["verified"]
    assert real["drafted"] % 4 == 0 and real["accepted"] > 0


def test_a_head_needs_no_engine_of_its_own(
    run: Run, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_vllm.install(monkeypatch)
    ran = run("trial", TARGET, HEADS / "eagle3", "--backend", "vllm", "--prompts", prompts)
    assert ran.code == 2
    assert "a head (eagle3) is read by transformers" in ran.err
    assert "--engine vllm --verify" in ran.err


def by_itself(*arguments: object) -> subprocess.CompletedProcess[str]:
    """In a process of its own, whose output is all that there is."""
    command = [sys.executable, "-m", "draftcheck", "trial", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.vllm
@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vllm is not installed")
@pytest.mark.parametrize("head", ["eagle3", "dflash"])
def test_vllm_itself_makes_the_passes_that_were_foretold(head: str, prompts: Path) -> None:
    asked = ("--engine", "vllm", "--prompts", prompts)
    ran = by_itself(TARGET, HEADS / head, *asked, *COMMON)
    assert ran.returncode == 0, ran.stderr
    assert_foretold(json.loads(ran.stdout), "vllm")


@pytest.fixture
def with_own_layers(tmp_path: Path) -> Path:
    """A target with experts, as vLLM wants them, whose MTP layer is right in half of the cases."""
    from tests import tiny

    sizes = {"hidden_size": 128, "intermediate_size": 128, "moe_intermediate_size": 64}
    heads = {"num_attention_heads": 4, "head_dim": 32, "max_position_embeddings": 256}
    experts = {"n_routed_experts": 4, "num_experts_per_tok": 2}
    path = tiny.with_mtp(tmp_path / "glm", 2, **sizes, **heads, **experts)
    tensors = load_file(path / "model.safetensors")
    generator = torch.Generator().manual_seed(7)
    for name, tensor in tensors.items():
        if tensor.dim() > 1:
            scale = 0.03 if name.endswith(("o_proj.weight", "down_proj.weight")) else 0.1
            tensors[name] = torch.randn(tensor.shape, generator=generator) * scale
    tensors["model.embed_tokens.weight"] *= 10
    mtp, eye = "model.layers.2.", torch.eye(128)
    for norm in ("enorm", "hnorm"):
        tensors[f"{mtp}{norm}.weight"] = torch.ones(128)
    tensors[f"{mtp}eh_proj.weight"] = torch.cat([eye, 0.3 * eye], dim=1)
    tensors[f"{mtp}embed_tokens.weight"] = tensors["model.embed_tokens.weight"].clone()
    tensors[f"{mtp}shared_head.head.weight"] = tensors["lm_head.weight"].clone()
    save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
    return path


@pytest.mark.vllm
@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vllm is not installed")
def test_vllm_itself_with_layers_of_the_target(with_own_layers: Path, prompts: Path) -> None:
    ran = by_itself(with_own_layers, "--engine", "vllm", "--prompts", prompts, *COMMON)
    assert ran.returncode == 0, ran.stderr
    assert_foretold(json.loads(ran.stdout), "vllm")


@pytest.mark.vllm
@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vllm is not installed")
def test_what_vllm_refuses_is_a_line(prompts: Path) -> None:
    """It has no dense GLM with MTP layers."""
    ran = by_itself(HEADS / "target-mtp", "--engine", "vllm", "--prompts", prompts, *COMMON)
    assert ran.returncode == 0, ran.stderr
    [note] = [note for note in json.loads(ran.stdout)["notes"] if "not verified: " in note]
    assert "vLLM cannot load it: " in note and "\n" not in note
    assert "Traceback" not in ran.stderr
