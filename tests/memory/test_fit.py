"""Bytes that must be equal, not near: published figures, llama.cpp's dry run, vLLM's planner."""

from __future__ import annotations

import json
from array import array
from dataclasses import replace
from typing import Any

import pytest

from draftcheck.memory import caches, fit, profiles, shape, weights
from draftcheck.memory.caches import ServedLoad
from draftcheck.memory.profiles import Profile
from draftcheck.values.facts import GgufFacts, ModelFacts
from draftcheck.versions import build, pep440
from tests.conftest import FIXTURES
from tests.memory.memory_models import facts


def profile(engine: str, version: str) -> Profile:
    found = profiles.load(engine, version, build if version.startswith("b") else pep440)
    assert found is not None
    return found


LLAMA = profile("llama.cpp", "b11312")
VLLM = profile("vllm", "0.32.0")


def cells(name: str, context: int = 8192, sequences: int = 1, bits: float = 16) -> int:
    table = fit.table(facts(name))
    load = ServedLoad(LLAMA, context, sequences, bits, bits)
    return caches.cells(load, table, None).target


def blocks(name: str, draft: str | None = None, **given: Any) -> int:
    """What vLLM needs for one request, target and draft together."""
    changes = given.pop("changes", {})
    target = fit.table(facts(name, **changes))
    other = fit.table(facts(draft)) if draft else None
    role = "full" if draft else ""
    load = ServedLoad(VLLM, given.pop("context"), 1, 16, 16, role=role, batched=8192, **given)
    found = caches.pool_of_blocks(load, target, other)
    return found.target + found.draft


# ---- bytes per token ----

FULL_AND_SLIDING = {
    "Llama-3.1-8B": (131_072, 0),
    "Llama-3.1-70B": (327_680, 0),
    "Llama-3.2-1B": (32_768, 0),
    "Llama-3.2-3B": (114_688, 0),
    "Qwen2.5-0.5B": (12_288, 0),
    "Qwen2.5-72B": (327_680, 0),
    "Qwen3-0.6B": (114_688, 0),
    "Qwen3-32B": (262_144, 0),
    "Qwen3-30B-A3B": (98_304, 0),
    "Mistral-7B-v0.3": (131_072, 0),
    "gemma-2-9b": (172_032, 172_032),
    "gemma-3-27b": (81_920, 425_984),
    "DeepSeek-V3": (70_272, 0),
    "gpt-oss-120b": (36_864, 36_864),
    "gpt-oss-20b": (24_576, 24_576),
    "Phi-3-mini-4k": (393_216, 0),
    "Qwen3-Next-80B-A3B": (24_576, 0),
    "Qwen3.5-9B": (32_768, 0),
    "Llama-2-7B": (524_288, 0),
    "llama-160m": (36_864, 0),
}


@pytest.mark.parametrize("name", FULL_AND_SLIDING)
def test_bytes_per_token(name: str) -> None:
    layers = fit.table(facts(name)).layers
    full = 2 * sum(layer.width for layer in layers if layer.window is None)
    sliding = 2 * sum(layer.width for layer in layers if layer.window is not None)
    assert (full, sliding) == FULL_AND_SLIDING[name]


def test_states_per_sequence() -> None:
    """llama.cpp keeps float32; the KV part is taken off by asking for two sequences more."""
    for name, per_slot in (("Qwen3-Next-80B-A3B", 79_036_416), ("Qwen3.5-9B", 52_690_944)):
        table = fit.table(facts(name))
        states = tuple(layer for layer in table.layers if layer.state_kind)
        load = ServedLoad(LLAMA, 256, 1, 16, 16)
        assert caches.cells(load, replace(table, layers=states), None).target == per_slot


# ---- llama.cpp ----


@pytest.mark.parametrize(
    ("name", "nbytes"),
    [
        ("Llama-3.1-8B", 1_073_741_824),
        ("Qwen3-0.6B", 939_524_096),
        ("gemma-3-27b", 1_325_400_064),
        ("DeepSeek-V3", 575_668_224),
        ("Qwen3-Next-80B-A3B", 280_363_008),
        ("LFM2-1.2B", 101_318_656 - 3 * 10 * 2048 * 2 * 4),
    ],
)
def test_llama_cpp_at_8192(name: str, nbytes: int) -> None:
    assert cells(name) == nbytes


def test_llama_cpp_quantised_cache() -> None:
    assert cells("Llama-3.1-8B", bits=8.5) == 570_425_344
    assert cells("Llama-3.1-8B", bits=4.5) == 301_989_888


def test_llama_cpp_slots_and_windows() -> None:
    table = fit.table(facts("gemma-3-27b"))
    unified = caches.layer_cells(LLAMA, table.layers, 32768, 1, 4, 16, 0, True)
    assert unified == 4_647_288_832
    assert cells("gemma-3-27b", context=8192, sequences=4) == 5_301_600_256
    assert cells("Llama-3.1-8B", context=2734, sequences=3) == 1_107_296_256


def test_llama_cpp_kept_the_latent_twice_before_b7832() -> None:
    table = fit.table(facts("DeepSeek-V3"))
    load = ServedLoad(LLAMA, 8192, 1, 16, 16)
    for version, width in (("b7831", 576 + 512), ("b7832", 576)):
        found = caches.cells(replace(load, profile=profile("llama.cpp", version)), table, None)
        assert found.target == 8192 * 61 * width * 2


def test_rollback_copies_of_recurrent_states() -> None:
    """LFM2 with EAGLE-3, MTP …: one more row per draft token; a plain draft needs none."""
    table = shape_of("lfm2", LFM2)
    plain = caches.cells(ServedLoad(LLAMA, 8192, 4, 16, 16, role="full"), table, None)
    load = ServedLoad(LLAMA, 8192, 4, 16, 16, role="eagle3", draft_tokens=3)
    rolled = caches.cells(load, table, None)
    assert rolled.target - plain.target == 103_284_736 - 101_318_656


LFM2 = {
    "block_count": 16,
    "embedding_length": 2048,
    "attention.head_count": 32,
    "attention.head_count_kv": [0, 0, 8, 0, 0, 8, 0, 0, 8, 0, 8, 0, 8, 0, 8, 0],
    "shortconv.l_cache": 3,
    "feed_forward_length": 8192,
}


def shape_of(arch: str, keys: dict[str, Any]) -> shape.Shape:
    """The table of a GGUF with these keys."""
    stored = {
        f"{arch}.{name}": ("array[int32]", array("q", value))
        if isinstance(value, list)
        else ("uint32", value)
        for name, value in keys.items()
    }
    stored["general.architecture"] = ("string", arch.encode())
    model = ModelFacts(ref="model.gguf", kind="gguf", gguf=GgufFacts(3, stored))
    return fit.table(replace(model, config=replace(model.config, model_type=arch)))


RECORDED = json.loads((FIXTURES / "memory" / "llama.cpp-b11312.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", RECORDED["models"])
def test_every_architecture_of_llama_cpp(name: str) -> None:
    """Equal to the context bytes that llama.cpp itself reports for its own test models."""
    model = RECORDED["models"][name]
    table = shape_of(model["architecture"], model["keys"])
    rolls = model["architecture"] in profiles.table().rollback.architectures
    bits = {"f16": 16, "q8_0": 8.5}
    for case, truth in zip(RECORDED["cases"], model["bytes"], strict=True):
        if truth is None:
            continue
        whole = -(-case["n_ctx"] // 256) * 256
        sequences = case["n_seq"]
        stream = whole if case["unified"] else -(-(whole // sequences) // 256) * 256
        ours = caches.layer_cells(
            LLAMA, table.layers, stream, 1 if case["unified"] else sequences, sequences,
            bits[case["type"]], case["rollback"] if rolls else 0, case["unified"],
        )  # fmt: skip
        assert ours == truth, case


def test_an_interleaved_key_is_only_read_by_the_architectures_that_read_it() -> None:
    base = {"block_count": 4, "embedding_length": 64, "attention.head_count": 4}
    keys = {**base, "attention.sliding_window": 16}
    for arch, windows in (("phi3", []), ("llama", []), ("gemma3", [16] * 4), ("gpt-oss", [16] * 2)):
        found = [one.window for one in shape_of(arch, keys).layers if one.window is not None]
        assert found == windows, arch


# ---- vLLM ----


def test_vllm_plain_pairs() -> None:
    assert blocks("Llama-3.1-8B", "Llama-3.2-1B", context=8192) == 1_342_177_280
    assert blocks("Llama-3.1-8B", context=8192) == 1_073_741_824


def test_vllm_windows_hold_what_is_in_flight() -> None:
    assert blocks("gemma-3-27b", context=32768) == 11_248_599_040
    assert blocks("gemma-3-27b", context=131072) == 19_301_662_720
    assert blocks("gemma-3-27b", "gemma-3-1b", context=32768) == 11_196_170_240
    assert blocks("gpt-oss-120b", context=131072) == 5_441_126_400


def test_vllm_pads_groups_for_one_more_layer() -> None:
    """gpt-oss with an EAGLE-3 layer of its own attention: 18 sliding layers padded to 19."""
    target = fit.table(facts("gpt-oss-120b"))
    full = next(layer for layer in target.layers if layer.window is None)
    head = replace(target, layers=(full,))
    load = ServedLoad(VLLM, 131072, 1, 16, 16, role="eagle3", draft_tokens=3, batched=8192)
    found = caches.pool_of_blocks(load, target, head)
    assert found.target + found.draft == 5_743_411_200


def test_vllm_states_share_the_blocks_of_attention() -> None:
    name = "Qwen3-Next-80B-A3B"
    single = {"mamba_ssm_dtype": "float32"}
    assert blocks(name, context=32768) == 895_746_048
    assert blocks(name, context=32768, changes=single) == 986_185_728
    for changes, nbytes in (({}, 1_058_570_240), (single, 1_227_259_904)):
        target = fit.table(facts(name, **changes))
        own = [layer for layer in target.layers if layer.attends][-1:]
        mtp = replace(target, layers=tuple(own))
        load = ServedLoad(VLLM, 32768, 1, 16, 16, role="itself", draft_tokens=2, batched=8192)
        found = caches.pool_of_blocks(load, target, mtp)
        assert found.target + found.draft == nbytes


def test_vllm_before_0_26_holds_one_batch() -> None:
    table = fit.table(facts("gemma-3-27b"))
    load = ServedLoad(profile("vllm", "0.25.1"), 32768, 1, 16, 16, batched=8192)
    found = caches.pool_of_blocks(load, table, None)
    assert found.target < blocks("gemma-3-27b", context=32768)


def test_vllm_tensor_parallel_repeats_heads_and_latents() -> None:
    per_rank = blocks("Qwen3-30B-A3B", context=8192, ranks=8)
    assert per_rank * 8 == 2 * blocks("Qwen3-30B-A3B", context=8192)
    assert blocks("DeepSeek-V3", context=8192, ranks=8) == blocks("DeepSeek-V3", context=8192)


# ---- transformers ----


def test_transformers_keeps_the_latent_since_5_15() -> None:
    table = fit.table(facts("DeepSeek-V3"))
    load = ServedLoad(LLAMA, 1, 1, 16, 16)
    for version, nbytes in (("5.14.0", 4_997_120), ("5.15.0", 70_272)):
        found = caches.growing(replace(load, profile=profile("transformers", version)), table, None)
        assert found.target == nbytes


# ---- weights without headers ----

PARAMETERS = {
    "Llama-3.1-8B": 8_030_261_248,
    "Llama-3.1-70B": 70_553_706_496,
    "Llama-3.2-1B": 1_235_814_400,
    "Llama-3.2-3B": 3_212_749_824,
    "Qwen2.5-0.5B": 494_032_768,
    "Qwen2.5-72B": 72_706_203_648,
    "Qwen3-0.6B": 596_049_920,
    "Qwen3-32B": 32_762_123_264,
    "Qwen3-30B-A3B": 30_532_122_624,
    "Mistral-7B-v0.3": 7_248_023_552,
    "gemma-2-9b": 9_241_705_984,
    "gemma-3-27b": 27_009_346_304,
    "Phi-3-mini-4k": 3_821_079_552,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_from_the_config_alone(name: str) -> None:
    model = facts(name)
    found = weights.estimate(model, fit.table(model), 2)
    assert found == (PARAMETERS[name], 2 * PARAMETERS[name])


def test_quantised_weights_from_the_config_alone() -> None:
    """gpt-oss is published in MXFP4 with 65,248,815,744 bytes; experts are not all of it."""
    awq = {"quant_method": "awq", "bits": 4, "group_size": 128}
    assert weights.bits_per_weight(awq, 16) == 4.15625
    model = facts("Llama-3.1-8B", quantization_config=awq)
    found = weights.estimate(model, fit.table(model), 2)
    assert found is not None
    assert 5.6e9 < found[1] < 5.8e9


@pytest.mark.parametrize(
    ("said", "bits"),
    [
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, 8),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 4.5),
        ({"quant_method": "compressed-tensors", "config_groups": {"all": {"weights": {}}}}, None),
        ({"config_groups": {"0": {"weights": {"num_bits": 4}}}}, 4.2),
        ({"quant_method": "torchao"}, None),
    ],
)
def test_bits_as_each_quantisation_states_them(said: dict[str, Any], bits: float | None) -> None:
    found = weights.bits_per_weight(said, 16)
    assert found == (bits and pytest.approx(bits, abs=0.1))


PLANNED = json.loads((FIXTURES / "memory" / "vllm-0.32.0.json").read_text(encoding="utf-8"))


def planned_cases(*, stops: bool) -> list[Any]:
    """Real models and random mixes of layers, alone and with a draft; null: vLLM stops."""
    return [
        pytest.param(case, id=case["name"].replace(" ", "-"))
        for case in PLANNED["cases"]
        if (case["bytes"] is None) == stops
    ]


def plan_as_vllm(case: dict[str, Any]) -> Any:
    models = tuple(
        shape.Shape(
            tuple(shape.LayerShape(**layer) for count, layer in rows for _ in range(count)),
            hidden=2048, heads=16, feed_forward=4096, vocab=32000, max_context=None,
        )
        for rows in case["models"]
    )  # fmt: skip
    load = ServedLoad(VLLM, case["context"], 1, 16, 16, draft_tokens=case["spec"], role="full",
                      batched=case["batched"])  # fmt: skip
    return caches.plan_blocks(models, load)


@pytest.mark.parametrize("case", planned_cases(stops=False))
def test_vllm_lays_it_out_like_its_planner(case: dict[str, Any]) -> None:
    assert plan_as_vllm(case).request == case["bytes"]


@pytest.mark.parametrize("case", planned_cases(stops=True))
def test_what_vllms_planner_refuses_is_not_planned(case: dict[str, Any]) -> None:
    with pytest.raises(caches.NotPlanned):
        plan_as_vllm(case)
