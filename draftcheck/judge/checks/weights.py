"""Checks on the weights themselves: files, tensors, names and shapes."""

from __future__ import annotations

from draftcheck.judge.checks.outcomes import fail, not_applicable, ok
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import ModelFacts
from draftcheck.values.verdicts import EngineSetup
from draftcheck.values.words import CheckOutcome

SHOWN = 3
"""Faults of one kind that are shown; the rest is counted."""


def weights_have_no(
    comparison: Comparison, setup: EngineSetup, *, kinds: list[str]
) -> CheckOutcome:
    """Fail when the files of a side prove one of these faults."""
    found: list[str] = []
    looked = 0
    for side, facts in comparison.sides:
        faults = facts.weights.faults
        if faults is None:
            continue
        looked += 1
        if not faults:
            continue
        mine = [fault for fault in faults if fault.kind in kinds]
        for fault in mine[:SHOWN]:
            found.append(f"{side}: {fault}")
        if len(mine) > SHOWN:
            found.append(f"{side}: {len(mine) - SHOWN} more of this kind")
    if found:
        return fail("; ".join(found))
    return ok("not seen in the headers") if looked else not_applicable("weights not read")


def gguf_table_sound(comparison: Comparison, setup: EngineSetup, *, failure: str) -> CheckOutcome:
    """Fail when a GGUF is broken for every reader; engines that say so themselves are not asked.

    failure: the engine's own word for it, where it has rules for loading.
    """
    sides = [(side, facts) for side, facts in comparison.sides if facts.gguf is not None]
    if not sides or failure in setup.failures:
        return not_applicable("no GGUF file, or judged by the engine's own rules")
    for side, facts in sides:
        if words := _broken(facts):
            return fail(f"{side}: {words}")
    return ok("tensor table and size of the file agree")


def _broken(facts: ModelFacts) -> str | None:
    gguf = facts.gguf
    assert gguf is not None
    if gguf.data_short_by > 0:
        return f"{gguf.data_short_by:,} bytes of tensor data are missing at the end"
    return gguf.tensor_fault or gguf.offset_fault or gguf.split_fault


def gguf_has_tensors(comparison: Comparison, setup: EngineSetup, *, told_by: str) -> CheckOutcome:
    """Fail when a GGUF lacks a tensor of its architecture.

    told_by: the table of engines that have a list of their own for some architectures.
    """
    told = setup.tables[told_by].tensors if told_by in setup.tables else ()
    looked = False
    for side, facts in comparison.sides:
        faults = facts.weights.faults
        if facts.gguf is None or faults is None or facts.config.model_type in told:
            continue
        looked = True
        for fault in faults:
            if fault.kind == "gguf-tensor":
                return fail(f"{side}: {fault}")
    return ok("every tensor is listed") if looked else not_applicable("no GGUF to look at")


def rows_for_tokens(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when a tokenizer makes ids for which its own model has no row."""
    words = []
    for side, facts in comparison.sides:
        rows, length = facts.weights.embedding_rows, facts.tokenizer.length
        if facts.role != "full" or rows is None or length is None:
            continue
        if length > rows:
            words.append(f"{side}: {length:,} tokens, {rows:,} rows")
            continue
        words.append("")
    found = [word for word in words if word]
    if found:
        return fail("; ".join(found))
    return ok("a row for each token") if words else not_applicable("rows or tokens not read")
