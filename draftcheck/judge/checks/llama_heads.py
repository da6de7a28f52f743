"""llama.cpp: heads, MTP layers and the deployment, beyond what loading the files tells.

A head in a folder is judged as the GGUF file that the converter would write for this target.
"""

from __future__ import annotations

from dataclasses import replace

from draftcheck.judge.checks import heads, vocabulary
from draftcheck.judge.checks.head_targets import mtp_layers_present
from draftcheck.judge.checks.llama import BORROWERS, architecture, build_of
from draftcheck.judge.checks.outcomes import UNTOLD, fail, not_applicable, ok, unknown
from draftcheck.judge.llama import convert
from draftcheck.judge.llama.build import NotTold
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import ModelFacts
from draftcheck.values.verdicts import EngineSetup
from draftcheck.values.words import CheckOutcome, Outcome


def _written(comparison: Comparison) -> Comparison:
    """The pair with the head as it stands in its GGUF file."""
    draft = comparison.draft
    if draft is None or draft.gguf is not None or draft.role in heads.NO_HEAD:
        return comparison
    if draft.head is None:
        return comparison
    head = convert.head(draft.head, draft.role, comparison.target.config)
    return replace(comparison, draft=replace(draft, head=head))


def llama_head_declares(
    comparison: Comparison, setup: EngineSetup, *, fields: list[str], kind: str = ""
) -> CheckOutcome:
    """Fail when the file does not state one of these; kind: only asked of such a head."""
    if kind and comparison.drafter.role not in (kind, None):
        return not_applicable(f"the draft is: {comparison.drafter.role}")
    return heads.head_declares(_written(comparison), setup, fields=fields)


def llama_head_count(comparison: Comparison, setup: EngineSetup, *, exactly: int) -> CheckOutcome:
    """Fail when an EAGLE-3 head reads another number of the target's layers."""
    if comparison.drafter.role not in ("eagle3", None):
        return not_applicable(f"the draft is: {comparison.drafter.role}")
    return heads.head_aux_count(_written(comparison), setup, exactly=exactly)


def llama_head_fc(comparison: Comparison, setup: EngineSetup, *, own: bool = False) -> CheckOutcome:
    """Fail when fc.weight does not have the shape that the keys ask for."""
    return heads.head_fc(_written(comparison), setup, own=own)


def llama_head_layers(comparison: Comparison, setup: EngineSetup, *, beyond: int) -> CheckOutcome:
    """Fail when the head names a layer input that the target does not hand out.

    beyond: how many numbers after the last layer the engine understands, for every target.
    """
    last = setup.tables["llamacpp-architectures"].feeds.last
    if architecture(comparison.target, setup) in last:
        beyond = max(beyond, 1)
    return heads.head_layers_in_range(_written(comparison), setup, beyond=beyond)


def llama_head_width(
    comparison: Comparison, setup: EngineSetup, *, own: bool = False
) -> CheckOutcome:
    """Fail when the head was made for hidden states of another width."""
    return heads.head_width(_written(comparison), setup, own=own)


def llama_head_borrows(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the head takes embedding or output from a target of another width."""
    draft, head = comparison.drafter, comparison.drafter.head
    if draft.role in heads.NO_HEAD:
        return not_applicable(f"the draft is no head: {draft.role}")
    ours = comparison.target.config.hidden
    if head is None or head.hidden is None or ours is None:
        return unknown("hidden size of the target or of the head was not read")
    words = f"the head is {head.hidden:,} wide, the target {ours:,}"
    if head.hidden == ours:
        return ok(words)
    if head.lm_head is None or head.embed_tokens is None:
        return unknown(f"{words}; tensors of the head were not read")
    missing = [
        name
        for name, there in (("output", head.lm_head), ("token_embd", head.embed_tokens))
        if not there
    ]
    return fail(f"{words}; {missing[0]} is the target's") if missing else ok(f"{words}, all own")


def llama_feeds_heads(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when this build's graph of the target hands out no layer inputs."""
    name = architecture(comparison.target, setup)
    if name is None:
        return unknown("the target's architecture was not read")
    return _listed(name, "feeds", f"target architecture {name}", setup)


def _listed(name: str, table: str, words: str, setup: EngineSetup) -> CheckOutcome:
    build = build_of(setup)
    try:
        there = build.knows(name, getattr(build.architectures, table), "use of")
    except NotTold as doubt:
        return unknown(str(doubt))
    return ok(words) if there else fail(words)


def llama_mistaken_head(
    comparison: Comparison, setup: EngineSetup, *, kinds: list[str], layers: int = 0
) -> CheckOutcome:
    """Fail when the draft is of one of these kinds (and names so many layers)."""
    role, head = comparison.drafter.role, _written(comparison).drafter.head
    if role is None:
        return unknown(UNTOLD)
    if role not in kinds:
        return ok(f"the draft is: {role}")
    if layers and (head is None or head.aux_count is None):
        return unknown("the head's layers were not read")
    same = not layers or (head is not None and head.aux_count == layers)
    words = f"the draft is: {role}" + (f", with {layers} layers" if layers and same else "")
    return fail(words) if same else ok(words)


def llama_layers_read(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the converter does not see which layers an EAGLE-3 head was trained on."""
    draft, head = comparison.drafter, comparison.drafter.head
    if draft.gguf is not None or draft.role != "eagle3":
        return not_applicable("no EAGLE-3 head to convert")
    if head is None or head.declared is None:
        return unknown("the head's layers were not read")
    if head.aux_layers is None or convert.reads_layers(head):
        return ok("the layers stand where the converter looks, or are the usual ones")
    written = _written(comparison).drafter.head
    layers = written.aux_layers if written else None
    words = f"{head.aux_place}.{head.aux_key} says {_numbers(head.aux_layers)}"
    if layers is None:
        return unknown(f"{words}; the target's layers were not read")
    same = layers == head.aux_layers
    return ok(words) if same else fail(f"{words}; the converter writes {_numbers(layers)}")


def _numbers(values: tuple[int, ...] | None) -> str:
    return ", ".join(map(str, (values or ())[:8]))


def llama_head_texts(
    comparison: Comparison, setup: EngineSetup, *, more_than: float
) -> CheckOutcome:
    """Fail when ordinary tokens of a GGUF head differ from the target's."""
    if comparison.drafter.gguf is None and comparison.drafter.role in BORROWERS:
        return not_applicable("the converter writes the target's own tokens")
    return vocabulary.texts_differ(comparison, setup, more_than=more_than)


# ---- multi-token prediction ----


def llama_mtp_width(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the file with MTP layers is not as wide as the target."""
    draft, ours = comparison.drafter, comparison.target.config.hidden
    if comparison.draft is None:
        return not_applicable("the target's own layers")
    if draft.role is None:
        return unknown(UNTOLD)
    if draft.role != "mtp" and not _promised(draft):
        return not_applicable("no MTP layers")
    head = draft.head
    named = (head.target_hidden or head.hidden) if head else None
    theirs = named if named is not None else draft.config.hidden
    if ours is None or theirs is None:
        return unknown("hidden size of the target or of the MTP layers was not read")
    words = f"the MTP layers are made for width {theirs:,}, the target's is {ours:,}"
    return ok(words) if ours == theirs else fail(words)


def llama_mtp_family(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the MTP layers belong to another architecture than the target's."""
    draft = comparison.drafter
    if comparison.draft is None:
        return not_applicable("the target's own layers")
    names = architecture(comparison.target, setup), architecture(draft, setup)
    if None in names:
        return unknown("the architecture of the target or of the MTP layers was not read")
    made_for = setup.tables["llamacpp-architectures"].mtp.made_for
    words = f"MTP layers of {names[1]}, target {names[0]}"
    return ok(words) if names[0] == made_for.get(names[1], names[1]) else fail(words)


def llama_mtp_graph(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when this build has no graph for MTP layers of the draft's architecture."""
    draft = comparison.drafter
    if not _promised(draft) and draft.role != "mtp":
        return not_applicable("no MTP layers")
    name = architecture(draft, setup)
    if name is None:
        return unknown("the draft's architecture was not read")
    return _listed(name, "mtp", f"MTP layers of architecture {name}", setup)


def _promised(facts: ModelFacts) -> int:
    return (facts.head.mtp_promised or 0) if facts.head is not None else 0


def llama_mtp_missing(
    comparison: Comparison, setup: EngineSetup, *, loads_without: bool
) -> CheckOutcome:
    """Fail when promised MTP layers are not in the file.

    loads_without: only where this build loads such a file, because none of them is there.
    """
    draft, seen = comparison.drafter, mtp_layers_present(comparison, setup)
    if seen.outcome is not Outcome.FAIL or draft.head is None:
        return seen
    listed = setup.tables["llamacpp-architectures"].mtp.load_without
    goes_on = not draft.head.mtp_present and architecture(draft, setup) in listed
    return seen if goes_on == loads_without else not_applicable(seen.saw)


def llama_mtp_single(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when there are more MTP layers than the architecture's graph takes."""
    draft = comparison.drafter
    if draft.head is None and draft.role is None:
        return unknown("the draft's MTP layers were not read")
    promised = _promised(draft)
    if not promised:
        return not_applicable("no MTP layers promised")
    name = architecture(draft, setup)
    words = f"{promised} MTP layers, architecture {name}"
    single = setup.tables["llamacpp-architectures"].mtp.single
    return fail(words) if promised > 1 and name in single else ok(words)


def llama_mtp_written(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the converter leaves the MTP layers of this class out."""
    draft = comparison.drafter
    if draft.gguf is not None or draft.role == "mtp" or not _promised(draft):
        return not_applicable("no folder of a model with MTP layers")
    table = setup.tables["llamacpp-conversion"].mtp
    names = draft.config.architectures
    if not names:
        return unknown("the class of the model was not read")
    words = f"class {names[0]}"
    if names[0] in table.left_out:
        return fail(words)
    since = table.written.get(names[0])
    if since is None:
        return unknown(f"{words}: not in the rulebook's list")
    return ok(words) if build_of(setup).has(since) else fail(f"{words}: from {since}")


# ---- the command line and the deployment ----


def llama_detected(
    comparison: Comparison, setup: EngineSetup, *, kinds: dict[str, str]
) -> CheckOutcome:
    """Fail when -md alone leaves the draft unused; detected ones are judged by their method."""
    role = comparison.drafter.role
    if role is None:
        return unknown(UNTOLD)
    since = kinds.get(role)
    if since is None or not build_of(setup).has(since):
        return fail(f"-md without --spec-type; the draft is: {role}")
    return unknown(f"the server takes it for draft-{role}: ask again with --method draft-{role}")


def llama_sequences(comparison: Comparison, setup: EngineSetup, *, at_most: int) -> CheckOutcome:
    """Fail when more sequences are served at once."""
    if setup.sequences is None:
        return not_applicable("--sequences not given")
    words = f"{setup.sequences:,} sequences, limit {at_most:,}"
    return fail(words) if setup.sequences > at_most else ok(words)


def llama_cache_type(
    comparison: Comparison, setup: EngineSetup, *, types: list[str]
) -> CheckOutcome:
    """Fail when the cache is to be of a type that is none of these."""
    if setup.kv_dtype is None:
        return not_applicable("--kv-dtype not given")
    words = f"--kv-dtype {setup.kv_dtype[:40]!r}"
    return ok(words) if setup.kv_dtype in types else fail(words)


def llama_cache_blocks(
    comparison: Comparison, setup: EngineSetup, *, block: int, plain: list[str], sides: list[str]
) -> CheckOutcome:
    """Fail when a quantised cache cuts the heads of one of the sides into parts of a block."""
    if setup.kv_dtype is None or setup.kv_dtype in plain:
        return not_applicable("no quantised cache")
    for side in sides:
        size = comparison.model(side).config.head_dim
        if size is None:
            return unknown(f"the {side}'s head size was not read")
        if size % block:
            return fail(f"{side}: heads of {size}, blocks of {block} ({setup.kv_dtype[:40]})")
    return ok(f"blocks of {block} divide the heads of the {' and the '.join(sides)}")


def llama_may_see(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the target may be served with --mmproj: it has, or may have, a vision part."""
    facts = comparison.target
    name = architecture(facts, setup)
    if facts.config.multimodal is None and name is None:
        return unknown("whether the target is multimodal was not read")
    listed = name in setup.tables["llamacpp-architectures"].kinds.vision
    words = f"target architecture {name}"
    return fail(words) if facts.config.multimodal or listed else ok(words)
