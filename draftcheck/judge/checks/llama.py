"""llama.cpp: what its loader and its compatibility check do with the two models.

One file is loaded after the other, the target first, and only the first failure is seen;
so a load rule fails only where its own failure is that first one.
"""

from __future__ import annotations

from dataclasses import replace

from draftcheck.judge.checks.outcomes import (
    TEXTS_UNREAD,
    Settled,
    fail,
    needed,
    not_applicable,
    ok,
    quote,
    unknown,
)
from draftcheck.judge.compare import differing_within
from draftcheck.judge.llama import convert
from draftcheck.judge.llama.build import Build, LoadFailure, NotTold
from draftcheck.judge.llama.load import View
from draftcheck.judge.llama.load import load as load_model
from draftcheck.judge.llama.vocab import TYPES, LlamaVocab
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import NO_TOKEN, ModelFacts
from draftcheck.values.verdicts import EngineSetup, JudgedPair
from draftcheck.values.words import CheckOutcome, Outcome

BORROWERS = ("eagle3", "dflash", "dspark")
"""Heads whose GGUF file is written with the target's tokenizer."""


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
    for side, view in views(pair):
        if isinstance(view, NotTold):
            return unknown(f"{side}: not told by the files: {view}")
        if isinstance(view, LoadFailure):
            return not_applicable(f"the {side} does not load")
    return ok("both files tell what they become")


def views(pair: JudgedPair) -> tuple[tuple[str, View], ...]:
    """Both models as this build holds them; a head without a tokenizer gets the target's."""
    return ("target", load(pair.target, pair.setup)), ("draft", _load_draft(pair))


def _load_draft(pair: JudgedPair) -> View:
    target, draft = pair.target, pair.draft
    if draft is None or draft.gguf is not None or draft.role not in BORROWERS:
        return load(pair.drafter, pair.setup)
    if target.gguf is not None:
        words = "the target's own folder, which the converter needs for a head"
        return NotTold(f"{words} (--target-model-dir)")
    if id(draft) not in pair.setup.memo:
        whole = replace(draft, tokenizer=target.tokenizer, conversion=target.conversion)
        pair.setup.memo[id(draft)] = load_model(whole, Build(pair.setup))
    found: View = pair.setup.memo[id(draft)]
    return found


def load(facts: ModelFacts, setup: EngineSetup) -> View:
    """The vocabulary as this build holds it after loading the file, or why it has none."""
    if id(facts) not in setup.memo:
        setup.memo[id(facts)] = load_model(facts, Build(setup))
    found: View = setup.memo[id(facts)]
    return found


def architecture(facts: ModelFacts, setup: EngineSetup) -> str | None:
    """general.architecture, of a folder the one that the converter would write."""
    if facts.gguf is not None:
        return facts.config.model_type
    try:
        return convert.architecture(facts, Build(setup))
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


def llama_vocab_type(pair: JudgedPair, *, only_none: bool = False) -> CheckOutcome:
    """Fail when the vocabulary types differ; only_none: the era that told none from the rest."""
    ours, theirs = _loaded(pair)
    words = f"target {_type(ours)}, draft {_type(theirs)}"
    if only_none:
        return fail(words) if (ours.type == "NONE") != (theirs.type == "NONE") else ok(words)
    return ok(words) if ours.type == theirs.type else fail(words)


def _type(vocab: LlamaVocab) -> str:
    return f"{vocab.type} ({TYPES[vocab.type]})"


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


def llama_token_text(pair: JudgedPair, *, first_id: int) -> CheckOutcome:
    """Fail when a token text differs from first_id on, as far as both tables go."""
    try:
        return _texts_same(pair, first_id)
    except Settled as settled:
        doubtful = settled.outcome.outcome is Outcome.UNKNOWN
        return (doubtful and _text_without_rows(pair, first_id)) or settled.outcome


def _texts_same(pair: JudgedPair, first_id: int) -> CheckOutcome:
    ours, theirs = _loaded(pair)
    if ours.texts is None or theirs.texts is None:
        if pair.vocabulary.same_file:
            return ok("the same tokenizer file on both sides")
        raise Settled(unknown(TEXTS_UNREAD))
    bad = differing_within(ours.texts, theirs.texts, first_id)
    if not bad:
        last = min(ours.n, theirs.n) - 1
        return ok(f"texts of ids {first_id} to {last:,} are the same")
    first = bad[0]
    return fail(
        f"token {first} is {quote(ours.texts[first])} in the target,"
        f" {quote(theirs.texts[first])} in the draft ({len(bad):,} differ)"
    )


def _text_without_rows(comparison: Comparison, first_id: int) -> CheckOutcome | None:
    """A differing text decides even where padding or flags are not known."""
    if comparison.target.gguf or comparison.drafter.gguf:
        return None
    for difference in comparison.vocabulary.differences:
        both = difference.target is not None and difference.draft is not None
        if both and difference.id >= first_id:
            return fail(
                f"token {difference.id} is {quote(difference.target)} in the target,"
                f" {quote(difference.draft)} in the draft"
            )
    return None


def llama_no_vocabulary(pair: JudgedPair) -> CheckOutcome:
    """Fail when both files come without a vocabulary: reading its texts aborts."""
    ours, theirs = _loaded(pair)
    if ours.type == theirs.type == "NONE" and min(ours.n, theirs.n) > 5:
        return fail("tokenizer.ggml.model is none on both sides")
    return ok("at least one side has a vocabulary")


def llama_architecture_in(pair: JudgedPair, *, side: str, kind: str) -> CheckOutcome:
    """Fail when that side's architecture is in the table's list of that kind."""
    facts = pair.model(side)
    name = architecture(facts, pair.setup)
    if name is None and facts.gguf is None:
        return not_applicable(f"the {side}'s folder names no class that the converter knows")
    needed(name, f"the {side}'s architecture was not read")
    listed = name in getattr(pair.setup.tables["llamacpp-architectures"].kinds, kind)
    return fail(f"{side} architecture {name}") if listed else ok(f"{side} architecture {name}")


def llama_bos_exists(pair: JudgedPair) -> CheckOutcome:
    """Fail when the target adds a bos token that is not defined."""
    view = load(pair.target, pair.setup)
    if not isinstance(view, LlamaVocab):
        return not_applicable("the target does not load")
    if view.add_bos and view.bos == NO_TOKEN:
        return fail("target: add_bos true, bos id none")
    return ok(f"target: add_bos {_flag(view.add_bos)}, bos id {_id(view.bos)}")
