"""Small pairs for vLLM's own configuration code: what each folder holds, and how it is asked.

Only config.json matters there; weights are headers, so that draftcheck can read them too.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 512,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 256,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-05,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "dtype": "bfloat16",
}


def llama(**changes: Any) -> dict[str, Any]:
    return {**LLAMA, **changes}


def family(architecture: str, model_type: str, **changes: Any) -> dict[str, Any]:
    return llama(architectures=[architecture], model_type=model_type, **changes)


@dataclass(frozen=True)
class Pair:
    """Two configs (one for a target alone), the method, and what the user says."""

    name: str
    target: dict[str, Any]
    draft: dict[str, Any] | None = None
    method: str | None = None
    said: dict[str, Any] = field(default_factory=dict)
    """Circumstances, by their names in draftcheck."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Keys that go into the speculative config besides those of our setup."""
    folder: str = "draft"
    own_folder: str = "target"


def quantized(method: str, **more: Any) -> dict[str, Any]:
    return {"quantization_config": {"quant_method": method, **more}}


AWQ = quantized("awq", bits=4, group_size=128, zero_point=True, version="gemm")
GPTQ = quantized("gptq", bits=4, group_size=128, desc_act=False, sym=True)
FP8 = quantized("fp8", activation_scheme="dynamic")
W4A16 = quantized(
    "compressed-tensors",
    format="pack-quantized",
    config_groups={
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "channel"},
        }
    },
)
NEXTN = {"num_nextn_predict_layers": 1}
MLA = {
    "kv_lora_rank": 32, "q_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16,
    "v_head_dim": 16, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1,
    "moe_intermediate_size": 64, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
}  # fmt: skip
DEEPSEEK = family("DeepseekV3ForCausalLM", "deepseek_v3", **MLA, **NEXTN)
MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
QWEN3_NEXT = family(
    "Qwen3NextForCausalLM", "qwen3_next", **MOE, head_dim=16, shared_expert_intermediate_size=64,
    linear_num_value_heads=2, linear_num_key_heads=2, linear_key_head_dim=16,
    linear_value_head_dim=16, linear_conv_kernel_dim=4, full_attention_interval=2,
    layer_types=["linear_attention", "full_attention"], **NEXTN,
)  # fmt: skip
GLM4_MOE = family(
    "Glm4MoeForCausalLM", "glm4_moe", n_routed_experts=4, num_experts_per_tok=2, head_dim=16,
    n_shared_experts=1, moe_intermediate_size=64, first_k_dense_replace=1, n_group=1,
    topk_group=1, **NEXTN,
)  # fmt: skip
ERNIE = family(
    "Ernie4_5_MoeForCausalLM", "ernie4_5_moe", moe_num_experts=4, moe_k=2,
    moe_intermediate_size=64, **NEXTN,
)  # fmt: skip
QWEN2 = family("Qwen2ForCausalLM", "qwen2")
QWEN3 = family("Qwen3ForCausalLM", "qwen3", head_dim=16)
GEMMA2 = family("Gemma2ForCausalLM", "gemma2", head_dim=16, sliding_window=64)
GEMMA3 = family(
    "Gemma3ForCausalLM", "gemma3_text", head_dim=16, sliding_window=64,
    layer_types=["sliding_attention", "full_attention"],
)  # fmt: skip
GLM4 = family("Glm4ForCausalLM", "glm4", head_dim=16)
GPT2 = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 512, "n_embd": 128,
    "n_layer": 2, "n_head": 8, "n_positions": 256, "dtype": "float32",
}  # fmt: skip
EAGLE3 = family("LlamaForCausalLMEagle3", "llama", num_hidden_layers=1, draft_vocab_size=512)
EAGLE = family("EagleLlamaForCausalLM", "llama", num_hidden_layers=1)
MEDUSA = {
    "architectures": ["MedusaModel"], "model_type": "medusa", "hidden_size": 128, "num_heads": 3,
    "num_hidden_layers": 1, "vocab_size": 512, "dtype": "bfloat16",
}  # fmt: skip
DFLASH = family(
    "DFlashDraftModel", "qwen3", head_dim=16, num_hidden_layers=1, block_size=8,
    dflash_config={"mask_token_id": 5, "target_layer_ids": [0, 1]},
)  # fmt: skip
PARD = llama(pard_token=5)


def speculators(kind: str, layer: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "architectures": [f"{kind.capitalize()}Speculator"],
        "speculators_model_type": kind,
        "speculators_version": "0.9.0",
        "draft_vocab_size": 512,
        "dtype": "bfloat16",
        "transformer_layer_config": layer,
        "speculators_config": {
            "algorithm": kind,
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3}],
            "verifier": {"name_or_path": "org/big", "architectures": ["LlamaForCausalLM"]},
        },
        **more,
    }


ORDINARY = (
    Pair("equal", llama(), llama()),
    Pair("vocab-one-more", llama(), llama(vocab_size=513)),
    Pair("vocab-128-less", llama(vocab_size=640), llama()),
    Pair("other-family", QWEN2, llama()),
    Pair("qwen2-padded", family("Qwen2ForCausalLM", "qwen2", vocab_size=640), QWEN2),
    Pair("gpt2-draft", llama(), GPT2),
    Pair("mixed-layers", llama(), GEMMA3),
    Pair("draft-shorter", llama(max_position_embeddings=512), llama()),
    Pair("draft-longer", llama(), llama(max_position_embeddings=1024)),
    Pair("served-shorter", llama(max_position_embeddings=512), llama(), said={"context": 128}),
    Pair("longer-draft-length", llama(), llama(), said={"draft_tokens": 16}),
    Pair("dotted-name", llama(), llama(), folder="Small.2.5-0.5B"),
    Pair("float16-served", llama(), llama(), said={"dtype": "float16"}),
    Pair("float32-draft", llama(dtype="float16"), llama(dtype="float32")),
)
TRANSLATED = tuple(
    Pair(f"translated-{name}", target, draft, "use_heterogeneous_vocab", folder=folder)
    for name, target, draft, folder in (
        ("equal", llama(), llama(), "draft"),
        ("other-size", llama(), llama(vocab_size=640), "draft"),
        ("becomes-mtp", llama(), QWEN3_NEXT, "draft"),
        ("called-eagle", llama(), llama(), "eagle-small"),
    )
)
NAMES = tuple(
    Pair(f"called-{word}", llama(), llama(), folder=word)
    for word in ("eagle-small", "small-eagle3", "small-dflash", "dspark-small", "an-eagle", "Eagle")
)
BECOMES_MTP = (
    *(
        Pair(f"draft-{draft['model_type']}", llama(), draft, "draft_model")
        for draft in (DEEPSEEK, QWEN3_NEXT, GLM4_MOE, ERNIE)
    ),
    Pair("draft-qwen3", llama(), QWEN3),
    Pair("draft-glm4", llama(), GLM4),
)
PARALLEL = (
    Pair("ranks-of-target", llama(num_attention_heads=14, hidden_size=224), llama(),
         said={"tensor_parallel": 4}),
    Pair("ranks-of-draft", llama(), llama(num_attention_heads=14, hidden_size=224),
         said={"tensor_parallel": 4}),
    Pair("ranks-fit", llama(), llama(), said={"tensor_parallel": 2}),
    Pair("ranks-ngram", llama(num_attention_heads=14, hidden_size=224), None, "ngram",
         {"tensor_parallel": 4}),
    Pair("draft-ranks-2-of-4", llama(), llama(),
         said={"tensor_parallel": 4, "draft_tensor_parallel": 2},
         extra={"draft_tensor_parallel_size": 2}),
    Pair("draft-ranks-1-of-4", llama(), llama(num_attention_heads=14, hidden_size=224),
         said={"tensor_parallel": 4, "draft_tensor_parallel": 1},
         extra={"draft_tensor_parallel_size": 1}),
    Pair("draft-ranks-4-of-4", llama(), llama(),
         said={"tensor_parallel": 4, "draft_tensor_parallel": 4},
         extra={"draft_tensor_parallel_size": 4}),
)  # fmt: skip
NUMBERS = (
    Pair("awq-target", llama(**AWQ, dtype="float16"), llama(dtype="float32")),
    Pair("awq-draft", llama(), llama(**AWQ)),
    Pair("gptq-target", llama(**GPTQ, dtype="float16"), llama()),
    Pair("fp8-target", llama(**FP8), llama()),
    Pair("compressed-target", llama(**W4A16), llama()),
    Pair("bitsandbytes-draft", llama(), llama(**quantized("bitsandbytes", load_in_4bit=True))),
    Pair("gguf-target", llama(**quantized("gguf")), llama()),
    Pair("exl2-target", llama(**quantized("exl2", bits=4.0)), llama()),
    Pair("aqlm-ngram", llama(**quantized("aqlm")), None, "ngram"),
    Pair("unheard-of-target", llama(**quantized("unheard_of")), llama()),
    Pair("deprecated-target", llama(**quantized("fbgemm_fp8", activation_scale_ub=1.0)), llama()),
    Pair("gemma2-in-float16", GEMMA2, None, "ngram", {"dtype": "float16"}),
    Pair("gemma2-in-bfloat16", GEMMA2, None, "ngram", {"dtype": "bfloat16"}),
    Pair("gemma2-draft-of-float16", llama(dtype="float16"), GEMMA2),
    Pair("glm4-draft-in-float16", llama(), GLM4, said={"dtype": "half"}),
)
ITSELF = (
    *(
        Pair(f"itself-{target['model_type']}", target, None, "mtp")
        for target in (DEEPSEEK, QWEN3_NEXT, GLM4_MOE, ERNIE)
    ),
    Pair("itself-llama", llama(), None, "mtp"),
    Pair("itself-3-of-2", {**DEEPSEEK, "num_nextn_predict_layers": 2}, None, "mtp",
         {"draft_tokens": 3}),
    Pair("itself-4-of-2", {**DEEPSEEK, "num_nextn_predict_layers": 2}, None, "mtp",
         {"draft_tokens": 4}),
    Pair("itself-fp8", {**DEEPSEEK, **FP8}, None, "mtp"),
    Pair("itself-called-eagle", DEEPSEEK, None, "mtp", own_folder="eagle-tests"),
    Pair("itself-as-draft", DEEPSEEK, DEEPSEEK, "mtp"),
)  # fmt: skip
NO_DRAFT = (
    Pair("ngram", llama(), None, "ngram"),
    Pair("ngram-long", llama(), None, "ngram", {"draft_tokens": 12}),
    Pair("ngram-recurrent", QWEN3_NEXT, None, "ngram"),
    Pair("ngram-gpu", llama(), None, "ngram_gpu"),
    Pair("suffix", llama(), None, "suffix"),
)
HEADS = (
    Pair("eagle3", llama(), EAGLE3),
    Pair("eagle3-qwen2-target", QWEN2, EAGLE3),
    Pair("eagle3-of-a-llama", llama(), llama(), "eagle3"),
    Pair("eagle", llama(), EAGLE),
    Pair("medusa", llama(), MEDUSA),
    Pair("dflash", QWEN3, DFLASH),
    Pair("dflash-of-a-llama", llama(), llama(), "dflash"),
    Pair("mtp-of-deepseek", DEEPSEEK, {**DEEPSEEK, "model_type": "deepseek_mtp",
         "architectures": ["DeepSeekMTPModel"]}),
    Pair("pard", llama(), PARD, "parallel_drafting"),
    Pair("pard-other-size", llama(vocab_size=640), PARD, "parallel_drafting"),
    Pair("pard-of-a-llama", llama(), llama(), "parallel_drafting"),
    Pair("speculators-eagle3", llama(), speculators("eagle3", llama(num_hidden_layers=1))),
    Pair("speculators-eagle3-qwen2", llama(), speculators("eagle3", QWEN2)),
    Pair("speculators-peagle", llama(),
         speculators("peagle", llama(num_hidden_layers=1), mask_token_id=5)),
    Pair("speculators-xpress", llama(), speculators("xpress", llama(num_hidden_layers=1)),
         "eagle3"),
)  # fmt: skip
PAIRS = (
    *ORDINARY, *TRANSLATED, *NAMES, *BECOMES_MTP, *PARALLEL, *NUMBERS, *ITSELF, *NO_DRAFT, *HEADS
)  # fmt: skip


def write(pair: Pair, root: Path) -> tuple[Path, Path]:
    """The folders of target and draft under root; the same one where there is no draft."""
    target = _folder(root / pair.name / pair.own_folder, pair.target)
    if pair.draft is None:
        return target, target
    return target, _folder(root / pair.name / pair.folder, pair.draft)


def _folder(path: Path, config: dict[str, Any]) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    hidden = config.get("hidden_size", 128)
    names = ["model.embed_tokens.weight"]
    layers = config.get("num_hidden_layers", 2)
    for i in range(config.get("num_nextn_predict_layers") or 0):
        names += [f"model.layers.{layers + i}.eh_proj.weight"]
    for i in range(config.get("mtp_num_hidden_layers") or 0):
        names += [f"mtp.layers.{i}.mlp.up_proj.weight", "mtp.fc.weight"]
    header: dict[str, Any] = {}
    size = 2 * 8 * hidden
    for i, name in enumerate(names):
        place = [i * size, (i + 1) * size]
        header[name] = {"dtype": "BF16", "shape": [8, hidden], "data_offsets": place}
    text = json.dumps(header).encode()
    with (path / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + size * len(names))
    return path
