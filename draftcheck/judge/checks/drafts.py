"""Checks on which kinds of draft an engine takes, and on what the deployment asks of it."""

from __future__ import annotations

from draftcheck.judge.checks.listed import quant_method, target_type_known
from draftcheck.judge.checks.model import draft_context
from draftcheck.judge.checks.outcomes import UNTOLD, fail, not_applicable, ok, unknown
from draftcheck.values.comparison import Comparison
from draftcheck.values.verdicts import EngineSetup
from draftcheck.values.words import CheckOutcome


def draft_kind_taken(
    comparison: Comparison, setup: EngineSetup, *, format: str, kinds: list[str]
) -> CheckOutcome:
    """Fail when the draft, in a file of this format, is of none of these kinds."""
    draft = comparison.drafter
    here = "gguf" if draft.gguf is not None else "folder"
    if here != format:
        return not_applicable(f"the draft is a {here}")
    if draft.role is None:
        return unknown(UNTOLD)
    what = "an ordinary model" if draft.role == "full" else f"a head of kind {draft.role}"
    return ok(f"the draft is {what}") if draft.role in kinds else fail(f"the draft is {what}")


def draft_kind_not_read(
    comparison: Comparison, setup: EngineSetup, *, kinds: list[str]
) -> CheckOutcome:
    """Unknown for drafts of these kinds: what the engine does with them was not found out."""
    role = comparison.drafter.role
    if role is None:
        return unknown(UNTOLD)
    return unknown(f"the draft is: {role}") if role in kinds else ok(f"the draft is: {role}")


def target_layers_at_least(
    comparison: Comparison, setup: EngineSetup, *, least: int
) -> CheckOutcome:
    """Fail when the target has fewer layers than the engine picks from."""
    layers = comparison.target.config.layers
    if layers is None:
        return unknown("the target's number of layers was not read")
    words = f"the target has {layers} layers, {least} are needed"
    return fail(words) if layers < least else ok(words)


def multimodal_not_read(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Unknown when the target sees images: what follows from it was not found out."""
    multimodal = comparison.target.config.multimodal
    if multimodal is None:
        return unknown("whether the target is multimodal was not read")
    return unknown("the target is multimodal") if multimodal else ok("the target is text only")


def rows_gap(comparison: Comparison, setup: EngineSetup, *, most: int) -> CheckOutcome:
    """Fail when the numbers of tokens, padding included, lie further apart than this."""
    gap = comparison.vocabulary.size_gap
    if gap is None:
        return unknown("the number of tokens was not read on both sides")
    ours, theirs = comparison.vocabulary.target_size, comparison.vocabulary.draft_size
    words = f"{ours:,} / {theirs:,} tokens (target / draft), {gap:,} apart, {most:,} allowed"
    return fail(words) if gap > most else ok(words)


def kv_dtype_in(comparison: Comparison, setup: EngineSetup, *, values: list[str]) -> CheckOutcome:
    """Fail when the cache type asked for is none of these words."""
    if setup.kv_dtype is None:
        return not_applicable("no cache type asked for")
    words = f"cache type {setup.kv_dtype[:40]!r}"
    return ok(words) if setup.kv_dtype in values else fail(words)


def sequences_at_most(comparison: Comparison, setup: EngineSetup, *, most: int) -> CheckOutcome:
    """Fail when more sequences are to run at once than a draft allows."""
    if setup.sequences is None:
        return not_applicable("no number of sequences asked for")
    words = f"{setup.sequences:,} sequences at once, {most:,} with a draft"
    return fail(words) if setup.sequences > most else ok(words)


def head_vocabulary_whole(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the head has a smaller vocabulary of its own."""
    head, role = comparison.drafter.head, comparison.drafter.role
    if role == "full":
        return not_applicable("the draft is no head")
    if head is None or head.declared is None:
        return unknown("the head's own vocabulary was not read")
    if head.draft_vocab is None or head.draft_vocab == head.vocab:
        return ok("the head uses the target's whole vocabulary")
    if head.vocab is None:
        return unknown(f"draft_vocab_size {head.draft_vocab:,}; vocab_size was not read")
    return fail(f"draft_vocab_size {head.draft_vocab:,} of {head.vocab:,}")


def attaches(
    comparison: Comparison, setup: EngineSetup, *, architectures: list[str]
) -> CheckOutcome:
    """Fail when a head of these architectures does not fit: vocabulary, width, mask, layers."""
    names = comparison.drafter.config.architectures
    if not names:
        return unknown("the draft's architecture was not read")
    if names[0] not in architectures:
        return not_applicable(f"the draft's architecture is {names[0]}")
    head, target = comparison.drafter.head, comparison.target.config
    if head is None or None in (head.vocab, head.hidden, target.vocab_size, target.hidden):
        return unknown("sizes of the target or of the head were not read")
    if head.vocab != target.vocab_size:
        return fail(f"vocab_size {head.vocab:,} / {target.vocab_size:,} (head / target)")
    if head.hidden != target.hidden:
        return fail(f"hidden_size {head.hidden:,} / {target.hidden:,} (head / target)")
    if head.mask_token_id is not None and head.mask_token_id >= (target.vocab_size or 0):
        return fail(f"mask_token_id {head.mask_token_id:,}, vocab_size {target.vocab_size:,}")
    if target.layers is None or head.aux_layers is None:
        return unknown("layers of the target or of the head were not read")
    if (highest := max(head.aux_layers, default=0)) >= target.layers:
        return fail(f"target_layer_ids has {highest}, the target {target.layers} layers")
    return ok("vocabulary, width, mask token and layers fit")


def one_backend(
    comparison: Comparison, setup: EngineSetup, *, apart: list[str], others: list[str]
) -> CheckOutcome:
    """Fail when the target's quantisation picks a backend that cannot load the draft's.

    apart: quant methods with a backend of their own; others: those that only the other one loads.
    """
    if comparison.target.config.model_type is None or comparison.drafter.config.model_type is None:
        return unknown("a config was not read")
    ours, theirs = quant_method(comparison.target), quant_method(comparison.drafter)
    words = f"quant_method {ours or 'none'} / {theirs or 'none'} (target / draft)"
    missed = theirs in others if ours in apart else theirs in apart
    return fail(words) if missed else ok(words)


def draft_context_when(
    comparison: Comparison, setup: EngineSetup, *, quantized: str
) -> CheckOutcome:
    """Fail when the draft's window is too short and the target is quantised like this."""
    if comparison.target.config.model_type is None:
        return unknown("the target's config was not read")
    name = quant_method(comparison.target)
    if name != quantized:
        return not_applicable(f"target quant_method is {name or 'none'}")
    return draft_context(comparison, setup)


def folder_head_converts(
    comparison: Comparison, setup: EngineSetup, *, known: dict[str, str]
) -> CheckOutcome:
    """Fail when a head in a folder is converted for other types of target than this one."""
    if comparison.drafter.gguf is not None:
        return not_applicable("the draft is a gguf")
    return target_type_known(comparison, setup, known=known)


def folder_head_is_needed(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when a head in a folder is given for a target that has such layers already."""
    draft, target = comparison.drafter, comparison.target
    if draft.gguf is not None:
        return not_applicable("the draft is a gguf")
    if target.role is None:
        return unknown("whether the target has MTP layers was not read")
    promised = target.head.mtp_promised if target.head is not None else 0
    words = f"the target promises {promised or 'no'} MTP layers"
    return fail(words) if promised else ok(words)


def gguf_is_whole(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when a GGUF file is cut off, or its tables contradict each other."""
    for side, facts in comparison.both:
        if facts.gguf is None:
            return unknown(f"the {side} was not read as a GGUF file")
        found = facts.gguf
        if found.data_short_by:
            return fail(f"{side}: {found.data_short_by:,} bytes are missing at the end")
        fault = found.tensor_fault or found.offset_fault or found.split_fault
        if fault or found.duplicate_key:
            return fail(f"{side}: {fault or f'the key {found.duplicate_key} stands twice'}")
    return ok("both files are whole")
