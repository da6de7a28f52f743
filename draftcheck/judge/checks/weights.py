"""Checks on the weights themselves: files, tensors, names and shapes."""

from __future__ import annotations

from draftcheck.judge.checks.outcomes import fail, needed, not_applicable, ok, unknown
from draftcheck.values.verdicts import JudgedPair
from draftcheck.values.words import CheckOutcome

SHOWN = 3
"""Faults of one kind that are shown; the rest is counted."""


def weights_have_no(pair: JudgedPair, *, kinds: list[str]) -> CheckOutcome:
    """Fail when the files of a side prove one of these faults."""
    looked, found = False, []
    for side, facts in pair.sides:
        faults = facts.weights.faults
        looked = looked or faults is not None
        if faults:  # hardly ever, and many rules ask
            mine = [fault for fault in faults if fault.kind in kinds]
            found += [f"{side}: {fault}" for fault in mine[:SHOWN]]
            if len(mine) > SHOWN:
                found.append(f"{side}: {len(mine) - SHOWN} more of this kind")
    if found:
        return fail("; ".join(found))
    return ok("not seen in the headers") if looked else not_applicable("weights not read")


def gguf_table_sound(pair: JudgedPair, *, failure: str) -> CheckOutcome:
    """Fail when a GGUF is broken for every reader; engines that say so themselves are not asked.

    failure: the engine's own word for it, where it has rules for loading.
    """
    sides = [(side, facts.gguf) for side, facts in pair.sides if facts.gguf is not None]
    if not sides or failure in pair.setup.failures:
        return not_applicable("no GGUF file, or judged by the engine's own rules")
    for side, gguf in sides:
        if gguf.data_short_by > 0:
            missing = f"{gguf.data_short_by:,} bytes of tensor data are missing at the end"
            return fail(f"{side}: {missing}")
        if words := gguf.tensor_fault or gguf.offset_fault or gguf.split_fault:
            return fail(f"{side}: {words}")
    return ok("tensor table and size of the file agree")


def gguf_has_tensors(pair: JudgedPair, *, told_by: str) -> CheckOutcome:
    """Fail when a GGUF lacks a tensor of its architecture.

    told_by: the table of engines that have a list of their own for some architectures.
    """
    told = pair.setup.tables[told_by].tensors if told_by in pair.setup.tables else ()
    looked = False
    for side, facts in pair.sides:
        faults = facts.weights.faults
        if facts.gguf is None or faults is None or facts.config.model_type in told:
            continue
        looked = True
        for fault in faults:
            if fault.kind == "gguf-tensor":
                return fail(f"{side}: {fault}")
    return ok("every tensor is listed") if looked else not_applicable("no GGUF to look at")


def rows_for_tokens(pair: JudgedPair) -> CheckOutcome:
    """Fail when a tokenizer makes ids for which its own model has no row."""
    looked, found = False, []
    for side, facts in pair.sides:
        rows, length = facts.weights.embedding_rows, facts.tokenizer.length
        if facts.role == "full" and rows is not None and length is not None:
            looked = True
            if length > rows:
                found.append(f"{side}: {length:,} tokens, {rows:,} rows")
    if found:
        return fail("; ".join(found))
    return ok("a row for each token") if looked else not_applicable("rows or tokens not read")


def has_safetensors(pair: JudgedPair) -> CheckOutcome:
    """Fail when a side has no safetensors file."""
    unread = []
    for side, facts in pair.both:
        if not facts.weights.files:
            unread.append(side)
        elif all(file.format != "safetensors" for file in facts.weights.files):
            return fail(f"{side}: no safetensors among {len(facts.weights.files)} weight files")
    if unread:
        return unknown(f"weight files of the {' and the '.join(unread)} were not listed")
    return ok("safetensors on both sides")


def weights_are_safe(pair: JudgedPair) -> CheckOutcome:
    """Fail when a side offers nothing but pickled weights."""
    bad = [(side, facts.weights.problems) for side, facts in pair.both if facts.weights.problems]
    if bad:
        return fail("; ".join(f"{side}: {problems[0]}" for side, problems in bad))
    unread = [side for side, facts in pair.both if not facts.weights.files]
    return unknown(f"weights of the {', '.join(unread)} not listed") if unread else ok("no pickles")


def gguf_is_whole(pair: JudgedPair) -> CheckOutcome:
    """Fail when a GGUF file is cut off, or its tables contradict each other."""
    for side, facts in pair.both:
        found = needed(facts.gguf, f"the {side} was not read as a GGUF file")
        if found.data_short_by:
            return fail(f"{side}: {found.data_short_by:,} bytes are missing at the end")
        fault = found.tensor_fault or found.offset_fault or found.split_fault
        if fault or found.duplicate_key:
            return fail(f"{side}: {fault or f'the key {found.duplicate_key} stands twice'}")
    return ok("both files are whole")
