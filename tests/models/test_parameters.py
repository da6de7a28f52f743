"""Parameters of packed weights: a 7B model is 7B, however it is quantised."""

from __future__ import annotations

from typing import Any

import pytest

from draftcheck.models.readers.weights import quantised
from draftcheck.values.facts import Tensor

PLAIN = 4096 * 4096 + 32000 * 64


def tensors(**shapes: tuple[str, tuple[int, ...]]) -> dict[str, Tensor]:
    whole = {"model.embed_tokens.weight": ("F16", (32000, 64)), **shapes}
    return {
        name.replace("__", "."): Tensor(d, s, "m.safetensors") for name, (d, s) in whole.items()
    }


CASES: dict[str, tuple[dict[str, Any] | None, dict[str, Any]]] = {
    "plain": (None, {"q__weight": ("BF16", (4096, 4096))}),
    "awq": (
        {"quant_method": "awq", "bits": 4},
        {"q__qweight": ("I32", (4096, 512)), "q__qzeros": ("I32", (32, 512)),
         "q__scales": ("F16", (32, 4096))},
    ),
    "gptq": (
        {"quant_method": "gptq", "bits": 8},
        {"q__qweight": ("I32", (1024, 4096)), "q__g_idx": ("I32", (4096,))},
    ),
    "bitsandbytes": (
        {"quant_method": "bitsandbytes", "load_in_4bit": True},
        {"q__weight": ("U8", (4096 * 2048, 1)), "q__weight__absmax": ("U8", (262144,)),
         "q__weight__quant_state__bitsandbytes__nf4": ("U8", (90,))},
    ),
    "compressed-tensors": (
        {"quant_method": "compressed-tensors",
         "config_groups": {"group_0": {"weights": {"num_bits": 4}}}},
        {"q__weight_packed": ("I32", (4096, 512)), "q__weight_shape": ("I64", (2,)),
         "q__weight_scale": ("BF16", (4096, 32))},
    ),
    "fp8": (
        {"quant_method": "fp8"},
        {"q__weight": ("F8_E4M3", (4096, 4096)), "q__weight_scale_inv": ("F32", (32, 32))},
    ),
    "mxfp4": (
        {"quant_method": "mxfp4"},
        {"q_blocks": ("U8", (4096, 128, 16)), "q_scales": ("U8", (4096, 128))},
    ),
    "nvfp4": (
        {"quant_method": "modelopt", "quant_algo": "NVFP4"},
        {"q__weight": ("U8", (4096, 2048)), "q__weight_scale": ("F8_E4M3", (4096, 256)),
         "q__weight_scale_2": ("F32", ()), "q__input_scale": ("F32", ())},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_packed_weights_count_as_what_they_hold(name: str) -> None:
    quantization, shapes = CASES[name]
    assert quantised.count_parameters(tensors(**shapes), quantization) == PLAIN


def test_an_unknown_packing_is_not_guessed() -> None:
    there = tensors(q__trellis=("I16", (256, 256, 64)))
    assert quantised.count_parameters(there, {"quant_method": "exl3"}) is None
    assert quantised.count_parameters(there, {"quant_method": "gptq"}) is not None
    packed = tensors(q__qweight=("I32", (4096, 512)))
    assert quantised.count_parameters(packed, {"quant_method": "gptq"}) is None, (
        "bits are not stated"
    )
    assert quantised.count_parameters(None, None) is None
