"""Checks on heads: does the draft that lives on the target's hidden states fit this target?

Where a check compares nothing because the draft is no head, or states no such thing, it does
not apply; where the files were not read, it is unknown.
"""

from __future__ import annotations

import re
from typing import TypeVar

from draftcheck.judge.checks.listed import in_window, is_listed
from draftcheck.judge.checks.outcomes import (
    UNTOLD,
    Settled,
    applies,
    fail,
    needed,
    not_applicable,
    ok,
    unknown,
)
from draftcheck.values.facts import HeadFacts, ModelFacts
from draftcheck.values.verdicts import JudgedPair
from draftcheck.values.words import CheckOutcome

T = TypeVar("T")
NO_HEAD = ("full", "encoder")
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
CACHED = re.compile(r"models--([\w.-]+?)--([\w.-]+)")
WIDTHS_UNREAD = "hidden size of the target or of the head was not read"
VOCABULARIES_UNREAD = "vocabulary size of the target or of the head was not read"
FORM_UNREAD = "the form of the head was not read"
USUAL_LAYERS = 3
"""Auxiliary layers where a head lists none: every engine takes three."""


def head_of(pair: JudgedPair) -> HeadFacts:
    """The facts of the head; the check is settled where the draft is none."""
    draft = pair.drafter
    if draft.role in NO_HEAD:
        raise Settled(not_applicable(f"the draft is no head: {draft.role}"))
    return needed(draft.head, "the draft's files do not say what kind of head it is")


def _stated(head: HeadFacts, value: T | None, absent: CheckOutcome, unread: str) -> T:
    """What the head states; the check is settled where it states nothing, or nobody read it."""
    if value is None and head.declared is not None:
        raise Settled(absent)
    return needed(value, unread)


def head_kind_in(pair: JudgedPair, *, kinds: list[str]) -> CheckOutcome:
    """Fail when the draft is not a head of one of these kinds."""
    applies(pair.draft, "the target drafts for itself")
    role = needed(pair.drafter.role, UNTOLD)
    return ok(f"the draft is: {role}") if role in kinds else fail(f"the draft is: {role}")


def head_declares(pair: JudgedPair, *, fields: list[str]) -> CheckOutcome:
    """Fail when the head's config or metadata does not state one of these."""
    words = ", ".join(fields)
    declared = needed(head_of(pair).declared, f"{words} of the head: not read")
    missing = [name for name in fields if name not in declared]
    return fail(f"the head does not state {missing[0]}") if missing else ok(f"stated: {words}")


def head_width(pair: JudgedPair, *, own: bool = False) -> CheckOutcome:
    """Fail when the head was made for hidden states of another width.

    own: the engine takes the head's own width for it, whatever the head declares.
    """
    head = head_of(pair)
    wanted = needed(_width(head, own), WIDTHS_UNREAD)
    given = needed(pair.target.config.hidden, WIDTHS_UNREAD)
    words = f"the head reads hidden states of width {wanted:,}, the target's are {given:,} wide"
    return ok(words) if wanted == given else fail(words)


def _width(head: HeadFacts, own: bool) -> int | None:
    return head.hidden if own or head.target_hidden is None else head.target_hidden


def head_aux_count(pair: JudgedPair, *, exactly: int) -> CheckOutcome:
    """Fail when the head reads another number of the target's layers."""
    head, unread = head_of(pair), "the head's layers were not read"
    count = _stated(head, head.aux_count, ok("the usual layers"), unread)
    words = f"the head reads {count} layers of the target, the engine {exactly}"
    return ok(words) if count == exactly else fail(words)


def head_layers_in_range(pair: JudgedPair, *, beyond: int) -> CheckOutcome:
    """Fail when the head names a layer that the target does not have.

    beyond: how many numbers after the last layer the engine still understands.
    """
    head = head_of(pair)
    unread = "layers of the target or of the head were not read"
    named = _stated(head, head.aux_layers, not_applicable("the head names no layers"), unread)
    highest = max(named, default=0)
    layers = needed(pair.target.config.layers, unread) - _mtp_layers(pair.target)
    words = f"the head reads layer {highest} (from 0), the target has {layers} layers"
    return fail(words) if highest >= layers + beyond else ok(words)


def _mtp_layers(target: ModelFacts) -> int:
    """MTP layers that are counted among the others, as a GGUF does."""
    return (target.gguf and target.head and target.head.mtp_promised) or 0


def head_layer_count(pair: JudgedPair, *, at_most: int) -> CheckOutcome:
    """Fail when the head has more layers of its own than the engine can run."""
    layers = needed(head_of(pair).layers, "the head's number of layers was not read")
    words = f"the head has {layers} layers"
    return fail(words) if layers > at_most else ok(words)


def head_fc(pair: JudgedPair, *, own: bool = False) -> CheckOutcome:
    """Fail when fc.weight does not have the shape that the head's own config asks for.

    own: the engine takes the head's own width for the target's.
    """
    head = head_of(pair)
    if head.fc_in is None or head.fc_out is None:
        listed = pair.drafter.weights.tensors is not None
        return not_applicable("no fc.weight") if listed else unknown("fc.weight was not read")
    hidden = needed(head.hidden, "the head's hidden size was not read")
    width = needed(_width(head, own), "the head's hidden size was not read")
    count = head.aux_count or USUAL_LAYERS
    words = (
        f"fc.weight is {head.fc_in:,} -> {head.fc_out:,},"
        f" the config asks for {count} x {width:,} -> {hidden:,}"
    )
    fits = (head.fc_in, head.fc_out) == (count * width, hidden)
    return ok(words) if fits else fail(words)


def head_ids_mapped(pair: JudgedPair) -> CheckOutcome:
    """Fail when the head has a smaller vocabulary of its own and no table to the target's ids."""
    head = head_of(pair)
    none = ok("the head has no vocabulary of its own")
    own = _stated(head, head.draft_vocab, none, VOCABULARIES_UNREAD)
    target = needed(pair.target.config.vocab_size, VOCABULARIES_UNREAD)
    words = f"draft_vocab_size {own:,}, target {target:,}"
    if own == target:
        return ok(words)
    needed(head.d2t, f"{words}; whether there is a d2t tensor was not read")
    return ok(f"{words}, with d2t") if head.d2t else fail(f"{words}, and no d2t tensor")


def head_output_present(pair: JudgedPair) -> CheckOutcome:
    """Fail when the head declares a vocabulary of its own and has no lm_head for it."""
    head = head_of(pair)
    if head.declared is None or head.lm_head is None:
        return unknown("whether the head has an lm_head was not read")
    if head.draft_vocab is None:
        return ok("the head borrows the target's lm_head")
    if head.lm_head or pair.drafter.config.tied:
        return ok("the head has an lm_head")
    return fail(f"draft_vocab_size {head.draft_vocab:,}, and no lm_head.weight")


def head_table_sound(pair: JudgedPair) -> CheckOutcome:
    """Fail when the table from the head's ids to the target's leads astray."""
    head = head_of(pair)
    if head.d2t == 0 or head.form == "gguf":
        return not_applicable("no table of offsets")
    needed(head.d2t, "whether there is a d2t tensor was not read")
    if head.draft_vocab is not None and head.draft_vocab != head.d2t:
        return fail(f"d2t has {head.d2t:,} entries, draft_vocab_size is {head.draft_vocab:,}")
    needed(head.d2t_fault, "the content of d2t was not read")
    rows = pair.target.rows
    if head.d2t_last is not None and rows is not None and head.d2t_last >= rows:
        return fail(f"d2t leads to the id {head.d2t_last:,}, the target has {rows:,} rows")
    return fail(head.d2t_fault) if head.d2t_fault else ok(f"d2t of {head.d2t:,} ids is sound")


def head_table_sorted(pair: JudgedPair) -> CheckOutcome:
    """Fail when the target ids of the table do not rise."""
    head = head_of(pair)
    if head.d2t == 0 or head.form == "gguf":
        return not_applicable("no table of offsets")
    needed(head.d2t_sorted, "the content of d2t was not read")
    words = "the target ids of d2t"
    return ok(f"{words} rise") if head.d2t_sorted else fail(f"{words} do not rise throughout")


def head_made_for_vocabulary(pair: JudgedPair) -> CheckOutcome:
    """Fail when the vocabulary that the head was made for has another size than the target's."""
    head = head_of(pair)
    target = needed(pair.target.config.vocab_size, VOCABULARIES_UNREAD)
    made_for = needed(head.t2d or head.vocab, VOCABULARIES_UNREAD)
    words = f"the head was made for {made_for:,} ids, the target has {target:,}"
    return ok(words) if made_for == target else fail(words)


def head_vocabulary_covers(pair: JudgedPair) -> CheckOutcome:
    """Fail when the target has ids that the head's own vocabulary does not reach."""
    unread = "number of tokens of the target or of the head was not read"
    known = needed(head_of(pair).vocab, unread)
    target = needed(pair.target.config.vocab_size, unread)
    words = f"the head knows {known:,} tokens, the target {target:,}"
    return fail(words) if known < target else ok(words)


def head_mask_in_vocabulary(pair: JudgedPair) -> CheckOutcome:
    """Fail when the mask token is no id of the target."""
    head, unread = head_of(pair), "mask token of the head or vocabulary of the target was not read"
    mask = _stated(head, head.mask_token_id, not_applicable("no mask_token_id"), unread)
    target = needed(pair.target.config.vocab_size, unread)
    words = f"mask_token_id {mask:,}, target vocab_size {target:,}"
    return fail(words) if mask >= target else ok(words)


def head_layers_elsewhere(pair: JudgedPair, *, place: str) -> CheckOutcome:
    """Fail when the head lists its layers in a part of the config that the engine does not read."""
    head, none = head_of(pair), not_applicable("no layers named")
    layers = _stated(head, head.aux_layers, none, "layers were not read")
    words = f"layers {', '.join(map(str, layers[:8]))} stand in {head.aux_place}"
    return ok(words) if head.aux_place == place else fail(words)


def head_form_is_not(pair: JudgedPair, *, form: str) -> CheckOutcome:
    """Fail when the head is stored in this form."""
    found = needed(head_of(pair).form, FORM_UNREAD)
    return fail(f"the head is in the {form} format") if found == form else ok(found)


def head_form_known(pair: JudgedPair, *, form: str, kinds: dict[str, str]) -> CheckOutcome:
    """Fail when this version cannot read a head of that kind in this form."""
    head = head_of(pair)
    if needed(head.form, FORM_UNREAD) != form:
        return ok(f"not in the {form} format")
    words = f"{form} format, kind {head.kind}"
    return ok(words) if is_listed(head.kind, kinds, pair.setup) else fail(words)


def head_layer_type_in(pair: JudgedPair, *, types: list[str]) -> CheckOutcome:
    """Fail when a speculators head is made of layers of another model type."""
    head = head_of(pair)
    if needed(head.form, FORM_UNREAD) != "speculators":
        return ok("not in the speculators format")
    if head.layer_type is None:
        return ok("no model_type: counts as llama")
    words = f"transformer_layer_config.model_type is {head.layer_type}"
    return ok(words) if head.layer_type in types else fail(words)


def head_norm_before_fc(pair: JudgedPair, *, forms: dict[str, str]) -> CheckOutcome:
    """Fail when the head has a norm before fc and this version does not know it in its form."""
    head = head_of(pair)
    needed(head.declared, "norm_before_fc was not read")
    since = forms.get(head.form or "")
    if not head.norm_before_fc or since is None:
        return ok("no norm before fc")
    words = f"norm_before_fc is true ({head.form}, known from {since})"
    return ok(words) if in_window(since, pair.setup) else fail(words)


def head_verifier(pair: JudgedPair) -> CheckOutcome:
    """Fail when the head names another target than the one given."""
    draft, target = pair.drafter, pair.target
    if draft.role in NO_HEAD:
        return not_applicable(f"the draft is no head: {draft.role}")
    theirs = draft.head.verifier_architectures if draft.head else None
    ours = target.config.architectures
    if theirs and ours and not set(theirs) & set(ours):
        return fail(f"the head was made for {theirs[0]}, the target is a {ours[0]}")
    if draft.verifier is None:
        known = draft.head is not None and draft.head.declared is not None
        return not_applicable("no verifier named") if known else unknown("verifier was not read")
    if REPOSITORY.fullmatch(draft.verifier) is None:
        return unknown(f"the head names {draft.verifier[:200]!r}, which is no public name")
    return _same_name(draft.verifier[:200], target.called[-200:])


def _same_name(verifier: str, called: str) -> CheckOutcome:
    cached = CACHED.search(called)
    name = f"{cached[1]}/{cached[2]}" if cached else called.rstrip("/\\")
    wanted, given = (text.replace("\\", "/").split("/")[-1].casefold() for text in (verifier, name))
    words = f"the head was made for {verifier}, the target is {name}"
    if wanted in given or given in wanted:
        return ok(words)
    return fail(words) if REPOSITORY.fullmatch(name) else unknown(f"{words}: not comparable")
