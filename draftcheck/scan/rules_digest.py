"""When are stored verdicts out of date? The digest that a store keeps beside each verdict.

A verdict is a function of stored facts, of what the user said, of the rules and of the code. The
first two have digests of their own. The rules are digested as values, after loading: where they
stand and how they are laid out does not matter, and neither does a field that has its default.
Of the code one number speaks, JUDGING, which people raise when verdicts change though no rule
does; fixtures/verdicts.json and its test tell them when that is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from draftcheck.rulebook import book, files

JUDGING = 7
"""Raise it when the code says something else about the same facts and rules."""
TABLES = ("tables/memory", "gpus", "tables/config-defaults", "tables/llamacpp-architectures")
"""Tables that memory figures come from, whatever the engine."""
EARLIER: dict[str, str] = {
    "02fe25ba45d5b6ec70b13ab6df74b1f1446b0297": "1f6ed8efca7890befd062c5cf2064359d9c71a2a",
    "b53639a783d66e54e45f1b0750757a3e1ca82d6c": "acb7d2f4a75c0aa5e2ff04123555e1ac5fa0e5c3",
    "12eaa34a8b2c53c316445ca0028948eb8a222bc3": "6ff87dfb5b394b1b1c02e0e9f155c4016f896c46",
    "be8834d18a7e70a3bb2f81b7b3bad217dc18088a": "9e7f87ee15bd38c0d3ff56634f5ff53ad47a5830",
    "8f1eefefcf12cb8785240816395d3e423b67967e": "5beb3748ebe12cc083d0089599669ae629c9d262",
    "e770267e17941fc8aa6a4bf988f1f8a0125377cc": "495c5fee4eee8a13b85c83746b057ac8ed273200",
    "479a6257a116564e276ed94c9ba6f193b4649129": "bbc3b5fcea65dce57d2f467e9e30f9f09c7d9743",
    "ae1c96029b81cc4cd2e92cec60640f3c420293b0": "127a2eebe4ac964f9cf4fdd8b3dc040958736c83",
    "12a943e30d99d58f1fb17e4ed7dbdeba4c9a3c12": "eadc74aee38e173c23f2ed8ee20fbaa37f0b129b",
    "f0f2b1c285eaa675adda03a81411fddd07cdfd6e": "5fc169e77f043f31f4f70cfdd59094029ba2fb37",
    "090e64fedb6d072f21f20c08e2909e3f28dc7f28": "abffab744719eb25a6d7a03aff45f0799b9697aa",
    "53b85c0ebbc88037c686ce74469092ccaed76bb6": "a3cf407cd1a9bce68b0224508421a7b830fe5c87",
}
"""Digest -> the one that stores of version 0.1.0 hold for the same rules and code: those stores
are not judged anew. Written by `python -m tests.scan.earlier_digests`."""


@cache
def rules_digest(engine: str) -> str:
    """Equal: this engine's rules, and the code that holds models against them, are the same."""
    found = _digest([JUDGING, values_digest(engine)])
    return EARLIER.get(found, found)


def values_digest(engine: str) -> str:
    """Equal: the rules that an engine's verdicts rest on are the same."""
    return _digest([_value(book.load(engine)), _shared()])


@cache
def _shared() -> str:
    tables = [files.read(name, dict) for name in TABLES]
    return _digest(_value([book.truth(), book.truth_repairs(), *tables]))


def _value(found: Any) -> Any:
    """Plain JSON for whatever a rule file is loaded into, without fields that hold a default."""
    if isinstance(found, msgspec.Struct):
        values = {}
        for field in msgspec.structs.fields(found):
            made, value = field.default_factory, getattr(found, field.name)
            if value != (field.default if made is msgspec.NODEFAULT else made()):
                values[field.name] = _value(value)
        return values
    if isinstance(found, Mapping):
        return {str(name): _value(value) for name, value in found.items()}
    if isinstance(found, list | tuple):
        return [_value(entry) for entry in found]
    if isinstance(found, set | frozenset):
        return sorted(map(str, found))
    return found if isinstance(found, int | float | None) else str(found)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:40]
