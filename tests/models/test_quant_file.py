"""hf_quant_config.json, in which older versions of ModelOpt state the quantisation alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from draftcheck.models import read, refs
from tests import make
from tests.conftest import Run

MAKER = {"name": "modelopt", "version": "0.23.0"}
SHAPE: dict[str, Any] = {
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_attention_heads": 4,
    "head_dim": 128,
}


def quantised(folder: Path, algorithm: str, said: Any = None, **config: Any) -> Path:
    """A Llama as NVIDIA publishes them: linear layers with scales, lm_head left alone."""
    make.folder(folder, **SHAPE, **config)
    tensors: dict[str, tuple[str, list[int]]] = {}
    for name, (dtype, shape) in make.weights({**make.CONFIG, **SHAPE}).items():
        module = name.removesuffix(".weight")
        if not module.endswith("_proj"):
            tensors[name] = dtype, shape
        elif algorithm == "NVFP4":
            tensors[name] = "U8", [shape[0], shape[1] // 2]
            tensors[f"{module}.weight_scale"] = "F8_E4M3", [shape[0], shape[1] // 16]
            tensors[f"{module}.weight_scale_2"] = "F32", []
        else:
            tensors[name] = "F8_E4M3", shape
            tensors[f"{module}.weight_scale"] = "F32", []
    make.safetensors(folder / "model.safetensors", tensors)
    plain: dict[str, Any] = {"quant_algo": algorithm, "exclude_modules": ["lm_head"]}
    if algorithm == "NVFP4":
        plain |= {"group_size": 16, "kv_cache_quant_algo": None}
    whole = {"producer": MAKER, "quantization": plain} if said is None else said
    make.write_json(folder / "hf_quant_config.json", whole)
    return folder


@pytest.mark.parametrize(
    ("engine", "gpu", "algorithm", "reaction", "rule"),
    [
        ("vllm@0.10.0", "h100", "FP8", "unknown", "VLL045"),
        ("vllm@0.10.1", "h100", "FP8", "runs", None),
        ("vllm@0.33.0", "h100", "NVFP4", "runs", None),
        ("vllm@0.10.1", "h100", "NVFP4", "unknown", "VLL045"),
        ("vllm@0.26.0", "a100-80gb", "FP8", "refuses", "VLL034"),
        ("vllm@0.33.0", "h100", "W4A8_AWQ", "unknown", "VLL045"),
        ("sglang@0.5.3.post3", "h100", "FP8", "unknown", "SGL340"),
        ("sglang@0.5.4", "h100", "FP8", "runs", None),
        ("sglang@0.5.10", "h100", "NVFP4", "refuses", "SGL242"),
        ("sglang@0.5.23", "b200", "NVFP4", "runs", None),
    ],
)
def test_engines_that_read_it_and_versions_that_do_not(
    run: Run,
    tmp_path: Path,
    engine: str,
    gpu: str,
    algorithm: str,
    reaction: str,
    rule: str | None,
) -> None:
    folder = quantised(tmp_path / "m", algorithm)
    method = "NGRAM" if engine.startswith("sglang") else "ngram"
    ask = ("pair", folder, "--method", method, "--engine", engine, "--gpu", gpu)
    found = run(*ask, "--format", "json").json["engines"][0]
    open_or_refused = {f["rule"] for f in found["findings"] if f["outcome"] in ("fail", "unknown")}
    assert found["reaction"] == reaction
    assert rule is None or rule in open_or_refused


@pytest.mark.parametrize("engine", ["transformers", "mlx-lm", "exllamav3"])
def test_engines_that_do_not_read_it_leave_the_pair_open(
    run: Run, tmp_path: Path, engine: str
) -> None:
    target, draft = quantised(tmp_path / "m", "FP8"), make.folder(tmp_path / "d", **SHAPE)
    for folder in (target, draft):  # whatever the weights are stored in
        make.safetensors(folder / "model.safetensors", make.weights({**make.CONFIG, **SHAPE}))
    ran = run("pair", target, draft, "--engine", engine, "--format", "json")
    assert ran.json["engines"][0]["verdict"] == "undecided"
    (target / "hf_quant_config.json").unlink()
    ran = run("pair", target, draft, "--engine", engine, "--format", "json")
    assert ran.json["engines"][0]["verdict"] == "compatible"


def test_the_facts_say_where_it_stands(tmp_path: Path) -> None:
    found = read.read(refs.parse(str(quantised(tmp_path / "m", "NVFP4"))))
    said = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}
    assert found.config.quantization == {**said, "in_hf_quant_config": True}
    assert found.config.origin["quantization"] == "hf_quant_config.json"
    plain = read.read(refs.parse(str(make.folder(tmp_path / "p", **SHAPE))))
    assert plain.weights.parameters == found.weights.parameters  # two of them in a byte


FP8 = {"quant_algo": "FP8"}


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"producer": MAKER},
        {"quantization": FP8},
        {"producer": {"name": "other"}, "quantization": FP8},
        {"producer": "modelopt", "quantization": FP8},
        {"producer": MAKER, "quantization": [FP8]},
        # nvidia/Llama-4-Maverick-17B-128E-Eagle3
        {"producer": MAKER, "quantization": {"quant_algo": None}},
        {"producer": MAKER, "quantization": {"quant_algo": ["FP8"]}},
    ],
)
def test_what_names_no_quantisation(tmp_path: Path, said: dict[str, Any]) -> None:
    folder = quantised(tmp_path / "m", "FP8", said)
    assert read.read(refs.parse(str(folder))).config.quantization is None


def test_config_json_goes_first(tmp_path: Path) -> None:
    own = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    folder = quantised(tmp_path / "m", "NVFP4", quantization_config=own)
    (folder / "hf_quant_config.json").write_text("{")  # then it is not even looked at
    assert read.read(refs.parse(str(folder))).config.quantization == own
