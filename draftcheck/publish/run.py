"""Holds a draft's repository and card against its files, its target and the rulebook."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from draftcheck.errors import ReadError
from draftcheck.evidence.matching import ModelNames, plain
from draftcheck.judge import questions
from draftcheck.judge.compare import compare
from draftcheck.judge.decide import judge_methods, usable
from draftcheck.judge.repairs import edges
from draftcheck.models.opening import Opener
from draftcheck.models.read import read, read_opened
from draftcheck.models.refs import parse as parse_ref
from draftcheck.publish import card as cards
from draftcheck.publish.card import ModelCard
from draftcheck.rulebook import book, file_rules
from draftcheck.values.facts import ModelFacts
from draftcheck.values.findings import Finding
from draftcheck.values.verdicts import EngineVerdict
from draftcheck.values.words import Outcome, Severity

PROFILE = "speculation_profile.json"
GONE = "FIL001"
"""The rule about options that the newest versions no longer have."""
THINKING = ("thinking", "reasoning mode", "non-thinking")


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


def publish(ref: str, target: str | None = None, *, offline: bool = False) -> PublishReport:
    """Look at a repository or a folder; target: the one that it is for, if the files do not say."""
    opener = Opener(offline=offline)
    try:
        opened = opener.open(parse_ref(ref))
        draft = read_opened(opened)
        files = opened.source.files()
        data = opened.source.read(cards.NAME, cards.LARGEST) if cards.NAME in files else None
    finally:
        opener.close()
    card = cards.parse(data) if data is not None else None
    bases = card.listed("base_model") if card is not None else []
    named = target or draft.verifier or next(iter(bases), None)
    facts, note = _target(named, offline=offline)
    checks = PublishChecks(draft, facts, card, frozenset(files), named)
    engines = tuple(_minimums(facts, draft)) if facts is not None else ()
    worst_first = sorted(checks.run(), key=lambda found: list(Severity).index(found.severity))
    return PublishReport(draft, facts, note, card, tuple(worst_first), engines)


def _target(named: str | None, *, offline: bool) -> tuple[ModelFacts | None, str]:
    if named is None:
        return None, "neither the files nor the card name a target: --target TARGET does"
    try:
        return read(parse_ref(named), offline=offline), ""
    except ReadError as error:
        return None, f"the target was not read: {error.message}"


@dataclass(frozen=True, slots=True)
class PublishChecks:
    """One repository, and what is asked of it."""

    draft: ModelFacts
    target: ModelFacts | None
    card: ModelCard | None
    files: frozenset[str]
    named: str | None
    """The target that it is for."""

    def run(self) -> Iterator[Finding]:
        head, weights = self.draft.head, self.draft.weights
        for fault in (weights.faults or ())[:1]:
            yield _found("PUB014", str(fault))
        if head is not None and head.mtp_promised and head.mtp_present == 0:
            yield _found(
                "PUB010", f"the config promises {head.mtp_promised}, the weights have none"
            )
        if self.target is not None:
            yield from self._context(self.target)
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

    def _header(self, card: ModelCard) -> Iterator[Finding]:
        if not card.listed("license"):
            yield _found("PUB002", "no `license` in the header")
        bases = card.listed("base_model")
        if not bases:
            yield _found("PUB003", "no `base_model` in the header")
        if bases and self.named and not any(_same(base, self.named) for base in bases):
            said = "the config says" if self.named == self.draft.verifier else "it is for"
            yield _found("PUB004", f"base_model is {bases[0]}, {said} {self.named}")
        if not any(word in card.text.lower() for word in THINKING):
            yield _found("PUB011", "the word thinking is not on the card")

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


def _minimums(target: ModelFacts, draft: ModelFacts) -> Iterator[EngineMinimum]:
    """For each engine that has a method for such a draft: the oldest version that takes it."""
    comparison = compare(target, draft)
    for question in questions.ask([]):
        engine = book.load(question.engine)
        verdicts = judge_methods(comparison, question)
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
            found = judge_methods(comparison, replace(question, version=version))
            if not any(usable(one.verdict) for one in found):
                break
            since = version
        yield EngineMinimum(newest, since)
