"""Models for benchmarks: vocabularies of any size, as folders and as GGUF files.

Texts are made up, but as long and as mixed as real ones; target and draft differ in one
special token, so that nothing can be answered by comparing files.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Iterator
from pathlib import Path

SYLLABLES = [
    a + b for a in "bcdfghjklmnprstvwz" for b in ("a", "e", "i", "o", "u", "än", "ør", "ши", "语")
]


def words() -> Iterator[tuple[str, list[str]]]:
    """Distinct tokens, shortest first, each with the two tokens that it is merged from."""
    for letter in sorted({letter for syllable in SYLLABLES for letter in syllable} | {"Ġ"}):
        yield letter, []
    for syllable in SYLLABLES:
        for end in range(2, len(syllable) + 1):
            if end == len(syllable) or not any(s == syllable[:end] for s in SYLLABLES):
                yield syllable[:end], [syllable[: end - 1], syllable[end - 1]]
    for length in itertools.count(1):
        for parts in itertools.product(SYLLABLES, repeat=length):
            word = "".join(parts)
            if length > 1:
                yield word, [word[: -len(parts[-1])], parts[-1]]
            yield "Ġ" + word, ["Ġ", word]


def vocabulary(size: int, special: str) -> tuple[list[str], list[list[str]]]:
    """Token texts in order of id, and the merges."""
    table: dict[str, list[str]] = {}
    for text, parts in words():
        table.setdefault(text, parts)
        if len(table) == size - 2:
            break
    return [*table, "<|end|>", special], [parts for parts in table.values() if parts]


def folders(path: Path, size: int, times: int = 1, last: str = "<|b|>") -> tuple[Path, Path]:
    """Target and draft as checkpoint folders without weights; the merges several times over.

    last: the draft's last special token; the target's is <|a|>.
    """
    return (
        _folder(path / "target", *vocabulary(size, "<|a|>"), times),
        _folder(path / "draft", *vocabulary(size, last), times),
    )


def _folder(path: Path, texts: list[str], merges: list[list[str]], times: int) -> Path:
    path.mkdir(parents=True)
    specials = [
        {"id": len(texts) - 2 + i, "content": text, "special": True, "normalized": False,
         "single_word": False, "lstrip": False, "rstrip": False}
        for i, text in enumerate(texts[-2:])
    ]  # fmt: skip
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    model = {
        "type": "BPE",
        "vocab": {text: i for i, text in enumerate(texts[:-2])},
        "merges": merges * times,
    }
    body = {
        "version": "1.0",
        "added_tokens": specials,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": model,
    }
    text = json.dumps(body, indent=2, ensure_ascii=False)  # as the tokenizers library writes it
    (path / "tokenizer.json").write_text(text, encoding="utf-8")
    config(path, len(texts))
    names = {"eos_token": "<|end|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (path / "tokenizer_config.json").write_text(json.dumps(names), encoding="utf-8")
    return path


def config(path: Path, rows: int) -> None:
    """Write the config.json of a small Llama with so many tokens."""
    body = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": rows,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 1,
        "max_position_embeddings": 2048,
    }
    (path / "config.json").write_text(json.dumps(body), encoding="utf-8")


def ggufs(path: Path, size: int, times: int = 1, last: str = "<|b|>") -> tuple[Path, Path]:
    """The same as GGUF files that hold a vocabulary and nothing else."""
    path.mkdir(parents=True)
    found = []
    for name, special in (("target", "<|a|>"), ("draft", last)):
        texts, merges = vocabulary(size, special)
        file = path / f"{name}.gguf"
        file.write_bytes(_gguf(texts, [" ".join(parts) for parts in merges * times]))
        found.append(file)
    return found[0], found[1]


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _array(name: str, kind: int, count: int, body: bytes) -> bytes:
    return _string(name) + struct.pack("<IIQ", 9, kind, count) + body


def _gguf(texts: list[str], lines: list[str]) -> bytes:
    types = [1] * (len(texts) - 2) + [3, 3]
    keys = [
        _string("general.architecture") + struct.pack("<I", 8) + _string("llama"),
        *(_string(f"llama.{name}") + struct.pack("<II", 4, value) for name, value in (
            ("context_length", 2048), ("embedding_length", 64), ("block_count", 1),
            ("feed_forward_length", 64), ("attention.head_count", 4))),
        _string("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5),
        _string("tokenizer.ggml.model") + struct.pack("<I", 8) + _string("gpt2"),
        _string("tokenizer.ggml.pre") + struct.pack("<I", 8) + _string("gpt-2"),
        _array("tokenizer.ggml.tokens", 8, len(texts), b"".join(map(_string, texts))),
        _array("tokenizer.ggml.token_type", 5, len(types), struct.pack(f"<{len(types)}i", *types)),
        _array("tokenizer.ggml.merges", 8, len(lines), b"".join(map(_string, lines))),
        _string("tokenizer.ggml.eos_token_id") + struct.pack("<II", 4, len(texts) - 2),
    ]  # fmt: skip
    return struct.pack("<IIQQ", 0x46554747, 3, 0, len(keys)) + b"".join(keys)
