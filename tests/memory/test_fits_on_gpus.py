"""pair --gpu: fits or not, by how much, how far one can go, and what would help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from draftcheck.judge.compare import compare
from draftcheck.memory import fit as memory
from draftcheck.memory import gpus, profiles
from draftcheck.rulebook import book
from draftcheck.values.circumstances import Circumstances
from draftcheck.values.facts import Tensor
from draftcheck.values.memory import Fit, MemoryFit
from draftcheck.versions import build, pep440
from tests.conftest import FIXTURES, Run
from tests.memory.memory_models import facts

GIB = 1 << 30
PAIR = (FIXTURES / "pair" / "target", FIXTURES / "pair" / "draft")
WEIGHTS = {"Llama-3.1-8B": 16_060_522_496, "Llama-3.2-1B": 2_471_628_800}


def fit(
    gpu: str,
    engine: str = "vllm",
    version: str = "0.32.0",
    target: str = "Llama-3.1-8B",
    draft: str | None = "Llama-3.2-1B",
    sizes: dict[str, int] = WEIGHTS,
    drafts: tuple[str, ...] = ("full",),
    **said: Any,
) -> MemoryFit:
    ours = facts(target, sizes[target])
    theirs = facts(draft, sizes[draft]) if draft else ours
    machine = gpus.parse(gpu)
    found = memory.fit(
        compare(ours, theirs),
        Circumstances(machine=machine, **said),
        machine,
        engine=engine,
        version=version,
        order=build if version.startswith("b") else pep440,
        drafts=drafts if draft else ("none",),
    )
    assert found is not None
    return found


# ---- the answer ----


def test_the_founding_case_fits() -> None:
    """Llama-2-7B-AWQ with llama-160m on a T4, vLLM 0.15.1, 2048 tokens."""
    sizes = {"Llama-2-7B": 3_940_000_000, "llama-160m": 324_834_816}
    found = fit("t4", version="0.15.1", target="Llama-2-7B", draft="llama-160m", sizes=sizes,
                context=2048, memory_fraction=0.9)  # fmt: skip
    device = found.fullest
    assert device is not None
    assert found.answer is Fit.FITS
    assert found.per_token == (524_288, 36_864)
    assert device.total("cache", "target") == 524_288 * 2048
    assert device.total("cache", "draft") == 36_864 * 2048
    # vLLM's own log without the draft: 18,608 tokens for all requests; about 16.8k with it.
    assert found.limits.sequences is not None
    assert 7 <= found.limits.sequences <= 9


def test_three_answers() -> None:
    assert fit("h200").answer is Fit.FITS
    assert fit("16GiB").answer is Fit.DOES_NOT_FIT
    assert fit("21.5GiB").answer is Fit.TIGHT


def test_parts_are_marked_and_add_up() -> None:
    device = fit("h200").fullest
    assert device is not None
    assert device.required == sum(part.nbytes for part in device.parts)
    assert all(part.low <= part.nbytes <= part.high for part in device.parts)
    known = {(p.owner, p.name): str(p.basis) for p in device.parts}
    assert known["target", "weights"] == known["target", "cache"] == "exact"
    assert known["engine", "workspace"] == "modelled"
    assert known["engine", "driver context"] == "constant"


def test_the_draft_costs_context() -> None:
    found = fit("24GiB", context=4096)
    assert found.limits.context is not None
    assert found.alone.context is not None
    assert found.limits.context < found.alone.context
    assert fit("24GiB", context=found.limits.context).answer is not Fit.DOES_NOT_FIT
    assert fit("24GiB", context=found.limits.context + 256).answer is Fit.DOES_NOT_FIT


def test_never_silently_the_maximum() -> None:
    found = fit("h200")
    assert found.context == 8192
    assert any("8,192 is assumed" in note for note in found.notes)
    assert not any("assumed" in note for note in fit("h200", context=100).notes)


def test_changes_really_help() -> None:
    engine = ("llama.cpp", "b11312")
    found = fit("24GiB", *engine, sequences=8)
    assert found.answer is Fit.DOES_NOT_FIT
    assert "--kv-dtype q8_0" not in found.changes[1:]
    for change in found.changes:
        option, _, value = change.partition(" ")
        if option == "--sequences":
            assert fit("24GiB", *engine, sequences=int(value)).answer is not Fit.DOES_NOT_FIT
            assert fit("24GiB", *engine, sequences=int(value) + 1).answer is Fit.DOES_NOT_FIT
        elif option == "--context":
            again = fit("24GiB", *engine, sequences=8, context=int(value))
            assert again.answer is not Fit.DOES_NOT_FIT
    assert any(change.startswith("--sequences") for change in found.changes)


@pytest.mark.parametrize("engine", [("vllm", "0.32.0"), ("sglang", "0.5.23")])
def test_requests_wait_where_the_engine_has_a_queue(engine: tuple[str, str]) -> None:
    one = fit("32GiB", *engine)
    assert one.answer is Fit.FITS
    many = fit("32GiB", *engine, sequences=500)
    assert many.answer is Fit.FITS and many.sequences == 500
    assert 1 <= many.at_once <= (many.limits.sequences or 0)
    assert any("the rest waits" in note for note in many.notes)
    assert not any(change.startswith("--sequences") for change in many.changes)
    too_long = fit("32GiB", *engine, sequences=500, context=2 * (one.limits.context or 0))
    assert too_long.answer is Fit.DOES_NOT_FIT, "one request has to fit"


@pytest.mark.parametrize("engine", [("vllm", "0.32.0"), ("llama.cpp", "b11312")])
def test_where_no_setting_helps_other_weights_and_more_gpus_are_worked_out(
    engine: tuple[str, str],
) -> None:
    found = fit("12GiB", *engine)
    assert found.answer is Fit.DOES_NOT_FIT and found.limits.context is None
    smaller, more = found.changes[:2]
    assert smaller.startswith("the target in ")
    count = int(more.removeprefix('--gpu "').partition("x ")[0])
    assert fit(f"{count}x 12GiB", *engine).answer is not Fit.DOES_NOT_FIT
    assert fit(f"{count // 2}x 12GiB", *engine).answer is not Fit.FITS


def test_without_a_draft() -> None:
    found = fit("h200", draft=None)
    device = found.fullest
    assert device is not None
    assert device.total("weights", "draft") == device.total("cache", "draft") == 0
    assert found.limits == found.alone


def test_free_memory_counts() -> None:
    """A GPU that others use already."""
    from dataclasses import replace

    machine = gpus.parse("h200")
    busy = replace(machine, devices=(replace(machine.devices[0], free=10 * GIB),))
    ours, theirs = (facts(name, size) for name, size in WEIGHTS.items())
    said = Circumstances(machine=busy)
    found = memory.fit(
        compare(ours, theirs), said, busy, engine="vllm", version="0.32.0", order=pep440
    )
    assert found is not None
    assert found.answer is Fit.DOES_NOT_FIT
    assert found.fullest is not None
    assert found.fullest.available == 10 * GIB


# ---- engines and versions ----


def test_vllm_takes_its_fraction() -> None:
    total = 150_109_880_320
    for version, share in (("0.19.0", 0.9), ("0.20.0", 0.92)):
        device = fit("h200", version=version).fullest
        assert device is not None
        assert device.available == int(total * share)
    device = fit("h200", memory_fraction=0.5).fullest
    assert device is not None
    assert device.available == int(total * 0.5)


def test_llama_cpp_logits_since_b9460() -> None:
    """Before, every context reserved 512 rows of logits."""
    old = fit("h200", "llama.cpp", "b9459", context=4096).fullest
    new = fit("h200", "llama.cpp", "b9460", context=4096).fullest
    assert old is not None
    assert new is not None
    spared = old.total("workspace", "draft") - new.total("workspace", "draft")
    assert spared > 150 * (1 << 20)


def test_llama_cpp_moves_layers_since_b7407() -> None:
    for version, reaction in (("b7406", "crashes"), ("b7407", "runs")):
        assert fit("8GiB", "llama.cpp", version).when_full["reaction"] == reaction


@pytest.mark.parametrize("engine", ["llama.cpp", "vllm", "sglang", "transformers", "exllamav3"])
def test_more_costs_more(engine: str) -> None:
    version = {"llama.cpp": "b11312", "vllm": "0.32.0", "sglang": "0.5.23"}.get(engine, "5.17.0")
    required = []
    for said in ({}, {"context": 16384}, {"context": 16384, "sequences": 4}):
        device = fit("h200", engine, version, **said).fullest
        assert device is not None
        required.append(device.required)
    assert required == sorted(required)
    assert required[0] < required[1] < required[2]


def test_a_program_around_an_engine_has_its_newest_profile() -> None:
    ours = fit("h200", "llama.cpp", "b11312", draft_tokens=3).fullest
    theirs = fit("h200", "ollama", "0.33.0", draft_tokens=3).fullest
    assert ours is not None
    assert theirs is not None
    assert ours.parts == theirs.parts


def test_an_engine_that_is_not_modelled_says_nothing() -> None:
    machine = gpus.parse("h200")
    pair = compare(*(facts(name, size) for name, size in WEIGHTS.items()))
    said = Circumstances(machine=machine)
    assert memory.fit(pair, said, machine, engine="mlx-lm", version="0.1", order=pep440) is None


@pytest.mark.parametrize(
    ("context", "mib"), [(2048, 19_021), (4096, 19_877), (8192, 21_231), (32768, 29_393)]
)
def test_a_pair_of_transformers_as_measured(context: int, mib: int) -> None:
    """What the driver reported on one H200 (benchmarks.gpu_memory), within 1.5 %."""
    ours = llama_tensors("Llama-3.1-8B")
    theirs = llama_tensors("Llama-3.2-1B")
    machine = gpus.parse("h200")
    said = Circumstances(context=context, draft_tokens=5, machine=machine)
    found = memory.fit(
        compare(ours, theirs), said, machine, engine="transformers", version="5.17.0", order=pep440
    )
    assert found is not None
    device = found.fullest
    assert device is not None
    assert abs(device.required / (mib << 20) - 1) < 0.015


def llama_tensors(name: str) -> Any:
    """Facts with every tensor of a Llama, as its header lists them."""
    from dataclasses import replace

    found = facts(name)
    sizes = found.config.sizes
    hidden, wide = sizes["hidden_size"], sizes["intermediate_size"]
    head = sizes.get("head_dim") or hidden // sizes["num_attention_heads"]
    kv = sizes["num_key_value_heads"] * head
    rows: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (sizes["vocab_size"], hidden)}
    for i in range(sizes["num_hidden_layers"]):
        at = f"model.layers.{i}."
        rows |= {
            f"{at}self_attn.q_proj.weight": (sizes["num_attention_heads"] * head, hidden),
            f"{at}self_attn.k_proj.weight": (kv, hidden),
            f"{at}self_attn.v_proj.weight": (kv, hidden),
            f"{at}self_attn.o_proj.weight": (hidden, sizes["num_attention_heads"] * head),
            f"{at}mlp.gate_proj.weight": (wide, hidden),
            f"{at}mlp.up_proj.weight": (wide, hidden),
            f"{at}mlp.down_proj.weight": (hidden, wide),
            f"{at}input_layernorm.weight": (hidden,),
            f"{at}post_attention_layernorm.weight": (hidden,),
        }
    rows["model.norm.weight"] = (hidden,)
    rows["lm_head.weight"] = (sizes["vocab_size"], hidden)  # stored even where it is tied
    tensors = {}
    for key, sides in rows.items():
        count = 2
        for side in sides:
            count *= side
        tensors[key] = Tensor("BF16", sides, "model.safetensors", count)
    return replace(found, weights=replace(found.weights, tensors=tensors))


# ---- weights ----


@pytest.mark.parametrize("name", sorted(WEIGHTS))
def test_weights_equal_the_published_bytes(name: str) -> None:
    from draftcheck.memory import profiles, weights

    profile = profiles.load("vllm", "0.32.0", pep440)
    assert profile is not None
    found = weights.measure(llama_tensors(name), None, profile)
    assert found is not None
    assert (found.nbytes, found.exact) == (WEIGHTS[name], True)


def test_float32_checkpoints_are_halved_by_vllm_not_by_transformers() -> None:
    from dataclasses import replace

    from draftcheck.memory import profiles, weights

    model = facts("llama-160m")
    tensors = {"model.weight": Tensor("F32", (1000, 1000), "model.safetensors", 4_000_000)}
    model = replace(model, weights=replace(model.weights, tensors=tensors))
    kept = (("vllm", "0.32.0", 2_000_000), ("transformers", "5.17.0", 4_000_000))
    for engine, version, nbytes in kept:
        profile = profiles.load(engine, version, pep440)
        assert profile is not None
        found = weights.measure(model, None, profile)
        assert found is not None
        assert found.nbytes == nbytes
    profile = profiles.load("transformers", "5.17.0", pep440)
    assert profile is not None
    told = weights.measure(model, None, profile, dtype="float16")
    assert told is not None
    assert told.nbytes == 2_000_000


def test_llama_cpp_keeps_an_untied_embedding_on_the_host(run: Run) -> None:
    ran = run("pair", f"{PAIR[0]}.gguf", f"{PAIR[1]}.gguf", "--gpu", "24GiB", "--engine",
              "llama.cpp", "--format", "json")  # fmt: skip
    side = ran.json["memory"]["target"]
    stored = ran.json["target"]["facts"]["weights"]["nbytes"]
    assert 0 < side["weights_bytes"] <= stored


# ---- several devices ----


def test_tensor_parallel_halves_what_can_be_halved() -> None:
    one, two = fit("80GiB").fullest, fit("2x 80GiB").fullest
    assert one is not None
    assert two is not None
    assert two.total("cache", "target") * 2 == one.total("cache", "target")
    assert len(fit("2x 80GiB").devices) == 2


def test_layers_are_spread_over_unequal_gpus() -> None:
    found = fit("rtx-5090+rtx-4090", "llama.cpp", "b11312")
    first, second = found.devices
    assert first.total("weights", "target") > second.total("weights", "target")
    both = first.total("weights", "target") + second.total("weights", "target")
    assert abs(both - WEIGHTS["Llama-3.1-8B"]) < 4


def test_a_draft_on_its_own_device() -> None:
    found = fit("rtx-4090+12GiB", "llama.cpp", "b11312", draft_gpu=1)
    first, second = found.devices
    assert first.total("weights", "draft") == first.total("cache", "draft") == 0
    assert second.total("weights", "draft") == WEIGHTS["Llama-3.2-1B"]


# ---- bad input ----


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", 2**40),
        ("num_attention_heads", 0),
        ("num_hidden_layers", -1),
        ("num_hidden_layers", 2**30),
        ("head_dim", 2**33),
        ("num_key_value_heads", "eight"),
        ("kv_lora_rank", -512),
        ("vocab_size", -3),
    ],
)
def test_absurd_numbers_are_refused_by_name(field: str, value: Any) -> None:
    from dataclasses import replace

    from draftcheck.errors import ReadError

    model = facts("Llama-3.1-8B")
    model = replace(model, config=replace(model.config, sizes={**model.config.sizes, field: value}))
    with pytest.raises(ReadError, match=field):
        memory.table(model)


def test_values_of_width_zero_are_as_wide_as_the_keys() -> None:
    """DeepSeek-OCR and DeepSeek-VL2 tiny state 0 for what only latents have."""
    from dataclasses import replace

    model = facts("Llama-3.1-8B")
    sizes = {**model.config.sizes, "v_head_dim": 0, "qk_nope_head_dim": 0, "qk_rope_head_dim": 0}
    assert memory.table(replace(model, config=replace(model.config, sizes=sizes))) == (
        memory.table(model)
    )


def test_a_negative_window_is_refused() -> None:
    from draftcheck.errors import ReadError

    with pytest.raises(ReadError, match="sliding_window"):
        memory.table(facts("gemma-3-27b", sliding_window=-1))


def test_an_unknown_model_type_widens_the_range() -> None:
    table = memory.table(facts("Llama-3.1-8B", model_type="nextgen", sliding_window=512))
    assert table.floor is not None
    assert any("not known" in note for note in table.notes)


def test_no_config_cannot_tell() -> None:
    ours = facts("nothing", 1000)
    machine = gpus.parse("h200")
    said = Circumstances(machine=machine)
    found = memory.fit(
        compare(ours, None), said, machine, engine="vllm", version="0.32.0", order=pep440
    )
    assert found is not None
    assert found.answer is Fit.CANNOT_TELL
    assert found.notes


# ---- the command ----


def test_command_line_json(run: Run) -> None:
    ran = run("pair", *PAIR, "--gpu", "h200", "--engine", "vllm", "--format", "json",
              "--context", "256")  # fmt: skip
    body = ran.json["memory"]
    assert ran.code == 0
    assert (body["gpu"], body["fits"], body["answer"]) == ("h200", True, "fits")
    assert body["target"]["kv_bytes"] > body["draft"]["kv_bytes"] > 0
    assert body["required_bytes"] == sum(part["bytes"] for part in body["devices"][0]["parts"])
    held = sum(body[side][name] for side in ("target", "draft")
               for name in ("weights_bytes", "kv_bytes"))  # fmt: skip
    assert body["overhead_bytes"] == body["required_bytes"] - held
    assert ran.engine("vllm")["memory"] == body


def test_no_gpu_no_memory(run: Run) -> None:
    assert run("pair", *PAIR, "--format", "json").json["memory"] is None


def test_command_line_says_when_it_does_not_fit(run: Run) -> None:
    ran = run("pair", *PAIR, "--gpu", "100MiB", "--engine", "vllm")
    assert ran.code == 1
    assert "does not fit" in ran.out
    assert "MEM001" in ran.out
    assert "too much" in ran.out


def test_command_line_text_and_markdown(run: Run) -> None:
    text = run("pair", *PAIR, "--gpu", "24GiB", "--engine", "vllm").out
    assert "longest context" in text
    assert "[" in text.split("in all")[1]
    table = run("pair", *PAIR, "--gpu", "24GiB", "--engine", "vllm", "--format", "markdown").out
    assert "| 24GiB | target weights |" in table


def test_unknown_gpu_is_a_usage_error(run: Run) -> None:
    ran = run("pair", *PAIR, "--gpu", "rtx-4091")
    assert ran.code == 2
    assert "rtx-4090" in ran.err


def test_unknown_kv_type_is_a_usage_error(run: Run) -> None:
    ran = run("pair", *PAIR, "--gpu", "24GiB", "--kv-dtype", "q77", "--engine", "vllm")
    assert ran.code == 2
    assert "q77" in ran.err


@pytest.mark.parametrize(
    ("kv_dtype", "answer"), [("nvfp4", Fit.FITS), ("turboquant_k8v4", Fit.CANNOT_TELL)]
)
def test_a_kv_type_that_is_not_counted_is_no_error(kv_dtype: str, answer: Fit) -> None:
    found = fit("h100", kv_dtype=kv_dtype)
    assert (found.kv_dtype, found.answer) == (kv_dtype, answer)
    assert not [note for note in found.notes if "has no KV cache" in note]


def test_nvfp4_takes_four_and_a_half_bits() -> None:
    small, usual = fit("h100", kv_dtype="nvfp4").per_token[0], fit("h100").per_token[0]
    assert small * 32 == usual * 9 > 0


def test_every_kv_type_of_a_rule_is_known_to_the_profile() -> None:
    vllm = book.load("vllm")
    listed = (rule for rule in vllm.rules if rule.check == "kv_dtype_listed")
    (rule,) = (rule for rule in listed if rule.until is None)
    profile = profiles.load("vllm", vllm.checked, vllm.order)
    assert profile is not None
    assert not [name for name in rule.params["values"] if not profile.takes(name)]


def test_saved_facts_give_the_same_answer(run: Run, tmp_path: Path) -> None:
    saved = []
    for side in PAIR:
        path = tmp_path / f"{side.name}.facts.json"
        assert run("inspect", side, "--output", path).code == 0
        saved.append(path)
    options = ("--gpu", "24GiB", "--engine", "vllm", "--format", "json")
    live, again = run("pair", *PAIR, *options).json, run("pair", *saved, *options).json
    assert live["memory"] == again["memory"]


def test_the_gpu_of_this_machine_is_shown_but_decides_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA L4, GPU-1, 100, 90, 0, 8.9'\n", encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(gpus, "present", lambda: True)
    ran = run("pair", *PAIR, "--engine", "vllm", "--format", "json")
    assert (ran.code, ran.json["verdict"]) == (0, "compatible")
    assert ran.json["memory"]["gpu"] == "auto"
    assert ran.json["memory"]["fits"] is False


def test_a_head_may_share_the_tables_of_its_target() -> None:
    """vLLM frees a head's embedding when it equals the target's; its own output matrix stays."""
    from dataclasses import replace

    from draftcheck.memory import profiles, weights

    profile = profiles.load("vllm", "0.32.0", pep440)
    assert profile is not None
    rows = {
        "embed_tokens.weight": (128256, 4096),
        "lm_head.weight": (32000, 4096),
        "midlayer.mlp.up_proj.weight": (14336, 4096),
    }
    tensors = {
        name: Tensor("BF16", sides, "model.safetensors", 2 * sides[0] * sides[1])
        for name, sides in rows.items()
    }
    head = facts("Llama-3.1-8B")
    head = replace(head, role="eagle3", weights=replace(head.weights, tensors=tensors))
    found = weights.measure(head, None, profile, with_mtp=True, shared_rows=128256)
    assert found is not None
    kept = 2 * 4096 * (32000 + 14336)
    assert found.nbytes == kept
    assert found.high >= kept + 2 * 4096 * 128256


def test_sglang_reserve_by_its_own_formula() -> None:
    """T4: 512 + 1.5 * 2048 + 1024 / 8 + 2 * 8 MiB; older versions kept 6 GiB for a draft."""
    for version, mib in (("0.5.23", 3728), ("0.5.9", 3728 + 6144 - 310)):
        found = fit("t4", "sglang", version, target="Llama-2-7B", draft="llama-160m",
                    sizes={"Llama-2-7B": 1 << 30, "llama-160m": 310 << 20})  # fmt: skip
        device = found.fullest
        assert device is not None
        assert device.total("reserve", "engine") == mib << 20


def test_a_config_without_layers_or_width_says_nothing() -> None:
    """Class defaults fill gaps; they never make up a whole model."""
    from draftcheck.memory.from_config import ShapeUnknown

    with pytest.raises(ShapeUnknown):
        memory.table(facts("nothing", model_type="llama"))
