"""An engine's log -> what its messages mean, the likeliest cause first. Decides; never prints.

messages.py holds what engines say (as patterns.py matches it), scan.py reads the log in blocks and
finds it there; here it is put in order. Engines name what is wrong, blame something else
(HIDES_CAUSE), or fail later for an earlier error (CONSEQUENCE). So a message is explained by the
others: the causes that a row lists are held against the messages that prove them, and a consequence
points at the first real cause.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from draftcheck import versions
from draftcheck.errors import DraftcheckError, UsageError, did_you_mean
from draftcheck.rulebook import book as rulebook
from draftcheck.rulebook.book import Rule
from draftcheck.why import messages as message_books
from draftcheck.why import scan
from draftcheck.why.messages import (
    KINDS,
    Condition,
    Message,
    MessageBook,
    MessageCause,
    MessageKind,
)
from draftcheck.why.scan import LogMatch, Sighting

LONGEST_NAME = 200
ROOTS = (MessageKind.CAUSE, MessageKind.HIDES_CAUSE)
"""Kinds of lines that other lines follow from."""
SHARED = "The engine has one message for several faults."


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """What the log tells about the run itself; None where it does not."""

    engine: str | None = None
    version: str | None = None
    target: str | None = None
    draft: str | None = None


@dataclass(frozen=True, slots=True)
class LikelyCause:
    """One possible cause, with the line that speaks for it."""

    says: str
    rules: tuple[str, ...] = ()
    seen: LogMatch | None = None
    proved: bool = False
    """That line names a cause itself."""


@dataclass(frozen=True, slots=True)
class RecognisedMessage:
    id: str
    kind: str
    engines: tuple[str, ...]
    hits: tuple[LogMatch, ...]
    """The first few lines."""
    count: int
    values: Mapping[str, str]
    meaning: str
    reasons: tuple[LikelyCause, ...]
    next: tuple[str, ...]
    """Commands begin with "$ "; the others are steps in words."""
    because: LogMatch | None
    """The line of the error that this one follows from."""
    since: str | None
    until: str | None
    source: str
    basis: str


@dataclass(frozen=True, slots=True)
class Explanation:
    name: str
    nbytes: int
    lines: int
    complete: bool
    binary: bool
    run: LoggedRun
    items: tuple[RecognisedMessage, ...]
    known: int
    """How many messages were looked for."""
    send: tuple[str, ...]
    """What helps to find out more, when nothing was recognised."""


def read(name: str | None, engine: str | None = None) -> Explanation:
    """Explain one log (a file, or - for standard input); engine narrows what is looked for."""
    book = message_books.load()
    asked = _asked(book, engine)
    wanted = [
        message
        for message in book.messages
        if not asked.engine or not message.engines or asked.engine in message.engines
    ]
    log = scan.LogSource(name)
    scanned = scan.scan(log.blocks(), wanted)
    explainer = _Explainer(scanned.seen, wanted, asked)
    items = tuple(explainer.item(message) for message in explainer.reported)
    return Explanation(
        name=log.name,
        nbytes=scanned.nbytes,
        lines=scanned.lines,
        complete=not log.cut,
        binary=scanned.binary,
        run=explainer.run,
        items=items,
        known=len(wanted),
        send=() if items else tuple(_filled(text, explainer.run) for text in book.unknown),
    )


def _asked(book: MessageBook, text: str | None) -> LoggedRun:
    if text is None:
        return LoggedRun()
    name, _, version = text.partition("@")
    if name not in book.names:
        raise UsageError(f"unknown engine {name!r}", hint=did_you_mean(name, sorted(book.names)))
    if "@" not in text:
        return LoggedRun(name)
    if name not in rulebook.engine_files():
        raise UsageError(f"no versions of {name} are known", hint=f"Use --engine {name}.")
    return LoggedRun(name, rulebook.load(name).version(version))


class _Explainer:
    """What was seen in one log, and the run that wrote it."""

    def __init__(
        self, seen: Mapping[str, Sighting], messages: Sequence[Message], asked: LoggedRun
    ) -> None:
        self._seen = seen
        self._kinds = {message.id: message.kind for message in messages}
        self.run = self._find_run(messages, asked)
        self.reported = self._find_reported(messages)

    def _first_line(self, message: Message) -> LogMatch:
        return self._seen[message.matched_as].hits[0]

    def _find_run(self, messages: Sequence[Message], asked: LoggedRun) -> LoggedRun:
        """Engine, version and models as the log names them; what was asked for wins."""
        seen = [message for message in messages if message.matched_as in self._seen]
        # The engine of the first line that can only be one engine's.
        engines: dict[int, set[str]] = {}
        for message in seen:
            if message.engines:
                line = self._first_line(message).line
                engines[line] = engines.get(line, set(message.engines)) & set(message.engines)
        sure = (min(engines[line]) for line in sorted(engines) if len(engines[line]) == 1)
        engine = asked.engine or next(sure, None)
        values: dict[str, str] = {}
        for message in (m for m in seen if m.kind == MessageKind.ABOUT_RUN):
            if not message.engines or engine in message.engines:
                for hit in self._seen[message.matched_as].hits:
                    values = {**hit.values, **values}
        version = asked.version or _version(engine, values.get("version"))
        return LoggedRun(engine, version, values.get("target"), values.get("draft"))

    def _find_reported(self, messages: Sequence[Message]) -> list[Message]:
        """What is to be reported: causes first, in the order of the log."""
        engine = self.run.engine
        holding = [
            message
            for message in messages
            if message.kind != MessageKind.ABOUT_RUN
            and message.matched_as in self._seen
            and all(other in self._seen for other in message.needs)
            and not any(other in self._seen for other in message.absent)
            and all(_within(when, self._seen[message.matched_as]) for when in message.when)
        ]
        line = {message.id: self._first_line(message).line for message in holding}
        roots = {line[m.id] for m in holding if m.kind in ROOTS}
        # The same words of two engines: those of the engine that ran.
        of_engine = {line[m.id] for m in holding if engine in m.engines}
        reported = [
            m
            for m in holding
            if (m.kind != MessageKind.CONSEQUENCE or line[m.id] not in roots)
            and (not m.engines or engine in m.engines or line[m.id] not in of_engine)
        ]
        return sorted(reported, key=lambda m: (KINDS.index(m.kind), line[m.id]))

    def item(self, message: Message) -> RecognisedMessage:
        run, sighting = self.run, self._seen[message.matched_as]
        rules = _rules(message, run)
        of_rules = f"{rules[0].title}. {rules[0].why}" if len(rules) == 1 else SHARED
        reasons = self._reasons(message, rules)
        steps = list(message.next)
        if not message.causes:
            steps += dict.fromkeys(rule.fix for rule in rules)
            steps += [f"$ draftcheck rules {rule.id}" for rule in rules]
        return RecognisedMessage(
            id=message.id,
            kind=message.kind,
            engines=(run.engine,) if run.engine in message.engines else message.engines,
            hits=tuple(sighting.hits),
            count=sighting.count,
            values=_values(sighting),
            meaning=message.meaning or of_rules,
            reasons=reasons,
            next=tuple(_filled(text, run) for text in steps),
            because=self._because(message, reasons),
            since=message.since,
            until=message.until,
            source=message.source,
            basis=message.basis,
        )

    def _reasons(self, message: Message, rules: Sequence[Rule]) -> tuple[LikelyCause, ...]:
        """Those that the log proves; or all in the order of the row, what it speaks for first."""
        reasons = [self._reason(cause) for cause in message.causes]
        proved = tuple(reason for reason in reasons if reason.proved)
        named = {rule for cause in message.causes for rule in cause.rules}
        others = (rule for rule in rules if rule.id not in named)
        reasons += [LikelyCause(f"{rule.title}.", (rule.id,)) for rule in others]
        return proved or tuple(sorted(reasons, key=lambda reason: reason.seen is None))

    def _reason(self, cause: MessageCause) -> LikelyCause:
        proofs = [other for other in cause.seen if other in self._seen]
        lines = [(self._seen[other].hits[0], self._kinds[other]) for other in proofs]
        if not lines:
            return LikelyCause(cause.says, cause.rules)
        # A named cause before a mere note; then the earliest.
        hit, kind = min(lines, key=lambda line: (KINDS.index(line[1]), line[0].line))
        return LikelyCause(cause.says, cause.rules, hit, kind == MessageKind.CAUSE)

    def _because(self, message: Message, reasons: Sequence[LikelyCause]) -> LogMatch | None:
        """The error that a masking or following line stems from: the first real cause."""
        if message.kind not in (MessageKind.HIDES_CAUSE, MessageKind.CONSEQUENCE):
            return None
        proved = [reason.seen for reason in reasons if reason.proved]
        if proved or message.kind == MessageKind.HIDES_CAUSE:
            return proved[0] if proved else None
        # They are sorted: causes stand before what hides one, and each in the order of the log.
        first = next((m for m in self.reported if m.kind in ROOTS), None)
        return self._first_line(first) if first is not None else None


def _version(name: str | None, text: str | None) -> str | None:
    """A version that the rulebook can use; builds from a source archive call themselves 1."""
    if name is None or text is None or name not in rulebook.engine_files():
        return None
    engine = rulebook.load(name)
    known = f"b{text}" if engine.versions == "build" and text.isdigit() else text
    try:
        return known if engine.order(known) >= engine.order(engine.oldest) else None
    except DraftcheckError:
        return None


def _within(condition: Condition, sighting: Sighting) -> bool:
    for name, low, high in condition.bounds:
        numbers = sighting.numbers.get(name)
        if numbers is not None:
            return bool(low <= getattr(numbers, condition.stat) <= high)
    return False


def _rules(message: Message, run: LoggedRun) -> list[Rule]:
    """The rules behind a message, one row each: those of this version, or else the newest."""
    rows = list(message.rules)
    if run.version is not None and run.engine in message.engines:
        order = rulebook.load(run.engine or "").order
        rows = [r for r in rows if versions.covers(order, run.version, r.since, r.until)] or rows
    return list({rule.id: rule for rule in rows}.values())


def _values(sighting: Sighting) -> dict[str, str]:
    """The named parts of the first line; numbers of many lines as mean and range."""
    values = dict(sighting.hits[0].values)
    for name, numbers in sighting.numbers.items():
        if numbers.count > 1 and numbers.least != numbers.most:
            values[name] = (
                f"{numbers.mean:.3g} on average, {numbers.least:g} to {numbers.most:g}"
                f" in {numbers.count:,} lines, at last {numbers.last:g}"
            )
    return values


def _filled(text: str, run: LoggedRun) -> str:
    """A step with the names that the log gave."""
    engine = ""
    if run.engine in rulebook.engine_files():
        engine = f" --engine {run.engine}" + (f"@{run.version}" if run.version else "")
    text = text.replace("{target}", _name(run.target, "TARGET"))
    text = text.replace("{draft}", _name(run.draft, "DRAFT"))
    return text.replace("{engine}", engine)


def _name(value: str | None, placeholder: str) -> str:
    """A model's name for a command line; anything odd stays a placeholder."""
    odd = not value or value.startswith("-") or not value.isprintable()
    if value is None or odd or len(value) > LONGEST_NAME:
        return placeholder
    return shlex.quote(value)
