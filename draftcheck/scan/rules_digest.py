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

JUDGING = 1
"""Raise it when the code says something else about the same facts and rules."""
TABLES = ("tables/memory", "gpus", "tables/config-defaults", "tables/llamacpp-architectures")
"""Tables that memory figures come from, whatever the engine."""
EARLIER: dict[str, str] = {
    "d45ba04ae07400804b3f21f4c67e208a3fe6f188": "1f6ed8efca7890befd062c5cf2064359d9c71a2a",
    "2b6c4a1b84e986779bf17654bb8f05f4f647a2d3": "acb7d2f4a75c0aa5e2ff04123555e1ac5fa0e5c3",
    "c41fc25fc1cbe54b8ea5808d8b267e5a24bfae04": "6ff87dfb5b394b1b1c02e0e9f155c4016f896c46",
    "ce4d16ab4ea51cab934771143a504477a0645c5a": "9e7f87ee15bd38c0d3ff56634f5ff53ad47a5830",
    "21acec45a0baff0ec641b849ce3fd5a1af5e06bb": "5beb3748ebe12cc083d0089599669ae629c9d262",
    "8290c4744b10365c7e886c52486eb157e7e0590c": "495c5fee4eee8a13b85c83746b057ac8ed273200",
    "8f8fd767f0becff3831e450d6964b52523a87737": "bbc3b5fcea65dce57d2f467e9e30f9f09c7d9743",
    "03f7ccac7a1a40312e0fcc147ff0831ff3c82e8d": "127a2eebe4ac964f9cf4fdd8b3dc040958736c83",
    "0d3e026667f2f7a5d99186cb75477d5a1f5113d5": "eadc74aee38e173c23f2ed8ee20fbaa37f0b129b",
    "908306df0228a52742af47a2469eee7da58c0337": "5fc169e77f043f31f4f70cfdd59094029ba2fb37",
    "656420089e0278988ed525d4723e467a835085b2": "abffab744719eb25a6d7a03aff45f0799b9697aa",
    "5ea74e084b6ff4a9c9e1e4caaa636bb8cab94c19": "a3cf407cd1a9bce68b0224508421a7b830fe5c87",
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
    """Plain JSON for what a rule file is loaded into; fields with their default are left out."""
    if isinstance(found, msgspec.Struct):
        fields = {field.name: field for field in msgspec.structs.fields(found)}
        return {
            name: _value(value)
            for name, field in fields.items()
            if (value := getattr(found, name)) != _default(field)
        }
    if isinstance(found, Mapping):
        return {str(name): _value(value) for name, value in found.items()}
    if isinstance(found, list | tuple):
        return [_value(entry) for entry in found]
    if isinstance(found, set | frozenset):
        return sorted(map(str, found))
    return found if isinstance(found, int | float | None) else str(found)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    made = field.default_factory
    return field.default if made is msgspec.NODEFAULT else made()


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:40]
