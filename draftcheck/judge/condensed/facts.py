"""One model's facts -> a JSON-ready object of a few kB, and back."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from typing import Annotated, Any

from msgspec import Meta, Struct

from draftcheck.errors import ReadError
from draftcheck.judge.condensed import decode, folded_tensors, pack_ids, token_tables, unpack_ids
from draftcheck.judge.llama.vocab import BYTE, TOKEN_TYPES
from draftcheck.models import stored
from draftcheck.values.facts import GgufArray, ModelFacts

FORMAT = 1
LONGEST = 200
"""Bytes of a GGUF text that are kept: chat templates are not, their digest is."""
MOST_VALUES = 1 << 22
"""Numbers in all arrays of a GGUF file that are kept as runs."""


class IdSets(Struct, forbid_unknown_fields=True):
    """Sets of ids of a tokenizer, as ranges."""

    padding: str = ""
    added: str = ""
    special: str = ""
    unnormalized: str = ""
    byte_tokens: str = ""


SETS = IdSets.__struct_fields__


class NumberRun(Struct, array_like=True, forbid_unknown_fields=True):
    """The same value so many times in a row."""

    value: int
    times: Annotated[int, Meta(gt=0, le=MOST_VALUES)]


def fingerprint(facts: ModelFacts) -> str | None:
    """A digest of the token texts by id: equal means the same vocabulary."""
    return token_tables.fingerprint(facts.tokenizer)


def family(facts: ModelFacts) -> str | None:
    """The same without special and added tokens: drafts are looked for among its members."""
    return token_tables.family(facts.tokenizer)


def condense(facts: ModelFacts) -> dict[str, Any]:
    """A JSON-ready object of a few kB."""
    no_sets: dict[str, Any] = dict.fromkeys(SETS, frozenset())
    light = replace(
        facts,
        tokenizer=replace(facts.tokenizer, tokens=None, **no_sets),
        config=replace(facts.config, origin={}),
        weights=replace(facts.weights, tensors=None, origin={}),
        gguf=facts.gguf and replace(facts.gguf, keys={}),
        origin={},
        gated=None,  # no verdict depends on it
    )
    out: dict[str, Any] = {"condensed": FORMAT, **stored.dump(light, whole=True)}
    kinds = facts.gguf.keys.get(TOKEN_TYPES, ("", None))[1] if facts.gguf else None
    kinds = kinds if isinstance(kinds, array) else ()
    byte_typed = [i for i, kind in enumerate(kinds) if kind == BYTE]
    if table := token_tables.pack(facts.tokenizer, byte_typed):
        out["table"] = table
    for name in SETS:
        if ids := getattr(facts.tokenizer, name):
            out.setdefault("ids", {})[name] = pack_ids(ids)
    if facts.weights.tensors is not None:
        out["tensors"] = folded_tensors.fold(facts.weights.tensors)
    if facts.gguf is not None:
        out["keys"] = {key: _key(entry) for key, entry in facts.gguf.keys.items()}
    return out


def _key(entry: tuple[str, Any]) -> list[Any]:
    kind, value = entry
    if isinstance(value, array) and len(value) > 64 and value.typecode in "bBhHiIlLqQ":
        runs = [[number, len(list(same))] for number, same in groupby(value)]
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
    own = ("condensed", "table", "ids", "tensors", "keys")
    values = {name: value for name, value in entry.items() if name not in own}
    if isinstance(values.get("gguf"), Mapping):
        values["gguf"] = {**values["gguf"], "keys": _keys(entry.get("keys", {}), ref)}
    facts = stored.from_dict({**values, "ref": ref}, ref)
    tokenizer, weights = facts.tokenizer, facts.weights
    if "table" in entry:
        table = token_tables.unpack(entry["table"], ref)
        ids = decode(entry.get("ids", {}), IdSets, f"{ref}: ids")
        sets: dict[str, Any] = {
            name: frozenset(unpack_ids(getattr(ids, name), f"{ref}: {name}", len(table)))
            for name in SETS
        }
        tokenizer = replace(tokenizer, tokens=table, **sets)
    if "tensors" in entry:
        weights = replace(weights, tensors=folded_tensors.FoldedTensors(entry["tensors"], ref))
    return replace(facts, tokenizer=tokenizer, weights=weights)


def _keys(keys: object, ref: str) -> dict[str, Any]:
    """GGUF keys as facts in full have them, runs of numbers spelled out."""
    found = decode(keys, dict[str, tuple[str, Any]], f"{ref}: GGUF keys")
    values = 0
    for name, (kind, value) in found.items():
        if isinstance(value, dict) and "runs" in value:
            runs = decode(value["runs"], list[NumberRun], f"{ref}: GGUF keys: runs")
            values += sum(run.times for run in runs)
            if values > MOST_VALUES:
                raise ReadError(f"{ref}: GGUF keys: so many values are not sensible")
            try:
                found[name] = kind, stored.repeated(kind, ((run.value, run.times) for run in runs))
            except (ValueError, OverflowError, TypeError) as error:
                raise ReadError(f"{ref}: GGUF keys: {name[:40]!r}: {error}") from None
    return found
