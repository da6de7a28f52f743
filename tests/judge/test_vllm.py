"""vLLM through the command line: the pair this project began with, old GPUs, no draft at all."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests import make
from tests.conftest import Ran, Run
from tests.judge.rule_cases import cases_of

LLAMA2 = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "intermediate_size": 11008,
    "max_position_embeddings": 4096,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "dtype": "float16",
    "quantization_config": {
        "quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True,
    },
}  # fmt: skip
SMALL = {
    "vocab_size": 32000,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_key_value_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 2048,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "dtype": "float32",
}
DEEPSEEK = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "num_nextn_predict_layers": 1,
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Llama-2-7B-AWQ and llama-160m as their headers say, and a model with an MTP layer."""
    root = tmp_path_factory.mktemp("models")
    words = {**make.byte_vocabulary(), **{f"t{i}": i for i in range(256, 31996)}}
    tokenizer = make.tokenizer(words)
    for name, config in (("Llama-2-7B-AWQ", LLAMA2), ("llama-160m", SMALL)):
        make.folder(root / name, config=config, tokenizer_json=tokenizer)
    whole = make.weights({**make.CONFIG, **LLAMA2})
    packed = {}
    for name, (_, shape) in whole.items():
        if name.endswith("_proj.weight"):
            out, wide = shape
            stem = name.removesuffix("weight")
            packed[stem + "qweight"] = ("I32", [wide, out // 8])
            packed[stem + "qzeros"] = ("I32", [wide // 128, out // 8])
            packed[stem + "scales"] = ("F16", [wide // 128, out])
        else:
            packed[name] = ("F16", shape)
    make.safetensors(root / "Llama-2-7B-AWQ" / "model.safetensors", packed)
    deep = make.folder(root / "deep", config=DEEPSEEK)
    make.safetensors(
        deep / "model.safetensors",
        {
            "model.embed_tokens.weight": ("BF16", [260, 64]),
            "model.layers.2.eh_proj.weight": ("BF16", [64, 128]),
        },
    )
    make.folder(root / "plain")
    return root


def judged(ran: Ran, method: str | None = None) -> dict[str, Any]:
    rows = ran.json["engines"]
    return next(row for row in rows if method in (None, row["method"]))


def failed(entry: dict[str, Any]) -> set[str]:
    return {found["rule"] for found in entry["findings"] if found["outcome"] == "fail"}


def ask(run: Run, models: Path, version: str, *options: object) -> Ran:
    pair = (models / "Llama-2-7B-AWQ", models / "llama-160m")
    return run("pair", *pair, "--engine", f"vllm@{version}", "--format", "json", *options)


# ---- where it began: AWQ on a T4, vLLM 0.15.1 ----


def test_the_first_pair_runs(run: Run, models: Path) -> None:
    ran = ask(run, models, "0.15.1", "--gpu", "t4", "--context", 2048, "--dtype", "half")
    entry = judged(ran)
    assert (ran.code, entry["verdict"], entry["reaction"]) == (0, "compatible", "runs")
    assert not {found["severity"] for found in entry["findings"] if found["outcome"] == "fail"} - {
        "note"
    }
    words = shlex.split(entry["setup"])
    assert words[:3] == ["vllm", "serve", str(models / "Llama-2-7B-AWQ")]
    assert words[words.index("--max-model-len") + 1] == "2048"
    assert words[words.index("--dtype") + 1] == "half"
    assert json.loads(words[-1]) == {
        "method": "draft_model",
        "model": str(models / "llama-160m"),
        "num_speculative_tokens": 5,
    }


def test_the_target_s_own_length_is_longer_than_the_draft_s(run: Run, models: Path) -> None:
    ran = ask(run, models, "0.15.1", "--gpu", "t4")
    entry = judged(ran)
    assert (ran.code, entry["verdict"], entry["reaction"]) == (0, "degraded", "runs")
    assert failed(entry) == {"VLL011", "VLL002"}


@pytest.mark.parametrize(
    ("version", "gpu", "rule"),
    [
        ("0.13.0", "t4", "VLL001"),
        ("0.14.1", "t4", "VLL001"),
        ("0.15.1", "v100-16gb", "VLL034"),
        ("0.32.0", "v100-16gb", "VLL034"),
    ],
)
def test_where_it_is_refused(run: Run, models: Path, version: str, gpu: str, rule: str) -> None:
    ran = ask(run, models, version, "--gpu", gpu, "--context", 2048)
    entry = judged(ran)
    assert (ran.code, entry["reaction"], entry["decided_by"]) == (1, "refuses", rule)


@pytest.mark.parametrize("version", ["0.15.0", "0.16.0", "0.24.0", "0.32.0"])
def test_where_it_runs_on_a_t4(run: Run, models: Path, version: str) -> None:
    entry = judged(ask(run, models, version, "--gpu", "t4", "--context", 2048))
    assert (entry["verdict"], entry["reaction"]) == ("compatible", "runs")


# ---- types of numbers ----


def test_bfloat16_on_a_t4(run: Run, models: Path) -> None:
    def plain(version: str, *more: object) -> dict[str, Any]:
        options = ("--engine", f"vllm@{version}", "--method", "ngram", "--gpu", "t4", *more)
        return judged(run("pair", models / "plain", "--format", "json", *options))

    assert plain("0.8.5.post1")["decided_by"] == "VLL031"
    cast = plain("0.9.2")
    assert (cast["verdict"], failed(cast)) == ("compatible", {"VLL032"})
    assert plain("0.9.0", "--dtype", "bfloat16")["decided_by"] == "VLL031"
    assert plain("0.32.0", "--kv-dtype", "fp8")["verdict"] == "undecided"


def test_an_fp8_cache_stands_in_the_command(run: Run, models: Path) -> None:
    options = ("--engine", "vllm@0.32.0", "--method", "ngram", "--dtype", "bfloat16")
    cache = ("--gpu", "h100", "--kv-dtype", "fp8", "--format", "json")
    entry = judged(run("pair", models / "llama-160m", *options, *cache))
    assert entry["verdict"] == "compatible"
    words = shlex.split(entry["setup"])
    assert words[words.index("--kv-cache-dtype") + 1] == "fp8"


# ---- no draft ----


def test_every_way_without_a_draft(run: Run, models: Path) -> None:
    ran = run("pair", models / "plain", "--engine", "vllm", "--format", "json")
    rows = {row["method"]: row["verdict"] for row in ran.json["engines"]}
    assert rows == {"ngram": "compatible", "ngram_gpu": "compatible", "suffix": "compatible"}
    ran = run("pair", models / "deep", "--engine", "vllm@0.11.0", "--format", "json")
    assert [row["method"] for row in ran.json["engines"]] == ["mtp", "ngram"]
    setup = shlex.split(judged(ran, "mtp")["setup"])
    assert json.loads(setup[-1]) == {"method": "mtp", "num_speculative_tokens": 1}


def test_before_it_had_a_method_key_the_target_is_named_twice(run: Run, models: Path) -> None:
    ran = run(
        "pair", models / "deep", "--engine", "vllm@0.10.2", "--method", "mtp", "--format", "json"
    )
    words = shlex.split(judged(ran)["setup"])
    assert json.loads(words[-1])["model"] == words[2] == str(models / "deep")


def test_a_plain_target_has_no_layers_of_its_own(run: Run, models: Path) -> None:
    ran = run("pair", models / "plain", "--engine", "vllm", "--method", "mtp", "--format", "json")
    entry = judged(ran)
    assert (ran.code, entry["reaction"], entry["decided_by"]) == (1, "refuses", "VLL110")


def test_weights_are_not_missed_of_layers_that_no_class_is_built_for(
    run: Run, tmp_path: Path
) -> None:
    target = tmp_path / "v4"
    config = {"model_type": "deepseek_v4", "architectures": ["DeepseekV4ForCausalLM"]}
    make.folder(target, config=config | {"num_nextn_predict_layers": 1})
    make.safetensors(target / "model.safetensors", {"embed.weight": ("BF16", [8, 8])})
    asked = ("--method", "mtp", "--format", "json", "--engine")
    newer = ("vllm@0.20.0", "--kv-dtype", "fp8")
    assert failed(judged(run("pair", target, *asked, *newer))) == {"VLL108"}
    assert failed(judged(run("pair", target, *asked, "vllm@0.13.0"))) == {"VLL117"}


def test_the_stages_of_deepseek_v41(run: Run, tmp_path: Path) -> None:
    """Its text part has the keys of the stages; vLLM and SGLang lay it flat."""
    stages = {"dspark_target_layer_ids": [1, 2], "dspark_block_size": 5, "dspark_markov_rank": 4}
    config = {"model_type": "deepseek_v41", "architectures": ["DeepseekV41ForCausalLM"]}
    text = make.CONFIG | {"model_type": "deepseek_v41_text", "num_nextn_predict_layers": 1}
    make.folder(tmp_path / "v41", config=config | {"text_config": text | stages})
    make.folder(tmp_path / "bare", config=config | {"text_config": text})
    asked = ("--format", "json", "--engine")
    for version in ("vllm@0.30.0", "vllm@0.32.0"):
        found = judged(run("pair", tmp_path / "v41", "--method", "dspark", *asked, version))
        assert "VLL126" not in failed(found)
        bare = judged(run("pair", tmp_path / "bare", "--method", "dspark", *asked, version))
        assert bare["decided_by"] == "VLL126"
    older = judged(run("pair", tmp_path / "v41", "--method", "mtp", *asked, "vllm@0.29.0"))
    assert older["decided_by"] == "VLL117"
    (saw,) = (one["saw"] for one in older["findings"] if one["rule"] == "VLL117")
    assert saw.endswith("method dspark from 0.30.0")


@pytest.mark.parametrize(
    ("version", "layers", "tokens"),
    [("0.26.0", 3, 6), ("0.30.0", 3, 6), ("0.30.0", 1, 5), ("0.31.0", 3, 5)],
)
def test_the_length_that_is_written_runs(
    run: Run, tmp_path: Path, version: str, layers: int, tokens: int
) -> None:
    """Before 0.31.0 the stages of DeepSeek V4 take multiples of the number of MTP layers."""
    stages = {"dspark_target_layer_ids": [0, 1], "dspark_block_size": 5, "dspark_markov_rank": 4}
    config = make.CONFIG | {"model_type": "deepseek_v4", "num_nextn_predict_layers": layers}
    config |= {"architectures": ["DeepseekV4ForCausalLM"], **stages}
    make.folder(tmp_path / "v4", config=config)
    asked = ("--method", "dspark", "--kv-dtype", "fp8", "--format", "json")
    found = judged(run("pair", tmp_path / "v4", *asked, "--engine", f"vllm@{version}"))
    assert json.loads(shlex.split(found["setup"])[-1])["num_speculative_tokens"] == tokens


def test_another_vocabulary_is_translated_when_asked_for(run: Run, models: Path) -> None:
    make.folder(models / "wider", vocab_size=300, hidden_size=16)
    pair = ("pair", models / "plain", models / "wider", "--format", "json", "--engine")
    refused = judged(run(*pair, "vllm@0.32.0"))
    assert refused["decided_by"] == "VLL003"
    asked = judged(run(*pair, "vllm@0.32.0", "--method", "use_heterogeneous_vocab"))
    assert (asked["verdict"], asked["reaction"]) == ("compatible", "runs")
    assert json.loads(shlex.split(asked["setup"])[-1])["use_heterogeneous_vocab"] is True
    held_back = judged(run(*pair, "vllm@0.31.0", "--method", "use_heterogeneous_vocab"))
    assert held_back["setup"].startswith("VLLM_USE_V2_MODEL_RUNNER=0 ")
    assert run(*pair, "vllm@0.24.0", "--method", "use_heterogeneous_vocab").code == 1


def test_what_the_user_says_of_the_draft_is_in_the_config(run: Run, tmp_path: Path) -> None:
    target, draft = make.folder(tmp_path / "big", layers=8), make.folder(tmp_path / "small")
    told = ("--tensor-parallel", "2", "--draft-tensor-parallel", "1", "--dtype", "bf16")
    for version, words in (
        ("0.32.0", '"draft_tensor_parallel_size": 1'),
        ("0.8.2", "--speculative-draft-tensor-parallel-size 1"),
    ):
        ran = run("pair", target, draft, "--engine", f"vllm@{version}", *told, "--format", "json")
        setup = ran.engine("vllm")["setup"]
        if setup is not None:
            assert words in setup
            assert "--dtype bfloat16" in setup
        else:
            assert ran.engine("vllm")["verdict"] == "incompatible"
    plain = run("pair", target, draft, "--engine", "vllm@0.32.0", "--format", "json")
    config = plain.engine("vllm")["setup"].partition("--speculative-config '")[2].rstrip("'")
    assert set(json.loads(config)) == {"method", "model", "num_speculative_tokens"}


def groups(form: str, **parts: str) -> dict[str, Any]:
    """Of compressed-tensors, with such parts: weights="int 4 group"."""
    words = {name: text.split() for name, text in parts.items()}
    group = {
        name: {"type": kind, "num_bits": int(bits), "strategy": how}
        for name, (kind, bits, how) in words.items()
    }
    form_and_groups = {"format": form, "config_groups": {"group_0": group}}
    return {"quant_method": "compressed-tensors", **form_and_groups}


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False}
PACKED = groups("pack-quantized", weights="int 4 channel")
BLOCKS = groups("float-quantized", weights="float 8 block", input_activations="float 8 group")
INT8 = {"input_activations": "int 8 tensor", "output_activations": "int 8 tensor"}
OUTPUTS = groups("pack-quantized", weights="int 4 channel", **INT8)
SPARSE = {"sparsity_config": {"format": "sparse-24-bitmask", "targets": ["Linear"]}}
SCALES = {"weight_block_size": [128, 128]}
FP8 = {"dtype": "fp8_e4m3", "is_dynamic": False}
QUARK = {"quant_method": "quark", "global_quant_config": {"weight": FP8, "input_tensors": FP8}}


@pytest.mark.parametrize(
    ("engine", "gpu", "quantization", "rule", "outcome"),
    [
        ("sglang@0.5.23", "h200", GPTQ, "SGL340", "ok"),
        ("sglang@0.5.23", "h200", {**GPTQ, "sym": False}, "SGL340", "unknown"),
        ("vllm@0.15.1", "h200", GPTQ, "VLL018", "ok"),
        ("vllm@0.15.1", "h200", {**GPTQ, "checkpoint_format": "marlin_24"}, "VLL018", "fail"),
        ("vllm@0.29.0", "h200", {**GPTQ, "desc_act": True}, "VLL045", "ok"),
        ("vllm@0.30.0", "h200", {**GPTQ, "desc_act": True}, "VLL045", "unknown"),
        ("vllm@0.32.0", "h200", PACKED, "VLL045", "ok"),
        ("vllm@0.32.0", "t4", PACKED, "VLL045", "ok"),
        ("vllm@0.13.0", "t4", PACKED, "VLL045", "unknown"),
        ("vllm@0.15.1", "a100-80gb", BLOCKS, "VLL045", "unknown"),
        ("vllm@0.16.0", "a100-80gb", BLOCKS, "VLL045", "ok"),
        ("vllm@0.32.0", "h200", {**BLOCKS, **SPARSE}, "VLL045", "unknown"),
        ("vllm@0.8.5", "rtx-3090", {"quant_method": "fp8", **SCALES}, "VLL045", "unknown"),
        ("vllm@0.32.0", "h200", QUARK, "VLL045", "unknown"),
        ("vllm@0.32.0", "h200", OUTPUTS, "VLL045", "unknown"),
    ],
)
def test_what_config_json_says_of_the_quantisation_reaches_the_rule(
    run: Run, tmp_path: Path, engine: str, gpu: str, quantization: Any, rule: str, outcome: str
) -> None:
    target = make.folder(tmp_path / "target", quantization_config=quantization)
    draft = make.folder(tmp_path / "draft")
    asked = ("--engine", engine, "--gpu", gpu, "--format", "json")
    [verdict] = json.loads(run("pair", target, draft, *asked).out)["engines"]
    assert {f["outcome"] for f in verdict["findings"] if f["rule"] == rule} == {outcome}


@pytest.mark.parametrize(("kinds", "outcome"), [("attention", "ok"), ("mamba", "fail")])
def test_granite_4_may_have_attention_layers_alone(
    run: Run, tmp_path: Path, kinds: str, outcome: str
) -> None:
    layers = {"model_type": "granitemoehybrid", "layer_types": ["attention", kinds]}
    target = make.folder(tmp_path / "target", num_hidden_layers=2, **layers)
    asked = ("--engine", "vllm@0.16.0", "--method", "ngram", "--format", "json")
    [verdict] = json.loads(run("pair", target, *asked).out)["engines"]
    assert {f["outcome"] for f in verdict["findings"] if f["rule"] == "VLL020"} == {outcome}


def test_rows_of_a_method_are_not_asked_after_one_that_changes_it() -> None:
    """A Qwen3.5 draft becomes an MTP head: what draft_model says to M-RoPE is never said."""
    (case,) = (c for c in cases_of("VLL006") if "qwen3-5-whole-model" in c.name)
    asked = {finding.rule for finding in case.verdict.findings}
    assert {"VLL006", "VLL012"} <= asked  # the second holds for every method
    assert not asked & {"VLL003", "VLL016"}
