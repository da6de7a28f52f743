"""What a model is called without its size, its tuning and its packing: to search by."""

from __future__ import annotations

import re

PACKED = re.compile(
    r"[-_.](gguf|awq|gptq|exl[23]|mlx|fp8|fp16|bf16|nvfp4|mxfp[48]|fp4|int[48]|w\d+a\d+|bnb|quantized"
    r"|[348]-?bit|i1|q\d\w*|autoround|hf|dynamic|unsloth)(?=$|[-_.])",
    re.IGNORECASE,
)
SIZE = re.compile(r"[-_.](?:\d+x)?(?:a|e)?\d+(?:\.\d+)?[bmt](?=$|[-_.])", re.IGNORECASE)
MINOR = re.compile(r"(\d)\.\d+$")
TOY = re.compile(r"tiny[-_.]?random|random[-_.]?tiny|internal[-_.]testing|dummy", re.IGNORECASE)
"""Models for tests of software: their weights are random numbers."""
SHORTEST = 3


def short(name: str) -> str:
    """Cut org/Qwen3-32B-AWQ to Qwen3-32B: the name that heads and repacks of it carry."""
    last = name.replace("\\", "/").rstrip("/").split("/")[-1].removesuffix(".gguf")
    previous = ""
    while previous != last:
        previous, last = last, PACKED.sub("", last)
    # Some who repack write org_name.
    return last.rpartition("_")[2] if re.fullmatch(r"[A-Za-z]+_[A-Z][\w.-]+", last) else last


def family(name: str) -> str:
    """Cut Qwen/Qwen2.5-72B-Instruct to Qwen2: what comes before the size and minor version."""
    whole = short(name)
    size = SIZE.search(whole)
    stem = whole[: size.start()] if size else whole
    stem = MINOR.sub(r"\1", stem).strip("-_.")
    return stem if len(stem) >= SHORTEST else whole


def mentions(text: str, name: str) -> bool:
    """Whether a name is in a text as words of its own: Qwen3-8B is not in Qwen3-8B0."""
    if len(name) < SHORTEST:
        return False
    words = re.escape(name.lower()).replace("_", "[-_.]").replace(r"\-", "[-_.]")
    return re.search(rf"(?<![a-z0-9]){words}(?![a-z0-9])", text.lower()) is not None
