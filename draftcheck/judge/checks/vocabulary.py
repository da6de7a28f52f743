"""Checks on the two vocabularies and tokenizers: texts, ids, sizes, how text is cut."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from draftcheck.judge import tokenizers_agree
from draftcheck.judge.checks.listed import in_window, is_listed
from draftcheck.judge.checks.outcomes import (
    TEXTS_UNREAD,
    fail,
    longer_drafts,
    needed,
    needed_of_both,
    not_applicable,
    ok,
    quote,
    unknown,
    unread_config,
)
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import NO_TOKEN, ConfigFacts, ModelFacts, TokenizerFacts
from draftcheck.values.verdicts import EngineSetup, JudgedPair
from draftcheck.values.words import CheckOutcome, Outcome, Relation

SPACES = {"byte-bpe": "Ġ".encode(), "spm-bpe": "▁".encode(), "unigram": "▁".encode()}
"""How a leading space is written in the vocabulary file."""


def relation_is(pair: JudgedPair, *, bad: str) -> CheckOutcome:
    """Fail when the relation of the vocabularies is the bad one."""
    vocabulary = pair.vocabulary
    needed(vocabulary.differing_ids, _unread(pair))
    if vocabulary.relation == Relation(bad):
        return fail(differences(pair))
    if vocabulary.same_file:
        return ok("the same tokenizer file on both sides")
    if vocabulary.differing_ids == 0:
        length = pair.target.tokenizer.length
        if length is None or pair.drafter.tokenizer.length is None:
            return unknown("special tokens are not in the tokenizer file (tiktoken)")
        return ok(f"all {length:,} token texts are the same")
    return ok(f"{vocabulary.differing_ids:,} ids differ ({vocabulary.relation})")


def relation_among(pair: JudgedPair, *, good: list[str], format: str = "") -> CheckOutcome:
    """Fail when the relation of the vocabularies is none of the good ones.

    format: of both models (folder), or of one of them at least (gguf).
    """
    ggufs = any(facts.gguf is not None for _, facts in pair.both)
    if format and (format == "gguf") is not ggufs:
        return not_applicable("files of another format")
    needed(pair.vocabulary.differing_ids, _unread(pair))
    words = f"the vocabularies are: {pair.vocabulary.relation}"
    return ok(words) if pair.vocabulary.relation in good else fail(words)


def texts_differ(pair: JudgedPair, *, more_than: float, at_most: float = 1.0) -> CheckOutcome:
    """Fail when ordinary tokens differ, and the share of differing ids lies in the range."""
    differing = needed(pair.vocabulary.differing_ids, _unread(pair))
    if pair.vocabulary.relation != Relation.DIFFERS:
        return relation_is(pair, bad="differs")
    lengths = [len(f.tokenizer.tokens or ()) for f in (pair.target, pair.drafter)]
    share = differing / max(*lengths, 1)
    words = differences(pair)
    return fail(words) if more_than < share <= at_most else ok(words)


def differences(comparison: Comparison) -> str:
    """The first differing ids in words."""
    vocabulary = comparison.vocabulary
    shown = "; ".join(
        f"id {d.id}: target {quote(d.target)}, draft {quote(d.draft)}"
        for d in vocabulary.differences[:3]
    )
    count = vocabulary.differing_ids or 0
    plural = "id differs" if count == 1 else "ids differ"
    overlap = "" if vocabulary.overlap is None else f"; {vocabulary.overlap:.1%} of texts shared"
    return f"{count:,} {plural}: {shown}{'; …' if count > 3 else ''}{overlap}"


def _unread(comparison: Comparison) -> str:
    missing = [side for side, facts in comparison.both if facts.tokenizer.tokens is None]
    return f"token texts of the {' and the '.join(missing)} were not read"


def vocab_size_equal(pair: JudgedPair) -> CheckOutcome:
    """Fail when the configured vocabulary sizes differ at all."""
    ours, theirs = needed_of_both(pair, lambda facts: facts.config.vocab_size, "vocab_size")
    if ours == theirs:
        return ok(f"vocab_size {ours:,} on both sides")
    return fail(f"target vocab_size {ours:,}, draft {theirs:,} (difference {abs(ours - theirs):,})")


def ids_within_rows(pair: JudgedPair) -> CheckOutcome:
    """Fail when one side can produce an id for which the other has no row."""
    target, draft = pair.target, pair.drafter
    if None in (target.rows, draft.rows, target.tokenizer.length, draft.tokenizer.length):
        return unknown("embedding rows or tokenizer length were not read on both sides")
    found = []
    for (side, facts), (other_side, other) in permutations(pair.both):
        length, rows = facts.tokenizer.length or 0, other.rows or 0
        if length > rows:
            found.append(f"{side} ids go up to {length - 1:,}, {other_side} has {rows:,} rows")
    return fail("; ".join(found)) if found else ok("every id has a row on both sides")


def same_behaviour(pair: JudgedPair) -> CheckOutcome:
    """Fail when the two tokenizers cut the same text into different ids."""
    behaviour = pair.behaviour
    if pair.vocabulary.relation == Relation.DIFFERS:
        return ok("another rule speaks of the differing vocabularies")
    needed(behaviour.same, behaviour.detail)
    return ok(behaviour.detail) if behaviour.same else fail(behaviour.detail)


def config_ids_equal(
    pair: JudgedPair,
    *,
    same_vocab_size: bool = False,
    no_pad: dict[str, str] | None = None,
    in_part: str = "",
    no_default: dict[str, str] | None = None,
) -> CheckOutcome:
    """Fail when bos, eos or pad ids in the two config.json files differ.

    no_pad: types whose config class takes a missing pad id for none; in_part: in these versions
    only the ids in the text part of a config count, where there is one; no_default: types whose
    config class has nothing for an id that is not stated.
    """
    sizes = pair.target.config.vocab_size, pair.drafter.config.vocab_size
    if same_vocab_size and None not in sizes and sizes[0] != sizes[1]:
        return not_applicable("vocab_size differs: another path is taken")
    target, draft = pair.target.config, pair.drafter.config
    if in_part and in_window(in_part, pair.setup):
        for side, config in (("target", target), ("draft", draft)):
            if config.vocab_size_outside is not None and not config.ids_inside:
                return unknown(f"no ids were read in the text part of the {side}'s config")
        target, draft = _inside(target), _inside(draft)
    pairs = {
        "bos_token_id": (target.bos_token_id, draft.bos_token_id),
        "eos_token_id": (_eos(target), _eos(draft)),
        "pad_token_id": (
            _pad(target, no_pad or {}, pair.setup),
            _pad(draft, no_pad or {}, pair.setup),
        ),
    }
    same_type = target.model_type is not None and target.model_type == draft.model_type
    same_type = same_type and not is_listed(target.model_type, no_default or {}, pair.setup)
    unread = []
    for name, (ours, theirs) in pairs.items():
        if ours is None and theirs is None and same_type:
            continue  # both take the same default of the same config class
        if ours is None or theirs is None:
            unread.append(name)
        elif ours != theirs:
            words = f"{name}: target {_id_text(ours)}, draft {_id_text(theirs)}"
            if same_vocab_size and None in sizes:
                return unknown(f"{words}, and a vocab_size was not read")
            return fail(words)
    if unread:
        return unknown(f"{', '.join(unread)} not in both config.json files")
    return ok("bos, eos and pad ids are the same in both config.json files")


def pad_id_there(
    pair: JudgedPair, *, types: dict[str, str], after_eos: bool = False
) -> CheckOutcome:
    """Fail when config.json has no pad id, nor has the config class of these types.

    after_eos: only where the eos ids are the same, which are compared first.
    """
    found = []
    for side, facts in pair.sides:
        config = facts.config
        words = f"{side} model_type is {config.model_type}, without pad_token_id"
        if not is_listed(config.model_type, types, pair.setup):
            continue
        if config.pad_token_id is None:
            found.append(words)
        elif _inside(config).pad_token_id is None:
            return unknown(f"{words} in its text part")
    if found and after_eos:
        ours, theirs = (_eos(facts.config) for _, facts in pair.both)
        if ours != theirs:
            return unknown(found[0]) if None in (ours, theirs) else ok("the eos ids differ")
    if found:
        return fail(found[0])
    return unread_config(pair.sides, "model_type") or ok("pad_token_id has a value")


def _inside(config: ConfigFacts) -> ConfigFacts:
    """Without the ids that stand beside the text part."""
    if config.vocab_size_outside is None:
        return config
    inside = config.ids_inside or ()
    return replace(
        config,
        bos_token_id=config.bos_token_id if "bos_token_id" in inside else None,
        eos_token_ids=config.eos_token_ids if "eos_token_id" in inside else None,
        pad_token_id=config.pad_token_id if "pad_token_id" in inside else None,
    )


def _eos(config: ConfigFacts) -> object:
    """The eos entry as it stands: a list of one id is not that id."""
    ids = config.eos_token_ids
    return ids[0] if ids and len(ids) == 1 and not config.eos_is_list else ids


def _pad(config: ConfigFacts, no_pad: dict[str, str], setup: EngineSetup) -> int | None:
    if config.pad_token_id is None and is_listed(config.model_type, no_pad, setup):
        return NO_TOKEN
    return config.pad_token_id


def _id_text(value: object) -> str:
    if value in (NO_TOKEN, ()):
        return "none"
    return str(list(value) if isinstance(value, tuple) else value)


def tokenizer_size_equal(pair: JudgedPair) -> CheckOutcome:
    """Fail when tokenizer.vocab_size differs: the base vocabulary, without added tokens."""
    if pair.vocabulary.same_file:
        return ok("the same tokenizer file on both sides")
    ours, theirs = needed_of_both(pair, lambda f: f.tokenizer.base_size, "the base vocabulary")
    words = f"base vocabulary {ours:,} / {theirs:,} (target / draft)"
    if ours == theirs:
        return ok(words)
    files = [facts.tokenizer.origin.get("*") for _, facts in pair.both]
    if files[0] != files[1]:
        return unknown(f"{words}, read from {files[0]} and {files[1]}: not counted alike")
    return fail(words)


def texts_agree(
    pair: JudgedPair, *, whole: bool = False, more_unread: bool = False
) -> CheckOutcome:
    """Fail when some id has another text, or a text on one side only.

    whole: only asked of drafts that are no heads; more_unread: what the engine does where one
    side merely has more texts was not found out.
    """
    if whole and pair.drafter.role != "full":
        return not_applicable(f"the draft is: {pair.drafter.role}")
    vocabulary = pair.vocabulary
    if vocabulary.differing_ids:
        first = vocabulary.differences[0]  # ids on one side only come last
        more = more_unread and None in (first.target, first.draft)
        return unknown(differences(pair)) if more else fail(differences(pair))
    if vocabulary.relation is Relation.UNKNOWN:
        return unknown("the token texts, or the rows, were not read on both sides")
    return ok(f"vocabularies {vocabulary.relation}")


def shared_texts(pair: JudgedPair, *, at_least: int) -> CheckOutcome:
    """Fail when the vocabularies share fewer token texts."""
    if pair.vocabulary.same_file:
        return ok("the same tokenizer file on both sides")
    tokens = needed(pair.drafter.tokenizer.tokens, TEXTS_UNREAD)
    share = needed(pair.vocabulary.overlap, TEXTS_UNREAD)
    count = round(share * sum(token is not None for token in tokens))
    words = f"about {count:,} shared texts"
    return ok(words) if count >= at_least else fail(words)


def tokenizer_ids_equal(pair: JudgedPair, *, config_first: bool = False) -> CheckOutcome:
    """Fail when bos, eos or pad id differ, as an exported tokenizer gives them.

    The tokenizer's own id wins, then that of config.json (config_first: the other way round); a
    pad id that neither has is the eos id.
    """
    doubts = []
    sides = (pair.target, pair.drafter)
    whole = all(facts.tokenizer.length is not None for facts in sides)
    for name in ("eos", "bos", "pad"):
        ours, theirs = (_told(facts, name, config_first) for facts in sides)
        words = f"{name} id {_text(ours)} / {_text(theirs)} (target / draft)"
        configured = {_configured(facts.config, name) for facts in sides}
        if ours is None and theirs is None and whole and len(configured) == 1:
            continue  # both leave it to the same default
        if ours is None or theirs is None:
            doubts.append(words)
        elif not ours & theirs:
            return fail(words)
        elif len(ours | theirs) > 1 and ours != theirs:
            doubts.append(words)
    return unknown("; ".join(doubts)) if doubts else ok("bos, eos and pad ids are the same")


def _told(facts: ModelFacts, name: str, config_first: bool) -> frozenset[int] | None:
    """The ids that it can turn out to be; None where the files leave it to a class default."""
    own: int | None = getattr(facts.tokenizer, f"{name}_id")
    configured = _configured(facts.config, name)
    if config_first and configured is not None:
        return frozenset({configured})
    if own is None:
        return None
    if own != NO_TOKEN:
        return frozenset({own})
    if configured is not None:
        return frozenset({configured})
    if name == "pad" and facts.tokenizer.eos_id is not None:
        return frozenset({facts.tokenizer.eos_id, NO_TOKEN})
    return frozenset({NO_TOKEN})


def _configured(config: ConfigFacts, name: str) -> int | None:
    found = _eos(config) if name == "eos" else getattr(config, f"{name}_token_id")
    return found if isinstance(found, int) and found != NO_TOKEN else None


def _text(ids: frozenset[int] | None) -> str:
    if ids is None:
        return "not stated"
    return " or ".join("none" if i == NO_TOKEN else str(i) for i in sorted(ids, reverse=True))


def probe_count_equal(pair: JudgedPair, *, text: str) -> CheckOutcome:
    """Fail when the two tokenizers cut the text into different numbers of tokens.

    Engines that ask this also compare special ids; where those differ, nothing is cut, because
    running two tokenizers takes longer than everything else.
    """
    ours, theirs = pair.target.tokenizer, pair.drafter.tokenizer
    if tokenizer_ids_equal(pair).outcome is Outcome.FAIL:
        return not_applicable("the special ids differ already")
    if ours.files and ours.files == theirs.files:
        return ok("the same tokenizer file")
    # The special tokens that each puts around a text, where that is known.
    told = (facts.conversion for facts in (pair.target, pair.drafter))
    frames = [(one.add_bos, one.add_eos) for one in told if one and one.add_bos is not None]
    if pair.behaviour.same and len(frames) == 2 and frames[0] == frames[1]:
        return ok(f"{pair.behaviour.detail}, same tokens around a text")
    if not ours.definition or not theirs.definition:
        return unknown("the tokenizers could not be run side by side (no tokenizer.json on a side)")
    needed(pair.behaviour.same, tokenizers_agree.NOT_RUN)  # otherwise they were run already
    found = tokenizers_agree.cut((ours.definition, theirs.definition), text, special=True)
    counts = [len(ids) for ids in needed(found, tokenizers_agree.NOT_RUN)]
    words = f"the probe sentence has {counts[0]} / {counts[1]} tokens (target / draft)"
    return ok(words) if counts[0] == counts[1] else fail(words)


def unknown_or_end(pair: JudgedPair) -> CheckOutcome:
    """Fail when a tokenizer has neither an unknown token nor an end token."""
    for side, facts in pair.both:
        ids = (facts.tokenizer.unk_id, facts.tokenizer.eos_id)
        if any(i is not None and i != NO_TOKEN for i in ids):
            continue
        if None in ids:
            return unknown(f"unknown and end token of the {side} were not read")
        return fail(f"the {side} has neither")
    return ok("both sides have one of them")


# ---- methods that translate between two vocabularies ----


def vocab_size_differs(
    pair: JudgedPair, *, unsure_up_to: int = 0, unread_drafts: list[str] | None = None
) -> CheckOutcome:
    """Fail when the configured vocabulary sizes are the same: then nothing may be translated.

    unsure_up_to: unknown where drafts of so few tokens are asked for; unread_drafts: and of drafts
    of these types.
    """
    longer_drafts(pair, unsure_up_to)
    ours, theirs = needed_of_both(pair, lambda facts: facts.config.vocab_size, "vocab_size")
    if ours == theirs:
        if unread_drafts:
            name = needed(pair.drafter.config.model_type, "the draft's model_type was not read")
            if name in unread_drafts:
                return unknown(f"draft model_type is {name}")
        return fail(f"vocab_size {ours:,} on both sides")
    return ok(f"target vocab_size {ours:,}, draft {theirs:,}")


def draft_vocabulary_exceeds(pair: JudgedPair, *, sizes_differ: bool = False) -> CheckOutcome:
    """Fail when every token of the draft is one of the target's too, and no id is skipped.

    sizes_differ: only asked where the configured sizes do, and nothing to say elsewhere.
    """
    ours, theirs = pair.target.tokenizer, pair.drafter.tokenizer
    if sizes_differ:
        rows = {pair.target.config.vocab_size, pair.drafter.config.vocab_size}
        if None in rows:
            return unknown("a vocab_size was not read")
        if len(rows) == 1:
            return ok("vocab_size is the same on both sides: nothing is translated")
    if pair.vocabulary.same_file:
        return fail("the same tokenizer file: every token of the draft is one of the target")
    target, texts = needed(ours.tokens, TEXTS_UNREAD), needed(theirs.tokens, TEXTS_UNREAD)
    if None in texts:
        return ok(f"the draft's vocabulary skips id {texts.index(None):,}")
    known = set(target)
    for i, text in enumerate(texts):
        if text is not None and _spelled(text, theirs, ours) not in known:
            return ok(f"id {i:,} of the draft is no token of the target")
    return fail(f"all {len(texts):,} tokens of the draft are tokens of the target")


def _spelled(text: bytes, own: TokenizerFacts, other: TokenizerFacts) -> bytes:
    """A token with its leading space written as the other vocabulary writes it."""
    mine, yours = SPACES.get(own.kind or ""), SPACES.get(other.kind or "")
    if mine is None or yours is None or mine == yours or not text.startswith(mine):
        return text
    return yours + text[len(mine) :]


def draft_cuts_no_finer(pair: JudgedPair) -> CheckOutcome:
    """Unknown unless both cut texts alike: which one needs more tokens depends on the prompt."""
    relation = pair.vocabulary.relation
    if relation in (Relation.IDENTICAL, Relation.PADDED):
        return ok("both cut a text into the same tokens")
    rows = {pair.target.config.vocab_size, pair.drafter.config.vocab_size}
    if None not in rows and len(rows) == 1:
        return ok("vocab_size is the same on both sides: nothing is translated")
    ours, theirs = pair.target.tokenizer.base_size, pair.drafter.tokenizer.base_size
    if relation is Relation.UNKNOWN or ours is None or theirs is None:
        return unknown("the vocabularies were not read on both sides")
    words = f"base vocabulary {ours:,} / {theirs:,} (target / draft)"
    return unknown(f"{words}: which one needs more tokens depends on the prompt")


def rows_gap(pair: JudgedPair, *, most: int) -> CheckOutcome:
    """Fail when the numbers of tokens, padding included, lie further apart than this."""
    gap = needed(pair.vocabulary.size_gap, "the number of tokens was not read on both sides")
    ours, theirs = pair.vocabulary.target_size, pair.vocabulary.draft_size
    words = f"{ours:,} / {theirs:,} tokens (target / draft), {gap:,} apart, {most:,} allowed"
    return fail(words) if gap > most else ok(words)
