"""Checks that several engines share: what they load and rewind, how they probe tokenizers."""

from __future__ import annotations

from draftcheck.judge import tokenizers_agree
from draftcheck.judge.checks.listed import is_listed, whole_type
from draftcheck.judge.checks.outcomes import fail, not_applicable, ok, unknown
from draftcheck.judge.checks.vocabulary import differences
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import NO_TOKEN, ConfigFacts, ModelFacts
from draftcheck.values.verdicts import EngineSetup
from draftcheck.values.words import CheckOutcome, Outcome, Relation

ATTENTION = {"attention", "full_attention", "sliding_attention", "chunked_attention"}
SLIDING = "sliding_attention"


def has_safetensors(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when a side has no safetensors file."""
    unread = []
    for side, facts in comparison.both:
        if not facts.weights.files:
            unread.append(side)
        elif all(file.format != "safetensors" for file in facts.weights.files):
            return fail(f"{side}: no safetensors among {len(facts.weights.files)} weight files")
    if unread:
        return unknown(f"weight files of the {' and the '.join(unread)} were not listed")
    return ok("safetensors on both sides")


def tokenizer_size_equal(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when tokenizer.vocab_size differs: the base vocabulary, without added tokens."""
    ours, theirs = comparison.target.tokenizer, comparison.drafter.tokenizer
    if comparison.vocabulary.same_file:
        return ok("the same tokenizer file on both sides")
    if ours.base_size is None or theirs.base_size is None:
        sides = {"target": ours.base_size, "draft": theirs.base_size}
        missing = [side for side, size in sides.items() if size is None]
        return unknown(f"the base vocabulary of the {' and the '.join(missing)} was not read")
    words = f"base vocabulary {ours.base_size:,} / {theirs.base_size:,} (target / draft)"
    if ours.base_size == theirs.base_size:
        return ok(words)
    files = ours.origin.get("*"), theirs.origin.get("*")
    if files[0] != files[1]:
        return unknown(f"{words}, read from {files[0]} and {files[1]}: not counted alike")
    return fail(words)


def texts_agree(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when some id has another text, or a text on one side only."""
    vocabulary = comparison.vocabulary
    if vocabulary.differing_ids:
        return fail(differences(comparison))
    if vocabulary.relation is Relation.UNKNOWN:
        return unknown("the token texts, or the rows, were not read on both sides")
    return ok(f"vocabularies {vocabulary.relation}")


def cache_rewinds(
    comparison: Comparison,
    setup: EngineSetup,
    *,
    side: str,
    types: dict[str, str],
    mixed: dict[str, str] | None = None,
) -> CheckOutcome:
    """Fail when that side's cache cannot take back rejected tokens.

    Tables: model_type -> "since" or "since until"; mixed: only with layers that are no attention.
    """
    config = comparison.model(side).config
    name = whole_type(config)
    if name is None:
        return unknown(f"the {side}'s model_type was not read")
    if is_listed(name, types, setup):
        return fail(f"{side} model_type is {name}")
    if is_listed(name, mixed or {}, setup):
        other = sorted(set(config.layer_kinds or ()) - ATTENTION)
        if config.layer_kinds is None:
            return unknown(f"{side} model_type is {name}; its kinds of layers were not read")
        if other:
            return fail(f"{side} model_type is {name} with layers of kind {', '.join(other)}")
    return ok(f"{side} model_type is {name}")


def window_rewinds(
    comparison: Comparison,
    setup: EngineSetup,
    *,
    margin: int,
    types: dict[str, str],
    listed: dict[str, str],
) -> CheckOutcome:
    """Fail when the target's sliding layers are full before the served length is reached.

    margin: tokens of one round with the usual draft length, which must fit too; types: these
    slide unless their config lists other layers; listed: only where it does.
    """
    config = comparison.target.config
    name = whole_type(config)
    if name is None:
        return unknown("the target's model_type was not read")
    usual = is_listed(name, types, setup)
    slides = SLIDING in config.layer_kinds if config.layer_kinds is not None else usual
    if not slides or not (usual or is_listed(name, listed, setup)):
        return ok(f"target model_type is {name}, without a sliding window")
    served = setup.context or config.scaled_context or config.context
    if config.sliding_window is None or served is None:
        return unknown(f"target model_type is {name}; its window or context was not read")
    if setup.draft_tokens is not None:
        margin = setup.draft_tokens + 1
    asked = "--context" if setup.context else "the target's own context"
    words = f"sliding window {config.sliding_window:,} tokens, served {served:,} ({asked})"
    return fail(words) if served + margin > config.sliding_window else ok(words)


def no_recurrent_layers(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when a side keeps a recurrent state."""
    flags = {side: facts.config.recurrent for side, facts in comparison.both}
    for side, flag in flags.items():
        if flag:
            return fail(f"the {side} has recurrent layers")
    if unread := [side for side, flag in flags.items() if flag is None]:
        return unknown(f"layers of the {' and the '.join(unread)} were not read")
    return ok("no recurrent layers")


def recurrent_not_read(
    comparison: Comparison, setup: EngineSetup, *, side: str = "both"
) -> CheckOutcome:
    """Unknown when a side keeps a recurrent state: what follows from it was not found out.

    side: target where the draft is a head, or there is none.
    """
    if side == "target":
        flag = comparison.target.config.recurrent
        if flag is None:
            return unknown("layers of the target were not read")
        return unknown("the target has recurrent layers") if flag else ok("no recurrent layers")
    seen = no_recurrent_layers(comparison, setup)
    return unknown(seen.saw) if seen.outcome is Outcome.FAIL else seen


def tokenizer_ids_equal(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when bos, eos or pad id differ, as an exported tokenizer gives them.

    The tokenizer's own id wins, then that of config.json; a pad id that neither has is the eos id.
    """
    doubts = []
    for name in ("eos", "bos", "pad"):
        ours, theirs = _told(comparison.target, name), _told(comparison.drafter, name)
        words = f"{name} id {_text(ours)} / {_text(theirs)} (target / draft)"
        if ours is None and theirs is None and _same_default(comparison, name):
            continue  # both leave it to the same default
        if ours is None or theirs is None:
            doubts.append(words)
        elif not ours & theirs:
            return fail(words)
        elif len(ours | theirs) > 1 and ours != theirs:
            doubts.append(words)
    if doubts:
        return unknown("; ".join(doubts))
    return ok("bos, eos and pad ids are the same")


def _told(facts: ModelFacts, name: str) -> frozenset[int] | None:
    """The ids that it can turn out to be; None where the files leave it to a class default."""
    own: int | None = getattr(facts.tokenizer, f"{name}_id")
    if own is None:
        return None
    if own != NO_TOKEN:
        return frozenset({own})
    configured = _configured(facts.config, name)
    if configured is not None and configured != NO_TOKEN:
        return frozenset({configured})
    if name == "pad" and facts.tokenizer.eos_id is not None:
        return frozenset({facts.tokenizer.eos_id, NO_TOKEN})
    return frozenset({NO_TOKEN})


def _configured(config: ConfigFacts, name: str) -> int | None:
    if name != "eos":
        found: int | None = getattr(config, f"{name}_token_id")
        return found
    ids = config.eos_token_ids
    return ids[0] if ids and len(ids) == 1 and not config.eos_is_list else None


def _same_default(comparison: Comparison, name: str) -> bool:
    sides = (comparison.target, comparison.drafter)
    if any(facts.tokenizer.length is None for facts in sides):
        return False
    ours, theirs = (_configured(facts.config, name) for facts in sides)
    return (ours if ours != NO_TOKEN else None) == (theirs if theirs != NO_TOKEN else None)


def _text(ids: frozenset[int] | None) -> str:
    if ids is None:
        return "not stated"
    return " or ".join("none" if i == NO_TOKEN else str(i) for i in sorted(ids, reverse=True))


def probe_count_equal(comparison: Comparison, setup: EngineSetup, *, text: str) -> CheckOutcome:
    """Fail when the two tokenizers cut the text into different numbers of tokens.

    Engines that ask this also compare special ids; where those differ, nothing is cut, because
    running two tokenizers takes longer than everything else.
    """
    ours, theirs = comparison.target.tokenizer, comparison.drafter.tokenizer
    if tokenizer_ids_equal(comparison, setup).outcome is Outcome.FAIL:
        return not_applicable("the special ids differ already")
    if ours.files and ours.files == theirs.files:
        return ok("the same tokenizer file")
    if comparison.behaviour.same and _same_frame(comparison):
        return ok(f"{comparison.behaviour.detail}, same tokens around a text")
    if not ours.definition or not theirs.definition:
        return unknown("the tokenizers could not be run side by side (no tokenizer.json on a side)")
    found = None
    if comparison.behaviour.same is not None:  # otherwise they were run already, in vain
        found = tokenizers_agree.cut((ours.definition, theirs.definition), text, special=True)
    if found is None:
        return unknown("the tokenizers library cannot run these two files")
    counts = len(found[0]), len(found[1])
    words = f"the probe sentence has {counts[0]} / {counts[1]} tokens (target / draft)"
    return ok(words) if counts[0] == counts[1] else fail(words)


def _same_frame(comparison: Comparison) -> bool:
    """Whether both tokenizers put the same special tokens around a text."""
    ours, theirs = comparison.target.conversion, comparison.drafter.conversion
    if ours is None or theirs is None or None in (ours.add_bos, theirs.add_bos):
        return False
    return (ours.add_bos, ours.add_eos) == (theirs.add_bos, theirs.add_eos)
