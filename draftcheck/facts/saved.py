"""Facts as JSON: what `inspect --output` writes and a model reference reads back."""

from __future__ import annotations

import dataclasses
import json
import math
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from draftcheck.errors import ReadError
from draftcheck.facts import jsonfile
from draftcheck.sources.folder import FolderSource
from draftcheck.types import (
    ConfigFacts,
    Conversion,
    GgufArray,
    GgufFacts,
    ModelFacts,
    Tensor,
    TokenizerFacts,
    WeightFacts,
    WeightFile,
)

FORMAT = 1
_GROUPS: dict[str, type] = {
    "tokenizer": TokenizerFacts,
    "config": ConfigFacts,
    "weights": WeightFacts,
    "gguf": GgufFacts,
    "conversion": Conversion,
}
_SETS = {"padding", "added", "special", "unnormalized", "byte_tokens"}
_TUPLES = {"architectures", "layer_kinds", "eos_token_ids", "generation_eos_ids", "problems"}


def to_text(raw: bytes) -> str:
    """Bytes-exact text: whatever is not UTF-8 survives as an escape."""
    return raw.decode("utf-8", "surrogateescape")


def to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def dump(facts: ModelFacts, *, whole: bool) -> dict[str, Any]:
    """A JSON-ready object; token texts and tensors only when whole (they are large)."""
    out: dict[str, Any] = {}
    for field in dataclasses.fields(facts):
        value = getattr(facts, field.name)
        if field.name in _GROUPS:
            if value is not None and (group := _group(value, whole)):
                out[field.name] = group
        elif not _empty(value):
            out[field.name] = _plain(value)
    return out


def save(facts: ModelFacts, path: Path) -> None:
    """Write a facts file, whole or not at all."""
    body = json.dumps({"draftcheck_facts": FORMAT, **dump(facts, whole=True)}, ensure_ascii=True)
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(body + "\n", encoding="ascii")
    temporary.replace(path)


def load(path: Path, ref: str) -> ModelFacts:
    """Read a facts file back; strict about what it does not know."""
    source = FolderSource(path.parent, only=(path.name,))
    root = jsonfile.parse(source.read(path.name, jsonfile.MAX_TOKENIZER), ref)
    if not isinstance(root, dict) or "draftcheck_facts" not in root:
        raise ReadError(f"{ref}: not a facts file (draftcheck inspect MODEL --output FILE)")
    if root["draftcheck_facts"] != FORMAT:
        raise ReadError(f"{ref}: facts format {root['draftcheck_facts']!r}; this version reads 1")
    return from_dict({**root, "ref": ref}, ref)


def from_dict(root: Mapping[str, Any], where: str) -> ModelFacts:
    """Facts from an object as dump() makes it; absent fields were not read."""
    values = {key: value for key, value in root.items() if key != "draftcheck_facts"}
    values.setdefault("kind", "facts")
    for name, kind in _GROUPS.items():
        if isinstance(values.get(name), dict):
            values[name] = _build(kind, values[name], f"{where}: {name}")
    facts: ModelFacts = _make(ModelFacts, values, where, tuples={"notes"})
    return facts


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, tuple | frozenset | dict) and not value)


def _group(group: Any, whole: bool) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field in dataclasses.fields(group):
        value = getattr(group, field.name)
        if _empty(value):
            continue
        if field.name in ("tokens", "tensors") and not whole:
            continue
        if field.name == "definition" and whole:
            continue  # a path of this machine
        if field.name in _SETS and not whole:
            out[field.name] = len(value)
            continue
        if field.name == "keys":
            value = {key: _gguf_value(entry, whole) for key, entry in value.items()}
        out[field.name] = _plain(value)
    return out


def _gguf_value(entry: tuple[str, Any], whole: bool) -> list[Any]:
    kind, value = entry
    if isinstance(value, GgufArray):
        return [kind, {"count": value.count, **({"sha256": value.sha256} if value.sha256 else {})}]
    if isinstance(value, array):
        return [kind, value.tolist() if whole or len(value) <= 64 else {"count": len(value)}]
    if isinstance(value, bytes) and not whole and len(value) > 200:
        return [kind, {"bytes": len(value)}]
    return [kind, _plain(value)]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return to_text(value)
    if isinstance(value, frozenset):
        return sorted(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {to_text(k) if isinstance(k, bytes) else str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _build(kind: type, values: Mapping[str, Any], where: str) -> Any:
    fixed = dict(values)
    try:
        if isinstance(fixed.get("tokens"), list):
            fixed["tokens"] = [None if t is None else to_bytes(t) for t in fixed["tokens"]]
        if isinstance(fixed.get("tensors"), dict):
            fixed["tensors"] = {
                name: Tensor(t["dtype"], tuple(t["shape"]), t["file"], t.get("nbytes"))
                for name, t in fixed["tensors"].items()
            }
        if isinstance(fixed.get("files"), list):
            fixed["files"] = tuple(WeightFile(**entry) for entry in fixed["files"])
        if isinstance(fixed.get("keys"), dict):
            fixed["keys"] = {name: _gguf_entry(*entry) for name, entry in fixed["keys"].items()}
        for name in _SETS & fixed.keys():
            fixed[name] = frozenset(fixed[name])
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ReadError(f"{where}: not in the form that inspect writes: {error}") from None
    return _make(kind, fixed, where, tuples=_TUPLES)


def _gguf_entry(kind: str, value: Any) -> tuple[str, Any]:
    if kind.startswith("array[") and isinstance(value, dict):
        return kind, GgufArray(kind[6:-1], int(value["count"]), value.get("sha256"))
    if kind == "array[string]":
        return kind, [to_bytes(entry) for entry in value]
    if kind.startswith("array["):
        code = "d" if "float" in kind else "q"
        return kind, array(code, value)
    return kind, to_bytes(value) if kind == "string" else value


def _make(kind: type, values: Mapping[str, Any], where: str, tuples: set[str]) -> Any:
    known = {field.name for field in dataclasses.fields(kind)}
    if unknown := sorted(set(values) - known):
        raise ReadError(f"{where}: unknown field {unknown[0]!r}")
    fixed = {
        name: tuple(value) if name in tuples and isinstance(value, list) else value
        for name, value in values.items()
    }
    try:
        return kind(**fixed)
    except TypeError as error:
        raise ReadError(f"{where}: {error}") from None
