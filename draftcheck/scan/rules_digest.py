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

JUDGING = 8
"""Raise it when the code says something else about the same facts and rules."""
TABLES = ("tables/memory", "gpus", "tables/config-defaults", "tables/llamacpp-architectures")
"""Tables that memory figures come from, whatever the engine."""


@cache
def rules_digest(engine: str) -> str:
    """Equal: this engine's rules, and the code that holds models against them, are the same."""
    return _digest([JUDGING, values_digest(engine)])


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
