"""Types of numbers: every spelling -> the name that config.json uses, and bytes per number."""

from __future__ import annotations

SHORT = {
    "bf16": "bfloat16", "fp16": "float16", "f16": "float16", "fp32": "float32", "f32": "float32",
}  # fmt: skip
"""Names that people write and that engines' options do not know."""
ALIASES = {**SHORT, "half": "float16", "float": "float32", "double": "float64"}
BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


def dtype_name(text: str) -> str:
    """torch.bfloat16, bf16 -> bfloat16; what is no such type is only written small."""
    word = text.lower().removeprefix("torch.")
    return ALIASES.get(word, word)


def dtype_bytes(text: str | None) -> int | None:
    """Bytes per number; None for nothing, auto, and types that are no plain floats."""
    return BYTES.get(dtype_name(text or ""))
