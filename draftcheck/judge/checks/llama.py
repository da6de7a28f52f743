"""llama.cpp: what its loader and its compatibility check do with the two models, and its heads.

One file is loaded after the other, the target first, and only the first failure is seen;
so a load rule fails only where its own failure is that first one. A head in a folder is judged as
the GGUF file that the converter would write for this target.
"""

from __future__ import annotations

from dataclasses import replace

from draftcheck.judge.checks import heads, vocabulary
from draftcheck.judge.checks.listed import is_listed
from draftcheck.judge.checks.outcomes import (
    TEXTS_UNREAD,
    UNTOLD,
    Settled,
    applies,
    fail,
    needed,
    not_applicable,
    ok,
    quote,
    unknown,
)
from draftcheck.judge.compare import differing_within
from draftcheck.judge.llama.build import (
    Build,
    LoadFailure,
    NotTold,
    converted_architecture,
    converted_class,
    converted_head,
    reads_layers,
)
from draftcheck.judge.llama.load import View
from draftcheck.judge.llama.load import load as load_model
from draftcheck.judge.llama.vocab import TYPES, LlamaVocab
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import NO_TOKEN, ModelFacts
from draftcheck.values.verdicts import EngineSetup, JudgedPair
from draftcheck.values.words import CheckOutcome, Outcome

BORROWERS = ("eagle3", "dflash", "dspark")
"""Heads whose GGUF file is written with the target's tokenizer."""
LATENT = ("kv_lora_rank", "qk_rope_head_dim")
PUTS_BOS = ("SPM", "BPE", "WPM", "UGM")
"""Vocabularies that insist on a bos token where they add one; the others add none."""


def llama_loads(pair: JudgedPair, *, failure: str) -> CheckOutcome:
    """Fail when this failure is the first one that loading the pair meets."""
    for side, view in views(pair):
        if isinstance(view, LoadFailure) and view.code == failure:
            return fail(f"{side}: {view.saw}")
        if not isinstance(view, LlamaVocab):
            return not_applicable(f"{side}: stopped before")
    return ok("both files load")


def llama_load_is_known(pair: JudgedPair) -> CheckOutcome:
    """Unknown when the files do not tell what loading them would give."""
    _loaded(pair)
    return ok("both files tell what they become")


def views(pair: JudgedPair) -> tuple[tuple[str, View], ...]:
    """Both models as this build holds them; a head without a tokenizer gets the target's."""
    target, draft = pair.target, pair.drafter
    theirs: View
    if pair.draft is None or draft.gguf is not None or draft.role not in BORROWERS:
        theirs = load(draft, pair.setup)
    elif target.gguf is not None:
        words = "the target's own folder, which the converter needs for a head"
        theirs = NotTold(f"{words} (--target-model-dir)")
    else:
        theirs = load(draft, pair.setup, target)
    return ("target", load(target, pair.setup)), ("draft", theirs)


def load(facts: ModelFacts, setup: EngineSetup, lender: ModelFacts | None = None) -> View:
    """The vocabulary as this build holds it after loading the file, or why it has none.

    lender: the model whose tokenizer the converter writes into the file.
    """
    if id(facts) not in setup.memo:
        whole = facts
        if lender is not None:
            whole = replace(facts, tokenizer=lender.tokenizer, conversion=lender.conversion)
        setup.memo[id(facts)] = load_model(whole, Build(setup))
    found: View = setup.memo[id(facts)]
    return found


def architecture(facts: ModelFacts, setup: EngineSetup) -> str | None:
    """general.architecture, of a folder the one that the converter would write."""
    if facts.gguf is not None:
        return facts.config.model_type
    try:
        return converted_architecture(facts, Build(setup))
    except (LoadFailure, NotTold):
        return None


def _loaded(pair: JudgedPair) -> tuple[LlamaVocab, LlamaVocab]:
    """The two loaded vocabularies; the check is settled where one does not load."""
    found = []
    for side, view in views(pair):
        if isinstance(view, LoadFailure):
            raise Settled(not_applicable(f"the {side} does not load"))
        if isinstance(view, NotTold):
            raise Settled(unknown(f"{side}: not told by the files: {view}"))
        found.append(view)
    return found[0], found[1]


def _reaches_the_head(pair: JudgedPair) -> None:
    """Settle a check of what follows where one of the files does not load.

    Engines on top of llama.cpp, without its tables, ask only what follows.
    """
    known = "llamacpp-vocabulary" in pair.setup.tables
    for side, view in views(pair) if known else ():
        if isinstance(view, LoadFailure):
            raise Settled(not_applicable(f"the {side} does not load"))


def llama_head_blocks(pair: JudgedPair, *, at_most: int) -> CheckOutcome:
    """Fail when the head has more blocks than its graph takes."""
    _reaches_the_head(pair)
    return heads.head_layer_count(pair, at_most=at_most)


def llama_vocab_type(pair: JudgedPair, *, only_none: bool = False) -> CheckOutcome:
    """Fail when the vocabulary types differ; only_none: the era that told none from the rest."""
    ours, theirs = _loaded(pair)
    target, draft = (f"{vocab.type} ({TYPES[vocab.type]})" for vocab in (ours, theirs))
    words = f"target {target}, draft {draft}"
    if only_none:
        return fail(words) if (ours.type == "NONE") != (theirs.type == "NONE") else ok(words)
    return ok(words) if ours.type == theirs.type else fail(words)


def llama_special(pair: JudgedPair, *, token: str, ids_always: bool = False) -> CheckOutcome:
    """Fail when the add flag differs, or the id where it counts (always, or with the flag on)."""
    ours, theirs = _loaded(pair)
    flags = [getattr(vocab, f"add_{token}") for vocab in (ours, theirs)]
    ids = [getattr(vocab, token) for vocab in (ours, theirs)]
    words = (
        f"add_{token} {_flag(flags[0])} / {_flag(flags[1])},"
        f" {token} id {_id(ids[0])} / {_id(ids[1])} (target / draft)"
    )
    if None in flags:
        missing = "add flag depends on the pre-tokenizer's name, which the folder does not tell"
        same_id = ids[0] == ids[1]
        return fail(words) if ids_always and not same_id else unknown(f"{words}: {missing}")
    counts = ids_always or flags[0]
    bad = flags[0] != flags[1] or (counts and ids[0] != ids[1])
    return fail(words) if bad else ok(words)


def _flag(value: bool | None) -> str:
    return "?" if value is None else "true" if value else "false"


def _id(value: int | None) -> str:
    return "none" if value is None or value == NO_TOKEN else str(value)


def llama_size_gap(pair: JudgedPair, *, max_gap: int) -> CheckOutcome:
    """Fail when the numbers of tokens differ by more than max_gap."""
    ours, theirs = _loaded(pair)
    gap = abs(ours.n - theirs.n)
    words = f"{ours.n:,} and {theirs.n:,} tokens, difference {gap:,}, allowed {max_gap}"
    return fail(words) if gap > max_gap else ok(words)


def llama_draft_covers(
    pair: JudgedPair, *, max_gap: int, first_id: int = 0, ids_until: str = "", of: str = "target"
) -> CheckOutcome:
    """Fail when that side has tokens, not mere padding, that the other has no id for.

    max_gap: where the numbers differ by more, the draft is dropped before. first_id, ids_until:
    where another test of the vocabularies fails too, drafts are translated through text or not
    used; up to that build ids count with the flag off.
    """
    ours, theirs = _loaded(pair)
    always = bool(ids_until) and not Build(pair.setup).has(ids_until)
    if first_id and _vocabularies_differ(pair, max_gap, first_id, always):
        return ok("the vocabularies differ otherwise: no draft is used as it is")
    other, known = ("draft", theirs.n) if of == "target" else ("target", ours.n)
    if abs(ours.n - theirs.n) > max_gap:
        return not_applicable("the numbers of tokens differ by too much")
    length = needed(pair.model(of).tokenizer.length, f"the {of}'s tokens were not read")
    words = f"the {of}'s tokens go up to id {length - 1:,}, the {other} has {known:,}"
    return fail(words) if length > known else ok(words)


def llama_token_text(pair: JudgedPair, *, first_id: int) -> CheckOutcome:
    """Fail when a token text differs from first_id on, as far as both tables go."""
    try:
        left, right = (vocab.texts for vocab in _loaded(pair))
        if None in (left, right) and pair.vocabulary.same_file:
            return ok("the same tokenizer file on both sides")
        ours, theirs = needed(left, TEXTS_UNREAD), needed(right, TEXTS_UNREAD)
    except Settled as settled:
        doubtful = settled.outcome.outcome is Outcome.UNKNOWN
        return (doubtful and _text_without_rows(pair, first_id)) or settled.outcome
    bad = differing_within(ours, theirs, first_id)
    if not bad:
        last = min(len(ours), len(theirs)) - 1
        return ok(f"texts of ids {first_id} to {last:,} are the same")
    first = bad[0]
    return fail(
        f"token {first} is {quote(ours[first])} in the target,"
        f" {quote(theirs[first])} in the draft ({len(bad):,} differ)"
    )


def _text_without_rows(comparison: Comparison, first_id: int) -> CheckOutcome | None:
    """A differing text decides even where padding or flags are not known."""
    if comparison.target.gguf or comparison.drafter.gguf:
        return None
    for difference in comparison.vocabulary.differences:
        both = difference.target is not None and difference.draft is not None
        if both and difference.id >= first_id:
            ours, theirs = quote(difference.target), quote(difference.draft)
            return fail(f"token {difference.id} is {ours} in the target, {theirs} in the draft")
    return None


def llama_no_vocabulary(pair: JudgedPair, *, max_gap: int) -> CheckOutcome:
    """Fail when both files come without a vocabulary: reading its texts aborts.

    max_gap: texts are only read where the numbers of tokens differ by no more.
    """
    ours, theirs = _loaded(pair)
    if not ours.type == theirs.type == "NONE":
        return ok("at least one side has a vocabulary")
    if min(ours.n, theirs.n) > 5 and abs(ours.n - theirs.n) <= max_gap:
        return fail("tokenizer.ggml.model is none on both sides")
    return ok("no texts are compared")


def llama_architecture_in(pair: JudgedPair, *, side: str, kind: str) -> CheckOutcome:
    """Fail when that side's architecture is in the table's list of that kind."""
    name = _architecture_of(pair, side)
    listed = name in getattr(pair.setup.tables["llamacpp-architectures"].kinds, kind)
    return fail(f"{side} architecture {name}") if listed else ok(f"{side} architecture {name}")


def llama_takes_back(
    pair: JudgedPair, *, max_gap: int = 0, first_id: int = 0, ids_always: bool = False
) -> CheckOutcome:
    """Fail when rejected tokens can be taken back from the target's state, but not the draft's.

    Where they cannot be taken back from either, both return to a checkpoint. max_gap, first_id,
    ids_always: a draft whose vocabulary fails the rules of these numbers is not used at all.
    """
    target, draft = (_architecture_of(pair, side) for side in ("target", "draft"))
    recurrent = pair.setup.tables["llamacpp-architectures"].kinds.recurrent
    words = f"target architecture {target}, draft architecture {draft}"
    if draft not in recurrent or target in recurrent:
        return ok(words)
    if max_gap and _vocabularies_differ(pair, max_gap, first_id, ids_always):
        return not_applicable(f"{words}: the vocabularies differ")
    return fail(words)


def _vocabularies_differ(pair: JudgedPair, max_gap: int, first_id: int, ids_always: bool) -> bool:
    """Whether one of the engine's tests of the two vocabularies is known to fail."""
    try:
        seen = [llama_special(pair, token=name, ids_always=ids_always) for name in ("bos", "eos")]
        seen += [llama_size_gap(pair, max_gap=max_gap), llama_token_text(pair, first_id=first_id)]
    except Settled:
        return False
    return any(one.outcome is Outcome.FAIL for one in seen)


def _architecture_of(pair: JudgedPair, side: str) -> str:
    facts = pair.model(side)
    name = architecture(facts, pair.setup)
    if name is None and facts.gguf is None:
        words = f"the {side}'s folder names no class that the converter knows"
        raise Settled(not_applicable(words))
    return needed(name, f"the {side}'s architecture was not read")


def _wpm_puts_bos(setup: EngineSetup) -> bool:
    """Before, a WordPiece text began with the cls token."""
    build = Build(setup)
    return build.has(build.vocabulary.behaviour.wpm_puts_bos)


def llama_bos_exists(pair: JudgedPair) -> CheckOutcome:
    """Fail when the target adds a bos token that is not defined."""
    view = load(pair.target, pair.setup)
    if not isinstance(view, LlamaVocab):
        return not_applicable("the target does not load")
    other_token = view.type == "WPM" and not _wpm_puts_bos(pair.setup)
    if view.add_bos and view.bos == NO_TOKEN and view.type in PUTS_BOS and not other_token:
        return fail("target: add_bos true, bos id none")
    return ok(f"target: add_bos {_flag(view.add_bos)}, bos id {_id(view.bos)}")


def _written(pair: JudgedPair) -> JudgedPair:
    """The pair with the head as it stands in its GGUF file, where both files load."""
    _reaches_the_head(pair)
    draft = pair.draft
    if draft is None or draft.gguf or draft.head is None or draft.role in heads.NO_HEAD:
        return pair
    head = converted_head(draft.head, draft.role, pair.target.config, Build(pair.setup))
    return replace(pair, draft=replace(draft, head=head))


def llama_head_declares(pair: JudgedPair, *, fields: list[str], kinds: list[str]) -> CheckOutcome:
    """Fail when the file does not state one of these; kinds: only asked of such heads."""
    if pair.drafter.role not in (*kinds, None):
        return not_applicable(f"the draft is: {pair.drafter.role}")
    return heads.head_declares(_written(pair), fields=fields)


def llama_head_count(pair: JudgedPair, *, exactly: int) -> CheckOutcome:
    """Fail when an EAGLE-3 head reads another number of the target's layers."""
    if pair.drafter.role not in ("eagle3", None):
        return not_applicable(f"the draft is: {pair.drafter.role}")
    head = pair.drafter.head
    if pair.drafter.gguf and head and "aux_layers" not in (head.declared or ("aux_layers",)):
        return not_applicable("the file has no list")
    return heads.head_aux_count(_written(pair), exactly=exactly)


def llama_head_tensor(
    pair: JudgedPair, *, kind: str, name: str, folder: dict[str, str] | None = None
) -> CheckOutcome:
    """Fail when a head of this kind lacks a tensor that this build asks for.

    folder: the names in a folder, `source` of the tensor and `beside` of the one without which it
    is not asked for; else only GGUF files are.
    """
    draft, tensors = pair.drafter, pair.drafter.weights.tensors
    if draft.role == kind and draft.gguf is None and folder is not None:
        return _source_is_there(pair, **folder)
    if draft.gguf is None or draft.role != kind or tensors is None:
        return not_applicable(f"no list of the tensors of a GGUF file, {kind}")
    return ok(f"{name} is there") if name in tensors else fail(f"the head has no {name}")


def _source_is_there(pair: JudgedPair, *, source: str, beside: str) -> CheckOutcome:
    """Fail when the folder of a head has nothing that the converter can write the tensor from."""
    _reaches_the_head(pair)
    if architecture(pair.drafter, pair.setup) is None:
        return not_applicable("not told whether the converter takes it")
    tensors = needed(pair.drafter.weights.tensors, "tensors of the head were not listed")
    names = [name.removeprefix("model.") for name in tensors]
    if not any(name.startswith(beside) for name in names):
        return ok(f"not asked for: the head has no {beside}")
    there = any(name.startswith(source) for name in names)  # packed weights have longer names
    return ok(f"{source} is there") if there else fail(f"the head has no {source}")


def llama_head_surplus(
    pair: JudgedPair,
    *,
    kinds: list[str],
    names: list[str],
    unless: str = "",
    unread: str | None = None,
) -> CheckOutcome:
    """Fail when a GGUF head of these kinds has a tensor that this build does not ask for.

    unless: not those that have this tensor too; unread: from this build on nobody read whether
    they are asked for.
    """
    draft, tensors = pair.drafter, pair.drafter.weights.tensors
    if draft.gguf is None or draft.role not in kinds or tensors is None:
        return not_applicable("no list of the tensors of such a GGUF file")
    found = [name for name in names if name in tensors and unless not in tensors]
    if not found:
        return ok(f"the head has no {names[0]}")
    known = unread is None or not Build(pair.setup).has(unread)
    return fail(f"the head has {found[0]}") if known else unknown(f"the head has {found[0]}")


def llama_head_fc(pair: JudgedPair, *, own: bool = False) -> CheckOutcome:
    """Fail when fc.weight does not have the shape that the keys ask for."""
    if pair.drafter.role not in (*BORROWERS, None):
        return not_applicable(f"the draft is: {pair.drafter.role}")
    # An EAGLE-3 file states its target's width, whatever method it is given to.
    return heads.head_fc(_written(pair), own=own and pair.drafter.role != "eagle3")


def llama_head_layers(pair: JudgedPair, *, beyond: int) -> CheckOutcome:
    """Fail when the head names a layer input that the target does not hand out.

    beyond: how many numbers after the last layer the engine understands, for every target.
    """
    last = pair.setup.tables["llamacpp-architectures"].feeds.last
    if architecture(pair.target, pair.setup) in last:
        beyond = max(beyond, 1)
    return heads.head_layers_in_range(_written(pair), beyond=beyond)


def llama_last_state(pair: JudgedPair, *, without: dict[str, str]) -> CheckOutcome:
    """Fail when the head reads the output of the last layer and the target's graph keeps none.

    without: the architectures, in these builds.
    """
    name = needed(architecture(pair.target, pair.setup), "the target's architecture was not read")
    read = heads.head_layers_in_range(_written(pair), beyond=0).outcome is Outcome.FAIL
    words = f"target architecture {name}"
    if not read or not is_listed(name, without, pair.setup):
        return ok(words)
    return fail(f"{words}, and the head reads the output of its last layer")


def llama_head_width(
    pair: JudgedPair, *, own: bool = False, all_own: str | None = None
) -> CheckOutcome:
    """Fail when the head was made for hidden states of another width.

    all_own: not those that borrow from the target (`tied` of llama_head_borrows), which do not
    come so far.
    """
    if own and pair.drafter.role == "eagle3":
        return not_applicable("an EAGLE-3 head states the width of its target")
    seen = heads.head_width(_written(pair), own=own)
    if all_own is None or seen.outcome is not Outcome.FAIL:
        return seen
    try:
        borrowed = llama_head_borrows(pair, tied=all_own)
    except Settled:
        return seen
    return seen if borrowed.outcome is Outcome.OK else not_applicable(borrowed.saw)


def llama_head_borrows(pair: JudgedPair, *, tied: str = "") -> CheckOutcome:
    """Fail when the head takes embedding or output from a target of another width.

    tied: from this build on an embedding of its own serves as the output too.
    """
    _reaches_the_head(pair)
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
    if tied and Build(pair.setup).has(tied):
        del own["output"]
    for name, there in own.items():
        if not there:
            return fail(f"{words}; {name} is the target's")
    return ok(f"{words}, all own")


def llama_markov_rows(pair: JudgedPair, *, tied: str) -> CheckOutcome:
    """Fail when a DSpark file takes the output of a target with another number of tokens.

    tied: from this build on an embedding of its own serves as the output too.
    """
    draft, head = pair.drafter, _written(pair).drafter.head
    if draft.gguf is None or draft.role != "dspark":
        return not_applicable(f"no GGUF file of a DSpark head: {draft.role}")
    unread = "tensors or number of tokens of the head were not read"
    head = needed(head, unread)
    ours, theirs = pair.target.config.vocab_size, needed(head.vocab, unread)
    words = f"the head has {theirs:,} tokens, the target {needed(ours, unread):,}"
    if ours == theirs:
        return ok(words)
    own = head.embed_tokens if Build(pair.setup).has(tied) else False
    return ok(f"{words}, all own") if needed(head.lm_head, unread) or own else fail(words)


def llama_mask_row(pair: JudgedPair) -> CheckOutcome:
    """Fail when the target's embedding has no row for the mask token of a block drafter."""
    draft, head = pair.drafter, _written(pair).drafter.head
    if draft.gguf is None or draft.role not in ("dflash", "dspark"):
        return not_applicable(f"no GGUF file of a block drafter: {draft.role}")
    if head is not None and head.embed_tokens:
        return ok("the head has an embedding of its own")
    return heads.head_mask_in_vocabulary(pair)


def llama_mask_named(pair: JudgedPair) -> CheckOutcome:
    """Fail when the GGUF file of a block drafter names no mask token."""
    draft = pair.drafter
    keys = draft.gguf.keys if draft.gguf is not None else {}
    if draft.role not in ("dflash", "dspark") or "dflash.target_layers" not in keys:
        return not_applicable(
            f"no GGUF file of a block drafter, or its keys were not read: {draft.role}"
        )
    _reaches_the_head(pair)
    if "tokenizer.ggml.mask_token_id" in keys:
        return ok("the mask token is named")
    lacking = "no tokenizer.ggml.mask_token_id"
    if draft.role == "dspark" and pair.setup.draft_tokens == 1:
        return unknown(f"{lacking}; a single token may be drafted from the anchor, without it")
    return fail(lacking)


def llama_feeds_heads(pair: JudgedPair, *, unread: dict[str, str] | None = None) -> CheckOutcome:
    """Fail when this build's graph of the target hands out no layer inputs.

    unread: what these architectures do in these builds was not found out.
    """
    _reaches_the_head(pair)
    name = needed(architecture(pair.target, pair.setup), "the target's architecture was not read")
    if is_listed(name, unread or {}, pair.setup):
        return unknown(f"target architecture {name}")
    return _listed(name, "feeds", f"target architecture {name}", pair.setup)


def _listed(name: str, table: str, words: str, setup: EngineSetup) -> CheckOutcome:
    build = Build(setup)
    try:
        there = build.knows(name, getattr(build.architectures, table), "use of")
    except NotTold as doubt:
        return unknown(str(doubt))
    return ok(words) if there else fail(words)


def llama_mistaken_head(
    pair: JudgedPair,
    *,
    kinds: list[str],
    layers: int = 0,
    from_anchor: bool | None = None,
    unless: list[str] | None = None,
) -> CheckOutcome:
    """Fail when the draft is of one of these kinds (and names so many layers).

    from_anchor: only heads that predict the next token at the last known one, or only the others;
    unless: not those of these classes, or with these keys in their GGUF file.
    """
    role, head = needed(pair.drafter.role, UNTOLD), _written(pair).drafter.head
    keys = pair.drafter.gguf.keys if pair.drafter.gguf is not None else {}
    marks = {*keys, *(pair.drafter.config.architectures or ())}
    if role not in kinds or marks & set(unless or ()):
        return ok(f"the draft is: {role}")
    if from_anchor is not None:
        stated = keys.get("dflash.sample_from_anchor", ("", None))[1]
        inner = head is not None and head.block_drafts != head.block_size
        samples = not inner if stated is None else bool(stated)
        if samples is not from_anchor:
            how = "samples" if samples else "does not sample"
            return ok(f"the draft is: {role}, and {how} from its anchor")
    if layers and (head is None or head.aux_count is None):
        return unknown("the head's layers were not read")
    same = not layers or (head is not None and head.aux_count == layers)
    words = f"the draft is: {role}" + (f", with {layers} layers" if layers and same else "")
    return fail(words) if same else ok(words)


def llama_not_eagle3(pair: JudgedPair, *, fails: list[str]) -> CheckOutcome:
    """Fail when the draft is no EAGLE-3 head, and does not name three layers like one either.

    fails: only these kinds do, of others it is not known what happens.
    """
    head = _written(pair).drafter.head
    seen = heads.head_kind_in(pair, kinds=["eagle3"], fails=fails)
    alike = head is not None and head.aux_count == heads.USUAL_LAYERS
    failed = seen.outcome is Outcome.FAIL
    return ok(f"{seen.saw}, with three layers") if failed and alike else seen


def llama_taken_for(pair: JudgedPair, *, method: str) -> CheckOutcome:
    """Unknown where both files load: this build goes by another method, whatever was asked for."""
    _reaches_the_head(pair)
    return unknown(f"this build takes it for {method}: ask again with --method {method}")


def llama_norm_before_fc(pair: JudgedPair, *, forms: dict[str, str]) -> CheckOutcome:
    """Fail when the head has a norm before fc that neither converter nor loader knows here."""
    _reaches_the_head(pair)
    return heads.head_norm_before_fc(pair, forms=forms)


def llama_fc_norms(pair: JudgedPair) -> CheckOutcome:
    """Fail when the head norms each hidden state before fc, which the converter does not know."""
    _reaches_the_head(pair)
    return heads.head_fc_norms(pair, known={})


def llama_layers_read(pair: JudgedPair) -> CheckOutcome:
    """Fail when the converter does not see which layers an EAGLE-3 head was trained on."""
    draft, head = pair.drafter, pair.drafter.head
    if draft.gguf is not None or draft.role != "eagle3":
        return not_applicable("no EAGLE-3 head to convert")
    _reaches_the_head(pair)
    if head is None or head.declared is None:
        return unknown("the head's layers were not read")
    build = Build(pair.setup)
    if head.aux_layers is None or reads_layers(head, build):
        return ok("the layers stand where the converter looks, or are the usual ones")
    words = f"{head.aux_place}.{head.aux_key} says {_numbers(head.aux_layers)}"
    written = converted_head(head, draft.role, pair.target.config, build).aux_layers
    layers = needed(written, f"{words}; the target's layers were not read")
    # Some trainers name the layer whose output is meant, the converter the one it goes into.
    same = layers in (head.aux_layers, tuple(number + 1 for number in head.aux_layers))
    return ok(words) if same else fail(f"{words}; the converter writes {_numbers(layers)}")


def _numbers(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values[:8]))


def llama_head_covers(pair: JudgedPair) -> CheckOutcome:
    """Fail when the target has ids, not mere padding, that a GGUF head has no token for."""
    if pair.drafter.gguf is None and pair.drafter.role in BORROWERS:
        return not_applicable("the converter writes the target's own tokens")
    _reaches_the_head(pair)
    unread = "number of tokens of the target or of the head was not read"
    known = needed(heads.head_of(pair).vocab, unread)
    target = needed(pair.target.config.vocab_size, unread)
    words = f"the head knows {known:,} tokens, the target {target:,}"
    length = pair.target.tokenizer.length
    if known < target and length is not None and length <= known:
        return ok(f"{words}; what lies beyond is padding")
    return fail(words) if known < target else ok(words)


def llama_head_exceeds(pair: JudgedPair, *, borrows: bool | None = None) -> CheckOutcome:
    """Fail when the head can draft ids, not mere padding, that the target has no token for.

    borrows: only heads that look their drafts up in the target's embedding, or only the others.
    """
    draft = pair.drafter
    _reaches_the_head(pair)
    head, unread = heads.head_of(pair), "number of tokens of the target or of the head was not read"
    known = needed(head.vocab, unread)
    target = needed(pair.target.config.vocab_size, unread)
    words = f"the head knows {known:,} tokens, the target {target:,}"
    if known <= target:
        return ok(words)
    made_for = pair.setup.tables["llamacpp-architectures"].mtp.made_for
    looks_up, tensors = architecture(draft, pair.setup) in made_for, ""
    if draft.role == "eagle3":
        tensors = f"{words}; tensors of the head were not read"
        if not needed(head.lm_head, tensors):
            return ok(f"{words}; its output is the target's")
        looks_up = not needed(head.embed_tokens, tensors)
    if borrows is not None and borrows is not looks_up:
        return not_applicable(f"{words}; another rule speaks of such a head")
    if tensors and needed(head.d2t, tensors):
        if draft.gguf is None:
            return ok(f"{words}; the converter only takes a d2t to ids of the target")
        return unknown(f"{words}; where its d2t leads was not read")
    if tensors and head.lm_head_rows not in (None, known):
        return not_applicable(f"{words}; its output has {head.lm_head_rows:,} rows")
    length = draft.tokenizer.length
    if length is None and target >= known * heads.LEAST_PADDED:
        return unknown(f"{words}; whether only padding lies beyond was not read")
    if length is not None and length <= target:
        return ok(f"{words}; what lies beyond is padding")
    return fail(words)


def llama_head_texts(
    pair: JudgedPair, *, more_than: float, gguf_only: bool = False
) -> CheckOutcome:
    """Fail when ordinary tokens of a GGUF head differ from the target's.

    gguf_only: every head in a folder is written with the target's tokens.
    """
    if pair.drafter.gguf is None and (gguf_only or pair.drafter.role in BORROWERS):
        return not_applicable("the converter writes the target's own tokens")
    _reaches_the_head(pair)
    return vocabulary.texts_differ(pair, more_than=more_than)


def llama_mtp_width(pair: JudgedPair, *, gguf_only: bool = False) -> CheckOutcome:
    """Fail when the file with MTP layers is not as wide as the target.

    gguf_only: of a folder another rule speaks.
    """
    draft = applies(pair.draft, "the target's own layers")
    if gguf_only and draft.gguf is None:
        return not_applicable("no GGUF file")
    if needed(draft.role, UNTOLD) != "mtp" and not _promised(draft):
        return not_applicable("no MTP layers")
    _reaches_the_head(pair)
    named = (draft.head.target_hidden or draft.head.hidden) if draft.head else None
    unread = "hidden size of the target or of the MTP layers was not read"
    theirs = needed(named if named is not None else draft.config.hidden, unread)
    ours = needed(pair.target.config.hidden, unread)
    words = f"the MTP layers are made for width {theirs:,}, the target's is {ours:,}"
    return ok(words) if ours == theirs else fail(words)


def llama_mtp_family(pair: JudgedPair, *, assistant: bool, gguf_only: bool = False) -> CheckOutcome:
    """Fail when the MTP layers belong to another architecture than the target's.

    assistant: only files that live on the target's own cache, or only the others; gguf_only:
    only where both are GGUF files.
    """
    draft = applies(pair.draft, "the target's own layers")
    if gguf_only and (draft.gguf is None or pair.target.gguf is None):
        return not_applicable("no GGUF file")
    if needed(draft.role, UNTOLD) != "mtp" and not _layers_to_write(draft):
        return not_applicable("no MTP layers")
    _reaches_the_head(pair)
    unread = "the architecture of the target or of the MTP layers was not read"
    ours = needed(architecture(pair.target, pair.setup), unread)
    theirs = needed(architecture(draft, pair.setup), unread)
    made_for = pair.setup.tables["llamacpp-architectures"].mtp.made_for
    words = f"MTP layers of {theirs}, target {ours}"
    if assistant is not (theirs in made_for):
        return not_applicable(words)
    return ok(words) if ours == made_for.get(theirs, theirs) else fail(words)


def llama_mtp_graph(
    pair: JudgedPair, *, known: dict[str, str] | None = None, unread: list[str] | None = None
) -> CheckOutcome:
    """Fail when this build has no graph for MTP layers of the draft's architecture.

    known: the architectures of an engine whose versions are no builds; GGUF files only; unread:
    what happens to these then was not found out.
    """
    draft = pair.drafter
    if not _layers_to_write(draft) and draft.role != "mtp":
        return not_applicable("no MTP layers")
    if known is None and _written_without(pair):
        return not_applicable("the converter leaves the MTP layers out")
    if known is not None:
        own = applies(draft.config.model_type if draft.gguf else None, "no GGUF file")
        words = f"MTP layers of architecture {own}"
        return ok(words) if is_listed(own, known, pair.setup) else fail(words)
    name = needed(architecture(draft, pair.setup), "the draft's architecture was not read")
    seen = _listed(name, "mtp", f"MTP layers of architecture {name}", pair.setup)
    if seen.outcome is not Outcome.FAIL:
        return seen
    if _lacks_layers(pair):
        return not_applicable(f"{seen.saw}, of which some are missing")
    return unknown(seen.saw) if name in (unread or ()) else seen


def _lacks_layers(pair: JudgedPair) -> bool:
    """Whether promised MTP layers are known to be missing."""
    try:
        return heads.mtp_layers_present(pair).outcome is Outcome.FAIL
    except Settled:
        return False


def _promised(facts: ModelFacts) -> int:
    return (facts.head.mtp_promised or 0) if facts.head is not None else 0


def _layers_to_write(facts: ModelFacts) -> int:
    """MTP layers that a converter can find: some families' config.json does not state them."""
    unstated = facts.head.mtp_present if facts.head is not None and facts.gguf is None else 0
    return _promised(facts) or unstated or 0


def _written_without(pair: JudgedPair) -> bool:
    """Whether the converter is known to leave the MTP layers out: then nothing promises them."""
    try:
        return _mtp_written(pair).outcome is Outcome.FAIL
    except Settled:
        return False


def llama_mtp_missing(
    pair: JudgedPair, *, loads_without: bool, without: dict[str, str] | None = None
) -> CheckOutcome:
    """Fail when promised MTP layers are not in the file.

    loads_without: only where this build loads such a file, because none of them is there;
    without: these architectures do, in an engine whose versions are no builds; GGUF files only.
    """
    draft, seen = pair.drafter, heads.mtp_layers_present(pair)
    if without is not None and draft.gguf is None:
        return not_applicable("no GGUF file")
    if seen.outcome is not Outcome.FAIL or draft.head is None:
        return seen
    if without is None and _written_without(pair):
        return not_applicable("the converter leaves the MTP layers out")
    if without is not None:
        listed = is_listed(draft.config.model_type, without, pair.setup)
    else:
        name = architecture(draft, pair.setup)
        listed = name in pair.setup.tables["llamacpp-architectures"].mtp.load_without
        if listed and name is not None:
            graph = _listed(name, "mtp", seen.saw, pair.setup)  # what came with the graph
            if graph.outcome is Outcome.UNKNOWN:
                return graph
            listed = graph.outcome is Outcome.OK
    goes_on = listed and not draft.head.mtp_present
    return seen if goes_on == loads_without else not_applicable(seen.saw)


def llama_mtp_single(pair: JudgedPair) -> CheckOutcome:
    """Fail when there are more MTP layers than the architecture's graph takes."""
    draft = pair.drafter
    if draft.head is None and draft.role is None:
        return unknown("the draft's MTP layers were not read")
    promised = _layers_to_write(draft)
    if not promised or _written_without(pair):
        return not_applicable("no MTP layers promised")
    name = architecture(draft, pair.setup)
    words = f"{promised} MTP layers, architecture {name}"
    single = pair.setup.tables["llamacpp-architectures"].mtp.single
    if promised == 1 or name is None or name not in single:
        return ok(words)
    graph = _listed(name, "mtp", words, pair.setup)
    if graph.outcome is Outcome.UNKNOWN:
        return graph
    stops = bool(draft.head and draft.head.mtp_present) and _lacks_layers(pair)
    alone = graph.outcome is Outcome.OK and not stops  # with some of them the file does not load
    return fail(words) if alone else not_applicable(f"{words}: no graph, or not all are there")


def llama_no_mtp_given(pair: JudgedPair, *, unstated: list[str] | None = None) -> CheckOutcome:
    """Fail when the file that is given for its MTP layers has none, or would be written without.

    unstated: as in llama_no_own_mtp.
    """
    applies(pair.draft, "the target's own layers")
    seen = heads.mtp_layers_exist(pair, unstated=unstated)
    written = seen if seen.outcome is not Outcome.OK else _mtp_written(pair)
    return seen if written.outcome is Outcome.NOT_APPLICABLE else written


def llama_no_own_mtp(pair: JudgedPair, *, unstated: list[str]) -> CheckOutcome:
    """Fail when the target is to draft with its own MTP layers and has none.

    unstated: classes whose config.json does not say how many there are.
    """
    if pair.draft is not None:
        return not_applicable("a file with MTP layers is given")
    return heads.mtp_layers_exist(pair, unstated=unstated)


def llama_mtp_written(pair: JudgedPair) -> CheckOutcome:
    """Fail when the converter leaves the target's own MTP layers out."""
    if pair.draft is not None:
        return not_applicable("a file with MTP layers is given")
    _reaches_the_head(pair)
    return _mtp_written(pair)


def _mtp_written(pair: JudgedPair) -> CheckOutcome:
    draft = pair.drafter
    if draft.gguf is not None or draft.role == "mtp" or not _layers_to_write(draft):
        return not_applicable("no folder of a model with MTP layers")
    table = pair.setup.tables["llamacpp-conversion"].mtp
    build = Build(pair.setup)
    try:
        name = needed(converted_class(draft, build), "the class of the model was not read")
    except NotTold as doubt:
        return unknown(str(doubt))
    words = f"class {name}"
    if name in table.left_out:
        return fail(words)
    since = needed(table.written.get(name), f"{words}: not in the rulebook's list")
    return ok(words) if build.has(since) else fail(f"{words}: from {since}")


def llama_detected(pair: JudgedPair, *, kinds: dict[str, str]) -> CheckOutcome:
    """Fail when -md alone leaves the draft unused; detected ones are judged by their method."""
    _reaches_the_head(pair)
    draft, role = pair.drafter, needed(pair.drafter.role, UNTOLD)
    made_for = pair.setup.tables["llamacpp-architectures"].mtp.made_for
    words = f"-md without --spec-type; the draft is: {role}"
    if role == "full" and draft.head is not None and draft.head.mtp_present:
        role = "mtp"
    elif role == "mtp" and architecture(draft, pair.setup) in made_for:
        return fail(words)
    since = kinds.get(role)
    if since is None or not Build(pair.setup).has(since):
        # Without the layers below them the file may not even load, or its graph aborts.
        return unknown(f"{words} layers alone") if pair.drafter.role == "mtp" else fail(words)
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


def _cached_head(facts: ModelFacts) -> int | None:
    """The width of one head in the cache; of latent attention one row stands for all heads."""
    latent, rope = (facts.config.sizes.get(name) for name in LATENT)
    if isinstance(latent, int) and latent > 0:
        return latent + (rope if isinstance(rope, int) else 0)
    return 0 if facts.config.heads == 0 else facts.config.head_dim  # 0: a state and no cache


def llama_cache_blocks(
    pair: JudgedPair, *, block: int, types: list[str], side: str
) -> CheckOutcome:
    """Fail when a cache of these types cuts the heads of that side into parts of a block."""
    if pair.setup.kv_dtype not in types:
        return not_applicable("no quantised cache")
    size = needed(_cached_head(pair.model(side)), f"the {side}'s head size was not read")
    if size % block == 0:
        return ok(f"blocks of {block} divide the {side}'s heads of {size}")
    if side == "draft" and (_cached_head(pair.target) or 0) % block:
        return not_applicable("the target's cache stops the server before")
    return fail(f"{side}: heads of {size}, blocks of {block} ({pair.setup.kv_dtype})")


def llama_cache_needs_flash(
    pair: JudgedPair, *, types: list[str], architectures: list[str]
) -> CheckOutcome:
    """Fail when a cache of these types is asked for, and the target gets no flash attention."""
    if pair.setup.kv_dtype not in types:
        return not_applicable("no quantised cache")
    name = _architecture_of(pair, "target")
    words = f"target architecture {name}, --kv-dtype {pair.setup.kv_dtype}"
    return fail(words) if name in architectures else ok(words)


def llama_may_see(pair: JudgedPair) -> CheckOutcome:
    """Fail when the target may be served with --mmproj: it has, or may have, a vision part."""
    facts = pair.target
    name = architecture(facts, pair.setup)
    if facts.config.multimodal is None and name is None:
        return unknown("whether the target is multimodal was not read")
    listed = name in pair.setup.tables["llamacpp-architectures"].kinds.vision
    words = f"target architecture {name}"
    return fail(words) if facts.config.multimodal or listed else ok(words)
