"""Checks on what the GPU can do: types of numbers, quantisations, the architectures built for.

Without a named GPU they do not apply. Capabilities are written as engines do: 75 for 7.5.
Tables that change with the version: name -> "since:value since:value …", oldest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from draftcheck import versions
from draftcheck.judge.checks.listed import is_listed
from draftcheck.judge.checks.outcomes import fail, not_applicable, ok, unknown, unread_config
from draftcheck.values.comparison import Comparison
from draftcheck.values.dtypes import dtype_name
from draftcheck.values.facts import ModelFacts
from draftcheck.values.verdicts import EngineSetup
from draftcheck.values.words import CheckOutcome

NO_GPU = "no GPU with a known compute capability was named"


def capability_at_least(
    comparison: Comparison, setup: EngineSetup, *, floor: int, above: int = 0
) -> CheckOutcome:
    """Fail when the GPU is older than that; it does not apply to those older than above."""
    given = capability(setup)
    if given is None or given < above:
        return not_applicable(NO_GPU if given is None else _gpu(setup))
    words = f"{_gpu(setup)}, the limit is {_dotted(floor)}"
    return fail(words) if given < floor else ok(words)


def dtype_capability(
    comparison: Comparison, setup: EngineSetup, *, dtype: str, floor: int, automatic: bool
) -> CheckOutcome:
    """Fail when that type of numbers is asked for on a GPU that lacks it.

    automatic: the type that the target's config names counts too, where the user names none.
    """
    given = capability(setup)
    if given is None:
        return not_applicable(NO_GPU)
    wanted = asked(setup)
    source = "--dtype"
    if wanted is None:
        if not automatic:
            return not_applicable("no --dtype given")
        wanted, source = comparison.target.config.dtype, "config.json of the target"
    if wanted is None:
        return unknown("the target's dtype was not read")
    words = f"{wanted} ({source}) on {_gpu(setup)}"
    return fail(words) if wanted == dtype and given < floor else ok(words)


def dtype_is_kept(
    comparison: Comparison, setup: EngineSetup, *, dtype: str, floor: int
) -> CheckOutcome:
    """Fail when the engine takes another type than the target's own because the GPU lacks it."""
    given = capability(setup)
    if given is None or asked(setup) is not None:
        return not_applicable(NO_GPU if given is None else "--dtype says it")
    own = comparison.target.config.dtype
    if own is None:
        return unknown("the target's dtype was not read")
    words = f"the target is stored as {own}, {_gpu(setup)}"
    return fail(words) if own == dtype and given < floor else ok(words)


def type_takes_dtype(
    comparison: Comparison, setup: EngineSetup, *, dtype: str, floor: int, refusing: dict[str, str]
) -> CheckOutcome:
    """Fail when a side's model type refuses the type of numbers that both will be loaded in.

    The draft is loaded in the target's type. floor: below it bfloat16 becomes float16, but for
    targets that refuse it.
    """
    wanted = asked(setup)
    if wanted is None:
        given = capability(setup)
        wanted = comparison.target.config.dtype
        if _refuses(comparison.target, refusing, setup):
            return not_applicable("the engine picks a type that the target takes")
        if wanted == "bfloat16" and given is not None and given < floor:
            wanted = "float16"
    if wanted != dtype:
        return not_applicable(f"computes in {wanted or 'a type that was not read'}")
    for side, facts in comparison.sides:
        if name := _refuses(facts, refusing, setup):
            return fail(f"{side} model_type is {name}, computes in {wanted}")
    return unread_config(comparison.sides, "model_type") or ok(f"no side refuses {wanted}")


def quantization_capability(
    comparison: Comparison, setup: EngineSetup, *, floors: dict[str, str]
) -> CheckOutcome:
    """Fail when a side's quantisation needs a newer GPU; the table holds "since:floor"."""
    given = capability(setup)
    if given is None:
        return not_applicable(NO_GPU)
    told = []
    for side, facts in comparison.sides:
        for kind, floor in _entries(facts, floors, setup):
            words = f"{side} is {kind}, which needs {_dotted(int(floor))}; {_gpu(setup)}"
            if given < int(floor):
                return fail(words)
            told.append(words)
    if doubt := unread_config(comparison.sides):
        return doubt
    return ok(told[0]) if told else not_applicable("no quantisation with a floor")


def quantization_dtype(
    comparison: Comparison, setup: EngineSetup, *, dtypes: dict[str, str]
) -> CheckOutcome:
    """Fail when a side's quantisation does not compute in the type that --dtype asks for.

    The table holds "since:type,type".
    """
    wanted = asked(setup)
    if wanted is None:
        return not_applicable("no --dtype given")
    told = []
    for side, facts in comparison.sides:
        for kind, allowed in _entries(facts, dtypes, setup):
            words = f"{side} is {kind}, which computes in {allowed.replace(',', ' or ')}"
            if wanted not in allowed.split(","):
                return fail(f"{words}; --dtype says {wanted}")
            told.append(words)
    if doubt := unread_config(comparison.sides):
        return doubt
    return ok(told[0]) if told else not_applicable("no quantisation that is choosy")


def kv_dtype_capability(
    comparison: Comparison, setup: EngineSetup, *, starts: str, floor: int
) -> CheckOutcome:
    """Fail when a KV cache of that type is asked for on a GPU that cannot read it."""
    given = capability(setup)
    if given is None or setup.kv_dtype is None:
        return not_applicable(NO_GPU if given is None else "no --kv-dtype given")
    words = f"KV cache {setup.kv_dtype} on {_gpu(setup)}"
    return fail(words) if setup.kv_dtype.startswith(starts) and given < floor else ok(words)


def type_capability(
    comparison: Comparison, setup: EngineSetup, *, types: dict[str, str], floor: int
) -> CheckOutcome:
    """Fail when a side's model type is one that such a GPU cannot run; table: type -> "since"."""
    given = capability(setup)
    if given is None:
        return not_applicable(NO_GPU)
    if given >= floor:
        return not_applicable(f"{_gpu(setup)}")
    for side, facts in comparison.sides:
        if name := _refuses(facts, types, setup):
            return fail(f"{side} model_type is {name}, {_gpu(setup)}")
    return unread_config(comparison.sides, "model_type") or ok(
        "no model type that is known to fail on such a GPU"
    )


def capability(setup: EngineSetup) -> int | None:
    """7.5 -> 75; None where no GPU, or only an amount of memory, was named."""
    return None if setup.capability is None else setup.capability[0] * 10 + setup.capability[1]


def asked(setup: EngineSetup) -> str | None:
    """What --dtype says, in the spelling of config.json; None for nothing or auto."""
    name = dtype_name(setup.dtype or "auto")
    return None if name == "auto" else name


def kinds(facts: ModelFacts) -> tuple[str, ...]:
    """Names of a model's quantisation, the most exact first: modelopt/nvfp4, then modelopt."""
    quantization = facts.config.quantization
    if not quantization:
        return ()
    method = str(quantization.get("quant_method") or "")
    exact = [*_groups(quantization), str(quantization.get("quant_algo") or "").lower()]
    return (*(f"{method}/{name}" for name in exact if name), method)


def _entries(
    facts: ModelFacts, table: Mapping[str, str], setup: EngineSetup
) -> Iterator[tuple[str, str]]:
    """The table's entries for a model: the exact ones, else that of the method."""
    *exact, method = kinds(facts) or ("",)
    found = [(kind, _value(table, kind, setup)) for kind in exact]
    if not any(value for _, value in found):
        found = [(method, _value(table, method, setup))]
    yield from ((kind, value) for kind, value in found if value is not None)


def _value(table: Mapping[str, str], name: str, setup: EngineSetup) -> str | None:
    return versions.value_at(setup.order, setup.version, table.get(name, ""))


def _groups(quantization: Mapping[str, Any]) -> Iterator[str]:
    """int4, int8-int8, float8-float8 …: weights and activations of compressed-tensors groups."""
    groups = quantization.get("config_groups")
    found = set()
    for group in groups.values() if isinstance(groups, dict) else ():
        if isinstance(group, dict):
            parts = [_scheme(group.get(name)) for name in ("weights", "input_activations")]
            found.add("-".join(part for part in parts if part))
    yield from sorted(found)


def _scheme(part: object) -> str:
    if not isinstance(part, dict):
        return ""
    return f"{str(part.get('type') or 'int')[:8]}{str(part.get('num_bits') or '')[:4]}"


def _refuses(facts: ModelFacts, table: Mapping[str, str], setup: EngineSetup) -> str | None:
    for name in (facts.config.outer_type, facts.config.model_type):
        if name is not None and is_listed(name, table, setup):
            return name
    return None


def _gpu(setup: EngineSetup) -> str:
    return f"{setup.gpu or 'the GPU'} has compute capability {_dotted(capability(setup) or 0)}"


def _dotted(number: int) -> str:
    return f"{number // 10}.{number % 10}"


def dtype_spelling(
    comparison: Comparison, setup: EngineSetup, *, choices: list[str]
) -> CheckOutcome:
    """Fail when --dtype is not one of the engine's own words."""
    if setup.dtype is None:
        return not_applicable("no --dtype given")
    words = f"--dtype {setup.dtype}"
    return ok(words) if setup.dtype in choices else fail(words)
