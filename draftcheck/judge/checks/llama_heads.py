"""llama.cpp: heads, MTP layers and the deployment, beyond what loading the files tells.

A head in a folder is judged as the GGUF file that the converter would write for this target.
"""

from __future__ import annotations

from dataclasses import replace

from draftcheck.judge.checks import heads, vocabulary
from draftcheck.judge.checks.llama import BORROWERS, architecture
from draftcheck.judge.checks.outcomes import (
    UNTOLD,
    applies,
    fail,
    needed,
    not_applicable,
    ok,
    unknown,
)
from draftcheck.judge.checks.own_layers import mtp_layers_present
from draftcheck.judge.llama import convert
from draftcheck.judge.llama.build import Build, NotTold
from draftcheck.values.facts import ModelFacts
from draftcheck.values.verdicts import EngineSetup, JudgedPair
from draftcheck.values.words import CheckOutcome, Outcome


def _written(pair: JudgedPair) -> JudgedPair:
    """The pair with the head as it stands in its GGUF file."""
    draft = pair.draft
    if draft is None or draft.gguf is not None or draft.role in heads.NO_HEAD:
        return pair
    if draft.head is None:
        return pair
    head = convert.head(draft.head, draft.role, pair.target.config)
    return replace(pair, draft=replace(draft, head=head))


def llama_head_declares(pair: JudgedPair, *, fields: list[str], kind: str = "") -> CheckOutcome:
    """Fail when the file does not state one of these; kind: only asked of such a head."""
    if kind and pair.drafter.role not in (kind, None):
        return not_applicable(f"the draft is: {pair.drafter.role}")
    return heads.head_declares(_written(pair), fields=fields)


def llama_head_count(pair: JudgedPair, *, exactly: int) -> CheckOutcome:
    """Fail when an EAGLE-3 head reads another number of the target's layers."""
    if pair.drafter.role not in ("eagle3", None):
        return not_applicable(f"the draft is: {pair.drafter.role}")
    return heads.head_aux_count(_written(pair), exactly=exactly)


def llama_head_fc(pair: JudgedPair, *, own: bool = False) -> CheckOutcome:
    """Fail when fc.weight does not have the shape that the keys ask for."""
    return heads.head_fc(_written(pair), own=own)


def llama_head_layers(pair: JudgedPair, *, beyond: int) -> CheckOutcome:
    """Fail when the head names a layer input that the target does not hand out.

    beyond: how many numbers after the last layer the engine understands, for every target.
    """
    last = pair.setup.tables["llamacpp-architectures"].feeds.last
    if architecture(pair.target, pair.setup) in last:
        beyond = max(beyond, 1)
    return heads.head_layers_in_range(_written(pair), beyond=beyond)


def llama_head_width(pair: JudgedPair, *, own: bool = False) -> CheckOutcome:
    """Fail when the head was made for hidden states of another width."""
    return heads.head_width(_written(pair), own=own)


def llama_head_borrows(pair: JudgedPair) -> CheckOutcome:
    """Fail when the head takes embedding or output from a target of another width."""
    draft = pair.drafter
    if draft.role in heads.NO_HEAD:
        return not_applicable(f"the draft is no head: {draft.role}")
    head, ours = needed(draft.head, heads.WIDTHS_UNREAD), pair.target.config.hidden
    theirs = needed(head.hidden, heads.WIDTHS_UNREAD)
    words = f"the head is {theirs:,} wide, the target {needed(ours, heads.WIDTHS_UNREAD):,}"
    if theirs == ours:
        return ok(words)
    unread = f"{words}; tensors of the head were not read"
    own = {"output": needed(head.lm_head, unread), "token_embd": needed(head.embed_tokens, unread)}
    for name, there in own.items():
        if not there:
            return fail(f"{words}; {name} is the target's")
    return ok(f"{words}, all own")


def llama_feeds_heads(pair: JudgedPair) -> CheckOutcome:
    """Fail when this build's graph of the target hands out no layer inputs."""
    name = needed(architecture(pair.target, pair.setup), "the target's architecture was not read")
    return _listed(name, "feeds", f"target architecture {name}", pair.setup)


def _listed(name: str, table: str, words: str, setup: EngineSetup) -> CheckOutcome:
    build = Build(setup)
    try:
        there = build.knows(name, getattr(build.architectures, table), "use of")
    except NotTold as doubt:
        return unknown(str(doubt))
    return ok(words) if there else fail(words)


def llama_mistaken_head(pair: JudgedPair, *, kinds: list[str], layers: int = 0) -> CheckOutcome:
    """Fail when the draft is of one of these kinds (and names so many layers)."""
    role, head = needed(pair.drafter.role, UNTOLD), _written(pair).drafter.head
    if role not in kinds:
        return ok(f"the draft is: {role}")
    if layers and (head is None or head.aux_count is None):
        return unknown("the head's layers were not read")
    same = not layers or (head is not None and head.aux_count == layers)
    words = f"the draft is: {role}" + (f", with {layers} layers" if layers and same else "")
    return fail(words) if same else ok(words)


def llama_layers_read(pair: JudgedPair) -> CheckOutcome:
    """Fail when the converter does not see which layers an EAGLE-3 head was trained on."""
    draft, head = pair.drafter, pair.drafter.head
    if draft.gguf is not None or draft.role != "eagle3":
        return not_applicable("no EAGLE-3 head to convert")
    if head is None or head.declared is None:
        return unknown("the head's layers were not read")
    if head.aux_layers is None or convert.reads_layers(head):
        return ok("the layers stand where the converter looks, or are the usual ones")
    words = f"{head.aux_place}.{head.aux_key} says {_numbers(head.aux_layers)}"
    written = convert.head(head, draft.role, pair.target.config).aux_layers
    layers = needed(written, f"{words}; the target's layers were not read")
    same = layers == head.aux_layers
    return ok(words) if same else fail(f"{words}; the converter writes {_numbers(layers)}")


def _numbers(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values[:8]))


def llama_head_texts(pair: JudgedPair, *, more_than: float) -> CheckOutcome:
    """Fail when ordinary tokens of a GGUF head differ from the target's."""
    if pair.drafter.gguf is None and pair.drafter.role in BORROWERS:
        return not_applicable("the converter writes the target's own tokens")
    return vocabulary.texts_differ(pair, more_than=more_than)


# ---- multi-token prediction ----


def llama_mtp_width(pair: JudgedPair) -> CheckOutcome:
    """Fail when the file with MTP layers is not as wide as the target."""
    draft = applies(pair.draft, "the target's own layers")
    if needed(draft.role, UNTOLD) != "mtp" and not _promised(draft):
        return not_applicable("no MTP layers")
    named = (draft.head.target_hidden or draft.head.hidden) if draft.head else None
    unread = "hidden size of the target or of the MTP layers was not read"
    theirs = needed(named if named is not None else draft.config.hidden, unread)
    ours = needed(pair.target.config.hidden, unread)
    words = f"the MTP layers are made for width {theirs:,}, the target's is {ours:,}"
    return ok(words) if ours == theirs else fail(words)


def llama_mtp_family(pair: JudgedPair) -> CheckOutcome:
    """Fail when the MTP layers belong to another architecture than the target's."""
    draft = applies(pair.draft, "the target's own layers")
    unread = "the architecture of the target or of the MTP layers was not read"
    ours = needed(architecture(pair.target, pair.setup), unread)
    theirs = needed(architecture(draft, pair.setup), unread)
    made_for = pair.setup.tables["llamacpp-architectures"].mtp.made_for
    words = f"MTP layers of {theirs}, target {ours}"
    return ok(words) if ours == made_for.get(theirs, theirs) else fail(words)


def llama_mtp_graph(pair: JudgedPair) -> CheckOutcome:
    """Fail when this build has no graph for MTP layers of the draft's architecture."""
    draft = pair.drafter
    if not _promised(draft) and draft.role != "mtp":
        return not_applicable("no MTP layers")
    name = needed(architecture(draft, pair.setup), "the draft's architecture was not read")
    return _listed(name, "mtp", f"MTP layers of architecture {name}", pair.setup)


def _promised(facts: ModelFacts) -> int:
    return (facts.head.mtp_promised or 0) if facts.head is not None else 0


def llama_mtp_missing(pair: JudgedPair, *, loads_without: bool) -> CheckOutcome:
    """Fail when promised MTP layers are not in the file.

    loads_without: only where this build loads such a file, because none of them is there.
    """
    draft, seen = pair.drafter, mtp_layers_present(pair)
    if seen.outcome is not Outcome.FAIL or draft.head is None:
        return seen
    listed = pair.setup.tables["llamacpp-architectures"].mtp.load_without
    goes_on = not draft.head.mtp_present and architecture(draft, pair.setup) in listed
    return seen if goes_on == loads_without else not_applicable(seen.saw)


def llama_mtp_single(pair: JudgedPair) -> CheckOutcome:
    """Fail when there are more MTP layers than the architecture's graph takes."""
    draft = pair.drafter
    if draft.head is None and draft.role is None:
        return unknown("the draft's MTP layers were not read")
    promised = _promised(draft)
    if not promised:
        return not_applicable("no MTP layers promised")
    name = architecture(draft, pair.setup)
    words = f"{promised} MTP layers, architecture {name}"
    single = pair.setup.tables["llamacpp-architectures"].mtp.single
    return fail(words) if promised > 1 and name in single else ok(words)


def llama_mtp_written(pair: JudgedPair) -> CheckOutcome:
    """Fail when the converter leaves the MTP layers of this class out."""
    draft = pair.drafter
    if draft.gguf is not None or draft.role == "mtp" or not _promised(draft):
        return not_applicable("no folder of a model with MTP layers")
    table = pair.setup.tables["llamacpp-conversion"].mtp
    names = draft.config.architectures
    if not names:
        return unknown("the class of the model was not read")
    words = f"class {names[0]}"
    if names[0] in table.left_out:
        return fail(words)
    since = needed(table.written.get(names[0]), f"{words}: not in the rulebook's list")
    return ok(words) if Build(pair.setup).has(since) else fail(f"{words}: from {since}")


# ---- the command line and the deployment ----


def llama_detected(pair: JudgedPair, *, kinds: dict[str, str]) -> CheckOutcome:
    """Fail when -md alone leaves the draft unused; detected ones are judged by their method."""
    role = needed(pair.drafter.role, UNTOLD)
    since = kinds.get(role)
    if since is None or not Build(pair.setup).has(since):
        return fail(f"-md without --spec-type; the draft is: {role}")
    return unknown(f"the server takes it for draft-{role}: ask again with --method draft-{role}")


def llama_sequences(pair: JudgedPair, *, at_most: int) -> CheckOutcome:
    """Fail when more sequences are served at once."""
    count = applies(pair.setup.sequences, "--sequences not given")
    words = f"{count:,} sequences, limit {at_most:,}"
    return fail(words) if count > at_most else ok(words)


def llama_cache_type(pair: JudgedPair, *, types: list[str]) -> CheckOutcome:
    """Fail when the cache is to be of a type that is none of these."""
    kind = applies(pair.setup.kv_dtype, "--kv-dtype not given")
    words = f"--kv-dtype {kind[:40]!r}"
    return ok(words) if kind in types else fail(words)


def llama_cache_blocks(
    pair: JudgedPair, *, block: int, plain: list[str], sides: list[str]
) -> CheckOutcome:
    """Fail when a quantised cache cuts the heads of one of the sides into parts of a block."""
    if pair.setup.kv_dtype is None or pair.setup.kv_dtype in plain:
        return not_applicable("no quantised cache")
    for side in sides:
        size = needed(pair.model(side).config.head_dim, f"the {side}'s head size was not read")
        if size % block:
            return fail(f"{side}: heads of {size}, blocks of {block} ({pair.setup.kv_dtype[:40]})")
    return ok(f"blocks of {block} divide the heads of the {' and the '.join(sides)}")


def llama_may_see(pair: JudgedPair) -> CheckOutcome:
    """Fail when the target may be served with --mmproj: it has, or may have, a vision part."""
    facts = pair.target
    name = architecture(facts, pair.setup)
    if facts.config.multimodal is None and name is None:
        return unknown("whether the target is multimodal was not read")
    listed = name in pair.setup.tables["llamacpp-architectures"].kinds.vision
    words = f"target architecture {name}"
    return fail(words) if facts.config.multimodal or listed else ok(words)
