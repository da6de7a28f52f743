"""Whether the weights of a whole model are complete: names, shapes and quantisation together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from draftcheck.models.readers.config import text_config
from draftcheck.models.readers.weights import names, quantised
from draftcheck.values.facts import Fault, WeightFacts


def look(weights: WeightFacts, raw: Mapping[str, Any], files: Iterable[str]) -> WeightFacts:
    """The same facts with the faults that only the config can show."""
    tensors = weights.tensors
    if not tensors or weights.faults is None or weights.nbytes is None:
        return weights  # a file is missing or unreadable: what it held is not known
    found = names.compare(raw, tensors, weights.origin.get("format", ""))
    faults = [*weights.faults, *quantised.compare(raw, tensors, files), *(found or ())]
    known = None if found is None else "table"
    return replace(weights, faults=promises(faults, raw, found), class_known=known)


def promises(
    faults: Iterable[Fault], raw: Mapping[str, Any], found: Iterable[Fault] | None
) -> tuple[Fault, ...]:
    """A tensor that only the index knows matters where the class asks for it."""
    wanted = {fault.tensor for fault in found or ()}
    kept = []
    for fault in faults:
        if fault.kind != "not-stored":
            kept.append(fault)
        elif fault.tensor in wanted:
            continue  # said already, with its shape
        elif found is not None or _tied_head(fault.tensor or "", raw):
            kept.append(replace(fault, kind="not-needed"))
        else:
            kept.append(fault)
    return tuple(kept)


def _tied_head(name: str, raw: Mapping[str, Any]) -> bool:
    flags = [place.get("tie_word_embeddings") for place in (text_config(raw), raw)]
    return "lm_head" in name and flags[0] is not False and flags[1] is not False
