"""Rows of the rulebook -> the checks that they name, with parameters that fit."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from draftcheck.errors import RuleError
from draftcheck.judge.checks import CHECKS
from draftcheck.rulebook import book
from draftcheck.rulebook.book import Engine, RepairRow, Rule

_SOUND: dict[str, Engine] = {}


def engine(name: str) -> Engine:
    """One engine's rules, all of them sound."""
    found = book.load(name)
    if _SOUND.get(name) is not found:
        validate(found)
        _SOUND[name] = found
    return found


@cache
def truth() -> tuple[Rule, ...]:
    """The rules that hold for every engine, all of them sound."""
    _validate(book.truth(), book.truth_repairs(), book.TRUTH)
    return book.truth()


def validate(engine: Engine) -> None:
    """Raise a RuleError where a row names no check, or gives it other parameters than it takes."""
    _validate(engine.rules, engine.repairs, book.engine_files().get(engine.id, engine.id))


def _validate(rules: Iterable[Rule], repairs: Iterable[RepairRow], file: str) -> None:
    for rule in rules:
        _params(rule.check, rule.params, f"{file}.toml [[rule]] {rule.id}")
    for repair in repairs:
        if repair.check is not None:
            _params(repair.check, repair.params, f"{file}.toml [[repair]] {repair.id}")


@cache
def _parameters(check: str) -> dict[str, inspect.Parameter]:
    return {
        name: parameter
        for name, parameter in inspect.signature(CHECKS[check]).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }


def _params(check: str, params: Mapping[str, Any], where: str) -> None:
    """The check exists and takes exactly these parameters, of these types."""
    if check not in CHECKS:
        raise RuleError(f"{where}: there is no check {check!r}")
    known = _parameters(check)
    for name in params:
        if name not in known:
            raise RuleError(f"{where}: check {check!r} has no parameter {name!r}")
    for name, parameter in known.items():
        if name not in params:
            if parameter.default is inspect.Parameter.empty:
                raise RuleError(f"{where}: check {check!r} needs the parameter {name!r}")
            continue
        if not _fits(params[name], str(parameter.annotation)):
            raise RuleError(f"{where}: parameter {name!r} must be {parameter.annotation}")


def _fits(value: Any, annotation: str) -> bool:
    kinds = {"int": int, "str": str, "bool": bool, "float": float}
    annotation = annotation.removesuffix(" | None")
    if annotation == "list[str]":
        return isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    if annotation == "dict[str, str]":
        return isinstance(value, dict) and all(isinstance(v, str) for v in value.values())
    if annotation == "float" and type(value) is int:
        return True
    return type(value) is kinds.get(annotation)
