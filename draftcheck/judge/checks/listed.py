"""Checks on what stands in an engine's lists: architectures, model types, quantisations.

An engine knows a model by its class name, its model_type or its quant_method, and what it knows
changes with its version. So a rule holds a table, name -> the versions in which it is listed
("since", "since until", "since until since" …), or plain names where all versions have them; and
a check holds one fact of one side against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from draftcheck import versions
from draftcheck.judge.checks.outcomes import (
    Settled,
    applies,
    fail,
    longer_drafts,
    needed,
    not_applicable,
    ok,
    unknown,
    unread_config,
)
from draftcheck.models.readers.weights.quantised import LEAVES
from draftcheck.values.facts import (
    INNER,
    MLX_ALONE,
    OLDER_KEY,
    QUANT_FILE,
    ConfigFacts,
    ModelFacts,
    Tensor,
)
from draftcheck.values.verdicts import EngineSetup, JudgedPair
from draftcheck.values.words import CheckOutcome, Outcome

STORED_QUANTISED = ("U8", "I8", "I32", "U32", "F8_E4M3", "F8_E5M2")
"""The types of a ".weight" that no plain checkpoint has."""
BY_MLX = "is quantised by mlx-lm, and config.json says so under its own key alone"


def in_window(window: str, setup: EngineSetup) -> bool:
    """Whether such versions cover the one asked about."""
    return versions.in_window(setup.order, setup.version, window)


def is_listed(name: str | None, table: Mapping[str, str], setup: EngineSetup) -> bool:
    """Whether the table has the name for this version."""
    return name is not None and name in table and in_window(table[name], setup)


def whole_type(config: ConfigFacts) -> str | None:
    """The model_type by which an engine picks its class: that of the whole model.

    None too where config.json names one for its text part alone.
    """
    part_only = config.outer_type is None and config.vocab_size_outside is not None
    return None if part_only else config.outer_type or config.model_type


def quant_method(facts: ModelFacts, *, by_flags: bool = False) -> str:
    """How the checkpoint is quantised; empty where it is not.

    by_flags: load_in_4bit and load_in_8bit name bitsandbytes, whatever quant_method says.
    """
    quant = facts.config.quantization or {}
    if by_flags and (quant.get("load_in_4bit") or quant.get("load_in_8bit")):
        return "bitsandbytes"
    return str(quant.get("quant_method") or "")


def first_class(config: ConfigFacts) -> str | None:
    return (config.architectures or (None,))[0]


def among_classes(
    pair: JudgedPair, classes: dict[str, str] | None, unless_classes: dict[str, str] | None
) -> None:
    """Settle a check that holds for drafts of these classes only, or only for the others."""
    name = first_class(pair.drafter.config)
    wanted = classes is None or is_listed(name, classes, pair.setup)
    if not wanted or is_listed(name, unless_classes or {}, pair.setup):
        raise Settled(not_applicable(f"another rule speaks of drafts of class {name}"))


def ran_by(pair: JudgedPair, backends: dict[str, str] | None) -> None:
    """Settle a check whose list is that of one of two backends, where the other runs the target.

    backends: the quantisation of a target that the backend takes, in these versions nothing else.
    """
    wanted = [name for name in backends or {} if is_listed(name, backends or {}, pair.setup)]
    if wanted:
        needed(pair.target.config.model_type, "the target's config was not read")
        if (name := quant_method(pair.target)) not in wanted:
            raise Settled(not_applicable(f"target quant_method is {name or 'none'}"))


def _among(side: str, fact: str, name: str | None, known: list[str]) -> CheckOutcome:
    """Fail when this fact of this side is none of these."""
    words = f"the {side}'s {fact} is {name}"
    return ok(words) if needed(name, f"the {side}'s {fact} was not read") in known else fail(words)


def _architecture_listed(pair: JudgedPair, side: str, known: dict[str, str]) -> CheckOutcome:
    """Fail when the engine does not list the architecture of this side."""
    unread = f"the {side}'s architecture was not read"
    name = needed(first_class(pair.model(side).config), unread)
    words = f"{side} architecture is {name}"
    return ok(words) if is_listed(name, known, pair.setup) else fail(words)


def _both_listed(
    fact: str, names: dict[str, str | None], known: dict[str, str], setup: EngineSetup
) -> CheckOutcome:
    """The same for both sides: a name that is not listed counts before one that was not read."""
    for side, name in names.items():
        if name is not None and not is_listed(name, known, setup):
            return fail(f"{side} {fact} is {name}")
    if unread := [side for side, name in names.items() if name is None]:
        return unknown(f"{fact} of the {' and the '.join(unread)} was not read")
    return ok(f"{fact}: {names['target']} and {names['draft']}")


def architecture_known(
    pair: JudgedPair, *, known: dict[str, str], backends: dict[str, str] | None = None
) -> CheckOutcome:
    """Fail when a side's architecture is not one that this version loads; backends: ran_by()."""
    ran_by(pair, backends)
    names = {side: first_class(facts.config) for side, facts in pair.both}
    return _both_listed("architecture", names, known, pair.setup)


def draft_architecture_known(pair: JudgedPair, *, known: dict[str, str]) -> CheckOutcome:
    """Fail when this version builds no draft of that architecture."""
    return _architecture_listed(pair, "draft", known)


def target_architecture_known(
    pair: JudgedPair,
    *,
    known: dict[str, str],
    classes: dict[str, str] | None = None,
    backends: dict[str, str] | None = None,
) -> CheckOutcome:
    """Fail when the target's architecture is not one that this version lists.

    classes: only asked for drafts of these; backends: ran_by().
    """
    ran_by(pair, backends)
    if classes is not None:
        name = needed(first_class(pair.drafter.config), "the draft's architecture was not read")
        if not is_listed(name, classes, pair.setup):
            return ok(f"another rule speaks of drafts of class {name}")
    return _architecture_listed(pair, "target", known)


def draft_architecture_in(pair: JudgedPair, *, names: list[str]) -> CheckOutcome:
    """Fail when the draft's architecture is none of these."""
    return _among("draft", "architecture", first_class(pair.drafter.config), names)


def target_architecture_in(
    pair: JudgedPair,
    *,
    able: dict[str, str],
    unable: list[str],
    heads: list[str] | None = None,
    registered: dict[str, str] | None = None,
    last_states: str | None = None,
    last_states_perhaps: str | None = None,
) -> CheckOutcome:
    """Fail for architectures known to be unable in every version read; unknown for others.

    heads: kinds of draft that do not ask it; registered: when the engine has a class of its own for
    these; without one it may run them by another one; last_states: in these versions (windows, with
    commas) a head that reads the last states alone does not ask it either; last_states_perhaps: in
    these it depends.
    """
    if pair.drafter.role in (heads or ()):
        return not_applicable(f"the draft is: {pair.drafter.role}")
    head = pair.drafter.head
    alone = head is not None and head.use_aux_hidden_state is False
    windows = last_states.split(", ") if last_states else ()
    if alone and any(in_window(window, pair.setup) for window in windows):
        return ok("the head reads the last states alone")
    name, seen = first_class(pair.target.config), _architecture_listed(pair, "target", able)
    if seen.outcome is not Outcome.FAIL:
        return seen
    if alone and last_states_perhaps is not None and in_window(last_states_perhaps, pair.setup):
        return unknown(f"{seen.saw}; the head reads the last states alone")
    words = f"{seen.saw}: from {able[name]}" if name in able else seen.saw
    if name in (registered or {}) and not is_listed(name, registered or {}, pair.setup):
        return unknown(f"{words}; this version has no class of that name")
    if name in able or name in unable:
        return fail(words)
    return unknown(f"{seen.saw}: not in the rulebook's list")


def stages_pass_states(
    pair: JudgedPair,
    *,
    able: dict[str, str],
    unable: list[str],
    last_states: str | None = None,
) -> CheckOutcome:
    """Fail when stages are asked for and the target's class does not pass its states on.

    last_states: target_architecture_in().
    """
    size = applies(pair.setup.pipeline_parallel, "no pipeline parallelism asked for")
    if size == 1:
        return ok("one pipeline stage")
    return target_architecture_in(pair, able=able, unable=unable, last_states=last_states)


def target_architecture_starts(
    pair: JudgedPair, *, words: list[str], fine: list[str]
) -> CheckOutcome:
    """Fail when the target's class name starts with none of these words.

    fine: kinds of head (by their model type) that this holds for.
    """
    unread = "the target's architecture or the draft's model_type was not read"
    name = needed(first_class(pair.target.config), unread)
    if (kind := needed(pair.drafter.config.outer_type, unread)) not in fine:
        return not_applicable(f"the draft's model_type is {kind}")
    seen = f"target architecture is {name}"
    return ok(seen) if name.startswith(tuple(words)) else fail(seen)


def model_type_known(pair: JudgedPair, *, known: dict[str, str]) -> CheckOutcome:
    """Fail when a side's model_type is not one that this version loads."""
    names = {side: whole_type(facts.config) for side, facts in pair.both}
    return _both_listed("model_type", names, known, pair.setup)


def target_type_known(
    pair: JudgedPair, *, known: dict[str, str], itself: bool = False
) -> CheckOutcome:
    """Fail when neither model_type of the target (its own, its text part's) is listed.

    itself: only where the target drafts for itself.
    """
    if itself and pair.draft is not None:
        return not_applicable("the draft is another model")
    config = pair.target.config
    names = [name for name in (config.outer_type, config.model_type) if name is not None]
    if not names:
        return unknown("the target's model_type was not read")
    words = f"target model_type is {' with '.join(dict.fromkeys(names))}"
    return ok(words) if any(is_listed(name, known, pair.setup) for name in names) else fail(words)


def target_type_told(
    pair: JudgedPair, *, known: dict[str, str], whole: bool = False
) -> CheckOutcome:
    """Unknown for types of target that are not listed: what is known is not all there is.

    whole: a model whose text part alone is listed counts as not listed.
    """
    seen = target_type_known(pair, known=known)
    name = whole_type(pair.target.config)
    if whole and name is not None and not is_listed(name, known, pair.setup):
        return unknown(f"target model_type is {name}: not in the list")
    return unknown(f"{seen.saw}: not in the list") if seen.outcome is Outcome.FAIL else seen


def target_type_contains(pair: JudgedPair, *, containing: dict[str, str]) -> CheckOutcome:
    """Fail when the target's model_type contains none of the names that this version lists."""
    name = needed(pair.target.config.model_type, "the target's model_type was not read")
    words = f"target model_type is {name}"
    there = any(part in name and is_listed(part, containing, pair.setup) for part in containing)
    return ok(words) if there else fail(words)


def draft_type_in(pair: JudgedPair, *, types: list[str]) -> CheckOutcome:
    """Fail when the draft's model_type is none of these."""
    return _among("draft", "model_type", pair.drafter.config.outer_type, types)


def own_type_in(
    pair: JudgedPair, *, types: dict[str, str], layers_key: str | None = None
) -> CheckOutcome:
    """Fail when a target that drafts for itself is of none of these types.

    layers_key: its config must list under this name the layers that the stages read.
    """
    if pair.draft is not None:
        return not_applicable("the draft is another model")
    listed = [name for name in types if is_listed(name, types, pair.setup)]
    seen = _among("target", "model_type", whole_type(pair.target.config), listed)
    head = pair.target.head
    if seen.outcome is not Outcome.OK or layers_key is None:
        return seen
    if head is None or head.declared is None:
        return unknown(f"{seen.saw}; whether it lists {layers_key} was not read")
    return seen if head.aux_key == layers_key else fail(f"{seen.saw}, without {layers_key}")


def own_stages_absent(pair: JudgedPair, *, types: dict[str, str], layers_key: str) -> CheckOutcome:
    """Fail when a drafter of these types lists under this name the layers that its stages read."""
    name, head = whole_type(pair.drafter.config), pair.drafter.head
    if not is_listed(name, types, pair.setup) or pair.drafter.role not in (None, "full"):
        return not_applicable(f"{pair.drafter_side} model_type is {name}")
    if head is None or head.declared is None:
        return unknown(f"whether it lists {layers_key} was not read")
    words = f"{pair.drafter_side} model_type is {name}"
    return fail(f"{words}, with {layers_key}") if head.aux_key == layers_key else ok(words)


def own_stages_not_read(
    pair: JudgedPair, *, types: dict[str, str], layers_key: str
) -> CheckOutcome:
    """Unknown of such a drafter: whether it has MTP layers beside its stages is not read."""
    seen = own_stages_absent(pair, types=types, layers_key=layers_key)
    return unknown(seen.saw) if seen.outcome is Outcome.FAIL else seen


def image_token_found(
    pair: JudgedPair,
    *,
    lacking: dict[str, str],
    found: dict[str, str],
    lacking_classes: dict[str, str] | None = None,
    dense_runs: str = "",
    with_experts: list[str] | None = None,
    mixed_runs: str = "",
    drafts_run: dict[str, str] | None = None,
) -> CheckOutcome:
    """Fail when the engine looks for image_token_index in a target's config that has none.

    One that config.json states is there, whatever the class. lacking: types whose config classes
    have none, lacking_classes: the same by architecture; found: architectures for which the engine
    looks elsewhere; dense_runs: from this version on it looks with recurrent layers and experts
    alone, which all models of the types with_experts have; mixed_runs: nor, from this one on, with
    drafts whose layers slide in part; drafts_run: nor with drafts of these classes.
    """
    config, drafter = pair.target.config, pair.drafter.config
    name = needed(whole_type(config), "the target's model_type was not read")
    if config.multimodal is False:
        return ok("the target takes text alone")
    words = f"target model_type is {name}"
    if config.sizes.get("image_token_index") is not None:
        return ok(f"{words}, image_token_index is stated")
    kinds = (config.model_type, name, first_class(config))
    dense = not (config.experts or config.recurrent or {*kinds} & {*(with_experts or ())})
    if dense and dense_runs and in_window(dense_runs, pair.setup):
        return ok(f"{words}, without experts")
    sliding = {kind == "sliding_attention" for kind in drafter.layer_kinds or ()}
    if len(sliding) > 1 and mixed_runs and in_window(mixed_runs, pair.setup):
        return ok(f"{words}; some layers of the draft slide, not all")
    if is_listed(first_class(drafter), drafts_run or {}, pair.setup):
        return ok(f"{words}; the draft is a {first_class(drafter)}")
    if any(is_listed(kind, {**lacking, **(lacking_classes or {})}, pair.setup) for kind in kinds):
        return fail(words)
    if is_listed(first_class(config), found, pair.setup):
        return ok(f"{words}, whose token the engine knows")
    needed(config.multimodal, "whether the target takes more than text was not read")
    return unknown(f"{words}: whether its config class has image_token_index was not read")


def type_listed(
    pair: JudgedPair,
    *,
    side: str,
    types: dict[str, str],
    architectures: dict[str, str] | None = None,
    whole: bool = False,
    backends: dict[str, str] | None = None,
    heads_only: bool = False,
    unless_drafts: list[str] | None = None,
    perhaps_drafts: list[str] | None = None,
    drafts_below: int = 0,
    unless_types: list[str] | None = None,
    inside: list[str] | None = None,
    floor: int = 0,
    below: int = 0,
    other_gpus: bool = False,
    same_vocab_size: bool = False,
    unread_with: str = "",
    fp8_unread: bool = False,
) -> CheckOutcome:
    """Fail when this version lists that side's model_type or first architecture.

    whole: the class of the whole model decides, so a text part that is listed alone is unknown;
    backends: in these versions the list is that of targets quantised this way; others run on
    another backend, whose list is not known here; heads_only: a whole model as the draft is another
    rule's matter; unless_drafts: with drafts of these types it runs, and with perhaps_drafts it
    hangs on their config, which is not known here; drafts_below: on GPUs below
    this capability only; unless_types: another rule speaks of these, which share a class;
    inside: only where the whole model is one of these types;
    floor, below: read for GPUs of these capabilities, on others it is not known;
    other_gpus: asked only where such a GPU is named;
    same_vocab_size: with other sizes tokens are translated, and such a pair may run;
    unread_with: an architecture whose config states this size goes another way, not known here;
    fp8_unread: nor is one with an FP8 cache.
    """
    within = floor <= 10 * (pair.setup.capability or (0, 0))[0] < below
    if other_gpus and not within:
        other = "no GPU of these capabilities named"
        return ok(other) if pair.setup.capability else not_applicable(other)
    if heads_only and pair.drafter.role in ("full", "encoder"):
        return not_applicable(f"the draft is no head: {pair.drafter.role}")
    drafter = ""
    if unless_drafts:
        drafter = needed(whole_type(pair.drafter.config), "the draft's model_type was not read")
        major = (pair.setup.capability or (0, 0))[0]
        if drafter in unless_drafts and not 0 < drafts_below <= 10 * major:
            return ok(f"the draft's model_type is {drafter}")
    backend = next((b for b in backends or {} if is_listed(b, backends or {}, pair.setup)), None)
    config = pair.model(side).config
    unread = f"the {side}'s model_type was not read"
    if config.model_type is None and config.architectures is None:
        return unknown(unread)
    around = needed(whole_type(config), unread) if unless_types or inside else ""
    if around in (unless_types or ()) or (inside and around not in inside):
        return ok(f"{side} model_type is {around}")
    for name in (config.model_type, config.outer_type):
        if is_listed(name, types, pair.setup):
            if whole and not is_listed(whole_type(config), types, pair.setup):
                return unknown(f"{side} model_type is {whole_type(config)} around {name}")
            sizes = {facts.config.vocab_size for _, facts in pair.both}
            if same_vocab_size and (len(sizes) > 1 or None in sizes):
                return unknown(f"{side} model_type is {name}; vocab_size is not the same")
            if drafter in (perhaps_drafts or ()):
                return unknown(f"{side} model_type is {name}, the draft's {drafter}")
            return fail(f"{side} model_type is {name}")
    if is_listed(name := first_class(config), architectures or {}, pair.setup):
        words = f"{side} architecture is {name}"
        if backend and quant_method(pair.target) != backend:
            return unknown(f"{words}; the target is not {backend}: another backend runs it")
        if below and pair.setup.gpu and not within:
            return unknown(f"{words}; not read for {pair.setup.gpu}")
        if fp8_unread and (pair.setup.kv_dtype or "").startswith("fp8"):
            return unknown(f"{words}; not read with KV cache {(pair.setup.kv_dtype or '')[:40]}")
        if config.sizes.get(unread_with) is not None:
            return unknown(f"{words}, with {unread_with}")
        return fail(words)
    if types:  # without a model_type it may be one of these
        needed(whole_type(config), unread)
    return ok(f"{side} model_type is {config.model_type or 'not named'}")


def draft_type_listed(
    pair: JudgedPair,
    *,
    types: dict[str, str],
    unsure_up_to: int,
    architectures: dict[str, str] | None = None,
    unread_with: str = "",
) -> CheckOutcome:
    """type_listed() of the draft; unsure_up_to: unknown where drafts of so few tokens are asked."""
    found = type_listed(
        pair, side="draft", types=types, architectures=architectures, unread_with=unread_with
    )
    if found.outcome is Outcome.FAIL:
        longer_drafts(pair, unsure_up_to)
    return found


def target_not_read(
    pair: JudgedPair,
    *,
    architectures: dict[str, str],
    types: dict[str, str] | None = None,
    on_blackwell: dict[str, str] | None = None,
    refused: dict[str, str] | None = None,
    drafts: bool = False,
    parts: dict[str, str] | None = None,
    by_class: dict[str, str] | None = None,
) -> CheckOutcome:
    """Unknown for these targets: what the engine makes of them hangs on what is not read here.

    on_blackwell: architectures that count where a GPU of capability 10 is named; refused:
    architectures of which it is known that they fail; drafts: a whole model as the draft counts
    too; parts: architectures that take text parts of these types only; by_class: architectures
    whose config is read by their class, with a model_type or without.
    """
    config = pair.target.config
    if is_listed(name := first_class(config), refused or {}, pair.setup):
        return fail(f"target architecture is {name}")
    if (taken := (parts or {}).get(name or "")) and config.model_type not in taken.split():
        return unknown(f"target architecture is {name} around {config.model_type}")
    if pair.setup.capability is not None and pair.setup.capability[0] == 10:
        architectures = {**architectures, **(on_blackwell or {})}
    typed = types or {}
    by_name = config.model_type is None and is_listed(name, by_class or {}, pair.setup)
    seen = type_listed(
        pair, side="target", types={} if by_name else typed, architectures=architectures
    )
    other = drafts and pair.drafter is not pair.target and pair.drafter.role == "full"
    if other and seen.outcome is Outcome.OK:
        seen = type_listed(pair, side="draft", types=typed, architectures=architectures)
    return unknown(seen.saw) if seen.outcome is Outcome.FAIL else seen


def vocab_size_within(pair: JudgedPair, *, refused: dict[str, str]) -> CheckOutcome:
    """Fail for these targets, whose config has no vocab_size at its top level.

    Unknown for others with a text part, or with more than text: a class may answer for its part.
    """
    config = pair.target.config
    name = needed(first_class(config), "the target's architecture was not read")
    words = f"target architecture is {name}"
    if is_listed(name, refused, pair.setup) and not config.vocab_size_outside:
        return fail(words)
    nested = config.vocab_size_outside is not None
    return unknown(words) if config.multimodal or nested else ok(words)


def family_came_later(
    pair: JudgedPair,
    *,
    classes: dict[str, str] | None = None,
    types: dict[str, str] | None = None,
) -> CheckOutcome:
    """Fail when a later version was the first with a model's class or model_type.

    Of a draft only where it is a model of its own. Families that nobody listed are old, or another
    rule's matter; a type may come with its own code, and what becomes of a text part that is newer
    than the model around it is not known here.
    """
    table = types or classes or {}

    def late_ones(names: Iterable[str | None]) -> list[str]:
        found = [(name, table.get(name or "", "").partition(" ")[0]) for name in names]
        return [f"{n} came with {v}" for n, v in found if v and not in_window(v, pair.setup)]

    models = [facts for _, facts in pair.both if facts is pair.target or facts.role == "full"]
    for facts in models:
        config, side = facts.config, "target" if facts is pair.target else "draft"
        if config.model_type is None and (types is not None or config.architectures is None):
            return unknown(f"the {side}'s model_type was not read")
        names = config.architectures if types is None else (whole_type(config),)
        late = late_ones(names or ())
        if not late or len(late) < len(names or ()):
            listed = types is not None or any(name in table for name in names or ())
            inner = () if listed else config.text_architectures or ()
            if newer := late_ones((*inner, config.model_type)):
                return unknown(f"the {side}'s text part {newer[0]}")
            if config.model_type is None and config.multimodal:
                return unknown(f"the {side}'s model_type was not read")
            continue
        words = f"the {side}'s {'class' if types is None else 'model_type'} {late[0]}"
        if types is not None and config.remote_code is not False:
            return unknown(f"{words}; it may bring its own code")
        return fail(words)
    return ok("no family is newer than this version")


def family_came_later_not_read(pair: JudgedPair, *, classes: dict[str, str]) -> CheckOutcome:
    """Unknown for such a class: the engine may run it in another way, which is not read here."""
    seen = family_came_later(pair, classes=classes)
    return unknown(seen.saw) if seen.outcome is Outcome.FAIL else seen


def target_option_not_read(
    pair: JudgedPair,
    *,
    architectures: dict[str, str],
    if_recurrent: list[str] | None = None,
    above_10: dict[str, str] | None = None,
) -> CheckOutcome:
    """Unknown for targets that start with an option only: whether it is given is not known here.

    if_recurrent: these classes only where some layer keeps a recurrent state; above_10:
    architectures that count where a GPU of a capability above 10 is named.
    """
    config = pair.target.config
    if pair.setup.capability is not None and pair.setup.capability[0] > 10:
        architectures = {**architectures, **(above_10 or {})}
    if first_class(config) in (if_recurrent or ()) and config.recurrent is False:
        return ok("the target has no recurrent layers")
    seen = type_listed(pair, side="target", types={}, architectures=architectures)
    return unknown(seen.saw) if seen.outcome is Outcome.FAIL else seen


def quantization_listed(
    pair: JudgedPair, *, known: dict[str, str], complete: bool = False
) -> CheckOutcome:
    """Fail when a side's quant_method is in the table, but not for this version.

    complete: what is not in the table at all is unknown, not fine, and so are weights that are
    stored quantised though config.json does not say so.
    """
    strange = []
    for side, facts in pair.both:
        method = quant_method(facts)
        if method in known and not is_listed(method, known, pair.setup):
            return fail(f"{side} quant_method is {method}")
        if complete and method and method not in known:
            strange.append(f"{side} quant_method is {method}, which the rulebook does not know")
        if complete and (name := stored_quantised(facts)):
            strange.append(f"{side} is quantised ({name}), and not by config.json")
    if doubt := unread_config(pair.both):
        return doubt
    return unknown(strange[0]) if strange else ok("no quantisation that this version lacks")


def quantization_deprecated(
    pair: JudgedPair, *, deprecated: dict[str, str], formats: dict[str, str]
) -> CheckOutcome:
    """Fail when a side's quant_method is one that this version takes only with a flag.

    formats: checkpoint_format -> the method that it is loaded by, whatever quant_method says.
    """
    for side, facts in pair.both:
        layout = str((facts.config.quantization or {}).get("checkpoint_format", ""))
        for method, words in (
            (formats.get(layout, ""), f"checkpoint_format is {layout}"),
            (quant_method(facts), f"quant_method is {quant_method(facts)}"),
        ):
            if is_listed(method, deprecated, pair.setup):
                return fail(f"{side} {words}")
    return unread_config(pair.both) or ok("no deprecated quantisation")


def quantization_taken(
    pair: JudgedPair,
    *,
    known: dict[str, str],
    unnamed: bool = False,
    not_by: dict[str, str] | None = None,
    unsure: dict[str, str] | None = None,
    stored: bool = False,
    forgotten: dict[str, str] | None = None,
) -> CheckOutcome:
    """Fail when a side's quant_method is not among those that this version takes.

    known: all of them, and fp8/static, with its activation_scheme: unknown where that is not taken,
    and gptq/plain, where it is taken without the kernels of Marlin;
    unnamed: a quantisation without a name, and without the quant_algo of
    ModelOpt, is not taken either; not_by: known ones that the classes of these model types do not
    take; unsure: known ones that are unknown all the same (METHOD/unblocked: where no
    weight_block_size is stated, METHOD/below-89: on a GPU below compute capability 8.9,
    METHOD/older-key: under compression_config, METHOD/LAYOUT: stored so, METHOD/ALGORITHM: its
    quant_algo, inner: in the text part of config.json, by any method); stored: unknown too where
    weights are stored quantised and config.json does not say so; forgotten: whole models of these
    types may be loaded as their text part, without the quantisation that stands beside it.
    """
    setup = pair.setup
    for side, facts in pair.both:
        method, quant = quant_method(facts).lower(), facts.config.quantization
        if unnamed and quant and quant.get(MLX_ALONE):
            return unknown(f"{side} {BY_MLX}")
        if unnamed and quant and not method and not quant.get("quant_algo"):
            return fail(f"{side} quantization_config has no quant_method")
        if stored and (name := stored_quantised(facts)):
            return unknown(f"{side} is quantised ({name}), and not by config.json")
        if not method:
            continue
        if kind := _unsure(method, quant or {}, unsure or {}, setup):
            return unknown(f"{side} is quantised as {kind}: this version may not load it")
        if method not in known:
            return fail(f"{side} quant_method is {method[:80]}")
        if not is_listed(method, known, setup):
            return fail(f"{side} quant_method is {method[:80]} (taken: {known[method]})")
        lost = [name for name in forgotten or {} if is_listed(name, forgotten or {}, setup)]
        if lost and facts.config.vocab_size_outside is not None:
            outer = needed(facts.config.outer_type, f"the {side}'s model_type was not read")
            if outer in lost:
                return unknown(f"{side} model_type is {outer}: it may be loaded as not quantised")
        scheme = f"{method}/{str((quant or {}).get('activation_scheme')).lower()}"
        if scheme in known and not is_listed(scheme, known, setup):
            return unknown(f"{side} is quantised as {scheme} (taken: {known[scheme]})")
        plain = f"{method}/plain"
        marlin = marlin_runs(facts, setup) and (setup.capability or (8, 0)) >= (8, 0)
        if plain in known and not marlin and not is_listed(plain, known, setup):
            return fail(f"{side} quant_method is {method[:80]}, not for Marlin's kernels")
        others = (not_by or {}).get(method, "").split()
        unread = f"the {side}'s model_type was not read"
        if others and (name := needed(whole_type(facts.config), unread)) in others:
            return fail(f"{side} quant_method is {method[:80]}, model_type {name}")
    return unread_config(pair.both) or ok("no quantisation that this version does not know")


def _unsure(
    method: str, quant: Mapping[str, object], unsure: dict[str, str], setup: EngineSetup
) -> str | None:
    """What of this quantisation stands in unsure (quantization_taken), in words."""
    kinds = {method: method}
    if "weight_block_size" not in quant:
        kinds[f"{method}/unblocked"] = f"{method} without weight_block_size"
    if quant.get(OLDER_KEY):
        kinds[f"{method}/older-key"] = f"{method}, under compression_config"
    if quant.get(INNER):
        kinds["inner"] = f"{method}, in the text part of config.json"
    layout = quant.get("checkpoint_format") or quant.get("format") or quant.get("version")
    for name in (layout, quant.get("quant_algo")):
        if isinstance(name, str):
            kinds[f"{method}/{name.lower()}"] = f"{method} ({name[:40]})"
    if setup.capability is not None:
        major, minor = setup.capability
        for kind in unsure:
            name, below, floor = kind.partition("/below-")
            if below and name == method and 10 * major + minor < int(floor):
                kinds[kind] = f"{method}, for GPUs of {int(floor) / 10} or newer"
    return next((words for kind, words in kinds.items() if is_listed(kind, unsure, setup)), None)


def stored_quantised(facts: ModelFacts) -> str | None:
    """A weight that is stored quantised though config.json says nothing: another file may.

    Or that file, where this version does not read it. Not a weight of a head, which may be
    quantised as its target is.
    """
    if not facts.config.quantization and facts.config.origin.get("quantization") == QUANT_FILE:
        return QUANT_FILE
    if facts.config.quantization or facts.gguf is not None or facts.role not in (None, "full"):
        return None
    tensors = (facts.weights.tensors or {}).items()
    found = (name for name, tensor in tensors if name.endswith(LEAVES) or _packed(name, tensor))
    name = next(found, None)
    return name and f"{name[:80]!r}"


def _packed(name: str, tensor: Tensor) -> bool:
    return name.endswith(".weight") and tensor.dtype in STORED_QUANTISED


def quantization_named(pair: JudgedPair, *, by_flags: bool = False) -> CheckOutcome:
    """Fail when a side's quantization_config has no quant_method.

    by_flags: load_in_4bit and load_in_8bit name bitsandbytes.
    """
    for side, facts in pair.both:
        quant = facts.config.quantization
        named = quant_method(facts, by_flags=by_flags)
        if quant and quant.get(MLX_ALONE):
            return unknown(f"the {side} {BY_MLX}")
        if quant and not named and quant.get("quant_method") is None:
            return fail(f"quantization_config of the {side} has no quant_method")
    return unread_config(pair.both) or ok("no quantisation without a name")


def quantization_not_null(pair: JudgedPair) -> CheckOutcome:
    """Fail when config.json of a side states quantization_config, as null."""
    for side, facts in pair.both:
        if facts.config.sizes.get("quantization_config", 0) is None:
            return fail(f"quantization_config of the {side} is null")
    return unread_config(pair.both) or ok("quantization_config is not null")


def marlin_runs(facts: ModelFacts, setup: EngineSetup) -> bool:
    """Symmetric, 4 or 8 bits, with everything stated, on a GPU that has the kernels (or others).

    AWQ: 4 bits with zero points; a config that does not tell counts as one that has them.
    """
    quant = facts.config.quantization or {}
    if quant.get("quant_method") == "awq":
        return quant.get("zero_point") is not False and quant.get("bits") in (None, 4)
    stated = all(quant.get(name) is not None for name in ("bits", "group_size", "sym", "desc_act"))
    fits = quant.get("bits") in (4, 8) and quant.get("group_size") in (-1, 32, 64, 128)
    recent = setup.capability is None or setup.capability >= (7, 5)
    return stated and fits and quant.get("sym") is True and recent


def target_quantized_so(
    pair: JudgedPair,
    *,
    architectures: list[str],
    says: dict[str, str],
    below: int | None = None,
    floor: int = 0,
) -> CheckOutcome:
    """Fail when a target of these classes has these words in its quantization_config.

    below: only on a GPU of lower compute capability; floor: on none that is lower than this.
    """
    needed(pair.target.config.model_type, "the target's config was not read")
    quant = pair.target.config.quantization or {}
    if any(str(quant.get(key, "")).lower() != word for key, word in says.items()):
        return ok("the target is not quantised so")
    name = needed(first_class(pair.target.config), "the target's architecture was not read")
    if name not in architectures:
        return not_applicable(f"target architecture is {name}")
    words = f"target architecture is {name}, {', '.join(f'{k} {quant[k]}' for k in says)}"
    if below is None and (pair.setup.capability is None or not floor):
        return fail(words)
    major, minor = applies(pair.setup.capability, "no GPU named, or one without a capability")
    given = 10 * major + minor
    return fail(words) if given >= floor and (below is None or given < below) else ok(words)


def quantized_type_listed(
    pair: JudgedPair, *, methods: list[str], types: list[str]
) -> CheckOutcome:
    """Fail when a side of one of these types is quantised by one of these methods.

    Of other types that are quantised so it is not known.
    """
    quantised = [(side, facts) for side, facts in pair.both if quant_method(facts) in methods]
    words = [
        f"{side} model_type is {whole_type(facts.config)}, quant_method {quant_method(facts)}"
        for side, facts in quantised
    ]
    for (_, facts), said in zip(quantised, words, strict=True):
        if whole_type(facts.config) in types:
            return fail(said)
    if words:
        return unknown(words[0])
    return unread_config(pair.both) or ok("nothing is quantised so")


def target_quantized_as(pair: JudgedPair, *, methods: list[str]) -> CheckOutcome:
    """Fail when the target's quant_method is none of these; unquantised counts as none."""
    needed(pair.target.config.model_type, "the target's config was not read")
    name = quant_method(pair.target)
    words = f"target quant_method is {name or 'none'}"
    return ok(words) if name in methods else fail(words)


def draft_not_quantized_as(
    pair: JudgedPair, *, methods: dict[str, str], by_flags: bool = False
) -> CheckOutcome:
    """Fail when the draft's quant_method is one of these in this version.

    by_flags: load_in_4bit and load_in_8bit name bitsandbytes.
    """
    needed(pair.drafter.config.model_type, "the draft's config was not read")
    name = quant_method(pair.drafter, by_flags=by_flags)
    words = f"draft quant_method is {name or 'none'}"
    return fail(words) if is_listed(name, methods, pair.setup) else ok(words)


def same_quantization(pair: JudgedPair) -> CheckOutcome:
    """Fail when the two models are quantised in different ways, or only one of them is."""
    sides = (pair.target, pair.drafter)
    if any(facts.config.model_type is None for facts in sides):
        return unknown("config of a side was not read")
    quants = [facts.config.quantization or {} for facts in sides]
    names = [str(quant.get("quant_method", "none"))[:80] for quant in quants]
    words = f"quantisation: target {names[0]}, draft {names[1]}"
    return ok(words) if names[0] == names[1] else fail(words)


def one_backend(
    pair: JudgedPair,
    *,
    apart: list[str],
    others: list[str] | None = None,
    heads_alike: dict[str, str] | None = None,
    alone: str = "",
    formats: list[str] | None = None,
    classes: list[str] | None = None,
    strict: list[str] | None = None,
    unread: list[str] | None = None,
    by_weights: list[str] | None = None,
) -> CheckOutcome:
    """Fail when the target's quantisation picks a backend that cannot load the draft's.

    apart: quant methods with a backend of their own; others: those that only the other one loads,
    or all that are not apart; heads_alike: classes of heads that get the target's; alone: only
    where the target, or where the draft is the one that is apart; formats: a target by
    compressed-tensors counts in these formats only; classes: only drafts of these; strict: plain
    heads of these classes go with no quantised target; unread: with a target by these it depends on
    the scheme, which is not read; by_weights: heads of these classes may be quantised as the target
    is where their config says nothing.
    """
    names = pair.drafter.config.architectures
    if classes is not None and not set(classes) & set(needed(names, "the draft's class")):
        return ok("the draft is of another class")
    if pair.target.config.model_type is None or pair.drafter.config.model_type is None:
        return unknown("a config was not read")
    ours, theirs = quant_method(pair.target), quant_method(pair.drafter)
    words = f"quant_method {ours or 'none'} / {theirs or 'none'} (target / draft)"
    if strict and ours and not theirs and set(strict) & set(names or ()):
        return fail(words)
    form = (pair.target.config.quantization or {}).get("format")
    if formats is not None and ours == "compressed-tensors" and form not in formats:
        return ok(f"{words}, format {form}")
    alien = theirs not in apart if others is None else theirs in others
    if pair.drafter.role != "full" and not theirs:
        name = first_class(pair.drafter.config)
        alien = alien and not is_listed(name, heads_alike or {}, pair.setup)
    missed = alien if ours in apart else theirs in apart
    if alone and (ours in apart) is not (alone == "target"):
        return ok(words)
    if missed and ours in (unread or ()):
        return unknown(f"{words}: it depends on the scheme")
    if missed and set(by_weights or ()) & set(names or ()):
        stored = needed(pair.drafter.weights.tensors, f"{words}; the head's weights were not read")
        missed = not any(name.endswith((".qweight", ".weight_packed")) for name in stored)
        words += "" if missed else ", the weights of the head are quantised"
    return fail(words) if missed else ok(words)
