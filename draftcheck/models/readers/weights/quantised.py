"""What config.json says about quantisation against what is stored, module by module; and how many
parameters the tensors hold, packed ones counted as what they unpack to."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from draftcheck.models.readers.config import text_config
from draftcheck.models.readers.jsonfile import integer, text
from draftcheck.models.readers.weights import families
from draftcheck.models.readers.weights.families import QuantisedModule
from draftcheck.values.facts import Fault, Tensor

PLAIN = frozenset({"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"})
"""Types that store a weight in its own shape; whole numbers may be packed."""
LEAVES = (".qweight", ".weight_packed", ".absmax")
"""Leaves that only a quantised module has."""
LAYER = re.compile(r"(.*\blayers\.|.*\bh\.|.*\bblocks\.)(\d{1,6})\.(.+)")
MTP = re.compile(r"(.*\.)?(mtp|mtp_layers|nextn)\..*")
PATTERN = re.compile(r"^re:|[*?\[]")
LONGEST = 300
MOST = 5
MOST_LISTED = 500
OTHER_LAYOUTS = ("marlin", "marlin-24", "bitblas", "gptq_bitblas", "dense")
"""Formats that pack several modules, or that keep their own names."""
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


def settings(raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The quantisation that the config declares; mlx-lm's own key counts as its method."""
    for place in (raw, text_config(raw)):
        for key in ("quantization_config", "compression_config"):
            if isinstance(place.get(key), dict) and "quant_method" in place[key]:
                return dict(place[key])
    mine = raw.get("quantization")
    return {**mine, "quant_method": "mlx"} if isinstance(mine, dict) and "bits" in mine else None


def compare(
    raw: Mapping[str, Any], tensors: Mapping[str, Tensor], files: Iterable[str]
) -> list[Fault]:
    """Faults that quantisation explains; none for methods that the table does not know."""
    said = settings(raw)
    if said is None:
        return _undeclared(raw, tensors, files)
    method = (text(said.get("quant_method")) or "").lower()
    rows = [row for row in families.table().quantised if method in row.methods]
    layout = str(said.get("checkpoint_format") or said.get("format") or "")
    if not rows or layout in OTHER_LAYOUTS or said.get("is_marlin_format"):
        return []
    modules: dict[str, str] = {}
    faults: list[Fault] = []
    for row in rows:
        end = f".{row.leaf}"
        found = [
            name[: -len(end)]
            for name, tensor in tensors.items()
            if name.endswith(end) and (not row.dtypes or tensor.dtype in row.dtypes)
        ]
        modules |= dict.fromkeys(found, row.leaf)
        faults += _incomplete(row, found, tensors)
    if not modules:
        says = f"config.json says {method[:40]}, but no module is stored in that form"
        return [Fault("not-quantised", "config.json", says)]
    if method in ("awq", "gptq") and not faults:
        faults += _packing(method, said, modules, tensors)
    return faults[:MOST] + _exclusions(said, modules, tensors)


def _incomplete(
    row: QuantisedModule, modules: Sequence[str], tensors: Mapping[str, Tensor]
) -> list[Fault]:
    lacking = []
    for module in modules:
        gone = [leaf for leaf in row.needs if f"{module}.{leaf}" not in tensors]
        if row.one_of and not any(f"{module}.{leaf}" in tensors for leaf in row.one_of):
            gone.append(row.one_of[0])
        if gone:
            lacking.append((module, gone[0]))
    if not lacking:
        return []
    module, leaf = lacking[0]
    name = f"{module}.{row.leaf}"
    says = f"{name[:120]!r} is quantised, but {leaf!r} of that module is not stored"
    more = f" (and {len(lacking) - 1:,} more modules)" if len(lacking) > 1 else ""
    return [Fault("quantised-part", tensors[name].file, says + more, name)]


def _packing(
    method: str, said: Mapping[str, Any], modules: Iterable[str], tensors: Mapping[str, Tensor]
) -> list[Fault]:
    """Widths of qweight and scales follow from bits and group_size."""
    bits = integer(said.get("bits") or said.get("w_bit"))
    group = said.get("group_size", said.get("q_group_size"))
    if bits not in (2, 3, 4, 8) or type(group) is not int or _by_module(said):
        return []
    for module in modules:
        packed, scales = tensors[f"{module}.qweight"], tensors[f"{module}.scales"]
        if len(packed.shape) != 2 or len(scales.shape) != 2 or packed.dtype != "I32":
            continue
        rows, columns = packed.shape
        if method == "awq":
            inputs, outputs = rows, columns * 32 // bits
        else:
            inputs, outputs = rows * 32 // bits, columns
        groups = 1 if group <= 0 else -(-inputs // group)
        if scales.shape != (groups, outputs):
            says = (
                f"{module[:120]!r}: qweight {list(packed.shape)} with {bits} bits in groups of"
                f" {group} needs scales {[groups, outputs]}, stored are {list(scales.shape)}"
            )
            return [Fault("quantised-shape", packed.file, says, f"{module}.scales")]
    return []


def _by_module(said: Mapping[str, Any]) -> bool:
    return any(said.get(key) for key in families.table().excluded.each)


def _exclusions(
    said: Mapping[str, Any], modules: Mapping[str, str], tensors: Mapping[str, Tensor]
) -> list[Fault]:
    """Modules that the list leaves alone and the file does not, or the other way round."""
    lists = [said.get(key) for key in families.table().excluded.keys]
    entries = (entry for found in lists if isinstance(found, list) for entry in found)
    listed = [entry for entry in entries if isinstance(entry, str)][:10_000]
    faults = []
    exact = frozenset(listed)
    both = next((module for module in modules if module in exact), None)
    if both is not None:
        name = f"{both}.{modules[both]}"
        says = f"config.json excludes {both[:120]!r} from quantisation, but it is stored quantised"
        faults.append(Fault("excluded-quantised", tensors[name].file, says, name))
    if _by_module(said):
        return faults
    kinds = {match[3] for module in modules if (match := LAYER.fullmatch(module[:LONGEST]))}
    for name, tensor in tensors.items():
        if not name.endswith(".weight") or tensor.dtype not in PLAIN or len(tensor.shape) != 2:
            continue
        module = name[:-7]
        match = LAYER.fullmatch(module[:LONGEST])
        if module in modules or match is None or match[3] not in kinds:
            continue
        module = module[:LONGEST]
        if module in exact or len(listed) > MOST_LISTED:
            continue
        # Patterns from a file are not run: they may cover all.
        if any(entry in module or PATTERN.search(entry) for entry in listed):
            continue
        says = f"{name[:120]!r} is not quantised, the same module of other layers is, and"
        says += " config.json does not exclude it"
        sure = not listed and "config_groups" not in said and not MTP.match(name[:LONGEST])
        kind = "mixed" if sure else "mixed-doubt"
        return [*faults, Fault(kind, tensor.file, says, name)]
    return faults


def _undeclared(
    raw: Mapping[str, Any], tensors: Mapping[str, Tensor], files: Iterable[str]
) -> list[Fault]:
    named = set(families.table().excluded.files) & set(files)
    if named or "quantization_config" in raw or "quantization" in raw:
        return []
    name = next((name for name in tensors if name.endswith(LEAVES)), None)
    if name is None:
        return []
    says = f"{name[:120]!r} is a part of a quantised module; config.json declares no quantisation"
    return [Fault("undeclared", tensors[name].file, says, name)]


def count_parameters(
    tensors: Mapping[str, Tensor] | None, quantization: Mapping[str, Any] | None
) -> int | None:
    """How many they hold; None: not read, or packed in a way that is not known here."""
    if tensors is None:
        return None
    if quantization is None:
        return sum(math.prod(tensor.shape) for tensor in tensors.values())
    method = str(quantization.get("quant_method", "")).lower()
    if method not in KNOWN:
        return None
    bits = stated_bits(quantization)
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


def stated_bits(quantization: Mapping[str, Any]) -> int | None:
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
