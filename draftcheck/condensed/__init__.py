"""Facts in a few kilobytes, from which every verdict can still be worked out.

For the gate's lock and the scan's store: digests and fingerprints instead of vocabularies, tensor
names folded by pattern. What only both vocabularies together tell is kept per pair, as notes.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from draftcheck import compare as whole
from draftcheck.condensed import notes as pair
from draftcheck.condensed import ranges, tables, tensors
from draftcheck.errors import ReadError
from draftcheck.facts import saved
from draftcheck.llama.vocab import BYTE, TOKEN_TYPES
from draftcheck.types import Comparison, GgufArray, ModelFacts, TokenizerFacts

FORMAT = 1
SETS = ("padding", "added", "special", "unnormalized", "byte_tokens")
_NO_SETS: dict[str, Any] = dict.fromkeys(SETS, frozenset())
LONGEST = 200
"""Bytes of a GGUF text that are kept: chat templates are not, their digest is."""


def fingerprint(facts: ModelFacts) -> str | None:
    """A digest of the token texts by id: equal means the same vocabulary."""
    return tables.fingerprint(facts.tokenizer)


def family(facts: ModelFacts) -> str | None:
    """The same without special and added tokens: drafts are looked for among its members."""
    return tables.family(facts.tokenizer)


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
    out: dict[str, Any] = {"condensed": FORMAT, **saved.dump(light, whole=True)}
    if table := tables.pack(facts.tokenizer, _byte_typed(facts)):
        out["table"] = table
    for name in SETS:
        if ids := getattr(facts.tokenizer, name):
            out.setdefault("ids", {})[name] = ranges.pack(ids)
    if facts.weights.tensors is not None:
        out["tensors"] = tensors.fold(facts.weights.tensors)
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
        runs = ranges.pack_runs(value.tolist())
        if len(runs) <= 256:
            return [kind, {"runs": runs}]
        value = GgufArray(kind, len(value), hashlib.sha256(value.tobytes()).hexdigest())
    elif isinstance(value, array | list) and len(value) > 64:
        value = GgufArray(kind, len(value))
    if isinstance(value, bytes) and len(value) > LONGEST:
        value = b"sha256:" + hashlib.sha256(value).hexdigest().encode()
    return saved.gguf_value((kind, value))


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
    facts = saved.from_dict({**values, "ref": ref}, ref)
    tokenizer = _tokenizer(facts.tokenizer, entry, ref)
    weights = facts.weights
    if "tensors" in entry:
        weights = replace(weights, tensors=tensors.unfold(entry["tensors"], ref))
    return replace(facts, tokenizer=tokenizer, weights=weights)


def _tokenizer(tokenizer: TokenizerFacts, entry: Mapping[str, Any], ref: str) -> TokenizerFacts:
    if "table" not in entry:
        return tokenizer
    table = tables.unpack(entry["table"], ref)
    ids = entry.get("ids", {})
    if not isinstance(ids, Mapping):
        raise ReadError(f"{ref}: ids are not an object")
    sets: dict[str, Any] = {name: frozenset(ranges.unpack(ids.get(name, ""), ref)) for name in SETS}
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
        found[name] = [entry[0], ranges.unpack_runs(runs, ref)] if runs is not None else entry
    return found


def pair_notes(comparison: Comparison) -> dict[str, Any]:
    """What the two condensed models do not tell by themselves; empty where they tell it all."""
    target = restore(condense(comparison.target), comparison.target.ref)
    draft = target
    if not comparison.alone:
        draft = restore(condense(comparison.draft), comparison.draft.ref)
    return pair.take(comparison, compare(target, draft))


def compare(
    target: ModelFacts, draft: ModelFacts, notes: Mapping[str, Any] | None = None
) -> Comparison:
    """Hold two restored models side by side; unknown where only the texts would tell."""
    if notes:
        return pair.apply(target, draft, notes)
    ours, theirs = target.tokenizer, draft.tokenizer
    digests = [getattr(tokens, "digest", None) for tokens in (ours.tokens, theirs.tokens)]
    if draft is target or None in digests or digests[0] == digests[1]:
        return whole.compare(target, draft)
    return whole.compare(_without_texts(target), _without_texts(draft))


def _without_texts(facts: ModelFacts) -> ModelFacts:
    return replace(facts, tokenizer=replace(facts.tokenizer, tokens=None))
