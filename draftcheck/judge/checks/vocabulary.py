"""Checks on the two vocabularies, the same for every engine."""

from __future__ import annotations

from draftcheck.judge.checks.outcomes import fail, not_applicable, ok, quote, unknown
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import NO_TOKEN, ConfigFacts
from draftcheck.values.verdicts import EngineSetup
from draftcheck.values.words import CheckOutcome, Relation


def relation_is(comparison: Comparison, setup: EngineSetup, *, bad: str) -> CheckOutcome:
    """Fail when the relation of the vocabularies is the bad one."""
    vocabulary = comparison.vocabulary
    if vocabulary.differing_ids is None:
        return unknown(_unread(comparison))
    if vocabulary.relation == Relation(bad):
        return fail(differences(comparison))
    if vocabulary.same_file:
        return ok("the same tokenizer file on both sides")
    if vocabulary.differing_ids == 0:
        length = comparison.target.tokenizer.length
        if length is None or comparison.drafter.tokenizer.length is None:
            return unknown("special tokens are not in the tokenizer file (tiktoken)")
        return ok(f"all {length:,} token texts are the same")
    return ok(f"{vocabulary.differing_ids:,} ids differ ({vocabulary.relation})")


def relation_among(comparison: Comparison, setup: EngineSetup, *, good: list[str]) -> CheckOutcome:
    """Fail when the relation of the vocabularies is none of the good ones."""
    vocabulary = comparison.vocabulary
    if vocabulary.differing_ids is None:
        return unknown(_unread(comparison))
    words = f"the vocabularies are: {vocabulary.relation}"
    return ok(words) if vocabulary.relation in good else fail(words)


def texts_differ(
    comparison: Comparison, setup: EngineSetup, *, more_than: float, at_most: float = 1.0
) -> CheckOutcome:
    """Fail when ordinary tokens differ, and the share of differing ids lies in the range."""
    vocabulary = comparison.vocabulary
    if vocabulary.differing_ids is None:
        return unknown(_unread(comparison))
    if vocabulary.relation != Relation.DIFFERS:
        return relation_is(comparison, setup, bad="differs")
    lengths = [len(f.tokenizer.tokens or ()) for f in (comparison.target, comparison.drafter)]
    share = vocabulary.differing_ids / max(*lengths, 1)
    words = differences(comparison)
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
    sides = {"target": comparison.target, "draft": comparison.drafter}
    missing = [name for name, facts in sides.items() if facts.tokenizer.tokens is None]
    return f"token texts of the {' and the '.join(missing)} were not read"


def vocab_size_equal(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the configured vocabulary sizes differ at all."""
    ours, theirs = comparison.target.config.vocab_size, comparison.drafter.config.vocab_size
    if ours is None or theirs is None:
        sides = [n for n, v in (("target", ours), ("draft", theirs)) if v is None]
        return unknown(f"vocab_size of the {' and the '.join(sides)} was not read")
    if ours == theirs:
        return ok(f"vocab_size {ours:,} on both sides")
    return fail(f"target vocab_size {ours:,}, draft {theirs:,} (difference {abs(ours - theirs):,})")


def ids_within_rows(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when one side can produce an id for which the other has no row."""
    target, draft = comparison.target, comparison.drafter
    if None in (target.rows, draft.rows, target.tokenizer.length, draft.tokenizer.length):
        return unknown("embedding rows or tokenizer length were not read on both sides")
    found = []
    for name, facts, other_name, other in (
        ("target", target, "draft", draft),
        ("draft", draft, "target", target),
    ):
        length, rows = facts.tokenizer.length or 0, other.rows or 0
        if length > rows:
            found.append(f"{name} ids go up to {length - 1:,}, {other_name} has {rows:,} rows")
    return fail("; ".join(found)) if found else ok("every id has a row on both sides")


def same_behaviour(comparison: Comparison, setup: EngineSetup) -> CheckOutcome:
    """Fail when the two tokenizers cut the same text into different ids."""
    behaviour = comparison.behaviour
    if comparison.vocabulary.relation == Relation.DIFFERS:
        return ok("another rule speaks of the differing vocabularies")
    if behaviour.same is None:
        return unknown(behaviour.detail)
    return ok(behaviour.detail) if behaviour.same else fail(behaviour.detail)


def config_ids_equal(
    comparison: Comparison, setup: EngineSetup, *, same_vocab_size: bool = False
) -> CheckOutcome:
    """Fail when bos, eos or pad ids in the two config.json files differ."""
    sizes = comparison.target.config.vocab_size, comparison.drafter.config.vocab_size
    if same_vocab_size and None not in sizes and sizes[0] != sizes[1]:
        return not_applicable("vocab_size differs: another path is taken")
    target, draft = comparison.target.config, comparison.drafter.config
    pairs = {
        "bos_token_id": (target.bos_token_id, draft.bos_token_id),
        "eos_token_id": (_eos(target), _eos(draft)),
        "pad_token_id": (target.pad_token_id, draft.pad_token_id),
    }
    same_type = target.model_type is not None and target.model_type == draft.model_type
    unread = []
    for name, (ours, theirs) in pairs.items():
        if ours is None and theirs is None and same_type:
            continue  # both take the same default of the same config class
        if ours is None or theirs is None:
            unread.append(name)
        elif ours != theirs:
            return fail(f"{name}: target {_id_text(ours)}, draft {_id_text(theirs)}")
    if unread:
        return unknown(f"{', '.join(unread)} not in both config.json files")
    return ok("bos, eos and pad ids are the same in both config.json files")


def _eos(config: ConfigFacts) -> object:
    """The eos entry as it stands: a list of one id is not that id."""
    ids = config.eos_token_ids
    return ids[0] if ids and len(ids) == 1 and not config.eos_is_list else ids


def _id_text(value: object) -> str:
    if value in (NO_TOKEN, ()):
        return "none"
    return str(list(value) if isinstance(value, tuple) else value)
