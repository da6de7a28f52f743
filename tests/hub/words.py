"""Vocabularies of real size, made up: tokens, merges, tokenizer.json, the arrays of a GGUF."""

from __future__ import annotations

import json
import random
from functools import lru_cache

from tests import make

SPECIALS = ("<|begin|>", "<|end|>", "<|pad|>", "<|user|>", "<|assistant|>")


@lru_cache(maxsize=4)
def vocabulary(size: int, seed: int = 0) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """So many byte-level tokens, and the merges that make them from the 256 bytes."""
    tokens = list(make.byte_vocabulary())
    ends = random.Random(seed).sample(tokens, 6)
    merges = []
    for left in tokens:  # grows while it is walked: longer and longer words
        if len(tokens) >= size:
            break
        for right in ends[: size - len(tokens)]:
            tokens.append(left + right)
            merges.append((left, right))
    return tuple(tokens), tuple(merges)


@lru_cache(maxsize=4)
def tokenizer_json(size: int = 151_643, seed: int = 0) -> bytes:
    """A byte-level BPE tokenizer.json, laid out as the tokenizers library writes it."""
    tokens, merges = vocabulary(size, seed)
    table = {token: number for number, token in enumerate(tokens)}
    frame = make.tokenizer({"\0": size - 1}, added=SPECIALS)
    frame["model"] = {**frame["model"], "vocab": "VOCAB", "merges": "MERGES"}
    rows = ",\n".join(
        f"      {json.dumps(token, ensure_ascii=False)}: {number}"
        for token, number in table.items()
    )
    pairs = ",\n".join(
        "      [\n        {},\n        {}\n      ]".format(
            *(json.dumps(part, ensure_ascii=False) for part in pair)
        )
        for pair in merges
    )
    text = json.dumps(frame, indent=2, ensure_ascii=False)
    text = text.replace('"VOCAB"', "{\n" + rows + "\n    }")
    return text.replace('"MERGES"', "[\n" + pairs + "\n    ]").encode()


TOKENIZER_CONFIG = {
    "bos_token": SPECIALS[0],
    "eos_token": SPECIALS[1],
    "pad_token": SPECIALS[2],
    "tokenizer_class": "PreTrainedTokenizerFast",
    "model_max_length": 32768,
}
