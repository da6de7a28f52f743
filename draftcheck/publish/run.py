"""Holds a draft's repository and card against its files, its target and the rulebook."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from draftcheck.errors import ReadError, UsageError
from draftcheck.evidence import profiles
from draftcheck.evidence.matching import ModelNames, plain
from draftcheck.judge import questions
from draftcheck.judge.compare import compare
from draftcheck.judge.decide import Question, judge_methods, usable
from draftcheck.judge.repairs import edges
from draftcheck.models.opening import Opener
from draftcheck.models.read import read, read_opened
from draftcheck.models.refs import parse as parse_ref
from draftcheck.publish import card as cards
from draftcheck.publish.card import ModelCard
from draftcheck.rulebook import book, file_rules
from draftcheck.values.comparison import Comparison
from draftcheck.values.facts import ModelFacts
from draftcheck.values.findings import Finding
from draftcheck.values.verdicts import EngineVerdict
from draftcheck.values.words import Outcome, Severity

PROFILE = "speculation_profile.json"
METHODS = ("quant_method", "quant_algo", "quantization")
"""Keys under which configs name how weights are quantised."""
WHOLE = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "BOOL"}
"""Types of weights that are not quantised, and of tables of ids."""
GONE = "FIL001"
"""The rule about options that the newest versions no longer have."""
THINKING = re.compile(r"(?<![\w/.-])(non-|enable_)?thinking(?![\w/])(?!-\w)|reasoning mode", re.I)
"""In a sentence or as a setting: inside a model's name it says nothing about the head."""


@dataclass(frozen=True, slots=True)
class EngineMinimum:
    """The oldest version of an engine that takes the pair."""

    verdict: EngineVerdict
    """Of the newest version known."""
    since: str | None
    """None: no version does."""


@dataclass(frozen=True, slots=True)
class PublishReport:
    """What a publisher should know."""

    draft: ModelFacts
    target: ModelFacts | None
    target_note: str
    """Why there is none."""
    card: ModelCard | None
    findings: tuple[Finding, ...]
    engines: tuple[EngineMinimum, ...]
    profile: bool = False
    """There is a speculation profile."""

    @property
    def profile_stub(self) -> dict[str, Any] | None:
        """What to put where there is none."""
        if self.profile:
            return None
        draft = self.draft
        whole = "mtp" if self.own else "draft_model"
        method = draft.role if draft.role != "full" else whole
        tokens = draft.head.block_drafts if draft.head is not None else None
        return profiles.stub(draft.called, self.base, method, tokens)

    @property
    def own(self) -> bool:
        """It drafts with layers of its own, and is its own target."""
        return self.target is self.draft

    @property
    def errors(self) -> int:
        return sum(finding.severity is Severity.ERROR for finding in self.findings)

    @property
    def base(self) -> str | None:
        """The target's id: as asked for, as the config says, as the card says."""
        if self.target is not None:
            return self.target.called
        listed = self.card.listed("base_model") if self.card is not None else []
        return self.draft.verifier or next(iter(listed), None)


def publish(
    ref: str, target: str | None = None, *, offline: bool = False, called: str | None = None
) -> PublishReport:
    """Look at a repository or a folder.

    target: the one that it is for, if the files do not say; called: what a folder will be called
    on the Hub.
    """
    opener = Opener(offline=offline)
    try:
        opened = opener.open(parse_ref(ref))
        draft = read_opened(opened)
        draft = draft if called is None else replace(draft, name=called)
        card, files = cards.read(opened.source), frozenset(opened.source.files())
        # A whole model that drafts with layers of its own is its own target, whatever it was made
        # from.
        own = (
            target is None and draft.role == "full" and bool(draft.head and draft.head.mtp_promised)
        )
        bases = card.listed("base_model") if card is not None else []
        named = target or draft.verifier or (draft.called if own else next(iter(bases), None))
        found = TargetRead(draft, card) if own else _target(opener, named)
    finally:
        opener.close()
    engines: tuple[EngineMinimum, ...] = ()
    if found.facts is not None:
        engines = tuple(_minimums(found.facts, None if own else draft))
    checks = PublishChecks(draft, found, card, files, named, engines, own)
    worst_first = sorted(checks.run(), key=lambda found: list(Severity).index(found.severity))
    return PublishReport(
        draft, found.facts, found.note, card, tuple(worst_first), engines, PROFILE in files
    )


@dataclass(frozen=True, slots=True)
class TargetRead:
    """What is known of the target."""

    facts: ModelFacts | None = None
    card: ModelCard | None = None
    note: str = ""
    """Why it is not."""


def _target(opener: Opener, named: str | None) -> TargetRead:
    if named is None:
        return TargetRead(note="neither the files nor the card name a target: --target TARGET does")
    try:
        ref = parse_ref(named)
        if ref.kind == "facts":
            return TargetRead(read(ref))
        opened = opener.open(ref)
        facts = read_opened(opened)
    except (ReadError, UsageError) as error:
        return TargetRead(note=f"the target was not read: {error.message}")
    try:
        return TargetRead(facts, cards.read(opened.source, commands=False))
    except ReadError:  # of its card only a hint depends
        return TargetRead(facts)


@dataclass(frozen=True, slots=True)
class PublishChecks:
    """One repository, and what is asked of it."""

    draft: ModelFacts
    target: TargetRead
    card: ModelCard | None
    files: frozenset[str]
    named: str | None
    """The target that it is for."""
    engines: tuple[EngineMinimum, ...]
    own: bool
    """It is its own target."""

    def run(self) -> Iterator[Finding]:
        head, weights = self.draft.head, self.draft.weights
        for fault in (weights.faults or ())[:1]:
            yield _found("PUB014", str(fault))
        if head is not None and head.mtp_promised and head.mtp_present == 0:
            yield _found(
                "PUB010", f"the config promises {head.mtp_promised}, the weights have none"
            )
        if self.target.facts is not None:
            yield from self._context(self.target.facts)
        yield from self._quantised()
        if self.card is None:
            yield _found("PUB001", "README.md is missing")
        else:
            yield from self._header(self.card)
            yield from self._commands(self.card)
        if PROFILE not in self.files:
            yield _found("PUB013", f"{PROFILE} is not among the files")

    def _context(self, target: ModelFacts) -> Iterator[Finding]:
        mine, theirs = (facts.config.scaled_context for facts in (self.draft, target))
        if mine and theirs and mine < theirs:
            yield _found("PUB012", f"{mine:,} tokens, the target has {theirs:,}")

    def _quantised(self) -> Iterator[Finding]:
        """How the weights are packed, and who takes them so."""
        if (packing := _packing(self.draft)) is None:
            return
        names = {one.verdict.engine: book.load(one.verdict.engine).name for one in self.engines}
        takes = [f"{names[one.verdict.engine]} {one.since}" for one in self.engines if one.since]
        rest = [names[one.verdict.engine] for one in self.engines if not one.since]
        words = [packing]
        if self.engines:
            words.append(f"loaded by {', '.join(takes)} or newer" if takes else "loaded by none")
        if takes and rest:
            words.append(f"not by {', '.join(rest)}")
        yield _found("PUB016", "; ".join(words))

    def _header(self, card: ModelCard) -> Iterator[Finding]:
        if card.nbytes > cards.LARGEST:
            yield _found("PUB017", f"{card.nbytes:,} bytes; the first {cards.LARGEST:,} were read")
        yield from self._licence(card)
        bases = card.listed("base_model")
        if not bases and not self.own:
            yield _found("PUB003", "no `base_model` in the header")
        named = None if self.own else self.named
        if bases and named and not any(_same(base, named) for base in bases):
            said = "the config says" if named == self.draft.verifier else "it is for"
            yield _found("PUB004", f"base_model is {bases[0]}, {said} {named}")
        # A target whose template has no such switch has one mode, and nothing to say about it.
        facts = self.target.facts
        one_mode = facts is not None and facts.tokenizer.thinking_switch is False
        if not one_mode and not THINKING.search(card.text):
            yield _found("PUB011", "the word thinking is not on the card")

    def _licence(self, card: ModelCard) -> Iterator[Finding]:
        given = card.listed("license")
        if not given:
            yield _found("PUB002", "no `license` in the header")
            return
        missing = [key for key in ("license_name", "license_link") if not card.listed(key)]
        if given[0].lower() == cards.UNNAMED and missing:
            yield _found("PUB018", f"no {' and no '.join(f'`{key}`' for key in missing)}")
        theirs = self.target.card.licence if self.target.card is not None else None
        if theirs and card.licence and theirs != card.licence:
            yield _found("PUB019", f"{card.licence} here, {theirs} there")

    def _commands(self, card: ModelCard) -> Iterator[Finding]:
        if not card.commands:
            yield _found("PUB005", "no command with speculation was found")
        head = self.draft.head
        block = head.block_drafts if head is not None else None
        for one in card.commands:
            where = f"{one.engine}, line {one.place.line}"
            draft, target = one.draft, one.target
            if draft is not None and not _same(draft.text, self.draft.called):
                yield _found("PUB006", f"{where}: {draft.text}")
            if target is not None and self.named and not self._either(target.text):
                yield _found("PUB007", f"{where}: {target.text}, not {self.named}")
            tokens = one.circumstances.get("draft_tokens")
            if block is not None and isinstance(tokens, int) and tokens > block:
                yield _found("PUB008", f"{where}: {tokens} tokens, the block proposes {block}")
            for finding in one.findings:
                if finding.severity is Severity.ERROR and finding.outcome is Outcome.FAIL:
                    yield _found("PUB009", f"{where}: {finding.title}: {finding.saw}")
                elif finding.rule == GONE and one.version is None:
                    yield _found("PUB015", f"{where}: {finding.saw}")

    def _either(self, name: str) -> bool:
        """The target, or the head itself: vLLM serves a speculator by its own name."""
        return _same(name, self.named or "") or _same(name, self.draft.called)


def _same(name: str, other: str) -> bool:
    return ModelNames(plain(name)).match(plain(other)) is not None


def _found(rule: str, saw: str) -> Finding:
    return Finding.of(file_rules.load(file_rules.PUBLISH)[rule], Outcome.FAIL, saw)


def _packing(facts: ModelFacts) -> str | None:
    """How a checkpoint's weights are quantised, or which kind of GGUF file it is."""
    config = facts.config.quantization or {}
    method = next((str(config[key]) for key in METHODS if config.get(key)), None)
    kinds = Counter(tensor.dtype for tensor in (facts.weights.tensors or {}).values())
    packed = [f"{count} tensors of {kind}" for kind, count in kinds.items() if kind not in WHOLE]
    if method is None and (facts.gguf is None or not packed):
        return None
    return ", ".join([*([method[:60]] if method else []), *sorted(packed)[:6]])


def _minimums(target: ModelFacts, draft: ModelFacts | None) -> Iterator[EngineMinimum]:
    """For each engine that has a method for such a draft: the oldest version that takes it.

    draft: None for layers of the target itself.
    """
    comparison = compare(target, draft)
    for question in questions.ask([]):
        engine = book.load(question.engine)
        verdicts = _asked(comparison, question)
        newest = next((one for one in verdicts if usable(one.verdict)), None)
        if newest is None:
            if verdicts and verdicts[0].method is not None:
                yield EngineMinimum(verdicts[0], None)
            continue
        low, high = engine.order(engine.oldest), engine.order(newest.version)
        known = {engine.oldest, *edges(engine.rules, engine.methods)}
        older = (text for text in known if low <= engine.order(text) <= high)
        since = newest.version
        for version in sorted(older, key=engine.order, reverse=True):
            found = _asked(comparison, replace(question, version=version))
            if not any(usable(one.verdict) for one in found):
                break
            since = version
        yield EngineMinimum(newest, since)


def _asked(comparison: Comparison, question: Question) -> Sequence[EngineVerdict]:
    """Of a target alone, only ways that use layers of its own."""
    found = judge_methods(comparison, question)
    if comparison.draft is not None:
        return found
    return [entry for entry in found if book.uses_own_layers(entry.engine, entry.method)]
