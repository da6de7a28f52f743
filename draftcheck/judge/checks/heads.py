"""Checks on heads: does the draft that lives on the target's hidden states fit this target?

MTP layers are such a head: a target's own, or those of a file that has little else.

Where a check compares nothing because the draft is no head, or states no such thing, it does
not apply; where the files were not read, it is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypeVar

from draftcheck.judge.checks.hardware import asked, capability, without_cuda
from draftcheck.judge.checks.listed import (
    among_classes,
    first_class,
    in_window,
    is_listed,
    one_backend,
    quant_method,
    ran_by,
    whole_type,
)
from draftcheck.judge.checks.outcomes import (
    NO_LENGTH,
    UNTOLD,
    Settled,
    applies,
    fail,
    needed,
    not_applicable,
    ok,
    unknown,
)
from draftcheck.models.readers.heads import (
    LAYER,
    STAGE_LAYERS,
    dspark_stages,
    mtp_layers,
    stages_for,
    unstated_mtp,
)
from draftcheck.models.readers.weights.quantised import PACKED
from draftcheck.values.facts import ConfigFacts, HeadFacts, ModelFacts
from draftcheck.values.verdicts import EngineSetup, JudgedPair
from draftcheck.values.words import CheckOutcome, Outcome

T = TypeVar("T")
NO_HEAD = ("full", "encoder")
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
CACHED = re.compile(r"models--([\w.-]+?)--([\w.-]+)")
WIDTHS_UNREAD = "hidden size of the target or of the head was not read"
VOCABULARIES_UNREAD = "vocabulary size of the target or of the head was not read"
UNCOUNTED = "MTP layers could not be counted among the tensor names"
FORM_UNREAD = "the form of the head was not read"
NO_TYPE = "model_type was not read"
BLOCK_UNREAD = "the block size of the head was not read"
UNQUANTISED = frozenset({"F64", "F32", "F16", "BF16", "I64", "BOOL"})
"""Types of tensors that a checkpoint without quantisation has."""
PLAIN = (None, "auto", "half", "float16", "bfloat16")
"""Types that every part of an engine computes in."""
LEAST_PADDED = 0.9
"""A smaller part of a vocabulary lacks more than padding."""
USUAL_LAYERS = 3
"""Auxiliary layers where a head lists none: every engine takes three."""
OWN_LAYER = re.compile(r"(?:model\.)?(?:midlayer|layers\.(\d{1,4}))\.")
"""How tensors of an EAGLE or EAGLE-3 head's own layers begin; midlayer is the only one."""


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


def head_kind_in(
    pair: JudgedPair,
    *,
    kinds: list[str],
    inside: str = "",
    fails: list[str] | None = None,
    or_types: list[str] | None = None,
    unread_form: str = "",
    unread_classes: list[str] | None = None,
    unread_below: int = 0,
    unread_targets: dict[str, str] | None = None,
    classes: dict[str, str] | None = None,
    unless_classes: dict[str, str] | None = None,
) -> CheckOutcome:
    """Fail when the draft is not a head of one of these kinds.

    inside: a whole model that holds such layers is fine too: mtp, or the stages of dspark; fails:
    only these do, of others it is not known what happens, nor of heads in the form unread_form and
    of unread_classes, nor on GPUs below unread_below, nor for targets of unread_targets; or_types:
    whole models of these types hold such a head; classes, unless_classes: only drafts of these
    classes in these versions, or only the others.
    """
    applies(pair.draft, "the target drafts for itself")
    among_classes(pair, classes, unless_classes)
    role, head = needed(pair.drafter.role, UNTOLD), pair.drafter.head
    if role == "full" and head is not None:
        held = {"mtp": head.mtp_promised or head.mtp_present, "dspark": head.markov_rank}
        if held.get(inside):
            words = f"the draft is a whole model with {inside} layers"
            files = pair.target.gguf or pair.drafter.gguf
            if inside == "mtp" or files or stages_for(pair.target, pair.drafter):
                return ok(words)
            return unknown(f"{words}, of another type or size than the target")
    words = f"the draft is: {role}"
    if role in kinds or whole_type(pair.drafter.config) in (or_types or ()):
        return ok(words)
    if or_types:
        needed(whole_type(pair.drafter.config), f"{words}; {NO_TYPE}")
    unread = head is not None and role != "full" and head.form == unread_form
    if unread or _is_class(pair.drafter, unread_classes or []):
        return unknown(f"{words}, of a form or class that was not read with this method")
    if fails is not None and role not in fails:
        return unknown(words)
    if is_listed(name := first_class(pair.target.config), unread_targets or {}, pair.setup):
        return unknown(f"{words}; for a target of {name} other code is taken")
    return unread_gpu(pair.setup, unread_below, words) or fail(words)


def unread_gpu(setup: EngineSetup, floor: int, words: str) -> CheckOutcome | None:
    """Unknown on an older GPU, or one without CUDA, where the engine may take other code.

    It may do so for a KV cache or weights of a type of their own too.
    """
    given_type = next((name for name in (setup.kv_dtype, setup.dtype) if name not in PLAIN), None)
    if floor and given_type:
        return unknown(f"{words}; with {given_type} other code may be taken")
    given = 0 if floor and without_cuda(setup) else capability(setup)
    if given is None or given >= floor:
        return None
    return unknown(f"{words}; for {setup.gpu or 'the GPU'} other code may be taken")


def head_declares(
    pair: JudgedPair, *, fields: list[str], unless_classes: list[str] | None = None
) -> CheckOutcome:
    """Fail when the head's config or metadata does not state one of these.

    unless_classes: heads of these classes may state them elsewhere.
    """
    _of_other_class(pair, unless_classes)
    words = ", ".join(fields)
    declared = needed(head_of(pair).declared, f"{words} of the head: not read")
    missing = [name for name in fields if name not in declared]
    return fail(f"the head does not state {missing[0]}") if missing else ok(f"stated: {words}")


def head_width(
    pair: JudgedPair,
    *,
    own: bool = False,
    format: str = "",
    unread_classes: list[str] | None = None,
    unless_classes: list[str] | None = None,
) -> CheckOutcome:
    """Fail when the head was made for hidden states of another width.

    own: the engine takes the head's own width for it, whatever the head declares; format: only
    heads in a gguf file, or in a folder; unread_classes: these take the target's width, so a
    narrower head may fit; unless_classes: another rule speaks of these.
    """
    _in_format(pair, format)
    _of_other_class(pair, unless_classes)
    head = head_of(pair)
    wanted = needed(_width(head, own), WIDTHS_UNREAD)
    given = needed(pair.target.config.hidden, WIDTHS_UNREAD)
    words = f"the head reads hidden states of width {wanted:,}, the target's are {given:,} wide"
    if wanted == given:
        return ok(words)
    if _is_class(pair.drafter, unread_classes or []):
        return unknown(f"{words}, or as wide: its class takes the width from the target")
    return fail(words)


def _in_format(pair: JudgedPair, format: str) -> None:
    """Settle a check that holds for drafts in the other format only."""
    here = "gguf" if pair.drafter.gguf is not None else "folder"
    if format and here != format:
        raise Settled(not_applicable(f"the draft is a {here}"))


def _of_other_class(pair: JudgedPair, classes: list[str] | None) -> None:
    """Settle a check that heads of these classes are not asked."""
    if _is_class(pair.drafter, classes or []):
        raise Settled(ok("another rule speaks of heads of this class"))


def _width(head: HeadFacts, own: bool) -> int | None:
    return head.hidden if own or head.target_hidden is None else head.target_hidden


def head_aux_count(
    pair: JudgedPair,
    *,
    exactly: int,
    counted_in: str | None = None,
    captured: str | None = None,
    unless_layers: str | None = None,
    classes: list[str] | None = None,
    counted_classes: list[str] | None = None,
    by_fc: bool = False,
    last_states: str | None = None,
    by_list: bool = False,
    counted_key: str | None = None,
    given: dict[str, str] | None = None,
) -> CheckOutcome:
    """Fail when the head reads another number of the target's layers.

    counted_in: lists in this part of the config are counted, and so is a stated number; captured:
    versions that may capture graphs for the usual number all the same; unless_layers,
    counted_classes: speculators heads of such layers, and heads of such classes, are counted
    wherever the list stands; classes: only heads of these; by_fc: a head whose fc.weight takes that
    many is fine; last_states: the versions that know a head which reads the last states alone;
    by_list: the target hands out the layers of a counted list, else the usual number; counted_key:
    only lists of this name are counted; given: parts of the config from whose list of that name the
    target always takes the layers to hand out, in these versions.
    """
    _only_of(pair, classes)
    head, unread = head_of(pair), "the head's layers were not read"
    if last_states is not None and head.use_aux_hidden_state is False:
        words = "the head reads the last states alone"
        known = in_window(last_states, pair.setup)
        return ok(words) if known else unknown(f"{words}, which is known from {last_states} on")
    own = unless_layers is not None and head.layer_type == unless_layers
    own = own or _is_class(pair.drafter, counted_classes or [])
    stated = head.aux_number is not None and head.form != "speculators"
    named = counted_key is None or head.aux_key in (None, counted_key)
    counted = named and (own or head.aux_place == counted_in)
    if counted_in is not None and (stated or counted):
        number = head.aux_number if stated else head.aux_count
        if captured is not None and in_window(captured, pair.setup) and number != exactly:
            return unknown(f"the head reads {number} layers, graphs may be made for {exactly}")
        listed = len(head.aux_layers or ()) if head.aux_place == counted_in else 0
        if by_list and number != (listed or exactly):
            return unknown(f"the head reads {number} layers, the target gives {listed or exactly}")
        taken = named and is_listed(head.aux_place, given or {}, pair.setup)
        gives = len(head.aux_layers or ()) if taken else exactly
        if given is not None and number is not None and number != gives:
            return unknown(f"the head reads {number} layers, the target may give {gives}")
        return ok("the engine counts the layers that the config names")
    count = _stated(head, head.aux_count, ok("the usual layers"), unread)
    words = f"the head reads {count} layers of the target, the engine {exactly}"
    if by_fc and head.fc_in is not None and head.fc_in == exactly * (_width(head, False) or 0):
        return ok(f"fc.weight takes {exactly} hidden states")
    return ok(words) if count == exactly else fail(words)


def _is_class(facts: ModelFacts, classes: list[str]) -> bool:
    return bool(set(classes) & set(facts.config.architectures or ()))


def head_layers_in_range(
    pair: JudgedPair,
    *,
    beyond: int,
    unchecked: str | None = None,
    next_layer: dict[str, str] | None = None,
    shift_stated: str | None = None,
    looped: dict[str, str] | None = None,
    unless_classes: list[str] | None = None,
    trained_for: str | None = None,
    within: str | None = None,
    or_own: str | None = None,
    last_depends: int = 0,
    last_of: dict[str, str] | None = None,
    places: dict[str, str] | None = None,
    keys: dict[str, str] | None = None,
    unsure: list[str] | None = None,
) -> CheckOutcome:
    """Fail when the head names a layer that the target does not have.

    beyond: how many numbers after the last layer the engine still understands; unchecked: a list
    of this name is not compared, and what follows was not found out; next_layer: classes of heads
    for which these versions read the layer after the one that is named; shift_stated: versions in
    which a config may say that it is the named one after all; looped: classes of targets that run
    their layers several times, and count each time; unless_classes: another rule speaks of these;
    trained_for: the key of the head's config that must be the target's number of layers; within:
    the key whose number its layers must lie below too; or_own: versions in which the head's own
    number of layers stands in for it, where the config does not state it; last_depends: of so
    many numbers, the highest, not every class of target hands out the states; last_of: those that
    were read to hand them out; places: parts of the head's config in which these versions look for
    the list; keys: its names there; unsure: parts and names that not every run looks for.
    """
    _of_other_class(pair, unless_classes)
    head = head_of(pair)
    if head.aux_place and places and not is_listed(head.aux_place, places, pair.setup):
        return ok(f"layers named in {head.aux_place} are not asked for")
    if head.aux_key and keys and not is_listed(head.aux_key, keys, pair.setup):
        return ok(f"layers named as {head.aux_key} are not asked for")
    made_for = pair.drafter.config.sizes.get(trained_for or "")
    depth = pair.target.config.layers
    if isinstance(made_for, int) and made_for > 0 and depth is not None and made_for != depth:
        return fail(f"the head was made for {made_for} layers, the target has {depth}")
    name = first_class(pair.drafter.config)
    shift = int(is_listed(name, next_layer or {}, pair.setup))
    unread = "layers of the target or of the head were not read"
    none = not_applicable("the head names no layers")
    named = _stated(head, head.aux_layers or None, none, unread)
    highest = max(named)
    target = pair.target
    # A GGUF counts its MTP layers among the others.
    own = (target.gguf and target.head and target.head.mtp_promised) or 0
    layers = needed(target.config.layers, unread) - own
    words = f"the head reads layer {highest} (from 0), the target has {layers} layers"
    if within is not None and (why := _beyond_stated(pair, highest, within, unchecked, or_own)):
        return fail(f"{words}; {why}")
    kind = first_class(target.config)
    open_last = 0 if is_listed(kind, last_of or {}, pair.setup) else last_depends
    if 0 <= highest - (layers + beyond - open_last) < open_last:
        return unknown(f"{words}; whether it hands out those states was not found out")
    if highest < layers + beyond - shift:
        return ok(words)
    if shift_stated and highest < layers + beyond and in_window(shift_stated, pair.setup):
        return unknown(f"{words}; it reads the one after it, unless its config says otherwise")
    if unchecked is not None and head.aux_key == unchecked:
        return unknown(f"{words}; {unchecked} is not compared with it")
    for place in (head.aux_place, head.aux_key):
        if place in (unsure or ()):
            return unknown(f"{words}; whether {place} is looked at hangs on how the model is run")
    if is_listed(kind, looped or {}, pair.setup):
        return unknown(f"{words}, which it may run several times")
    return fail(words)


def _beyond_stated(
    pair: JudgedPair, highest: int, key: str, unchecked: str | None, or_own: str | None
) -> str:
    """Words for a layer above those that the head's own config gives its target."""
    head, sizes = head_of(pair), pair.drafter.config.sizes
    if head.aux_key is not None and head.aux_key == unchecked:
        return ""
    stated = sizes.get(key)
    if isinstance(stated, int):
        return f"{key} is {stated}" if highest >= stated else ""
    own = sizes and or_own is not None and in_window(or_own, pair.setup)
    if own and head.layers is not None and highest >= head.layers:
        return f"the config states no {key}: its own {head.layers} layers are taken for it"
    return ""


def head_architecture_known(
    pair: JudgedPair, *, known: dict[str, str], table: str | None = None, unread_below: int = 0
) -> CheckOutcome:
    """Fail when the head's class came with a later version; unknown for classes that nobody listed.

    table: configs that get the class of MTP layers in its place, which is known for no head.
    A speculators head names no class of an engine: head_form_known is asked about it.
    unread_below: nor is it known on older GPUs.
    """
    head = head_of(pair)
    if head.form == "speculators":
        return not_applicable("the speculators format names no class")
    name = needed(first_class(pair.drafter.config), "architecture was not read")
    words = f"the draft's architecture is {name}"
    if table is not None and (why := _other_class(pair.drafter.config, pair.setup, table)):
        return fail(f"the draft's {why}: it gets the class of MTP layers")
    if name not in known:
        return unknown(f"{words}, which is not in the list")
    if is_listed(name, known, pair.setup):
        return ok(words)
    words = f"{words}: {_from(known[name])}"
    return unread_gpu(pair.setup, unread_below, words) or fail(words)


def head_class_has_type(
    pair: JudgedPair, *, architecture: str, types: dict[str, str]
) -> CheckOutcome:
    """Fail when a head of this class has a model_type that this version takes for another one."""
    if head_of(pair).form == "speculators" or not _is_class(pair.drafter, [architecture]):
        return not_applicable(f"the draft is no {architecture}")
    name = needed(whole_type(pair.drafter.config), "the draft's model_type was not read")
    words = f"a {architecture} with model_type {name}"
    return ok(words) if is_listed(name, types, pair.setup) else fail(words)


def _from(window: str) -> str:
    """The words for a class that another version has; 99: only another engine does."""
    return "only another engine has it" if window == "99" else f"from {window.split(maxsplit=1)[0]}"


def _only_of(pair: JudgedPair, classes: list[str] | None) -> None:
    """Settle a check that holds for heads of these classes only."""
    if classes is None:
        return
    name = needed(first_class(pair.drafter.config), "architecture was not read")
    if name not in classes:
        raise Settled(not_applicable(f"the draft's architecture is {name}"))


def head_layer_count(
    pair: JudgedPair, *, at_most: int, classes: list[str] | None = None
) -> CheckOutcome:
    """Fail when the head has more layers of its own than the engine can run.

    classes: only heads of these classes.
    """
    _only_of(pair, classes)
    layers = needed(head_of(pair).layers, "the head's number of layers was not read")
    words = f"the head has {layers} layers"
    return fail(words) if layers > at_most else ok(words)


def head_layers_held(
    pair: JudgedPair, *, classes: list[str], unread_below: int = 0
) -> CheckOutcome:
    """Fail when the head's config counts more layers than its weights hold.

    classes: only heads of these classes; unread_below: on older GPUs it is not known.
    """
    _only_of(pair, classes)
    layers = needed(head_of(pair).layers, "the head's number of layers was not read")
    if layers <= 1:
        return ok(f"the head counts {layers} layer{'' if layers == 1 else 's'}")
    names = needed(pair.drafter.weights.tensors, "the names of the head's tensors were not read")
    numbers = (OWN_LAYER.match(name) for name in names)
    held = {int(found[1] or 0) for found in numbers if found}
    words = f"the head's config counts {layers} layers, its weights hold {len(held)}"
    if not held or len(held) >= layers:
        return ok(words)
    return unread_gpu(pair.setup, unread_below, words) or fail(words)


def head_fc(
    pair: JudgedPair,
    *,
    own: bool = False,
    always: int = 0,
    counted_in: str | None = None,
    or_usual: bool = False,
    classes: list[str] | None = None,
    last_states: str | None = None,
) -> CheckOutcome:
    """Fail when fc.weight does not have the shape that the head's own config asks for.

    own: the engine takes the head's own width for the target's; always: it takes so many layers,
    whatever the config says; counted_in: only lists in this part of the config are counted;
    or_usual: a list may stand where it is not counted, and then the usual number is built;
    classes: only heads of these; last_states: in these versions a head that reads the last states
    alone is built without fc.
    """
    _only_of(pair, classes)
    head = head_of(pair)
    alone = last_states is not None and in_window(last_states, pair.setup)
    if alone and head.use_aux_hidden_state is False:
        return ok("the head reads the last states alone: no fc is built")
    if head.fc_in is None or head.fc_out is None:
        listed = pair.drafter.weights.tensors is not None
        return not_applicable("no fc.weight") if listed else unknown("fc.weight was not read")
    hidden = needed(head.hidden, "the head's hidden size was not read")
    width = needed(_width(head, own), "the head's hidden size was not read")
    counted = head.aux_count
    if counted_in is not None and head.aux_place != counted_in:
        counted = head.aux_number
    count = always or counted or USUAL_LAYERS
    counts = {count, USUAL_LAYERS} if or_usual else {count}
    words = (
        f"fc.weight is {head.fc_in:,} -> {head.fc_out:,},"
        f" the {'engine' if always else 'config'} asks for {count} x {width:,} -> {hidden:,}"
    )
    fits = head.fc_out == hidden and head.fc_in in {number * width for number in counts}
    return ok(words) if fits else fail(words)


def head_fc_unbiased(
    pair: JudgedPair,
    *,
    only_classes: list[str] | None = None,
    unread_below: int = 0,
    announced: bool = False,
    or_type: str | None = None,
) -> CheckOutcome:
    """Fail when fc has a bias, in a head of these classes; unread_below: not on older GPUs.

    announced: a bias that config.json names (eagle_fc_bias) is fine; or_type: heads of this type
    that name no class are of these classes.
    """
    config = pair.drafter.config
    if or_type is None or config.outer_type != or_type or config.architectures:
        _only_of(pair, only_classes)
    head = head_of(pair)
    if head.fc_bias is None:
        return not_applicable("tensors were not read")
    if not head.fc_bias:
        return ok("fc has no bias")
    words = "the head has a tensor fc.bias"
    if announced:
        if head.eagle_fc_bias:
            return ok(f"{words}, and eagle_fc_bias in config.json")
        needed(head.declared, f"{words}; whether config.json has eagle_fc_bias was not read")
        words = f"{words}, and config.json no eagle_fc_bias"
    return unread_gpu(pair.setup, unread_below, words) or fail(words)


def head_plain_beside_quantised(
    pair: JudgedPair,
    *,
    apart: list[str],
    formats: list[str],
    classes: list[str],
    unread_below: int,
    by_weights: list[str] | None = None,
) -> CheckOutcome:
    """one_backend() where the target alone is apart; unread_below: not known on older GPUs."""
    seen = one_backend(
        pair, apart=apart, formats=formats, classes=classes, by_weights=by_weights, alone="target"
    )
    fails = seen.outcome is Outcome.FAIL
    return (unread_gpu(pair.setup, unread_below, seen.saw) if fails else None) or seen


def head_cache_width(pair: JudgedPair, *, unread_below: int = 0) -> CheckOutcome:
    """Fail when the head's layer keeps more or fewer values per token than one of the target.

    As many, in other heads, were not read. unread_below: on older GPUs it is not known.
    """
    head_of(pair)
    if pair.target.config.sizes.get("kv_lora_rank"):
        return not_applicable("the target keeps latent vectors")
    ranks, layers = pair.setup.tensor_parallel or 1, []
    for config in (pair.drafter.config, pair.target.config):
        heads = needed(config.kv_heads, "key-value heads were not read")
        size = needed(config.head_dim, "the size of the heads was not read")
        layers.append((max(1, heads // ranks), size))
    widths = [heads * size for heads, size in layers]
    words = f"a layer keeps keys of {widths[0]:,} (head) and {widths[1]:,} (target) per token"
    if layers[0] == layers[1]:
        return ok(words)
    if widths[0] == widths[1]:
        return unknown(f"{words}, of {layers[0][1]} and {layers[1][1]} per head")
    return unread_gpu(pair.setup, unread_below, words) or fail(words)


def head_ids_mapped(
    pair: JudgedPair,
    *,
    classes: list[str] | None = None,
    unless_classes: list[str] | None = None,
    smaller: bool = False,
    padded: bool = False,
    kept: bool = True,
    within: bool = False,
    asked: bool = False,
    or_vocab: bool = False,
    output: bool = False,
    embedding: bool = False,
) -> CheckOutcome:
    """Fail when the head has a vocabulary of its own and no table to the target's ids.

    classes, unless_classes: only heads of these classes, or only the others; "speculators" among
    classes means heads in that format, whose class the engine picks. smaller: a larger vocabulary
    is fine; padded: and so is one that lacks nothing but rows without a token; kept: false where
    the engine makes nothing of a table; within: the engine compares two numbers of the head's own
    config; asked: it asks for the table whatever the numbers are; or_vocab: where the head states
    none of its own, its vocab_size counts; output: such a head must have an lm_head too (with a
    larger vocabulary that is fine, it is not known what becomes of one without); embedding: a
    head whose vocab_size is larger than the target's must have embed_tokens.
    """
    head = head_of(pair)
    built = head.form in (classes or ()) or _is_class(pair.drafter, classes or [])
    if (classes and not built) or _is_class(pair.drafter, unless_classes or []):
        return not_applicable("the draft is of another class")
    none = ok("the head has no vocabulary of its own")
    stated = head.vocab if or_vocab and head.draft_vocab is None else head.draft_vocab
    own = _stated(head, stated, none, VOCABULARIES_UNREAD)
    whole = head.vocab if within else pair.target.config.vocab_size
    target = needed(whole, VOCABULARIES_UNREAD)
    if embedding and (fault := _larger_unembedded(head, target)):
        return fail(fault)
    words = f"draft_vocab_size {own:,}, {'vocab_size' if within else 'target'} {target:,}"
    if output and smaller and own > target and head.lm_head is not True:
        return unknown(f"{words}, and no lm_head of its own was found")
    if not asked and (own == target or (smaller and own > target)):
        return ok(words)
    if not kept:
        return fail(words)
    needed(head.d2t, f"{words}; whether there is a d2t tensor was not read")
    if padded and not head.d2t:
        tokens = pair.target.tokenizer.length
        if tokens is None and own > target * LEAST_PADDED:
            return unknown(f"{words}; whether only padding is missing was not read")
        if tokens is not None and own >= tokens:
            return ok(f"{words}, of which {tokens:,} are tokens")
    if output and head.d2t and head.lm_head is False:
        return fail(f"{words}, and no lm_head")
    return ok(f"{words}, with d2t") if head.d2t else fail(f"{words}, and no d2t tensor")


def head_table_has_place(pair: JudgedPair, *, classes: list[str] | None = None) -> CheckOutcome:
    """Fail when a head with as many ids as the target brings a table to the target's ids.

    classes: head_ids_mapped().
    """
    head = head_of(pair)
    if classes and head.form not in classes and not _is_class(pair.drafter, classes):
        return not_applicable("the draft is of another class")
    own = head.vocab if head.draft_vocab is None else head.draft_vocab
    own, target = needed(own, VOCABULARIES_UNREAD), pair.target.config.vocab_size
    words = f"the head has {own:,} ids, the target {needed(target, VOCABULARIES_UNREAD):,}"
    if own != target:
        return ok(words)
    found = needed(head.d2t, f"{words}; whether there is a d2t tensor was not read")
    return fail(f"{words}, and there is a d2t tensor") if found else ok(f"{words}, and no d2t")


def _larger_unembedded(head: HeadFacts, target: int) -> str:
    """Words for a head with more ids than the target has rows to look them up, and none itself."""
    if head.vocab is None or head.vocab <= target:
        return ""
    words = f"the head's vocab_size {head.vocab:,}, target {target:,}"
    found = needed(head.embed_tokens, f"{words}; the names of the head's tensors were not read")
    return "" if found else f"{words}, and no embed_tokens"


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


def head_has_no_tensor(pair: JudgedPair, *, names: list[str], classes: list[str]) -> CheckOutcome:
    """Fail when a head of these classes has a tensor of one of these names."""
    _only_of(pair, classes)
    head_of(pair)
    tensors = needed(pair.drafter.weights.tensors, "the names of the head's tensors were not read")
    found = next((name for name in names if name in tensors), None)
    return fail(f"the head has a tensor {found}") if found else ok(f"no tensor {names[0]}")


def head_without_embedding(pair: JudgedPair) -> CheckOutcome:
    """Fail when the head has an embedding of its own."""
    found = needed(head_of(pair).embed_tokens, "the names of the head's tensors were not read")
    return fail("embed_tokens is there") if found else ok("no tensor embed_tokens")


def head_embeds_over_stages(
    pair: JudgedPair, *, kept: dict[str, str] | None = None, first: list[str] | None = None
) -> CheckOutcome:
    """Fail when stages are asked for and the head borrows the embedding of the first one.

    A target that ties its embeddings has them on the last stage too; kept: so have these classes;
    first: these have not, and of others it is not known.
    """
    size = applies(pair.setup.pipeline_parallel, "no pipeline parallelism asked for")
    head, tied = head_of(pair), pair.target.config.tied
    if size == 1:
        return ok("one pipeline stage")
    found = needed(head.embed_tokens, "the names of the head's tensors were not read")
    if found or tied:
        return ok("embed_tokens is there" if found else "the target ties its embeddings")
    words = f"pipeline parallel size {size}, and the head has no embed_tokens"
    name = needed(first_class(pair.target.config), "architecture was not read")
    if is_listed(name, kept or {}, pair.setup):
        return ok(f"{name} has its embedding on the last stage too")
    plain = tied is False and pair.target.config.multimodal is False
    return fail(words) if plain and (first is None or name in first) else unknown(words)


def head_names_vocabulary(
    pair: JudgedPair, *, classes: list[str], or_null: bool = False, tied: bool | None = None
) -> CheckOutcome:
    """Fail when a head of these classes lacks the key draft_vocab_size; null counts as there.

    or_null: null is refused too, whether the embeddings are tied or not; tied: whether one that
    ties its embeddings is asked for the key; unknown where it is not said.
    """
    head = head_of(pair)
    if not _is_class(pair.drafter, classes) or head.draft_vocab_named is None:
        return not_applicable("the draft is of another class, or its keys were not listed")
    if head.draft_vocab is not None if or_null else head.draft_vocab_named:
        return ok("the config has the key draft_vocab_size")
    words = "the config has no key draft_vocab_size"
    if pair.drafter.config.tied and not or_null and not tied:
        words = f"{words}, and ties its embeddings"
        return ok(words) if tied is False else unknown(words)
    return fail(words)


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


def head_mask_named(
    pair: JudgedPair, *, keys: dict[str, str], unsure: dict[str, str]
) -> CheckOutcome:
    """Fail when a head names its mask token where this version does not look; keys: name -> since.

    The speculators format is turned into a config of the engine's own, so it is not asked.
    unsure: names that only a part of the engine reads.
    """
    head = head_of(pair)
    if head.form == "speculators" or head.mask_keys is None:
        return not_applicable("in the speculators format, or no mask token named")
    unread = mask_key_unread(head, keys, pair.setup)
    if unread and not mask_key_unread(head, unsure, pair.setup):
        return unknown(unread)
    return fail(unread) if unread else ok(f"named as {', '.join(head.mask_keys)}")


def mask_key_unread(head: HeadFacts, keys: Mapping[str, str], setup: EngineSetup) -> str:
    """Words for a mask token that the config names in no way that this version knows."""
    named = head.mask_keys or ()
    if not named or any(is_listed(name, keys, setup) for name in named):
        return ""
    return f"the mask token is named as {', '.join(named)}"


def head_mask_in_vocabulary(
    pair: JudgedPair,
    *,
    unpadded: dict[str, str] | None = None,
    keys: dict[str, str] | None = None,
) -> CheckOutcome:
    """Fail when the mask token is no id of the target.

    keys: the names that these versions read it under, where not all of them; unpadded: types of
    targets for which these versions count without padding, which config.json states under a name
    that is not read here.
    """
    head, unread = head_of(pair), "mask token of the head or vocabulary of the target was not read"
    mask = _stated(head, head.mask_token_id, not_applicable("no mask_token_id"), unread)
    target = needed(pair.target.config.vocab_size, unread)
    words = f"mask_token_id {mask:,}, target vocab_size {target:,}"
    if keys and (unread := mask_key_unread(head, keys, pair.setup)):
        return unknown(f"{words}; {unread}, and not read there")
    if mask < target and unpadded:
        name = needed(whole_type(pair.target.config), f"{words}; {NO_TYPE}")
        if is_listed(name, unpadded, pair.setup):
            return unknown(f"{words}, of which padding is taken off")
    return fail(words) if mask >= target else ok(words)


def head_layers_elsewhere(
    pair: JudgedPair, *, place: str, key: str, first: int, middle: int, last: int
) -> CheckOutcome:
    """Fail when the head lists its layers under a name that the engine does not read.

    first, middle, last: the layers that it takes then, counted from 0, the middle and the end.
    """
    head, none = head_of(pair), not_applicable("no layers named")
    if not (layers := _stated(head, head.aux_layers, none, "layers were not read")):
        return none
    words = f"layers {', '.join(map(str, layers[:8]))} stand in {head.aux_place}"
    if head.aux_place == place and head.aux_key in (None, key):
        return ok(words)
    if (count := pair.target.config.layers) is not None:
        taken = (first, count // 2 + middle, count + last)
        # Some heads number what a layer gives, others what the next one gets.
        if layers in (taken, tuple(number + 1 for number in taken)):
            return ok(f"{words}, and are the usual ones")
    return fail(f"{words}, as {head.aux_key}" if head.aux_place == place else words)


def head_layers_added(
    pair: JudgedPair, *, place: str, classes: dict[str, str], first: int, middle: int, last: int
) -> CheckOutcome:
    """Fail when a target of these classes takes the layers of that list beside the usual ones.

    first, middle, last: the usual ones, counted from 0, the middle and the end.
    """
    head, none = head_of(pair), not_applicable("no layers named")
    if not (layers := _stated(head, head.aux_layers, none, "layers were not read")):
        return none
    own = needed(first_class(pair.target.config), "the target's class")
    if head.aux_place != place or not is_listed(own, classes, pair.setup):
        return ok(f"layers stand in {head.aux_place}, target architecture is {own}")
    count = needed(pair.target.config.layers, "layers of the target were not read")
    words = f"layers {', '.join(map(str, layers[:8]))} stand in {place}, the target is a {own}"
    usual = (first, count // 2 + middle, count + last)
    return ok(f"{words}: the usual ones") if layers == usual else fail(words)


def head_form_is_not(
    pair: JudgedPair, *, form: str, kinds: dict[str, str] | None = None
) -> CheckOutcome:
    """Fail when the head is stored in this form; kinds: and this version reads these in it."""
    head = head_of(pair)
    found = needed(head.form, FORM_UNREAD)
    if found != form:
        return ok(found)
    if kinds is not None and not is_listed(head.kind, kinds, pair.setup):
        return ok(f"{form} format, kind {head.kind}: another rule says it")
    return fail(f"the head is in the {form} format")


def head_form_known(pair: JudgedPair, *, form: str, kinds: dict[str, str]) -> CheckOutcome:
    """Fail when this version cannot read a head of that kind in this form."""
    head = head_of(pair)
    if needed(head.form, FORM_UNREAD) != form:
        return ok(f"not in the {form} format")
    words = f"{form} format, kind {head.kind}"
    return ok(words) if is_listed(head.kind, kinds, pair.setup) else fail(words)


def head_layer_type_in(
    pair: JudgedPair, *, types: list[str], fails: list[str] | None = None
) -> CheckOutcome:
    """Fail when a speculators head is made of layers of another model type.

    fails: only these do, of others it is not known what happens.
    """
    head = head_of(pair)
    if needed(head.form, FORM_UNREAD) != "speculators":
        return ok("not in the speculators format")
    if head.layer_type is None:
        return ok("no model_type: counts as llama")
    words = f"transformer_layer_config.model_type is {head.layer_type}"
    if head.layer_type in types:
        return ok(words)
    return unknown(words) if fails is not None and head.layer_type not in fails else fail(words)


def head_embeds_in_order(pair: JudgedPair) -> CheckOutcome:
    """Fail when an assistant looks for tokens among centroids (use_ordered_embeddings)."""
    config = pair.drafter.config
    needed(config.model_type, "the draft's config was not read")
    if config.sizes.get("use_ordered_embeddings"):
        return fail("the head's config sets use_ordered_embeddings")
    return ok("no ordered embeddings")


def head_norm_before_fc(
    pair: JudgedPair,
    *,
    forms: dict[str, str],
    classes: list[str] | None = None,
    nested: str | None = None,
) -> CheckOutcome:
    """Fail when the head has a norm before fc and this version does not know it in its form.

    classes: only heads of these classes; nested: when it is known in a part of the config.
    """
    head = head_of(pair)
    needed(head.declared, "norm_before_fc was not read")
    if classes is not None and not _is_class(pair.drafter, classes):
        return ok("the head is of another class")
    form, since = head.form, forms.get(head.form or "")
    if nested is not None and head.norm_place not in (None, "root"):
        form, since = head.norm_place, nested
    if not head.norm_before_fc or since is None:
        return ok("no norm before fc")
    when = "read in no version" if since == "9999" else f"known from {since}"
    words = f"norm_before_fc is true ({form}, {when})"
    return ok(words) if in_window(since, pair.setup) else fail(words)


def head_fc_norms(
    pair: JudgedPair,
    *,
    known: dict[str, str],
    form: str = "",
    classes: list[str] | None = None,
) -> CheckOutcome:
    """Fail when the head norms each hidden state before fc and its class does not, here.

    form: only heads that are stored in it; classes: only heads of these.
    """
    _only_of(pair, classes)
    head = head_of(pair)
    needed(head.declared, "fc_norm was not read")
    if form and needed(head.form, FORM_UNREAD) != form:
        return ok(f"not in the {form} format")
    if not head.fc_norm:
        return ok("no norms before fc")
    name = needed(first_class(pair.drafter.config), "architecture was not read")
    words = f"the head has a norm for each state, its architecture is {name}"
    return ok(words) if is_listed(name, known, pair.setup) else fail(words)


def head_norms_output(
    pair: JudgedPair, *, forms: dict[str, str], classes: list[str] | None = None
) -> CheckOutcome:
    """Fail when the head hands on its normed states and this version does not in its form.

    classes: only heads of these classes.
    """
    head = head_of(pair)
    needed(head.declared, "norm_output was not read")
    if classes is not None and not _is_class(pair.drafter, classes):
        return ok("the head is of another class")
    form = needed(head.form, FORM_UNREAD)
    if not head.norm_output or is_listed(form, forms, pair.setup):
        return ok("the states handed on are those that the head was trained with")
    return fail(f"norm_output is true ({form} format)")


def head_norms_residual(pair: JudgedPair) -> CheckOutcome:
    """Fail when the head was trained with the residual taken behind its norm."""
    head = head_of(pair)
    needed(head.declared, "norm_before_residual was not read")
    on = head.norm_before_residual
    return (
        fail("norm_before_residual is true") if on else ok("the residual is taken before the norm")
    )


def head_samples_at_anchor(pair: JudgedPair, *, form: str = "") -> CheckOutcome:
    """Fail when a block head drafts at its anchor too.

    form: only heads stored in it say so where the engine is sure to look.
    """
    head = head_of(pair)
    needed(head.declared, "sample_from_anchor was not read")
    if not head.sample_from_anchor:
        return ok("nothing is drafted at the anchor")
    words = "sample_from_anchor is true"
    if form and needed(head.form, FORM_UNREAD) != form:
        return unknown(f"{words}; it may stand where it is not looked for")
    return fail(words)


def head_reads_layers(pair: JudgedPair, *, unless_classes: list[str] | None = None) -> CheckOutcome:
    """Fail when the head reads the target's last states alone; unless_classes: these may."""
    _of_other_class(pair, unless_classes)
    head = head_of(pair)
    needed(head.declared, "use_aux_hidden_state of the head was not read")
    if head.form == "speculators":
        return ok("the speculators format has no use_aux_hidden_state")
    alone = head.use_aux_hidden_state is False
    return fail("use_aux_hidden_state is false") if alone else ok("the head reads layers")


def head_has_mask_state(pair: JudgedPair) -> CheckOutcome:
    """Fail when a head that drafts in parallel has no state for the tokens that are not there."""
    found = needed(head_of(pair).mask_hidden, "whether there is a tensor mask_hidden was not read")
    return ok("mask_hidden is there") if found else fail("no tensor mask_hidden")


def head_markov(
    pair: JudgedPair,
    *,
    lacks: str,
    types: list[str],
    places: dict[str, str],
    unless_classes: list[str] | None = None,
) -> CheckOutcome:
    """Fail when a DSpark head has no Markov step, states no kind of it, or another kind.

    lacks: which of the three is asked: rank, kind, known-kind; places: parts of the config that
    this version reads them in. A config with names of its own (dspark_…) need not state the kind.
    unless_classes: heads of these classes keep them elsewhere, and are not asked.
    """
    head = head_of(pair)
    if _is_class(pair.drafter, unless_classes or []):
        return ok("its class keeps them elsewhere")
    needed(head.declared, "markov_rank of the head was not read")
    rank, kind = head.markov_rank or 0, head.markov_head_type
    if head.markov_place is not None and not is_listed(head.markov_place, places, pair.setup):
        words = f"markov_rank {rank} stands in {head.markov_place}, where it is not used"
        return fail(words) if lacks == "rank" else not_applicable(words)
    words = f"markov_rank {rank}, markov_head_type {kind}"
    if lacks == "rank":
        return ok(words) if rank > 0 else fail(words)
    if rank <= 0:
        return not_applicable(words)
    if lacks == "kind":
        unnamed = kind is None and head.block_key != "dspark_block_size"
        return fail(words) if unnamed else ok(words)
    return ok(words) if kind is None or kind.lower() in types else fail(words)


def draft_tokens_at_most(
    pair: JudgedPair,
    *,
    most: int,
    latent: bool = False,
    below: int = 0,
    float32: bool = False,
    unread_gpus: list[str] | None = None,
) -> CheckOutcome:
    """Fail when more tokens are asked for; latent: for targets that keep latent vectors (MLA).

    below: then on GPUs of lower capability for every target; float32: with that --dtype too, where
    no GPU without CUDA is named; unread_gpus: on these it is not known.
    """
    tokens = applies(pair.setup.draft_tokens, NO_LENGTH)
    words = f"{tokens} draft tokens, at most {most}"
    if tokens <= most:
        return ok(words)
    if latent:
        needed(pair.target.config.model_type, "the target's config was not read")
        if not pair.target.config.sizes.get("kv_lora_rank"):
            given = capability(pair.setup)
            if given is not None and given < below:
                return fail(f"{words} on {pair.setup.gpu}")
            if float32 and asked(pair.setup) == "float32" and not without_cuda(pair.setup):
                return fail(f"{words} in float32")
            if str(given) in (unread_gpus or ()):
                return unknown(f"{tokens} draft tokens on {pair.setup.gpu}")
            return ok(f"{tokens} draft tokens, the target keeps no latent vectors")
    return fail(words)


def draft_tokens_at_least_block(pair: JudgedPair, *, key: str) -> CheckOutcome:
    """Fail when fewer tokens are asked for than the block has, where the config names it so."""
    tokens, head = applies(pair.setup.draft_tokens, NO_LENGTH), _block_head(pair)
    if head.block_key != key:
        return ok(f"no {key}")
    words = f"{tokens} draft tokens, {key} {head.block_size}"
    return fail(words) if tokens < (head.block_size or 0) else ok(words)


def draft_tokens_within_block(
    pair: JudgedPair,
    *,
    whole: bool = False,
    over: int | None = None,
    multiples: bool = False,
    classes: list[str] | None = None,
    unless_classes: list[str] | None = None,
) -> CheckOutcome:
    """Fail when more tokens are asked for than the head was made to propose at once.

    whole: fewer fail too; over: the engine's option counts the last token too, and may be the
    block size and this; multiples: the engine takes multiples of the block size as well; classes,
    unless_classes: only heads of these classes, or the others.
    """
    tokens, head = applies(pair.setup.draft_tokens, NO_LENGTH), _block_head(pair)
    if classes is not None:
        needed(pair.drafter.config.architectures, "architecture was not read")
    alien = classes is not None and not _is_class(pair.drafter, classes)
    if alien or _is_class(pair.drafter, unless_classes or []):
        return not_applicable("the draft is of another class")
    if multiples:
        size = _stated(head, head.block_size, not_applicable("no block size"), BLOCK_UNREAD)
        words = f"{tokens} draft tokens, block size {size}"
        return fail(words) if tokens > size > 0 and tokens % size else ok(words)
    if over is not None:
        unstated = not_applicable("the head states no block size")
        most = _stated(head, head.block_size, unstated, BLOCK_UNREAD) + over
        words = f"{tokens} tokens in a block, the head was made for {most}"
    else:
        most = needed(head.block_drafts, BLOCK_UNREAD)
        words = f"{tokens} draft tokens, the head was made to propose {most}"
    return fail(words) if tokens > most or (whole and tokens < most) else ok(words)


def _block_head(pair: JudgedPair) -> HeadFacts:
    return needed(pair.drafter.head, BLOCK_UNREAD)


def mlp_draft_tokens(pair: JudgedPair, *, at_most: bool) -> CheckOutcome:
    """Fail when an MLP speculator is asked for more tokens than it predicts.

    at_most: for any more; otherwise multiples are fine where its stages share their weights.
    """
    tokens = applies(pair.setup.draft_tokens, NO_LENGTH)
    if pair.drafter.role != "mlp_speculator":
        return not_applicable(f"the draft is: {pair.drafter.role}")
    most = pair.drafter.config.sizes.get("n_predict")
    if not isinstance(most, int) or most < 1:
        return not_applicable("no n_predict was read")
    words = f"{tokens} draft tokens, n_predict {most}"
    tied = pair.drafter.config.sizes.get("tie_weights") is True
    return fail(words) if tokens > most and (at_most or tokens % most or not tied) else ok(words)


def omni_draft(
    pair: JudgedPair, *, targets: list[str], architecture: str, markov: str
) -> CheckOutcome:
    """Fail when a target with a class of drafter of its own is given another, or one for another.

    The engine compares more than this; what it compares here, it refuses for certain.
    """
    _only_for(pair, targets)
    head, target = head_of(pair), pair.target.config
    if architecture not in needed(pair.drafter.config.architectures, "architecture was not read"):
        return fail(f"the draft is no {architecture}")
    needed(head.declared, "the head's config was not read")
    draft = pair.drafter.config
    equal = {
        "target_hidden_size": (head.target_hidden, target.hidden),
        "hidden_size": (head.hidden, target.hidden),
        "num_attention_heads": (draft.heads, target.heads),
        "num_key_value_heads": (draft.kv_heads, target.kv_heads),
        "head_dim": (draft.head_dim, target.head_dim),
        "markov_head_type": (head.markov_head_type, markov),
    }
    for name, (ours, wanted) in equal.items():
        if ours != needed(wanted, f"{name} of the target was not read"):
            return fail(f"{name} is {ours}, must be {wanted}")
    last = needed(target.layers, "the target's number of layers was not read")
    ids = needed(target.vocab_size, VOCABULARIES_UNREAD)
    own, layers, mask = needed(head.vocab, VOCABULARIES_UNREAD), head.aux_layers, head.mask_token_id
    # The speculators format counts layers from 1, and takes no sample_from_anchor for false.
    first, anchors = (1, (True,)) if head.form == "speculators" else (0, (True, None))
    inside = {n for n in layers or () if 0 <= n - first < last}
    rising = list(layers or ()) == sorted(inside)
    sound = {
        "block_size": (head.block_size or 0) > 0,
        "target_layer_ids": bool(layers) and rising,
        "markov_rank": (head.markov_rank or 0) > 0 and head.markov_place in (None, "root"),
        "use_aux_hidden_state": head.use_aux_hidden_state is True,
        "sample_from_anchor": head.sample_from_anchor in anchors,
        "draft_vocab_size": (head.draft_vocab or own) <= ids,
        "mask_token_id": mask is not None and 0 <= mask < own,
        "mrope_section": draft.mrope is not True,
    }
    if wrong := [name for name, good in sound.items() if not good]:
        return fail(f"{wrong[0]} of the draft is missing or does not fit")
    return ok(f"a {architecture} of this width")


def omni_draft_tokens(pair: JudgedPair, *, targets: list[str], architecture: str) -> CheckOutcome:
    """Fail when such a target is asked for another number of tokens than the block has.

    A drafter of another class is refused before that.
    """
    _only_for(pair, targets)
    if architecture not in needed(pair.drafter.config.architectures, "architecture was not read"):
        return ok(f"the draft is no {architecture}: another rule says it")
    tokens, head = applies(pair.setup.draft_tokens, NO_LENGTH), _block_head(pair)
    size = needed(head.block_size, BLOCK_UNREAD)
    words = f"{tokens} draft tokens, block size {size}"
    return ok(words) if tokens == size else fail(words)


def _only_for(pair: JudgedPair, targets: list[str]) -> None:
    """Settle a check that is about other types of target."""
    name = needed(whole_type(pair.target.config), "the target's model_type was not read")
    if name not in targets:
        raise Settled(not_applicable(f"the target's model_type is {name}"))


def medusa_draft_tokens(pair: JudgedPair) -> CheckOutcome:
    """Fail when more tokens are asked for than there are Medusa heads."""
    tokens, head = applies(pair.setup.draft_tokens, NO_LENGTH), head_of(pair)
    most = applies(head.medusa_heads, "no number of Medusa heads was read")
    words = f"{tokens} draft tokens, {most} Medusa heads"
    return fail(words) if tokens > most else ok(words)


def medusa_names_are(pair: JudgedPair, *, names: str) -> CheckOutcome:
    """Fail when the tensors of Medusa heads have other names than the engine's."""
    found = needed(head_of(pair).medusa_names, "the names of the head's tensors were not read")
    words = f"the tensors have the names of {found}"
    return ok(words) if found == names else fail(words)


def medusa_biases_kept(pair: JudgedPair) -> CheckOutcome:
    """Fail when Medusa heads have biases that their config does not announce."""
    dropped = needed(head_of(pair).medusa_bias_dropped, "the names of the tensors were not read")
    return fail("biases, and no medusa_fc_bias") if dropped else ok("no biases are left out")


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
    verifier, called = draft.verifier[:200], target.called[-200:]
    cached = CACHED.search(called)
    name = f"{cached[1]}/{cached[2]}" if cached else called.rstrip("/\\")
    wanted, given = (text.replace("\\", "/").split("/")[-1].casefold() for text in (verifier, name))
    words = f"the head was made for {verifier}, the target is {name}"
    if wanted in given or given in wanted:
        return ok(words)
    return fail(words) if REPOSITORY.fullmatch(name) else unknown(f"{words}: not comparable")


def one_thinking_mode(pair: JudgedPair) -> CheckOutcome:
    """Fail when the target can think or not, and a head of another checkpoint drafts for it."""
    applies(pair.draft, "the target drafts for itself")
    head_of(pair)
    switch = applies(pair.target.tokenizer.thinking_switch, "no chat template was read")
    words = "the target's chat template switches thinking"
    return fail(f"{words} on and off") if switch else ok("the target has one mode")


# ---- MTP layers ----


def own_layers_named(
    pair: JudgedPair, *, families: dict[str, str], must_state: dict[str, str]
) -> CheckOutcome:
    """Fail when the target's config class has no number of MTP layers in this version.

    must_state: families whose class has none either, unless config.json does -> the least number.
    """
    config = pair.target.config
    names = [name for name in (config.model_type, config.outer_type) if name is not None]
    if not names:
        return unknown("the target's model_type was not read")
    words = f"target model_type is {names[0]}"
    least, stated = must_state.get(names[0]), config.mtp_layers
    if least is not None and (stated is None or stated < int(least)):
        return fail(f"{words}, and its config states no MTP layers")
    since = next((families[name] for name in names if name in families), None)
    if since is None:
        return fail(f"{words}, which has no number of MTP layers here")
    if stated is None and config.sizes.get("num_nextn_predict_layers", 0) is None:
        return fail(f"{words}, and num_nextn_predict_layers is null")
    return ok(words) if in_window(since, pair.setup) else fail(f"{words}: from {since}")


def mtp_number_stated(
    pair: JudgedPair, *, architectures: list[str], backends: dict[str, str] | None = None
) -> CheckOutcome:
    """Fail when a model of these classes states no MTP layers; backends: ran_by()."""
    ran_by(pair, backends)
    for side, facts in pair.both:
        named = facts.config.architectures or None
        name = needed(named, f"the {side}'s architecture was not read")[0]
        if name in architectures and not facts.config.mtp_layers:
            return fail(f"{side} architecture is {name}, without MTP layers")
    return ok("no such class, or with MTP layers")


def mtp_number_is_one(
    pair: JudgedPair, *, classes: dict[str, str], unstated: dict[str, str]
) -> CheckOutcome:
    """Fail when a config of these classes, of the model with the layers, states another number.

    unstated: where it states none, these versions take it for one.
    """
    config, side = pair.drafter.config, pair.drafter_side
    named = needed(config.architectures or None, f"the {side}'s architecture was not read")
    words = f"{side} architecture is {named[0]}, number of MTP layers: {config.mtp_layers}"
    if not is_listed(named[0], classes, pair.setup) or config.mtp_layers == 1:
        return ok(words)
    if config.mtp_layers is None and config.remote_code:
        return unknown(f"{words}; code that comes with the model may state another")
    taken = config.mtp_layers is None and is_listed(named[0], unstated, pair.setup)
    return ok(words) if taken else fail(words)


def own_layers_counted(pair: JudgedPair, *, defaults: dict[str, str]) -> CheckOutcome:
    """Fail when the config of the model with the layers, the target or a draft, comes to none.

    defaults: model_type -> how many there are where config.json does not say.
    """
    config, side = pair.drafter.config, pair.drafter_side
    name = needed(config.model_type, f"the {side}'s model_type was not read")
    if name not in defaults:
        return not_applicable(f"{side} model_type is {name}")
    stated = config.mtp_layers if config.mtp_layers is not None else int(defaults[name])
    words = f"the {side}'s config comes to {stated} MTP layers"
    return ok(words) if stated else fail(words)


def own_layers_found(
    pair: JudgedPair,
    *,
    depths: dict[str, str],
    first_dense: dict[str, str] | None = None,
    by_number: list[str] | None = None,
    unmapped: str | None = None,
) -> CheckOutcome:
    """Fail when the MTP weights are not there, or stand where the engine does not look.

    depths: model_type -> numbers of layers whose checkpoints it knows, each with one MTP layer;
    others are not restricted. first_dense: model_type -> first_k_dense_replace where config.json
    has none; above 0 this version builds the MTP layers without experts. by_number: types whose
    layers are looked for by the number that config.json states, and not without one; unmapped: in
    the name of a tensor of theirs, what this version does not translate.
    """
    target, config = pair.target, pair.target.config
    if config.model_type is None or target.role is None:
        return unknown("the target's config was not read")
    if config.model_type in (by_number or ()) and not config.mtp_layers:
        return fail("the config states no MTP layers, so none are looked for")
    if config.mtp_layers == 0:
        return not_applicable("the config states no MTP layers")
    looked = depths.get(config.model_type, "").split()
    usual = (first_dense or {}).get(config.model_type)
    dense = config.sizes.get("first_k_dense_replace", usual)
    if usual is not None and dense:
        return fail(f"first_k_dense_replace is {dense}: MTP layers are built without experts")
    if looked:
        layers = needed(config.layers, "the target's number of layers was not read")
        if str(layers) not in looked:
            sought = " or ".join(looked)
            return fail(f"the target has {layers} layers; MTP weights are sought at {sought}")
    tensors = needed(target.weights.tensors, "the target's tensors were not listed")
    numbered = ((LAYER.match(name), name) for name in tensors if name.endswith(PACKED))
    for number, name in numbered:
        if number and config.layers is not None and int(number[1]) >= config.layers:
            return fail(f"the MTP layers are quantised: {name[:80]}")
    numbered_type = config.model_type in (by_number or ())
    odd = (name for name in tensors if numbered_type and unmapped and unmapped in name)
    if misnamed := next(odd, None):
        return fail(f"nothing is made of a name such as {misnamed[:80]}")
    present = needed(mtp_layers(tensors, config.layers), UNCOUNTED)
    words = f"{present} MTP layers in the weights, {config.mtp_layers or 1} asked for"
    found = min(present, 1) if looked else present
    return ok(words) if found >= (config.mtp_layers or 1) else fail(words)


def mtp_layers_present(
    pair: JudgedPair,
    *,
    table: str | None = None,
    looked_for: str | None = None,
    asked: bool | None = None,
    tracked: dict[str, str] | None = None,
    stages: list[str] | None = None,
    beside: str = "",
    backends: dict[str, str] | None = None,
    beside_always: dict[str, str] | None = None,
    classes: dict[str, str] | None = None,
    unless_classes: dict[str, str] | None = None,
) -> CheckOutcome:
    """Fail when the MTP layers of the draft's config are not in its weights.

    table: types that this version builds such layers for, whether their number is stated or not;
    looked_for: only those whose class asks for the weights itself, in this way; "": the others;
    asked: only checkpoints of which the loader asks which weights were read, or only the others;
    tracked: quantisations of which it asks too; stages: classes of which the engine loads the
    stages of DSpark instead; beside: when the engine reads safetensors files that are not the
    model's own too: always, or unindexed (where no index names the files); beside_always: for
    these classes always; backends: ran_by(); classes, unless_classes: among_classes().
    """
    ran_by(pair, backends)
    among_classes(pair, classes, unless_classes)
    head, facts, setup = pair.drafter.head, pair.drafter, pair.setup
    unstated = False
    if is_listed(first_class(facts.config), beside_always or {}, setup):
        beside = "always"
    if _is_class(facts, stages or []):
        return _dspark_stages_present(facts, beside)
    if head is None and facts.role is None:
        return unknown(f"the {pair.drafter_side}'s MTP layers were not read")
    promised = head.mtp_promised if head is not None else facts.config.mtp_layers
    whole = facts.role == "full"  # an assistant of Gemma 4 is all layers, and has no such names
    if table is not None and whole:
        if not any(_listed(facts.config, setup, table)):
            return not_applicable("another rule says that no such layers are built")
        needing = setup.tables[table].number_needed
        unstated = promised is None and _is_family(facts.config, needing, setup)
        fixed = _fixed_layers(facts.config, setup, table)
        promised = fixed or (1 if promised is None else promised)
    if not promised:
        return not_applicable("no MTP layers promised")
    if table is not None and looked_for != _looked_for(facts.config, setup, table):
        return not_applicable("another way of loading")
    asks = _loader_asks(facts, setup, table, tracked or {}) if asked is not None else None
    if asked is not None and asks is (not asked):
        return not_applicable("another way of loading")
    present = _mtp_present(facts)
    where = "in the weights"
    if (present or 0) < promised and _reads_beside(facts, beside):
        present, where = _mtp_beside(facts), "in all safetensors files of the folder"
    present = needed(present, UNCOUNTED)
    words = f"{promised} MTP layers promised, {present} {where}"
    if unstated and (present or not asked):
        return unknown(f"{present} MTP layers in the weights, and config.json states no number")
    if present >= promised:
        return ok(words)
    if asked is not None and asks is None:
        doubt = unknown(f"{words}; quantised in a way that config.json does not name")
        return doubt if asked else not_applicable("another rule says it")
    return fail(words)


def mtp_class_quantised(
    pair: JudgedPair,
    *,
    method: str,
    table: str,
    able: dict[str, str],
    only: dict[str, str] | None = None,
) -> CheckOutcome:
    """Fail when the target is quantised so and the class of the MTP layers does not take that.

    able: families whose class does; only: those that the rule is about. The draft is loaded as the
    target is, whatever its config says.
    """
    needed(pair.target.config.model_type, "the target's config was not read")
    if quant_method(pair.target) != method:
        return ok(f"target quant_method is not {method}")
    config, ready = pair.drafter.config, pair.setup.tables[table].ready
    if not any(_listed(config, pair.setup, table)) and not _is_family(config, ready, pair.setup):
        return not_applicable("another rule says that no such layers are built")
    if only is not None and not _is_family(config, only, pair.setup):
        return not_applicable("another family")
    words = f"{method}, {pair.drafter_side} model_type is {whole_type(config)}"
    return ok(words) if _is_family(config, able, pair.setup) else fail(words)


def _reads_beside(facts: ModelFacts, beside: str) -> bool:
    """Whether the engine reads other safetensors files of the folder, and there are any."""
    head, files = facts.head, facts.weights.files or ()
    if not beside or (beside == "unindexed" and head is not None and head.mtp_unlisted):
        return False
    if head is not None and head.mtp_beside is not None:
        return True
    plain = [file for file in files if file.format == "safetensors" and "/" not in file.name]
    return len({file.tensors is None for file in plain}) == 2  # some were read, some not


def _mtp_beside(facts: ModelFacts) -> int:
    found = facts.head.mtp_beside if facts.head is not None else None
    return needed(found, "MTP layers could not be counted in all safetensors files of the folder")


def _dspark_stages_present(facts: ModelFacts, beside: str) -> CheckOutcome:
    """Fail when neither config nor weights have the stages of DSpark that DeepSeek V4 can hold."""
    if facts.config.model_type is None:
        return unknown("the config was not read")
    if facts.head is None or facts.head.aux_key != STAGE_LAYERS:
        return fail(f"no DSpark stages: the config has no {STAGE_LAYERS}")
    tensors = needed(facts.weights.tensors, UNCOUNTED)
    if dspark_stages(tensors) or (_reads_beside(facts, beside) and _mtp_beside(facts)):
        return ok("DSpark stages are in the weights")
    return fail("no DSpark stages in the weights")


def _mtp_present(facts: ModelFacts) -> int | None:
    if facts.head is not None:
        return facts.head.mtp_present
    return mtp_layers(facts.weights.tensors, facts.config.layers)


def _family(config: ConfigFacts) -> tuple[str | None, ...]:
    """The names by which an engine knows the family: the whole model's type, the first class."""
    return whole_type(config), *(config.architectures or ())[:1]


def _is_family(config: ConfigFacts, windows: Mapping[str, str], setup: EngineSetup) -> bool:
    """Whether the table has its family; unknown where neither class nor type tells."""
    there = any(is_listed(name, windows, setup) for name in _family(config))
    if not there and windows:
        needed(whole_type(config), NO_TYPE)
    return there


def _looked_for(config: ConfigFacts, setup: EngineSetup, table: str) -> str:
    """The way in which the class asks for its weights; empty where it does not."""
    ways: Mapping[str, Mapping[str, str]] = setup.tables[table].looks_for_weights
    ways_of = {name: way for way, rows in ways.items() for name in rows}
    windows = {name: since for rows in ways.values() for name, since in rows.items()}
    if not _is_family(config, windows, setup):
        return ""
    names = (name for name in _family(config) if name and is_listed(name, windows, setup))
    return next(ways_of[name] for name in names)


def _loader_asks(
    facts: ModelFacts, setup: EngineSetup, table: str | None, tracked: dict[str, str]
) -> bool | None:
    """Whether the loader asks which weights were read; None where that was not found out."""
    if table and _is_family(facts.config, setup.tables[table].reports_nothing, setup):
        return False
    if method := quant_method(facts):
        return is_listed(method, tracked, setup)
    # The quantisation may stand in another file, such as hf_quant_config.json.
    stored = {tensor.dtype for tensor in (facts.weights.tensors or {}).values()}
    return True if stored <= UNQUANTISED else None


def mtp_layers_exist(
    pair: JudgedPair,
    *,
    table: str | None = None,
    unstated: list[str] | None = None,
    heads: list[str] | None = None,
    unread: list[str] | None = None,
    format: str = "",
    by_number: bool = False,
    unless_classes: list[str] | None = None,
    backends: dict[str, str] | None = None,
    translated: list[str] | None = None,
    perhaps: dict[str, str] | None = None,
) -> CheckOutcome:
    """Fail when a whole model without any MTP layer is given for its MTP layers.

    table: types that the engine builds such layers for without looking at their number;
    unstated: architectures with such layers whose config need not state how many; heads: other
    kinds of draft that run the same way; unread: kinds that are loaded in another way; format: only
    drafts in a gguf file, or in a folder; by_number: the number in the config decides, whatever
    the weights hold; unless_classes: another rule speaks of these; backends: ran_by(); translated:
    GGUF architectures for which the engine takes tensors mtp.*, that no key counts, for one layer;
    perhaps: classes with such layers that are not told from others of the name.
    """
    ran_by(pair, backends)
    _in_format(pair, format)
    _of_other_class(pair, unless_classes)
    facts, side = pair.drafter, pair.drafter_side
    if facts.config.model_type in (translated or ()) and unstated_mtp(facts):
        number = mtp_layers(facts.weights.tensors, None) or 1
        words = f"the {side} has MTP tensors that no key counts, of {number} layer(s)"
        # No other check looks at such layers: whether those of a draft fit was not found out.
        return ok(words) if number == 1 and pair.draft is None else unknown(words)
    role, head = needed(facts.role, UNTOLD), facts.head
    if by_number and role == "full" and not facts.config.mtp_layers:
        return fail(f"the {side}'s config states no MTP layers")
    if role in (heads or ()):
        return not_applicable(f"the {side} is: {role}")
    if role == "mtp" or (role == "full" and head and (head.mtp_promised or head.mtp_present)):
        return ok(f"the {side} has MTP layers")
    if table is not None and (listed := next(_listed(facts.config, pair.setup, table), None)):
        return ok(f"the {side}'s {listed}")
    if table is not None and role == "full" and _mtp_window(facts, pair.setup, table):
        return ok(f"the {side} is of a family with MTP layers: another rule says it")
    if set(unstated or ()) & set(facts.config.architectures or ()):
        needed(_mtp_present(facts), UNCOUNTED)
    words = f"the {side} is: {role}, without MTP layers"
    unsure = any(is_listed(name, perhaps or {}, pair.setup) for name in _family(facts.config))
    return unknown(words) if unsure or role in (unread or ()) else fail(words)


def mtp_number_is_zero(pair: JudgedPair, *, table: str) -> CheckOutcome:
    """Fail when the config of a type with MTP layers comes to none, and is not refused before."""
    config, rows = pair.drafter.config, pair.setup.tables[table]
    if config.model_type is None and config.architectures is None:
        return unknown(f"the {pair.drafter_side}'s model_type was not read")
    listed = next(_listed(config, pair.setup, table), None)
    fixed = _fixed_layers(config, pair.setup, table)
    if listed is None or fixed or _is_family(config, rows.refused_first, pair.setup):
        return not_applicable("no number of MTP layers is taken from the config")
    words = f"the {pair.drafter_side}'s {listed}"
    number = config.mtp_layers
    if number is None:
        usual = 0 if _is_family(config, rows.zero_unless_stated, pair.setup) else None
        number = config.sizes.get("num_mtp_modules", usual)
    return ok(words) if number != 0 else fail(f"{words}, with 0 MTP layers")


def _number_unseen(config: ConfigFacts, setup: EngineSetup, table: str) -> bool:
    """Whether the number of MTP layers stands in a part of the config that is not looked at."""
    nested = config.outer_type not in (None, config.model_type)
    return nested and _is_family(config, setup.tables[table].number_at_root, setup)


def _fixed_layers(config: ConfigFacts, setup: EngineSetup, table: str) -> int | None:
    """The number of MTP layers that the engine takes for this family, whatever the config says."""
    return 1 if _is_family(config, setup.tables[table].one_layer, setup) else None


def draft_becomes_mtp(
    pair: JudgedPair, *, table: str, misfit: bool | None = None, ready: bool = False
) -> CheckOutcome:
    """Fail when this version turns such a draft into an MTP head, whatever method is asked for.

    misfit: true where only whole models whose MTP layers are there and of another width than the
    target do so, false where it is unknown of those whose layers are as wide as the target; ready:
    drafts whose model_type is that of an MTP head already count too.
    """
    config, head = pair.drafter.config, pair.drafter.head
    if config.model_type is None and config.architectures is None:
        return unknown("the draft's model_type was not read")
    listed = next(_listed(config, pair.setup, table), None)
    name = whole_type(config)
    if ready and is_listed(name, pair.setup.tables[table].ready, pair.setup):
        listed = listed or f"model_type is {name}"
    if not listed:
        return ok(f"model_type is {config.model_type}")
    wide, width = pair.target.config.hidden, config.hidden
    there = pair.drafter.role == "full" and head is not None and head.mtp_present
    differs = bool(there and wide and width and wide != width)
    words = f"the draft's {listed}" + (f", width {width:,}, target {wide:,}" if differs else "")
    if misfit and not differs:
        return not_applicable(words)
    if misfit is False and there and wide and wide == width:
        return unknown(f"{words}: its MTP layers are as wide as the target, and may draft for it")
    return fail(words)


def has_mtp_class(
    pair: JudgedPair, *, table: str, perhaps: dict[str, str] | None = None
) -> CheckOutcome:
    """Fail when this version has no MTP class for such a model; others have no such layers.

    perhaps: types and classes whose layers may run without being in the table.
    """
    facts, side = pair.drafter, pair.drafter_side
    config, head = facts.config, facts.head
    if config.model_type is None and config.architectures is None:
        return unknown(f"the {side}'s model_type was not read")
    if listed := next(_listed(config, pair.setup, table), None):
        return ok(f"the {side}'s {listed}")
    rows = pair.setup.tables[table]
    if is_listed(name := whole_type(config), rows.ready, pair.setup):
        return ok(f"the {side}'s model_type is {name}")
    words = f"the {side}'s model_type is {name}"
    if other := rows.instead.get(name):
        method, since = other.split()
        return fail(f"{words}: not as MTP; method {method} from {since}")
    if window := _mtp_window(facts, pair.setup, table):  # this version is too old, or too new
        since, *until = window.split()
        return fail(f"{words}: from {since}{f', before {until[0]}' if until else ''}")
    if facts.role not in (None, "mtp") and not (head and (head.mtp_promised or head.mtp_present)):
        return not_applicable(f"the {side} has no MTP layers")
    names = (name, *(config.architectures or ())[:1])
    listed_open = any(is_listed(each, perhaps or {}, pair.setup) for each in names)
    return unknown(words) if listed_open else fail(words)


def _mtp_window(facts: ModelFacts, setup: EngineSetup, table: str) -> str | None:
    """The versions that have an MTP class for the family; None too where it has no such layers."""
    rows, number = setup.tables[table], facts.config.mtp_layers
    if number == 0 or (number is None and facts.head and facts.head.mtp_present == 0):
        return None
    parts = [rows.types, rows.ready, rows.architectures]
    if number:
        parts += [rows.with_layers, rows.text_part]
    return next((part[n] for part in parts for n in _family(facts.config) if n in part), None)


def _listed(config: ConfigFacts, setup: EngineSetup, table: str) -> Iterator[str]:
    """Why the config becomes one with MTP layers in this version, in words."""
    rows, architectures = setup.tables[table], (config.architectures or ())[:1]
    inside = any(is_listed(name, rows.text_part, setup) for name in architectures)
    name = config.model_type if inside else whole_type(config)
    if name is not None:
        parts = [part for part in rows.containing if part in name]
        by_part = any(is_listed(part, rows.containing, setup) for part in parts)
        if by_part or is_listed(name, rows.types, setup):
            yield f"model_type is {name}"
        if is_listed(name, rows.with_layers, setup) and config.mtp_layers:
            yield f"model_type is {name}, with {config.mtp_layers} MTP layers"
    for architecture in architectures:
        if is_listed(architecture, rows.architectures, setup):
            yield f"architecture is {architecture}"
            return
    needed(name, NO_TYPE)  # it may be one of these types, or of others


def _other_class(config: ConfigFacts, setup: EngineSetup, table: str) -> str | None:
    """Why the config gets the class of MTP layers in place of its own, in words."""
    if _is_family(config, setup.tables[table].keeps_class, setup):
        return None
    return next(_listed(config, setup, table), None)


def draft_class_takes_stages(
    pair: JudgedPair, *, unable: dict[str, str], able: dict[str, str] | None = None
) -> CheckOutcome:
    """Fail when stages are asked for and this version's class of the draft takes none.

    unable, able: by role, model_type or class; what happens with others was not found out.
    """
    size = applies(pair.setup.pipeline_parallel, "no pipeline parallelism asked for")
    if size == 1:
        return ok("one pipeline stage")
    words = f"pipeline parallel size {size}"
    for name in (pair.drafter.role, *_family(pair.drafter.config)):
        if is_listed(name, unable, pair.setup):
            return fail(f"{words}, the draft is: {name}")
        if is_listed(name, able or {}, pair.setup):
            return ok(f"{words}, the draft is: {name}")
    return unknown(f"{words}: what this version does with such a draft was not found out")


def mtp_type_readable(pair: JudgedPair, *, readable: dict[str, str]) -> CheckOutcome:
    """Fail when the draft's own config.json has a type that only the engine itself writes."""
    config = pair.drafter.config
    name = whole_type(config)
    if pair.draft is None or (name is not None and not name.endswith("_mtp")):
        return not_applicable("no model_type of MTP layers")
    needed(name, "the draft's model_type was not read")
    words = f"the draft's model_type is {name}"
    if is_listed(name, readable, pair.setup):
        return ok(words)
    needed(config.remote_code, f"{words}; whether it brings code of its own was not read")
    return ok(f"{words}, with code of its own") if config.remote_code else fail(words)


def own_layers_divide(
    pair: JudgedPair,
    *,
    at_most: bool,
    table: str | None = None,
    one_token: bool = False,
    types: list[str] | None = None,
    unless_types: list[str] | None = None,
) -> CheckOutcome:
    """Fail when the draft length does not go with the number of MTP layers.

    at_most: no more tokens than layers; otherwise more only in multiples. table: families that this
    version builds such layers for, whose number it fixes, or does not ask for where the config
    states none; others are refused before. one_token: only the families that draft one token,
    however many layers there are; otherwise only the others. types, unless_types: only models of
    these types, or of others.
    """
    tokens, head = applies(pair.setup.draft_tokens, NO_LENGTH), pair.drafter.head
    name = whole_type(pair.drafter.config)
    if types is not None and needed(name, "model_type was not read") not in types:
        return not_applicable(f"model_type is {name}")
    if unless_types and needed(name, NO_TYPE) in unless_types:
        return ok(f"model_type is {name}: another rule says it")
    config, layers = pair.drafter.config, (head and head.mtp_promised) or None
    if table is not None:
        rows = pair.setup.tables[table]
        single = _is_family(config, rows.one_token, pair.setup)
        if single is not one_token:
            return not_applicable(f"model_type is {name}")
        listed = any(_listed(config, pair.setup, table))
        built = listed or is_listed(name, rows.ready, pair.setup)
        if name is not None and (not built or (single and layers is None)):
            return ok(f"model_type is {name}: another rule says that no such layers are built")
        if _number_unseen(config, pair.setup, table):
            layers = None
        layers = 1 if single else _fixed_layers(config, pair.setup, table) or layers
        if layers is None and listed:
            return ok(f"{tokens} draft tokens, no number of MTP layers stated where it is read")
    layers = needed(layers, "the number of MTP layers was not read")
    drafted = "this family drafts one" if one_token else f"{layers} MTP layers"
    words = f"{tokens} draft tokens, {drafted}"
    return fail(words) if tokens > layers and (at_most or tokens % layers) else ok(words)
