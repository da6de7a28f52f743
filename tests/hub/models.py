"""Model repos of real shape and size whose weights cost nothing: dicts for Hub.add_repo."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

from tests import make
from tests.hub.blobs import File, Virtual
from tests.hub.words import SPECIALS, TOKENIZER_CONFIG, tokenizer_json, vocabulary

Files = dict[str, bytes | str | File]
Tensors = Mapping[str, tuple[str, tuple[int, ...]]]
BYTES = {"BF16": 2, "F16": 2, "F32": 4, "I64": 8, "BOOL": 1}
WORDS = 151_643
"""Tokens without the special ones."""
BIG = {
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
}
SMALL = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}


def config(words: int = WORDS, **changes: Any) -> dict[str, Any]:
    """The config.json of a llama with this many ordinary tokens."""
    return {
        **make.CONFIG,
        **BIG,
        "vocab_size": (words + len(SPECIALS) + 127) // 128 * 128,
        "max_position_embeddings": 131072,
        "bos_token_id": words,
        "eos_token_id": words + 1,
        **changes,
    }


def tensors(about: Mapping[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The tensors of a llama of this shape."""
    wide, deep = about["hidden_size"], about["intermediate_size"]
    narrow = wide // about["num_attention_heads"] * about["num_key_value_heads"]
    shapes = {
        "self_attn.q_proj": (wide, wide),
        "self_attn.k_proj": (narrow, wide),
        "self_attn.v_proj": (narrow, wide),
        "self_attn.o_proj": (wide, wide),
        "mlp.gate_proj": (deep, wide),
        "mlp.up_proj": (deep, wide),
        "mlp.down_proj": (wide, deep),
        "input_layernorm": (wide,),
        "post_attention_layernorm": (wide,),
    }
    rows = {"model.embed_tokens.weight": ("BF16", (about["vocab_size"], wide))}
    for layer in range(about["num_hidden_layers"]):
        for name, shape in shapes.items():
            rows[f"model.layers.{layer}.{name}.weight"] = ("BF16", shape)
    rows["model.norm.weight"] = ("BF16", (wide,))
    rows["lm_head.weight"] = ("BF16", (about["vocab_size"], wide))
    return rows


def safetensors(
    rows: Tensors, data: Mapping[str, bytes] | None = None, metadata: bool = True
) -> Virtual:
    """A file of these tensors, all zero but those whose data is given."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}} if metadata else {}
    offset, starts = 0, {}
    for name, (dtype, shape) in rows.items():
        size = BYTES[dtype]
        for side in shape:
            size *= side
        starts[name] = offset
        span = [offset, offset + size]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": span}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    head = struct.pack("<Q", len(text)) + text
    more = {len(head) + starts[name]: raw for name, raw in (data or {}).items()}
    return Virtual(head, len(head) + offset, more)


def shards(rows: Tensors, count: int) -> Files:
    """The tensors over so many files in order, and the index that says where each is."""
    names = list(rows)
    files: Files = {}
    where: dict[str, str] = {}
    total = 0
    for number in range(count):
        mine = names[len(names) * number // count : len(names) * (number + 1) // count]
        file = f"model-{number + 1:05d}-of-{count:05d}.safetensors"
        made = safetensors({name: rows[name] for name in mine})
        files[file] = made
        total += made.size - len(made.head)
        where |= dict.fromkeys(mine, file)
    index = {"metadata": {"total_size": total}, "weight_map": where}
    files["model.safetensors.index.json"] = json.dumps(index, indent=2)
    return files


def checkpoint(
    about: Mapping[str, Any] | None = None,
    *,
    count: int = 1,
    words: int = WORDS,
    seed: int = 0,
    tokenizer: bytes | None = None,
) -> Files:
    """A whole safetensors repo: config, tokenizer, weights, and what else lies about."""
    whole = config(words, **(about or {}))
    rows = tensors(whole)
    generation = {"bos_token_id": whole["bos_token_id"], "eos_token_id": whole["eos_token_id"]}
    files: Files = {
        ".gitattributes": "*.safetensors filter=lfs diff=lfs merge=lfs -text\n",
        "README.md": "# A model\n" + "Words about it.\n" * 500,
        "LICENSE": "x" * 11_000,
        "config.json": json.dumps(whole, indent=2),
        "generation_config.json": json.dumps(generation, indent=2),
        "tokenizer.json": tokenizer if tokenizer is not None else tokenizer_json(words, seed),
        "tokenizer_config.json": json.dumps(TOKENIZER_CONFIG, indent=2),
        "original/consolidated.00.pth": Virtual(b"PK\x03\x04", 10_000_000_000),
    }
    if count == 1:
        files["model.safetensors"] = safetensors(rows)
    else:
        files |= shards(rows, count)
    return files


def small_checkpoint(**about: Any) -> Files:
    """A checkpoint of a few kilobytes, for tests that are not about size."""
    shape = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        **about,
    }
    return checkpoint(shape, words=600)


def head(target: str = "org/big", words: int = WORDS, own: int = 32_000) -> Files:
    """An EAGLE-3 head in the speculators format, with its table of ids filled."""
    layer = config(words, **{**BIG, "num_hidden_layers": 1})
    wide = layer["hidden_size"]
    about = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_version": "0.3.0",
        "draft_vocab_size": own,
        "norm_before_residual": True,
        "transformer_layer_config": layer,
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3}],
            "verifier": {"name_or_path": target, "architectures": ["LlamaForCausalLM"]},
        },
    }
    rows: dict[str, tuple[str, tuple[int, ...]]] = {
        "d2t": ("I64", (own,)),
        "t2d": ("BOOL", (layer["vocab_size"],)),
        "fc.weight": ("BF16", (wide, 3 * wide)),
        "layers.0.hidden_norm.weight": ("BF16", (wide,)),
        "layers.0.self_attn.q_proj.weight": ("BF16", (wide, 2 * wide)),
        "lm_head.weight": ("BF16", (own, wide)),
    }
    marked = bytes([1]) * own + bytes(layer["vocab_size"] - own)
    return {
        "README.md": "# A head\n",
        "config.json": json.dumps(about, indent=2),
        "model.safetensors": safetensors(rows, {"t2d": marked}),
    }


def gguf_keys(words: int = WORDS, seed: int = 0, **changes: Any) -> dict[str, tuple[str, Any]]:
    """The metadata of a llama GGUF with this vocabulary."""
    tokens, merges = vocabulary(words, seed)
    texts = [*tokens, *SPECIALS]
    return {
        "general.architecture": ("string", "llama"),
        "general.name": ("string", "A model"),
        "llama.block_count": ("uint32", 80),
        "llama.context_length": ("uint32", 131072),
        "llama.embedding_length": ("uint32", 8192),
        "llama.feed_forward_length": ("uint32", 28672),
        "llama.attention.head_count": ("uint32", 64),
        "llama.attention.head_count_kv": ("uint32", 8),
        "llama.attention.layer_norm_rms_epsilon": ("float32", 1e-5),
        "tokenizer.ggml.model": ("string", "gpt2"),
        "tokenizer.ggml.pre": ("string", "qwen2"),
        "tokenizer.ggml.tokens": ("array[string]", texts),
        "tokenizer.ggml.token_type": ("array[int32]", [1] * len(tokens) + [3] * len(SPECIALS)),
        "tokenizer.ggml.merges": ("array[string]", [f"{a} {b}" for a, b in merges]),
        "tokenizer.ggml.bos_token_id": ("uint32", words),
        "tokenizer.ggml.eos_token_id": ("uint32", words + 1),
        "tokenizer.chat_template": ("string", "{{ messages }}" * 100),
        **changes,
    }


def gguf_tensors(
    rows: int, kind: str = "Q4_K", layers: int = 80, wide: int = 8192, deep: int = 28672
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The tensors of a llama of the given shape; about 40 GB as it stands."""
    shapes = {
        "attn_q": (wide, wide),
        "attn_k": (wide, wide // 8),
        "attn_v": (wide, wide // 8),
        "attn_output": (wide, wide),
        "ffn_gate": (wide, deep),
        "ffn_up": (wide, deep),
        "ffn_down": (deep, wide),
    }
    found = {"token_embd.weight": (kind, (wide, rows)), "output.weight": (kind, (wide, rows))}
    found["output_norm.weight"] = ("F32", (wide,))
    for layer in range(layers):
        found |= {f"blk.{layer}.{name}.weight": (kind, dims) for name, dims in shapes.items()}
        for name in ("attn_norm", "ffn_norm"):
            found[f"blk.{layer}.{name}.weight"] = ("F32", (wide,))
    return found


def gguf(words: int = WORDS, seed: int = 0, **changes: Any) -> Virtual:
    """One GGUF of 40 GB with real metadata."""
    keys = gguf_keys(words, seed, **changes)
    return Virtual(*make.gguf_header(keys, gguf_tensors(words + len(SPECIALS))))


def small_gguf(words: int = 600, **changes: Any) -> Virtual:
    """A GGUF with a small vocabulary and one narrow layer."""
    shape = {
        "llama.block_count": ("uint32", 1),
        "llama.context_length": ("uint32", 2048),
        "llama.embedding_length": ("uint32", 256),
        "llama.feed_forward_length": ("uint32", 256),
        "llama.attention.head_count": ("uint32", 8),
        "llama.attention.head_count_kv": ("uint32", 1),
    }
    keys = gguf_keys(words, **{**shape, **changes})
    rows = gguf_tensors(words + len(SPECIALS), "F16", 1, 256, 256)
    return Virtual(*make.gguf_header(keys, rows))


def split_gguf(stem: str, count: int = 3, words: int = WORDS, seed: int = 0) -> Files:
    """A GGUF in so many parts: all metadata in the first, tensors spread over all."""
    rows = gguf_tensors(words + len(SPECIALS))
    names = list(rows)
    files: Files = {}
    for number in range(count):
        mine = names[len(names) * number // count : len(names) * (number + 1) // count]
        keys = gguf_keys(words, seed) if number == 0 else {}
        keys |= {
            "split.no": ("uint16", number),
            "split.count": ("uint16", count),
            "split.tensors.count": ("int32", len(names)),
        }
        part = f"{stem}-{number + 1:05d}-of-{count:05d}.gguf"
        files[part] = Virtual(*make.gguf_header(keys, {name: rows[name] for name in mine}))
    return files
