"""Checks on which kinds of draft an engine takes, and how it finds out what kind one is."""

from __future__ import annotations

from draftcheck.judge.checks.listed import is_listed, quant_method, target_type_known
from draftcheck.judge.checks.model import draft_context
from draftcheck.judge.checks.outcomes import UNTOLD, fail, needed, not_applicable, ok, unknown
from draftcheck.values.verdicts import JudgedPair
from draftcheck.values.words import CheckOutcome


def draft_kind_taken(pair: JudgedPair, *, format: str, kinds: list[str]) -> CheckOutcome:
    """Fail when the draft, in a file of this format, is of none of these kinds."""
    draft = pair.drafter
    here = "gguf" if draft.gguf is not None else "folder"
    if here != format:
        return not_applicable(f"the draft is a {here}")
    needed(draft.role, UNTOLD)
    what = "an ordinary model" if draft.role == "full" else f"a head of kind {draft.role}"
    return ok(f"the draft is {what}") if draft.role in kinds else fail(f"the draft is {what}")


def draft_kind_not_read(pair: JudgedPair, *, kinds: list[str]) -> CheckOutcome:
    """Unknown for drafts of these kinds: what the engine does with them was not found out."""
    role = needed(pair.drafter.role, UNTOLD)
    return unknown(f"the draft is: {role}") if role in kinds else ok(f"the draft is: {role}")


def head_vocabulary_whole(pair: JudgedPair) -> CheckOutcome:
    """Fail when the head has a smaller vocabulary of its own."""
    head, role = pair.drafter.head, pair.drafter.role
    if role == "full":
        return not_applicable("the draft is no head")
    if head is None or head.declared is None:
        return unknown("the head's own vocabulary was not read")
    if head.draft_vocab is None or head.draft_vocab == head.vocab:
        return ok("the head uses the target's whole vocabulary")
    needed(head.vocab, f"draft_vocab_size {head.draft_vocab:,}; vocab_size was not read")
    return fail(f"draft_vocab_size {head.draft_vocab:,} of {head.vocab:,}")


def attaches(pair: JudgedPair, *, architectures: list[str]) -> CheckOutcome:
    """Fail when a head of these architectures does not fit: vocabulary, width, mask, layers."""
    names = pair.drafter.config.architectures
    if not names:
        return unknown("the draft's architecture was not read")
    if names[0] not in architectures:
        return not_applicable(f"the draft's architecture is {names[0]}")
    head, target = pair.drafter.head, pair.target.config
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


def draft_context_when(pair: JudgedPair, *, quantized: str) -> CheckOutcome:
    """Fail when the draft's window is too short and the target is quantised like this."""
    needed(pair.target.config.model_type, "the target's config was not read")
    name = quant_method(pair.target)
    if name != quantized:
        return not_applicable(f"target quant_method is {name or 'none'}")
    return draft_context(pair)


def folder_head_converts(pair: JudgedPair, *, known: dict[str, str]) -> CheckOutcome:
    """Fail when a head in a folder is converted for other types of target than this one."""
    if pair.drafter.gguf is not None:
        return not_applicable("the draft is a gguf")
    return target_type_known(pair, known=known)


def folder_head_is_needed(pair: JudgedPair) -> CheckOutcome:
    """Fail when a head in a folder is given for a target that has such layers already."""
    draft, target = pair.drafter, pair.target
    if draft.gguf is not None:
        return not_applicable("the draft is a gguf")
    needed(target.role, "whether the target has MTP layers was not read")
    promised = target.head.mtp_promised if target.head is not None else 0
    words = f"the target promises {promised or 'no'} MTP layers"
    return fail(words) if promised else ok(words)


def name_picks_method(pair: JudgedPair, *, words: dict[str, str]) -> CheckOutcome:
    """Fail when the draft's path or id contains a word by which this version picks a method.

    The target's own name counts where it drafts for itself. Table: word -> "since" or
    "since until".
    """
    called = pair.drafter.called
    for word in words:
        if word in called.lower() and is_listed(word, words, pair.setup):
            return fail(f"the {pair.drafter_side} is called {called!r}, which contains {word!r}")
    return ok(f"{called!r} contains none of {', '.join(words)}")


def head_is_recognised(pair: JudgedPair, *, types: list[str], words: list[str]) -> CheckOutcome:
    """Fail when neither the draft's model_type nor its name says what kind of head it is."""
    called, name = pair.drafter.called, pair.drafter.config.outer_type
    by_name = [word for word in words if word in called.lower()]
    if by_name:
        return ok(f"{called!r} contains {by_name[0]!r}")
    needed(name, "the draft's model_type was not read")
    said = f"the draft's model_type is {name}, it is called {called!r}"
    return ok(said) if name in types else fail(said)


def states_mask_token(pair: JudgedPair) -> CheckOutcome:
    """Fail when an ordinary draft does not name the token that parallel drafts start from."""
    draft = pair.drafter
    needed(draft.config.model_type, "the draft's config was not read")
    mask = draft.head.mask_token_id if draft.head is not None else None
    return fail("no mask token in the config") if mask is None else ok(f"mask token {mask}")
