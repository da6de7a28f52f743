"""Small models on disk for tests: folders and GGUF files, with everything adjustable."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from draftcheck.models.readers.weights.families import ExpectedParameters, ParameterPattern

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 260,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 2048,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "bos_token_id": 256,
    "eos_token_id": 257,
    "dtype": "bfloat16",
}
SPECIALS = ("<s>", "</s>", "<pad>", "<unk>")


def byte_vocabulary() -> dict[str, int]:
    """The 256 characters of the byte-level alphabet."""
    from draftcheck.models.readers.tokenizer.vocabulary import byte_level

    return {byte_level(bytes([byte])).decode(): byte for byte in range(256)}


def tokenizer(
    vocab: Mapping[str, int] | None = None,
    added: Sequence[str] = SPECIALS,
    merges: Sequence[object] = (),
    **changes: Any,
) -> dict[str, Any]:
    """A byte-level BPE tokenizer.json."""
    table = dict(vocab or byte_vocabulary())
    first = max(table.values()) + 1
    body = {
        "version": "1.0",
        "added_tokens": [
            {
                "id": first + i,
                "content": text,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for i, text in enumerate(added)
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "post_processor": {
            "type": "ByteLevel",
            "add_prefix_space": True,
            "trim_offsets": False,
            "use_regex": True,
        },
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": True,
            "trim_offsets": True,
            "use_regex": True,
        },
        "model": {"type": "BPE", "vocab": table, "merges": list(merges)},
    }
    return {**body, **changes}


def folder(
    path: Path,
    *,
    config: Mapping[str, Any] | None = None,
    tokenizer_json: Mapping[str, Any] | None = None,
    tokenizer_config: Mapping[str, Any] | None = None,
    rows: int | None = None,
    layers: int | None = None,
    **changes: Any,
) -> Path:
    """A checkpoint folder with sound (all-zero) weights, complete for classes that are known."""
    path.mkdir(parents=True, exist_ok=True)
    whole = {**CONFIG, **(config or {}), **changes}
    if layers is not None:
        whole["num_hidden_layers"] = layers
    write_json(path / "config.json", whole)
    write_json(path / "tokenizer.json", tokenizer_json or tokenizer())
    write_json(
        path / "tokenizer_config.json",
        tokenizer_config
        if tokenizer_config is not None
        else {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"},
    )
    safetensors(path / "model.safetensors", weights(whole, rows))
    return path


def parameters_of(found: ExpectedParameters) -> dict[str, tuple[int, ...] | None]:
    """All parameters that a class asks for with their shapes, in the first spelling."""

    def spelled(line: ParameterPattern) -> list[str]:
        if line.after is None:
            return [line.before]
        return [f"{line.before}{expert}{line.after}" for expert in range(found.experts)]

    prefix = found.prefixes[0]
    names = {f"{prefix}{name}": line.shape for line in found.root for name in spelled(line)}
    for number in range(found.layers):
        base = f"{prefix}{found.stack}.{number}."
        for group in found.of_layer(number):
            for line in group[0]:
                names |= {f"{base}{name}": line.shape for name in spelled(line)}
    head = found.head[1:] if found.tied else found.head
    return names | {name: line.shape for line in head for name in spelled(line)}


def weights(config: Mapping[str, Any], rows: int | None = None) -> dict[str, tuple[str, list[int]]]:
    """Every parameter that the class asks for; a few where the class is not known."""
    from draftcheck.models.readers.config import text_config
    from draftcheck.models.readers.weights import families

    model = families.model(text_config(config), config)
    if model is None:
        rows = rows if rows is not None else int(config.get("vocab_size", 260))
        hidden = int(config["hidden_size"])
        return {
            "model.embed_tokens.weight": ("BF16", [rows, hidden]),
            "model.layers.0.mlp.up_proj.weight": ("BF16", [128, hidden]),
        }
    names = {name: list(shape or ()) for name, shape in parameters_of(model).items()}
    if rows is not None:
        names[model.prefixes[0] + model.root[0].before][0] = rows
    return {name: ("BF16", shape) for name, shape in names.items()}


BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4, "I16": 16,
    "U16": 16, "BF16": 16, "F16": 16, "F32": 32, "I32": 32, "U32": 32, "I64": 64, "F64": 64,
}  # fmt: skip


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def safetensors(path: Path, tensors: Mapping[str, tuple[str, Sequence[int]]]) -> None:
    """A sound file whose data is a hole of zeros."""
    header: dict[str, Any] = {}
    offset = 0
    for name, (dtype, shape) in tensors.items():
        bits = BITS[dtype]
        for side in shape:
            bits *= side
        size = bits // 8
        header[name] = {
            "dtype": dtype,
            "shape": list(shape),
            "data_offsets": [offset, offset + size],
        }
        offset += size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + offset)


def gguf(
    path: Path,
    tokens: Sequence[str | bytes] | None = None,
    *,
    keys: Mapping[str, tuple[str, Any]] | None = None,
    types: Sequence[int] | None = None,
    rows: int | None = None,
    drop: Sequence[str] = (),
) -> Path:
    """A one-layer llama GGUF; keys are (GGUF type, value) and replace the usual ones."""
    texts = [t.encode() if isinstance(t, str) else t for t in tokens or gguf_tokens()]
    whole: dict[str, tuple[str, Any]] = {
        "general.architecture": ("string", "llama"),
        "llama.context_length": ("uint32", 2048),
        "llama.embedding_length": ("uint32", 32),
        "llama.block_count": ("uint32", 1),
        "llama.feed_forward_length": ("uint32", 32),
        "llama.attention.head_count": ("uint32", 2),
        "llama.attention.layer_norm_rms_epsilon": ("float32", 1e-5),
        "tokenizer.ggml.model": ("string", "gpt2"),
        "tokenizer.ggml.pre": ("string", "gpt-2"),
        "tokenizer.ggml.tokens": ("array[string]", texts),
        "tokenizer.ggml.token_type": ("array[int32]", list(types or [1] * len(texts))),
        "tokenizer.ggml.merges": ("array[string]", ["a b"]),
        "tokenizer.ggml.bos_token_id": ("uint32", len(texts) - 2),
        "tokenizer.ggml.eos_token_id": ("uint32", len(texts) - 1),
        **(keys or {}),
    }
    for name in drop:
        whole.pop(name, None)
    write_gguf(path, whole, gguf_tensors(rows if rows is not None else len(texts)))
    return path


def gguf_tensors(rows: int) -> dict[str, tuple[int, ...]]:
    """Everything that llama.cpp asks of a one-layer llama of width 32."""
    square = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    return {
        "token_embd.weight": (32, rows),
        "output_norm.weight": (32,),
        "blk.0.attn_norm.weight": (32,),
        "blk.0.ffn_norm.weight": (32,),
        **{f"blk.0.{name}.weight": (32, 32) for name in square},
    }


def gguf_tokens(count: int = 300) -> list[str]:
    return [f"t{i}" for i in range(count - 2)] + ["<s>", "</s>"]


_CODES = {
    "uint8": (0, "B"), "int8": (1, "b"), "uint16": (2, "H"), "int16": (3, "h"),
    "uint32": (4, "I"), "int32": (5, "i"), "float32": (6, "f"), "bool": (7, "?"),
    "string": (8, ""), "uint64": (10, "Q"), "int64": (11, "q"), "float64": (12, "d"),
}  # fmt: skip


def _value(kind: str, value: Any) -> bytes:
    if kind == "string":
        raw = value.encode() if isinstance(value, str) else value
        return struct.pack("<Q", len(raw)) + raw
    return struct.pack("<" + _CODES[kind][1], value)


GGML = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144)}
"""ggml's number, elements of a block, bytes of a block."""


def write_gguf(
    path: Path,
    keys: Mapping[str, tuple[str, Any]],
    tensors: Mapping[str, tuple[int, ...]],
) -> None:
    """Write keys and F32 tensors of zeros, in the layout of ggml's own writer."""
    body, size = gguf_header(keys, {name: ("F32", dims) for name, dims in tensors.items()})
    with path.open("wb") as file:
        file.write(body)
        file.truncate(size)


def gguf_header(
    keys: Mapping[str, tuple[str, Any]], tensors: Mapping[str, tuple[str, tuple[int, ...]]]
) -> tuple[bytes, int]:
    """Everything in front of the tensor data, and the size of the whole file."""
    out = [struct.pack("<IIQQ", 0x46554747, 3, len(tensors), len(keys))]
    for name, (kind, value) in keys.items():
        out.append(_value("string", name))
        if kind.startswith("array["):
            inner = kind[6:-1]
            out.append(struct.pack("<IIQ", 9, _CODES[inner][0], len(value)))
            out.append(b"".join(_value(inner, entry) for entry in value))
        else:
            out.append(struct.pack("<I", _CODES[kind][0]) + _value(kind, value))
    offset = 0
    for name, (kind, dims) in tensors.items():
        number, block, size = GGML[kind]
        out.append(_value("string", name) + struct.pack("<I", len(dims)))
        out.append(struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", number, offset))
        elements = 1
        for side in dims:
            elements *= side
        offset += (elements // block * size + 31) // 32 * 32
    body = b"".join(out)
    return body, (len(body) + 31) // 32 * 32 + offset
