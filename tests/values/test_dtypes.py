"""One table of the types of numbers: spellings, names, bytes."""

from __future__ import annotations

import pytest

from draftcheck.values.dtypes import ALIASES, BYTES, SHORT, dtype_bytes, dtype_name


@pytest.mark.parametrize(
    ("text", "name", "nbytes"),
    [
        ("bfloat16", "bfloat16", 2),
        ("BF16", "bfloat16", 2),
        ("torch.float16", "float16", 2),
        ("torch.half", "float16", 2),
        ("fp16", "float16", 2),
        ("float", "float32", 4),
        ("f32", "float32", 4),
        ("float64", "float64", 8),
        ("auto", "auto", None),
        ("FP8_e4m3", "fp8_e4m3", None),
    ],
)
def test_spellings(text: str, name: str, nbytes: int | None) -> None:
    assert (dtype_name(text), dtype_bytes(text)) == (name, nbytes)


def test_every_spelling_leads_to_a_type_with_a_size() -> None:
    assert set(ALIASES.values()) <= set(BYTES)
    assert not set(ALIASES) & set(BYTES)
    assert set(SHORT) <= set(ALIASES)
    assert dtype_bytes(None) is None
