"""Run every model type of the installed transformers with a draft, and compare with our verdict.

    python -m tests.agreement.sweep_transformers [--types llama,gpt2] [--methods generate,UAD]

A tiny random model of each type is the target of a Llama draft and the draft of a Llama target;
types with a sliding window also past a window of 16 tokens. A line is printed for each run that
differs from the verdict: an error or another greedy text where we say that it runs, the target's
own text where we say that it stops, other words in an error. What we leave open differs from
nothing. A type that cannot be built small, or that generates nothing by itself, is skipped;
llava:gemma2 is a LLaVA around Gemma 2. An older release: unpack it with a tokenizers and
huggingface_hub of its time, and name them in PYTHONPATH.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import re
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.auto import configuration_auto, modeling_auto

from draftcheck import check
from draftcheck.why.messages import ONE_OF
from tests import tiny

library: Any = transformers
VERSION = transformers.__version__
TEXT = "the cat sat on the mat, and the cat sat "
WINDOW, CONTEXT, NEW_TOKENS, SECONDS, MOST_PARAMETERS = 16, 64, 16, 30, 10_000_000
PLAIN, MERGED = 260, 266  # tokens of the two tokenizers
IDS = {"bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 258}
METHODS = ("generate", "UAD", "prompt_lookup", "early_exit")
ALONE = {
    "prompt_lookup": {"prompt_lookup_num_tokens": 3},
    "early_exit": {"assistant_early_exit": 1},
}
SIZES = {
    name: size
    for size, names in {
        0: "num_nextn_predict_layers num_mtp_layers",
        1: "num_experts_per_tok num_experts_per_token n_shared_experts moe_topk moe_k n_group "
        "topk_group num_shared_experts moe_top_k moe_num_shared_experts num_expert_per_tok "
        "top_k_experts first_k_dense_replace",
        2: "num_hidden_layers n_layer n_layers num_layers decoder_layers encoder_layers "
        "num_key_value_heads num_kv_heads num_local_experts num_experts n_routed_experts "
        "moe_num_experts index_n_heads linear_num_key_heads swa_num_key_value_heads "
        "num_global_key_value_heads",
        4: "num_attention_heads n_head n_heads num_heads decoder_attention_heads "
        "encoder_attention_heads linear_num_value_heads swa_num_attention_heads",
        8: "head_dim kv_channels attention_head_dim qk_nope_head_dim qk_rope_head_dim v_head_dim "
        "index_head_dim linear_key_head_dim linear_value_head_dim rotary_dim global_head_dim "
        "swa_head_dim swa_v_head_dim hidden_size_per_layer_input",
        16: "moe_intermediate_size shared_expert_intermediate_size expert_ffn_hidden_size "
        "moe_shared_expert_intermediate_size shared_intermediate_size q_lora_rank kv_lora_rank "
        "expert_intermediate_size o_lora_rank",
        32: "hidden_size n_embd d_model dim embed_dim word_embed_proj_dim lru_width hidden_dim "
        "model_dim embedding_size rnn_width out_hidden_size",
        64: "intermediate_size ffn_dim n_inner ffn_hidden_size d_ff decoder_ffn_dim "
        "encoder_ffn_dim ffn_intermediate_size dense_intermediate_size mlp_dim",
        512: "max_position_embeddings n_positions n_ctx max_seq_len max_sequence_length index_topk "
        "sliding_window sliding_window_size local_attention attention_chunk_size window_size",
    }.items()
    for name in names.split()
}
WINDOWS = [name for name in SIZES if name.split("_")[0] in ("sliding", "local", "window")]
WINDOWS.append("attention_chunk_size")
BESIDE: dict[str, Any] = {  # encoders of images and sounds
    **dict.fromkeys(("depth", "num_hidden_layers", "num_layers", "encoder_layers"), 1),
    **dict.fromkeys(("num_attention_heads", "num_heads", "num_key_value_heads"), 2),
    **{name: size for name, size in SIZES.items() if size == 32},
    **dict.fromkeys(("intermediate_size", "mlp_dim", "encoder_ffn_dim", "projection_dim"), 32),
    **dict.fromkeys(("text_hidden_size", "projector_hidden_size"), 32),
    "encoder_attention_heads": 2, "head_dim": 16, "image_size": 28, "patch_size": 14,
    "num_position_embeddings": 16, "vocab_size": 64, "fullatt_block_indexes": [0],
    "deepstack_visual_indexes": [0],
}  # fmt: skip
SPECIAL: dict[str, dict[str, Any]] = {
    "bamba": {"mamba_n_heads": 4, "attn_layer_indices": [1]},
    "gemma3n_text": {
        "num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_kv_shared_layers": 2,
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": {"mamba_n_heads": 4, "layer_types": ["mamba", "attention"]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "mamba2": {"head_dim": 16, "n_groups": 1},
    "reformer": {"axial_pos_embds": False},
    "zamba": {"num_hidden_layers": 4, "layers_block_type": ["mamba", "hybrid"] * 2},
}  # fmt: skip


@dataclass(frozen=True)
class Built:
    folder: Path
    model: Any


@dataclass(frozen=True)
class Run:
    kind: str
    role: str
    method: str
    target: Built
    draft: Built | None
    window: int | None

    def __str__(self) -> str:
        past = f", past a window of {self.window}" if self.window else ""
        return f"{self.kind} as {self.role}, {self.method}{past}"


@contextlib.contextmanager
def seconds(most: int) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise TimeoutError(f"{most} s")

    signal.signal(signal.SIGALRM, ring)
    signal.alarm(most)
    try:
        yield
    finally:
        signal.alarm(0)


def plain(kind: str) -> Any:
    """The default config of a type, or of one around another's text part."""
    whole, _, inner = kind.partition(":")
    mapping = configuration_auto.CONFIG_MAPPING
    return mapping[whole](**({"text_config": mapping[inner]()} if inner else {}))


def small(kind: str, config_class: Any, vocabulary: int, window: int | None, text: bool) -> Any:
    """The type's config with few and narrow layers; what it nests too."""
    base = plain(kind) if ":" in kind else config_class()
    known = base.to_dict()
    renamed = getattr(base, "attribute_map", {})
    sizes: dict[str, Any] = SIZES if text else BESIDE
    changes = {
        name: size for name, size in sizes.items()
        if name in renamed or isinstance(known.get(name, ...), type(size) | None)
    }  # fmt: skip
    if text:
        changes |= {"vocab_size": vocabulary, **IDS} | layers(known)
        if "vocab_size_per_layer_input" in known:
            changes["vocab_size_per_layer_input"] = vocabulary
        if "kv_lora_rank" in known or known.get("num_key_value_heads", 0) is None:
            changes["num_key_value_heads"] = 4
        if "is_decoder" in known:
            changes["is_decoder"] = True
        if window:
            changes |= {name: window for name in WINDOWS if name in known}
        if window and "use_sliding_window" in known:
            changes |= {"use_sliding_window": True, "max_window_layers": 2}
        changes |= SPECIAL.get(kind, {})
    for name, declared in (getattr(config_class, "sub_configs", None) or {}).items():
        inner = getattr(base, name, None)
        if inner is None:
            continue
        inner_class = declared if isinstance(inner, dict) else type(inner)
        speaks = any(word in name for word in ("text", "llm", "language", "decoder", "thinker"))
        inner_kind = getattr(inner_class, "model_type", "")
        changes[name] = small(inner_kind, inner_class, vocabulary, window, speaks).to_dict()
        if speaks:
            changes = {n: v for n, v in changes.items() if n not in SIZES or n in known}
    config = config_class(**changes)
    for number, (name, value) in enumerate(config.to_dict().items()):
        if re.search("_token_(id|index)$", name) and isinstance(value, int) and value >= vocabulary:
            setattr(config, name, 200 + number % 50)  # ids that TEXT does not have
    return config


def layers(known: dict[str, Any]) -> dict[str, Any]:
    """One layer of each kind that the type has."""
    changes: dict[str, Any] = {}
    for name in ("layer_types", "layers_block_type"):
        if known.get(name):
            kinds = list(dict.fromkeys(known[name]))
            changes[name] = kinds if len(kinds) > 1 else kinds * 2
            changes["num_hidden_layers"] = len(changes[name])
    if known.get("mlp_layer_types"):
        count = changes.get("num_hidden_layers", 2)
        changes["mlp_layer_types"] = (list(dict.fromkeys(known["mlp_layer_types"])) * 9)[:count]
    for name in ("rope_parameters", "rope_scaling"):
        if "mrope_section" in json.dumps(known.get(name)):
            changes[name] = copy.deepcopy(known[name])
            for scaling in (changes[name], *changes[name].values()):
                if isinstance(scaling, dict) and "mrope_section" in scaling:
                    scaling["mrope_section"] = [2, 1, 1]
    return changes


@cache
def build(folder: Path, kind: str, vocabulary: int, seed: int, window: int | None) -> Built:
    """A random model of the type, saved with a tokenizer."""
    config = small(kind, type(plain(kind)), vocabulary, window, True)
    auto = library.AutoModelForCausalLM
    if type(config) not in auto._model_mapping:
        auto = library.AutoModelForImageTextToText
    with torch.device("meta"), contextlib.suppress(NotImplementedError, RuntimeError):
        count = sum(weight.numel() for weight in auto.from_config(config).parameters())
        if count > MOST_PARAMETERS:
            raise MemoryError(f"{count:,} parameters")
    torch.manual_seed(seed)
    model = auto.from_config(config).float().eval()
    if (head := model.get_output_embeddings()) is not None:
        with torch.no_grad():
            head.weight *= 30  # a random model's best token is clearly the best
    for name, value in IDS.items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(folder)
    tiny.write_tokenizer(folder, tiny.merged_tokenizer() if vocabulary == MERGED else None)
    model.generation_config.num_assistant_tokens = 4
    model.generation_config.assistant_confidence_threshold = 0.0
    model.generation_config.num_assistant_tokens_schedule = "constant"
    return Built(folder, model)


def generate(built: Built, double: bool = False, **drafting: Any) -> Any:
    """The ids of prompt and greedy answer."""
    model = built.model
    if double:
        model = copy.deepcopy(model).double()
        if "assistant_model" in drafting:
            drafting["assistant_model"] = copy.deepcopy(drafting["assistant_model"]).double()
    inputs = library.AutoTokenizer.from_pretrained(built.folder)(TEXT, return_tensors="pt")
    torch.manual_seed(0)  # diffusion
    with seconds(SECONDS):
        out = model.generate(**inputs, max_new_tokens=NEW_TOKENS, do_sample=False, **drafting)
    return getattr(out, "sequences", out)


def outcome(run: Run) -> str:
    """ "same text", "other text", or the error."""
    said: dict[str, Any] = dict(ALONE.get(run.method, {}))
    if run.draft is not None:
        said["assistant_model"] = run.draft.model
        if run.method == "UAD":
            load = library.AutoTokenizer.from_pretrained
            said["tokenizer"] = load(run.target.folder)
            said["assistant_tokenizer"] = load(run.draft.folder)
    try:
        drafted = generate(run.target, **said)
    except Exception as error:  # whatever it is, it is the outcome
        return f"{type(error).__name__}: {error}"
    if same_text(drafted, generate(run.target)):
        return "same text"
    with contextlib.suppress(Exception):  # rounding changes a text too, but not all run in float64
        if same_text(generate(run.target, True, **said), generate(run.target, True)):
            return "same text"
    return "other text"


def same_text(drafted: Any, alone: Any) -> bool:
    """Some releases give a few tokens more than asked for when they look up the prompt."""
    return torch.equal(drafted[:, : alone.shape[1]], alone)


def difference(run: Run, did: str) -> str | None:
    """What we say of this run, where it is not what it did."""
    models = [str(built.folder) for built in (run.target, run.draft) if built]
    engine = f"transformers@{VERSION}"
    [verdict] = check(*models, engines=[engine], method=run.method, context=CONTEXT).engines
    reaction, rule = str(verdict.reaction), verdict.decided_by
    found = [finding for finding in verdict.findings if finding.outcome == "fail"]
    if reaction == "unknown" or verdict.verdict == "undecided":
        return None
    stops = reaction in ("refuses", "crashes")
    if did == "same text":
        return f"{reaction} ({rule})" if stops else None
    if did == "other text":
        told = any(finding.severity in ("warning", "error") for finding in found)
        return None if told else reaction
    if not stops:
        return reaction
    says = next((one.engine_says or "" for one in found if one.rule == rule), "")
    words = [".*".join(map(re.escape, one.split("…"))) for one in says.split(ONE_OF)]
    matches = any(re.search(one, did, re.DOTALL) for one in words)
    return None if matches else f"{reaction} ({rule}) with the words {says!r}"


def runs(kind: str, methods: list[str], folder: Path) -> Iterator[Run]:
    """The runs of one type, first without and then past a window; plain generation must work."""
    config = plain(kind)
    slides = any(name in config.get_text_config().to_dict() for name in WINDOWS)
    llama = build(folder / "llama", "llama", PLAIN, 1, None)
    for window in (None, WINDOW) if slides else (None,):
        own = folder / f"{kind}-{window}"
        target = build(own / "target", kind, PLAIN, 0, window)
        generate(target)
        for method in methods:
            if method in ALONE:
                yield Run(kind, "target", method, target, None, window)
                continue
            rows = MERGED if method == "UAD" else PLAIN
            draft = build(folder / f"llama-{rows}", "llama", rows, 2, None)
            yield Run(kind, "target", method, target, draft, window)
            draft = build(own / f"draft-{rows}", kind, rows, 3, window)
            yield Run(kind, "draft", method, llama, draft, window)


def sweep(
    kinds: list[str], methods: list[str], everything: bool = False
) -> tuple[int, int, list[str]]:
    """How many runs, how many that differ (these are printed), and the types skipped."""
    count, differ, skipped = 0, 0, []
    for kind in kinds:
        build.cache_clear()
        try:
            with tempfile.TemporaryDirectory(prefix="sweep") as folder:
                for run in runs(kind, methods, Path(folder)):
                    did = outcome(run)
                    ours = difference(run, did)
                    count, differ = count + 1, differ + (ours is not None)
                    if ours or everything:
                        print(f"{run}: {did[:200]}; we say: {ours or 'the same'}", flush=True)
        except Exception as error:
            skipped.append(f"{kind} ({type(error).__name__}: {str(error)[:80]})")
    return count, differ, skipped


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--types", help="comma-separated; by default all that generate text")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--all", action="store_true", help="print what agrees too")
    asked = parser.parse_args(arguments)
    library.logging.set_verbosity_error()
    library.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    known: set[str] = set(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    known |= set(getattr(modeling_auto, "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", ()))
    kinds = asked.types.split(",") if asked.types else sorted(known)
    count, differ, skipped = sweep(kinds, asked.methods.split(","), asked.all)
    print(f"transformers {VERSION}: {count} runs of {len(kinds) - len(skipped)} types, ", end="")
    print(f"{differ} differ; skipped: {', '.join(skipped) or 'none'}")
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
