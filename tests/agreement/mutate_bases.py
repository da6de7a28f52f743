"""The vocabularies that mutations start from: small ones made here, and real ones if present."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from mutate_gguf import MERGES, Model, read, value

NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE = 1, 2, 3, 5, 6
REAL = (
    "qwen2",
    "llama-bpe",
    "llama-spm",
    "phi-3",
    "gpt-2",
    "mpt",
    "starcoder",
    "refact",
    "deepseek-coder",
)
CONSONANTS = "bcdfghjklmnpqrstvwxz"
SYLLABLES = [c + v for c in CONSONANTS for v in "aeiou"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SIZE = 600


def pre(name: str) -> str:
    """The full name of a tokenizer key."""
    return f"tokenizer.ggml.{name}"


def byte_alphabet() -> list[str]:
    """The printable character that stands for each byte in byte-level BPE, in byte order."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in kept]
    shifted = {byte: chr(256 + index) for index, byte in enumerate(others)}
    return [shifted.get(byte, chr(byte)) for byte in range(256)]


def small_bpe() -> Model:
    """Byte-level BPE: 256 bytes, syllables by merges, ten control tokens at the end."""
    merges = [f"{s[0]} {s[1]}" for s in SYLLABLES]
    merges += [f"\u0120 {s}" for s in SYLLABLES]
    merges += [f"{s} n" for s in SYLLABLES]
    merges += [f"\u0120{s} n" for s in SYLLABLES[:34]]
    texts = byte_alphabet() + [merge.replace(" ", "") for merge in merges]
    control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    control += [f"<|special_{i}|>" for i in range(SIZE - len(texts) - len(control))]
    types = [NORMAL] * len(texts) + [CONTROL] * len(control)
    kv = {
        pre("model"): value("str", "gpt2"),
        pre("pre"): value("str", "qwen2"),
        MERGES: value("[str]", merges),
        pre("bos_token_id"): value("u32", len(texts)),
        pre("eos_token_id"): value("u32", len(texts) + 2),
    }
    return Model(kv, [text.encode() for text in texts + control], types, None)


def small_spm() -> Model:
    """SentencePiece style: three control tokens, 256 byte tokens, pieces with scores."""
    texts = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256
    pieces = ["\u2581" + s for s in SYLLABLES] + SYLLABLES + [s + "n" for s in SYLLABLES]
    pieces += [*LETTERS, "\u2581"]
    pieces += [f"\u2581{s}s" for s in SYLLABLES[: SIZE - len(texts) - len(pieces)]]
    scores = [0.0] * len(texts) + [-float(i) for i in range(len(pieces))]
    kv = {
        pre("model"): value("str", "llama"),
        pre("pre"): value("str", "default"),
        pre("bos_token_id"): value("u32", 1),
        pre("eos_token_id"): value("u32", 2),
        pre("unknown_token_id"): value("u32", 0),
    }
    types += [NORMAL] * len(pieces)
    return Model(kv, [text.encode() for text in texts + pieces], types, scores)


def small_wpm() -> Model:
    """WordPiece: the special tokens at the ids BERT has them."""
    texts = ["[PAD]"] + [f"[unused{i}]" for i in range(99)]
    texts += ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    types = [CONTROL] * len(texts)
    pieces = ["\u2581" + letter for letter in LETTERS + "0123456789.,"]
    pieces += list(LETTERS + "0123456789")
    pieces += ["\u2581" + s for s in SYLLABLES] + SYLLABLES + [s + "n" for s in SYLLABLES]
    pieces += [f"\u2581{s}n" for s in SYLLABLES]
    pieces += [f"\u2581{s}t" for s in SYLLABLES]
    pieces = pieces[: SIZE - len(texts)]
    kv = {
        pre("model"): value("str", "bert"),
        pre("token_type_count"): value("u32", 2),
        pre("bos_token_id"): value("u32", 101),
        pre("eos_token_id"): value("u32", 102),
        pre("seperator_token_id"): value("u32", 102),
        pre("padding_token_id"): value("u32", 0),
        pre("mask_token_id"): value("u32", 103),
    }
    types += [NORMAL] * len(pieces)
    return Model(kv, [text.encode() for text in texts + pieces], types, None)


def small_ugm() -> Model:
    """Unigram, as T5 has it."""
    texts = ["<pad>", "</s>", "<unk>"]
    types = [CONTROL, CONTROL, UNKNOWN]
    pieces = ["\u2581", *LETTERS]
    pieces += ["\u2581" + s for s in SYLLABLES] + SYLLABLES + [s + "n" for s in SYLLABLES]
    pieces += [f"\u2581{s}n" for s in SYLLABLES] + [f"\u2581{s}t" for s in SYLLABLES]
    pieces += [f"{s}t" for s in SYLLABLES]
    pieces = pieces[: SIZE - len(texts)]
    scores = [0.0] * len(texts) + [-2.0 - i / 100 for i in range(len(pieces))]
    kv = {
        pre("model"): value("str", "t5"),
        pre("pre"): value("str", "default"),
        pre("eos_token_id"): value("u32", 1),
        pre("unknown_token_id"): value("u32", 2),
        pre("padding_token_id"): value("u32", 0),
        pre("add_space_prefix"): value("bool", True),
    }
    types += [NORMAL] * len(pieces)
    return Model(kv, [text.encode() for text in texts + pieces], types, scores)


def small_rwkv() -> Model:
    """RWKV: escaped byte strings."""
    texts = ["<s>"] + [f"\\x{byte:02x}" for byte in range(256)]
    texts += SYLLABLES + [s + "n" for s in SYLLABLES] + [s + "t" for s in SYLLABLES]
    texts += [" " + s for s in SYLLABLES]
    texts = texts[:SIZE]
    types = [CONTROL] + [NORMAL] * (len(texts) - 1)
    kv = {pre("model"): value("str", "rwkv")}
    return Model(kv, [text.encode() for text in texts], types, None)


SMALL = {
    "small-bpe": small_bpe,
    "small-spm": small_spm,
    "small-wpm": small_wpm,
    "small-ugm": small_ugm,
    "small-rwkv": small_rwkv,
}


def real_path(name: str) -> Path:
    """Where the real vocabulary of that name should be."""
    folder = Path(os.environ.get("DRAFTCHECK_REALDATA", "."))
    for parent in (folder, folder / "gguf-vocab"):
        if (parent / f"ggml-vocab-{name}.gguf").exists():
            return parent / f"ggml-vocab-{name}.gguf"
    return folder / f"ggml-vocab-{name}.gguf"


def available(name: str) -> bool:
    """Whether this base can be used here."""
    return name in SMALL or real_path(name).exists()


@lru_cache(maxsize=2)
def load(name: str) -> Model:
    """A base by name; copy it before changing it."""
    model = SMALL[name]() if name in SMALL else read(real_path(name))
    model.encoded_tokens()
    return model
