"""Facts as JSON: what `inspect --output` writes and a model reference reads back."""

from __future__ import annotations

import json
import math
import struct
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from draftcheck import atomic
from draftcheck.errors import ReadError
from draftcheck.models.readers import jsonfile
from draftcheck.models.readers.gguf.header import SCALARS
from draftcheck.models.readers.tokenizer.vocabulary import MAX_ID
from draftcheck.models.sources.folder import FolderSource
from draftcheck.values.facts import NO_TOKEN, GgufArray, ModelFacts, Tensor

FORMAT = 1
_SETS = ("added", "byte_tokens", "padding", "special", "unnormalized")
_NOT_SAVED = {"definition", "download", "downloaded"}
"""Paths and commands of the machine that read the model: never written, and never believed."""
_CODES = {label: "B" if code == "?" else code for label, code, _ in SCALARS.values()}
_LONGEST_TEXT = 4096
_LARGEST = 2**300
"""Sizes of hostile files are sums of products; this much still fits a float."""


def to_text(raw: bytes) -> str:
    """Bytes-exact text: whatever is not UTF-8 survives as an escape."""
    return raw.decode("utf-8", "surrogateescape")


def to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def dump(facts: ModelFacts, *, whole: bool) -> dict[str, Any]:
    """A JSON-ready object; token texts and tensors only when whole (they are large)."""
    out: dict[str, Any] = {}
    for field in fields(facts):
        value = getattr(facts, field.name)
        if is_dataclass(value):
            if group := _group(value, whole):
                out[field.name] = group
        elif not _empty(value) and not (whole and field.name in _NOT_SAVED):
            out[field.name] = _plain(value)
    return out if whole else {name: _cut(value) for name, value in out.items()}


def save(facts: ModelFacts, path: Path) -> None:
    """Write a facts file, whole or not at all."""
    body = json.dumps({"draftcheck_facts": FORMAT, **dump(facts, whole=True)}, ensure_ascii=True)
    atomic.write(path, body.encode("ascii") + b"\n")


def load(path: Path, ref: str) -> ModelFacts:
    """Read a facts file back; strict about what it does not know."""
    source = FolderSource(path.parent, only=(path.name,), named=True)
    root = jsonfile.parse(source.read(path.name, jsonfile.MAX_TOKENIZER), ref)
    if not isinstance(root, dict) or "draftcheck_facts" not in root:
        raise ReadError(f"{ref}: not a facts file (draftcheck inspect MODEL --output FILE)")
    form = jsonfile.shallow_object(root, ref)["draftcheck_facts"]
    if form is True or form != FORMAT:
        raise ReadError(f"{ref}: facts format {str(form)[:40]}; this version reads {FORMAT}")
    name = root.get("name", jsonfile.text(root.get("ref")))
    return from_dict({**root, "ref": ref, "name": name}, ref)


def from_dict(root: Mapping[str, Any], where: str) -> ModelFacts:
    """Facts from an object as dump() makes it; absent fields were not read."""
    values = {key: value for key, value in root.items() if key != "draftcheck_facts"}
    values.setdefault("kind", "facts")
    facts: ModelFacts = _make(ModelFacts, values, where)
    if (facts.config.vocab_size or 0) > MAX_ID:
        raise ReadError(f"{where}: config: vocab_size {facts.config.vocab_size} is not sensible")
    count = len(facts.tokenizer.tokens or ())
    for name in _SETS:
        ids = getattr(facts.tokenizer, name)
        if ids and not 0 <= min(ids) <= max(ids) < count:
            raise ReadError(f"{where}: tokenizer: {name} has ids that no token has")
    return facts


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, tuple | frozenset | dict) and not value)


def _group(group: Any, whole: bool) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field in fields(group):
        value = getattr(group, field.name)
        # A GGUF without keys has them: none. Weights without faults were looked at.
        if value is None or (_empty(value) and field.name not in ("keys", "faults")):
            continue
        if field.name in ("tokens", "tensors") and not whole:
            continue
        if field.name in _NOT_SAVED and whole:
            continue
        if field.name in _SETS and not whole:
            out[field.name] = len(value)
            continue
        if field.name == "keys":
            value = {key: gguf_value(entry, whole) for key, entry in value.items()}
        out[field.name] = _plain(value)
    return out


def gguf_value(entry: tuple[str, Any], whole: bool = True) -> list[Any]:
    """A key's type and value as JSON; long arrays and texts are counted unless whole."""
    kind, value = entry
    if isinstance(value, GgufArray):
        return [kind, {"count": value.count, **({"sha256": value.sha256} if value.sha256 else {})}]
    if isinstance(value, array):
        kept = whole or len(value) <= 64
        return [kind, _plain(value.tolist()) if kept else {"count": len(value)}]
    if isinstance(value, bytes) and not whole and len(value) > 200:
        return [kind, {"bytes": len(value)}]
    return [kind, _plain(value)]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return to_text(value)
    if isinstance(value, frozenset):
        return sorted(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {to_text(k) if isinstance(k, bytes) else str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _cut(value: Any) -> Any:
    """A report is read by people and their tools: no text in it goes on for megabytes."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else value[:_LONGEST_TEXT] + "…"
    if isinstance(value, dict):
        return {_cut(name): _cut(entry) for name, entry in value.items()}
    return [_cut(entry) for entry in value] if isinstance(value, list) else value


def _gguf_entry(entry: Any, where: str) -> tuple[str, Any]:
    """A key's type and value; the value must be one that the type can hold."""
    kind, value = entry
    inner = kind.removeprefix("array[").removesuffix("]")
    if kind not in (inner, f"array[{inner}]") or inner not in (*_CODES, "string"):
        raise ValueError(f"{kind[:40]!r} is not a type of GGUF")
    if kind == "string":
        return kind, to_bytes(value)
    if kind == "bool" and not isinstance(value, bool):
        raise ValueError(f"{str(value)[:40]!r} is not a bool")
    if kind == inner:
        number = math.nan if value is None and kind.startswith("float") else value
        struct.pack(_CODES[kind], number)
        return kind, number
    if isinstance(value, dict):
        return kind, _make(GgufArray, {"type": inner, **value}, f"{where}: keys")
    if inner == "string":
        return kind, [to_bytes(text) for text in value]
    if isinstance(value, array):
        return kind, value
    if None in value:
        value = [math.nan if number is None else number for number in value]
    return kind, array(_CODES[inner], value)


def repeated(kind: str, runs: Iterable[tuple[int, int]]) -> array[Any]:
    """The array of this type that holds each number so many times."""
    inner = kind.removeprefix("array[").removesuffix("]")
    if kind == inner or inner not in _CODES:
        raise ValueError(f"{kind[:40]!r} is not a type of numbers")
    whole = array(_CODES[inner])
    for number, times in runs:
        whole.extend(array(_CODES[inner], (number,)) * times)
    return whole


def _make(kind: type, values: Mapping[str, Any], where: str) -> Any:
    """An object of that class, if the values are of the types that its fields have."""
    hints = _hints(kind)
    if unknown := sorted(set(values) - hints.keys()):
        raise ReadError(f"{where}: unknown field {unknown[0][:80]!r}")
    fixed = {}
    for name, value in values.items():
        try:
            fixed[name] = _value(value, hints[name], f"{where}: {name}")
        except (TypeError, AttributeError):
            raise ReadError(f"{where}: {name} is not of the type that inspect writes") from None
        except (ValueError, OverflowError, struct.error) as error:
            raise ReadError(f"{where}: not in the form that inspect writes: {error}") from None
    try:
        return kind(**fixed)
    except TypeError as error:
        raise ReadError(f"{where}: {error}") from None


@cache
def _hints(kind: type) -> dict[str, Any]:
    return {name: hint for name, hint in get_type_hints(kind).items() if name not in _NOT_SAVED}


def _value(value: Any, hint: Any, where: str) -> Any:
    """What a field of this type holds, from JSON; a TypeError for what it cannot hold."""
    origin, inner = get_origin(hint), get_args(hint)
    record: bool = is_dataclass(hint)
    if hint is Any:
        return value
    if origin is UnionType:  # something, or None
        return None if value is None else _value(value, inner[0], where)
    if hint is int:
        fits = type(value) is int and NO_TOKEN <= value < _LARGEST
    elif origin in (tuple, frozenset, Sequence):
        fits = isinstance(value, list | tuple)
    else:
        fits = isinstance(value, dict if origin is Mapping or record else hint)
    if not fits:
        raise TypeError
    if origin is Sequence:  # token texts
        return [None if text is None else to_bytes(text) for text in value]
    if origin is tuple and inner[-1] is not Ellipsis:
        return _gguf_entry(value, where)
    if origin in (tuple, frozenset):
        return origin(_value(entry, inner[0], where) for entry in value)
    if origin is Mapping:
        return {name: _value(entry, inner[1], where) for name, entry in value.items()}
    made = _make(hint, value, where) if record else value
    if isinstance(made, Tensor):
        sides = made.shape
        if len(sides) > 64 or min(sides, default=0) < 0 or math.prod(sides) >= _LARGEST:
            raise ValueError("a tensor of impossible shape")
    return made
