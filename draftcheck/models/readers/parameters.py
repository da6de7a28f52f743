"""How many parameters the tensors hold: packed ones counted as what they unpack to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from draftcheck.models.readers.jsonfile import integer
from draftcheck.values.facts import Tensor

WIDTHS = {"I64": 64, "I32": 32, "U32": 32, "I16": 16, "U16": 16, "I8": 8, "U8": 8}
PACKED = ("qweight", "weight_packed")
BESIDE = (
    "qzeros", "scales", "g_idx", "weight_scale", "weight_scale_inv", "weight_scale_2",
    "weight_zero_point", "weight_shape", "weight_g_idx", "weight_global_scale", "input_scale",
    "input_global_scale", "k_scale", "v_scale", "absmax", "quant_map", "nested_absmax",
    "nested_quant_map", "weight_format", "SCB",
)  # fmt: skip
"""What quantisation stores beside the weights."""
KNOWN = (
    "awq", "gptq", "awq_marlin", "gptq_marlin", "auto-round", "bitsandbytes", "compressed-tensors",
    "fp8", "fbgemm_fp8", "mxfp4", "modelopt",
)  # fmt: skip


def count(
    tensors: Mapping[str, Tensor] | None, quantization: Mapping[str, Any] | None
) -> int | None:
    """None: not read, or packed in a way that is not known here."""
    if tensors is None:
        return None
    if quantization is None:
        return sum(math.prod(tensor.shape) for tensor in tensors.values())
    method = str(quantization.get("quant_method", "")).lower()
    if method not in KNOWN:
        return None
    bits = _bits(quantization)
    total = 0
    for name, tensor in tensors.items():
        found = _one(name, tensor, bits)
        if found is None:
            return None
        total += found
    return total


def _one(name: str, tensor: Tensor, bits: int | None) -> int | None:
    last = name.rpartition(".")[2]
    if last in BESIDE or ".quant_state." in name or last.endswith("_scales"):
        return 0
    size = math.prod(tensor.shape)
    width = WIDTHS.get(tensor.dtype)
    if last in PACKED:
        return size * width // bits if width and bits else None
    if last.endswith("_blocks") and tensor.dtype == "U8":  # MXFP4: two in a byte
        return size * 2
    if width == 8 and bits == 4:  # bitsandbytes and NVFP4: two in a byte
        return size * 2
    return size


def _bits(quantization: Mapping[str, Any]) -> int | None:
    """Bits of one weight, wherever the method writes them."""
    for name in ("bits", "w_bit"):
        if found := _small(quantization.get(name)):
            return found
    if quantization.get("load_in_4bit") or quantization.get("_load_in_4bit"):
        return 4
    if "4" in str(quantization.get("quant_algo", "")):  # modelopt: NVFP4, W4A16 …
        return 4
    groups = quantization.get("config_groups")
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        if isinstance(weights, dict) and (found := _small(weights.get("num_bits"))):
            return found
    return None


def _small(value: Any) -> int | None:
    number = integer(value)
    return number if number is not None and 1 <= number <= 16 else None
