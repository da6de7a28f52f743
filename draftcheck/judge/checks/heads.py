"""Checks on heads: does the draft that lives on the target's hidden states fit this target?

Where a check compares nothing because the draft is no head, or states no such thing, it does
not apply; where the files were not read, it is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from draftcheck.judge.checks.listed import in_window
from draftcheck.judge.checks.outcomes import UNTOLD, fail, not_applicable, ok, unknown
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import HeadFacts, ModelFacts
from draftcheck.values.verdicts import EngineSetup
from draftcheck.values.words import CheckOutcome

NO_HEAD = ("full", "encoder")
USUAL_LAYERS = 3
"""Auxiliary layers where a head lists none: every engine takes three."""


P = ParamSpec("P")


def of_head(
    test: Callable[Concatenate[HeadFacts, Comparison, EngineSetup, P], CheckOutcome],
) -> Callable[Concatenate[Comparison, EngineSetup, P], CheckOutcome]:
    """A check that gets the facts of the head first, and is asked only when the draft is one."""

    @wraps(test)
    def check(
        comparison: Comparison, setup: EngineSetup, /, *args: P.args, **params: P.kwargs
    ) -> CheckOutcome:
        draft = comparison.drafter
        if draft.role in NO_HEAD:
            return not_applicable(f"the draft is no head: {draft.role}")
        if draft.head is None:
            return unknown("the draft's files do not say what kind of head it is")
        return test(draft.head, comparison, setup, *args, **params)

    return check


def head_kind_in(comparison: Comparison, setup: EngineSetup, *, kinds: list[str]) -> CheckOutcome:
    """Fail when the draft is not a head of one of these kinds."""
    if comparison.draft is None:
        return not_applicable("the target drafts for itself")
    role = comparison.drafter.role
    if role is None:
        return unknown(UNTOLD)
    return ok(f"the draft is: {role}") if role in kinds else fail(f"the draft is: {role}")


@of_head
def head_declares(
    head: HeadFacts, comparison: Comparison, setup: EngineSetup, *, fields: list[str]
) -> CheckOutcome:
    """Fail when the head's config or metadata does not state one of these."""
    words = ", ".join(fields)
    if head.declared is None:
        return unknown(f"{words} of the head: not read")
    missing = [name for name in fields if name not in (head.declared or ())]
    return fail(f"the head does not state {missing[0]}") if missing else ok(f"stated: {words}")


@of_head
def head_width(
    head: HeadFacts, comparison: Comparison, setup: EngineSetup, *, own: bool = False
) -> CheckOutcome:
    """Fail when the head was made for hidden states of another width.

    own: the engine takes the head's own width for it, whatever the head declares.
    """
    wanted = head.hidden if own else _width(head)
    given = comparison.target.config.hidden
    if wanted is None or given is None:
        return unknown("hidden size of the target or of the head was not read")
    words = f"the head reads hidden states of width {wanted:,}, the target's are {given:,} wide"
    return ok(words) if wanted == given else fail(words)


def _width(head: HeadFacts) -> int | None:
    return head.target_hidden if head.target_hidden is not None else head.hidden


@of_head
def head_aux_count(
    head: HeadFacts, comparison: Comparison, setup: EngineSetup, *, exactly: int
) -> CheckOutcome:
    """Fail when the head reads another number of the target's layers."""
    if head.aux_count is None:
        known = head.declared is not None
        return ok("the usual layers") if known else unknown("the head's layers were not read")
    words = f"the head reads {head.aux_count} layers of the target, the engine {exactly}"
    return ok(words) if head.aux_count == exactly else fail(words)


@of_head
def head_layers_in_range(
    head: HeadFacts, comparison: Comparison, setup: EngineSetup, *, beyond: int
) -> CheckOutcome:
    """Fail when the head names a layer that the target does not have.

    beyond: how many numbers after the last layer the engine still understands.
    """
    if head.aux_layers is None and head.declared is not None:
        return not_applicable("the head names no layers")
    layers = _layers(comparison.target)
    if head.aux_layers is None or layers is None:
        return unknown("layers of the target or of the head were not read")
    highest = max(head.aux_layers, default=0)
    words = f"the head reads layer {highest} (from 0), the target has {layers} layers"
    return fail(words) if highest >= layers + beyond else ok(words)


def _layers(target: ModelFacts) -> int | None:
    """Layers without the MTP ones, which a GGUF counts too."""
    layers = target.config.layers
    if layers is None or target.gguf is None or target.head is None:
        return layers
    return layers - (target.head.mtp_promised or 0)


@of_head
def head_layer_count(
    head: HeadFacts, comparison: Comparison, setup: EngineSetup, *, at_most: int
) -> CheckOutcome:
    """Fail when the head has more layers of its own than the engine can run."""
    if head.layers is None:
        return unknown("the head's number of layers was not read")
    words = f"the head has {head.layers} layers"
    return fail(words) if head.layers > at_most else ok(words)


@of_head
def head_fc(
    head: HeadFacts, comparison: Comparison, setup: EngineSetup, *, own: bool = False
) -> CheckOutcome:
    """Fail when fc.weight does not have the shape that the head's own config asks for.

    own: the engine takes the head's own width for the target's.
    """
    if head.fc_in is None or head.fc_out is None:
        listed = comparison.drafter.weights.tensors is not None
        return not_applicable("no fc.weight") if listed else unknown("fc.weight was not read")
    width = head.hidden if own else _width(head)
    count = head.aux_count or USUAL_LAYERS
    if width is None or head.hidden is None:
        return unknown("the head's hidden size was not read")
    words = (
        f"fc.weight is {head.fc_in:,} -> {head.fc_out:,},"
        f" the config asks for {count} x {width:,} -> {head.hidden:,}"
    )
    fits = (head.fc_in, head.fc_out) == (count * width, head.hidden)
    return ok(words) if fits else fail(words)


@of_head
def head_ids_mapped(head: HeadFacts, comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the head has a smaller vocabulary of its own and no table to the target's ids."""
    target = comparison.target.config.vocab_size
    if head.draft_vocab is None and head.declared is not None:
        return ok("the head has no vocabulary of its own")
    if head.draft_vocab is None or target is None:
        return unknown("vocabulary size of the target or of the head was not read")
    words = f"draft_vocab_size {head.draft_vocab:,}, target {target:,}"
    if head.draft_vocab == target:
        return ok(words)
    if head.d2t is None:
        return unknown(f"{words}; whether there is a d2t tensor was not read")
    return ok(f"{words}, with d2t") if head.d2t else fail(f"{words}, and no d2t tensor")


@of_head
def head_output_present(
    head: HeadFacts, comparison: Comparison, setup: EngineSetup
) -> CheckOutcome:
    """Fail when the head declares a vocabulary of its own and has no lm_head for it."""
    if head.declared is None or head.lm_head is None:
        return unknown("whether the head has an lm_head was not read")
    if head.draft_vocab is None:
        return ok("the head borrows the target's lm_head")
    if head.lm_head or comparison.drafter.config.tied:
        return ok("the head has an lm_head")
    return fail(f"draft_vocab_size {head.draft_vocab:,}, and no lm_head.weight")


@of_head
def head_table_sound(head: HeadFacts, comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the table from the head's ids to the target's leads astray."""
    if head.d2t == 0 or head.form == "gguf":
        return not_applicable("no table of offsets")
    if head.d2t is None:
        return unknown("whether there is a d2t tensor was not read")
    if head.draft_vocab is not None and head.draft_vocab != head.d2t:
        return fail(f"d2t has {head.d2t:,} entries, draft_vocab_size is {head.draft_vocab:,}")
    if head.d2t_fault is None:
        return unknown("the content of d2t was not read")
    rows = comparison.target.rows
    if head.d2t_last is not None and rows is not None and head.d2t_last >= rows:
        return fail(f"d2t leads to the id {head.d2t_last:,}, the target has {rows:,} rows")
    return fail(head.d2t_fault) if head.d2t_fault else ok(f"d2t of {head.d2t:,} ids is sound")


@of_head
def head_table_sorted(head: HeadFacts, comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the target ids of the table do not rise."""
    if head.d2t == 0 or head.form == "gguf":
        return not_applicable("no table of offsets")
    if head.d2t_sorted is None:
        return unknown("the content of d2t was not read")
    words = "the target ids of d2t"
    return ok(f"{words} rise") if head.d2t_sorted else fail(f"{words} do not rise throughout")


@of_head
def head_made_for_vocabulary(
    head: HeadFacts, comparison: Comparison, setup: EngineSetup
) -> CheckOutcome:
    """Fail when the vocabulary that the head was made for has another size than the target's."""
    target = comparison.target.config.vocab_size
    made_for = head.t2d or head.vocab
    if target is None or made_for is None:
        return unknown("vocabulary size of the target or of the head was not read")
    words = f"the head was made for {made_for:,} ids, the target has {target:,}"
    return ok(words) if made_for == target else fail(words)


@of_head
def head_vocabulary_covers(
    head: HeadFacts, comparison: Comparison, setup: EngineSetup
) -> CheckOutcome:
    """Fail when the target has ids that the head's own vocabulary does not reach."""
    target = comparison.target.config.vocab_size
    if target is None or head.vocab is None:
        return unknown("number of tokens of the target or of the head was not read")
    words = f"the head knows {head.vocab:,} tokens, the target {target:,}"
    return fail(words) if head.vocab < target else ok(words)


@of_head
def head_mask_in_vocabulary(
    head: HeadFacts, comparison: Comparison, setup: EngineSetup
) -> CheckOutcome:
    """Fail when the mask token is no id of the target."""
    target = comparison.target.config.vocab_size
    if head.mask_token_id is None and head.declared is not None:
        return not_applicable("no mask_token_id")
    if head.mask_token_id is None or target is None:
        return unknown("mask token of the head or vocabulary of the target was not read")
    words = f"mask_token_id {head.mask_token_id:,}, target vocab_size {target:,}"
    return fail(words) if head.mask_token_id >= target else ok(words)


@of_head
def head_layers_elsewhere(
    head: HeadFacts, comparison: Comparison, setup: EngineSetup, *, place: str
) -> CheckOutcome:
    """Fail when the head lists its layers in a part of the config that the engine does not read."""
    if head.aux_layers is None:
        known = head.declared is not None
        return not_applicable("no layers named") if known else unknown("layers were not read")
    words = f"layers {', '.join(map(str, head.aux_layers[:8]))} stand in {head.aux_place}"
    return ok(words) if head.aux_place == place else fail(words)


@of_head
def head_form_is_not(
    head: HeadFacts, comparison: Comparison, setup: EngineSetup, *, form: str
) -> CheckOutcome:
    """Fail when the head is stored in this form."""
    if head.form is None:
        return unknown("the form of the head was not read")
    return fail(f"the head is in the {form} format") if head.form == form else ok(head.form)


@of_head
def head_form_known(
    head: HeadFacts, comparison: Comparison, setup: EngineSetup, *, form: str, kinds: dict[str, str]
) -> CheckOutcome:
    """Fail when this version cannot read a head of that kind in this form."""
    if head.form is None:
        return unknown("the form of the head was not read")
    if head.form != form:
        return ok(f"not in the {form} format")
    words = f"{form} format, kind {head.kind}"
    since = kinds.get(head.kind or "")
    there = since is not None and in_window(since, setup)
    return ok(words) if there else fail(words)


@of_head
def head_layer_type_in(
    head: HeadFacts, comparison: Comparison, setup: EngineSetup, *, types: list[str]
) -> CheckOutcome:
    """Fail when a speculators head is made of layers of another model type."""
    if head.form is None:
        return unknown("the form of the head was not read")
    if head.form != "speculators":
        return ok("not in the speculators format")
    if head.layer_type is None:
        return ok("no model_type: counts as llama")
    words = f"transformer_layer_config.model_type is {head.layer_type}"
    return ok(words) if head.layer_type in types else fail(words)


@of_head
def head_norm_before_fc(
    head: HeadFacts, comparison: Comparison, setup: EngineSetup, *, forms: dict[str, str]
) -> CheckOutcome:
    """Fail when the head has a norm before fc and this version does not know it in its form."""
    if head.declared is None:
        return unknown("norm_before_fc was not read")
    since = forms.get(head.form or "")
    if not head.norm_before_fc or since is None:
        return ok("no norm before fc")
    words = f"norm_before_fc is true ({head.form}, known from {since})"
    known = in_window(since, setup)
    return ok(words) if known else fail(words)
