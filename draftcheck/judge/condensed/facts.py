"""One model's facts -> a JSON-ready object of a few kB, and back."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from draftcheck.errors import ReadError
from draftcheck.judge.condensed import folded_tensors, id_ranges, token_tables
from draftcheck.judge.llama.vocab import BYTE, TOKEN_TYPES
from draftcheck.models import stored
from draftcheck.values.facts import GgufArray, ModelFacts, TokenizerFacts

FORMAT = 1
SETS = ("padding", "added", "special", "unnormalized", "byte_tokens")
_NO_SETS: dict[str, Any] = dict.fromkeys(SETS, frozenset())
LONGEST = 200
"""Bytes of a GGUF text that are kept: chat templates are not, their digest is."""


def fingerprint(facts: ModelFacts) -> str | None:
    """A digest of the token texts by id: equal means the same vocabulary."""
    return token_tables.fingerprint(facts.tokenizer)


def family(facts: ModelFacts) -> str | None:
    """The same without special and added tokens: drafts are looked for among its members."""
    return token_tables.family(facts.tokenizer)


def condense(facts: ModelFacts) -> dict[str, Any]:
    """A JSON-ready object of a few kB."""
    light = replace(
        facts,
        tokenizer=replace(facts.tokenizer, tokens=None, **_NO_SETS),
        config=replace(facts.config, origin={}),
        weights=replace(facts.weights, tensors=None, origin={}),
        gguf=facts.gguf and replace(facts.gguf, keys={}),
        origin={},
    )
    out: dict[str, Any] = {"condensed": FORMAT, **stored.dump(light, whole=True)}
    if table := token_tables.pack(facts.tokenizer, _byte_typed(facts)):
        out["table"] = table
    for name in SETS:
        if ids := getattr(facts.tokenizer, name):
            out.setdefault("ids", {})[name] = id_ranges.pack(ids)
    if facts.weights.tensors is not None:
        out["tensors"] = folded_tensors.fold(facts.weights.tensors)
    if facts.gguf is not None:
        out["keys"] = {key: _key(entry) for key, entry in facts.gguf.keys.items()}
    return out


def _byte_typed(facts: ModelFacts) -> list[int]:
    types = facts.gguf.keys.get(TOKEN_TYPES, ("", None))[1] if facts.gguf else None
    if not isinstance(types, array):
        return []
    return [i for i, kind in enumerate(types) if kind == BYTE]


def _key(entry: tuple[str, Any]) -> list[Any]:
    kind, value = entry
    if isinstance(value, array) and len(value) > 64 and value.typecode in "bBhHiIlLqQ":
        runs = id_ranges.pack_runs(value.tolist())
        if len(runs) <= 256:
            return [kind, {"runs": runs}]
        value = GgufArray(kind, len(value), hashlib.sha256(value.tobytes()).hexdigest())
    elif isinstance(value, array | list) and len(value) > 64:
        value = GgufArray(kind, len(value))
    if isinstance(value, bytes) and len(value) > LONGEST:
        value = b"sha256:" + hashlib.sha256(value).hexdigest().encode()
    return stored.gguf_value((kind, value))


def restore(entry: object, ref: str) -> ModelFacts:
    """Facts again, with stand-ins for most token texts; a ReadError for nonsense."""
    if not isinstance(entry, Mapping) or entry.get("condensed") != FORMAT:
        raise ReadError(f"{ref}: not facts that this version condenses")
    values = {
        name: value
        for name, value in entry.items()
        if name not in ("condensed", "table", "ids", "tensors", "keys")
    }
    if isinstance(values.get("gguf"), Mapping):
        values["gguf"] = {**values["gguf"], "keys": _keys(entry.get("keys", {}), ref)}
    facts = stored.from_dict({**values, "ref": ref}, ref)
    tokenizer = _tokenizer(facts.tokenizer, entry, ref)
    weights = facts.weights
    if "tensors" in entry:
        weights = replace(weights, tensors=folded_tensors.unfold(entry["tensors"], ref))
    return replace(facts, tokenizer=tokenizer, weights=weights)


def _tokenizer(tokenizer: TokenizerFacts, entry: Mapping[str, Any], ref: str) -> TokenizerFacts:
    if "table" not in entry:
        return tokenizer
    table = token_tables.unpack(entry["table"], ref)
    ids = entry.get("ids", {})
    if not isinstance(ids, Mapping):
        raise ReadError(f"{ref}: ids are not an object")
    sets: dict[str, Any] = {
        name: frozenset(id_ranges.unpack(ids.get(name, ""), ref)) for name in SETS
    }
    if any(max(found, default=0) >= max(len(table), 1) for found in sets.values()):
        raise ReadError(f"{ref}: ids that no token has")
    return replace(tokenizer, tokens=table, **sets)


def _keys(keys: object, ref: str) -> dict[str, Any]:
    if not isinstance(keys, Mapping):
        raise ReadError(f"{ref}: GGUF keys are not an object")
    found = {}
    for name, entry in keys.items():
        sound = isinstance(entry, list) and len(entry) == 2
        runs = entry[1].get("runs") if sound and isinstance(entry[1], Mapping) else None
        found[name] = [entry[0], id_ranges.unpack_runs(runs, ref)] if runs is not None else entry
    return found
