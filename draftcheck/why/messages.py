"""rules/messages.toml and the rulebook's own quotes -> the messages that can be explained.

A rule's `engine_says` is a message by itself; a row with `says_of` only adds to it. Rows are
refused with their id when they are not sound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Annotated, Literal

from msgspec import Meta, structs

from draftcheck import versions
from draftcheck.errors import DraftcheckError, RuleError
from draftcheck.rulebook import book, files
from draftcheck.rulebook.book import Basis, Rule
from draftcheck.rulebook.files import Names, RuleRow, Text
from draftcheck.why.patterns import Pattern, compile_text

FILE = "messages"
TABLE = f"{FILE}.toml [[message]]"
ONE_OF = " | "
"""Stands between the messages of a rule that has several: one of them is said."""
_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z])")
_OPEN_END = re.compile(r"[.!?]( …)?[ .]*$")
_LAST_VALUE = re.compile(r"(.*[a-z])[ :=]*[(\['\"]?…[)\]'\"]?")
LEAST, LEAST_OPEN = 12, 28
"""Literal characters of a quote, and of one that begins with anything."""


class MessageKind(StrEnum):
    """What a message does for its reader, in the order of the report."""

    CAUSE = "cause"
    """It names what is wrong."""
    HIDES_CAUSE = "masks"
    """It blames something else; the row lists what may really be wrong."""
    MEASURED = "measured"
    NOTE = "note"
    CONSEQUENCE = "follows"
    """It comes of an earlier error."""
    ABOUT_RUN = "sign"
    """It tells the version or a model's name, and is not reported."""


KINDS = tuple(MessageKind)


class MessageCause(RuleRow, frozen=True):
    """One reason for a message, and the messages that prove it."""

    says: Text
    rules: Names = ()
    seen: Names = ()


class Condition(RuleRow, frozen=True):
    """[low, high] of numbers that lines carry; the first of them that was seen counts."""

    stat: Literal["mean", "last", "most"]
    length: tuple[float, float] | None = None
    percent: tuple[float, float] | None = None
    acceptance: tuple[float, float] | None = None
    drafts: tuple[float, float] | None = None

    @property
    def bounds(self) -> tuple[tuple[str, float, float], ...]:
        values = {name: getattr(self, name) for name in self.__struct_fields__[1:]}
        return tuple((name, *bound) for name, bound in values.items() if bound is not None)


class MessageText(RuleRow, frozen=True, kw_only=True):
    """What the file says about a message, and what a rule that quotes one stands for."""

    id: Annotated[str, Meta(pattern=r"^WHY\d{3}$")]
    kind: MessageKind
    source: Text
    basis: Basis
    example: Text
    meaning: str = ""
    causes: tuple[MessageCause, ...] = ()
    next: Names = ()
    since: str | None = None
    until: str | None = None
    needs: Names = ()
    """Messages that must be in the log too."""
    absent: Names = ()
    """Messages that must not be in it."""
    when: tuple[Condition, ...] = ()
    also: Names = ()
    """Messages that its example matches besides."""
    like: str | None = None


class MessageRow(MessageText, frozen=True, kw_only=True):
    engine: str | Names = ()
    pattern: str | Names = ()
    says_of: Names = ()
    """Rules whose quotes are this message: LCP001, or LCP001@b9109."""
    names: Names = ()
    """Names for the gaps of those quotes."""

    def __post_init__(self) -> None:
        if not self.meaning.strip() and self.kind != MessageKind.ABOUT_RUN and not self.says_of:
            raise ValueError("'meaning' is missing")


class Message(MessageText, frozen=True, kw_only=True):
    """Something an engine says, and what it means."""

    engines: Names
    """Empty: any engine."""
    patterns: tuple[Pattern, ...]
    rules: tuple[Rule, ...] = ()
    """The rule rows that quote this message."""

    @property
    def matched_as(self) -> str:
        """The id under which its lines are recorded: its own, or that of the row it is like."""
        return self.like or self.id

    def match(self, line: str) -> dict[str, str] | None:
        """What the named gaps hold in a line, by the first pattern that fits; None: none does."""
        matches = (pattern.match(line) for pattern in self.patterns)
        return next((values for values in matches if values is not None), None)


class WhatToSend(RuleRow, frozen=True):
    send: Names = ()


class MessageFile(RuleRow, frozen=True):
    """rules/messages.toml."""

    names: Mapping[str, str] = {}
    unknown: WhatToSend = WhatToSend()
    message: tuple[MessageRow, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageBook:
    names: Mapping[str, str]
    """Engine id -> its name."""
    messages: tuple[Message, ...]
    unknown: tuple[str, ...] = ()
    """What to send when nothing is recognised."""
    vague: tuple[str, ...] = ()
    """Quotes of rules that would be found in any log."""


@cache
def load() -> MessageBook:
    return from_file(files.read(FILE, MessageFile))


def from_file(file: MessageFile) -> MessageBook:
    """Make the messages of a file and of the rulebook, with references that lead somewhere."""
    # (engine, text) -> the rule rows that quote it, in the rulebook's order
    quotes: dict[tuple[str, str], list[Rule]] = {}
    for name in book.engine_files():
        for rule in book.load(name).rules:
            if rule.engine_says:
                quotes.setdefault((name, rule.engine_says), []).append(rule)
    rows: dict[str, Message] = {}
    for row in file.message:
        message = _message(row, file.names, quotes, rows)
        if message.id in rows:
            raise RuleError(f"{TABLE} {message.id}: the id stands twice")
        rows[message.id] = message
    taken = {rule.engine_says for message in rows.values() for rule in message.rules}
    vague = []
    # A wording that is all that one rule quotes is that rule's; rules with several come last.
    for (engine, text), rules in sorted(quotes.items(), key=lambda item: ONE_OF in item[0][1]):
        if text in taken:
            continue
        wordings = [one for one in text.split(ONE_OF) if quoted(one)]
        if not wordings:
            vague.append(f"{rules[0].id}: {text}")
        own = []
        for one in wordings:
            owners = [*_owners(rows, engine, quoted(one)[0], rules)]
            rows |= {owner.id: owner for owner in owners}
            own += [] if owners else [one]
        if own:
            message = _joined(rows, engine, own, rules) or _derived(engine, text, own, rules)
            rows[message.id] = message
    _references(rows)
    return MessageBook(file.names, tuple(rows.values()), file.unknown.send, tuple(vague))


def _owners(
    rows: Mapping[str, Message], engine: str, quote: Pattern, rules: list[Rule]
) -> Iterator[Message]:
    """The rows that already have this very text, with the rules added to them."""
    for message in rows.values():
        own = {_OPEN_END.sub("", pattern.text) for pattern in message.patterns}
        if engine in message.engines and quote.text in own:
            every = (*message.rules, *(rule for rule in rules if rule not in message.rules))
            since, until = message.since, message.until
            if message.id.startswith(tuple(rule.id for rule in message.rules)):
                since, until = _window(engine, every)
            yield structs.replace(message, rules=every, since=since, until=until)


def _joined(
    rows: Mapping[str, Message], engine: str, own: list[str], rules: list[Rule]
) -> Message | None:
    """The message of the same rule in other versions that has a wording in common, with these."""
    for message in rows.values():
        every = (*message.rules, *rules)
        if message.id == rules[0].id and {*own} & {*message.example.split(ONE_OF)}:
            patterns = tuple(dict.fromkeys((*message.patterns, *quoted(ONE_OF.join(own)))))
            since, until = _window(engine, every)
            return structs.replace(
                message, patterns=patterns, rules=every, since=since, until=until
            )
    return None


def _window(engine: str, rules: Iterable[Rule]) -> tuple[str | None, str | None]:
    """From the first to the last version of these rows."""
    rows = tuple(rules)
    since = _edge(engine, [rule.since for rule in rows], last=False)
    return since, _edge(engine, [rule.until for rule in rows], last=True)


def _derived(engine: str, text: str, own: list[str], rules: list[Rule]) -> Message:
    """A message made of rules alone: it has the first rule's id."""
    same = [rule for rule in book.load(engine).rules if rule.id == rules[0].id]
    number = list(dict.fromkeys(r.engine_says for r in same if r.engine_says)).index(text)
    since, until = _window(engine, rules)
    return Message(
        id=rules[0].id if number == 0 else f"{rules[0].id}-{number + 1}",
        kind=MessageKind.CAUSE,
        engines=(engine,),
        patterns=quoted(ONE_OF.join(own)),
        source=rules[-1].source,
        basis=rules[-1].basis,
        example=ONE_OF.join(own),
        next=("$ draftcheck pair {target} {draft}{engine}",),
        rules=tuple(rules),
        since=since,
        until=until,
    )


def quoted(text: str, names: tuple[str, ...] = ()) -> tuple[Pattern, ...]:
    """Patterns for a rule's quote: the whole, and the parts of it that people paste.

    None for a quote that begins anywhere and says little: it would be found in any log.
    """
    patterns = []
    for one in text.split(ONE_OF):
        whole = _OPEN_END.sub("", one.lstrip("…"))
        least = LEAST_OPEN if one.startswith("…") else LEAST
        if len(whole.replace("…", "")) < least:
            continue
        patterns.append(compile_text(whole, names[: whole.count("…")]))
        for part in dict.fromkeys(_parts(whole)):
            if part != whole:
                patterns.append(compile_text(part))
    return tuple(patterns)


def _parts(text: str) -> Iterator[str]:
    """The first sentence; an assertion without its last word; what stands before a last value."""
    first = _OPEN_END.sub("", _SENTENCE.split(text)[0])
    if len(first.replace("…", "")) >= LEAST_OPEN:
        yield first
    yield text.removesuffix(" failed") if text.startswith("GGML_ASSERT(") else text
    if found := _LAST_VALUE.fullmatch(text):
        least = LEAST_OPEN if "…" in found[1] else LEAST
        if len(found[1].replace("…", "")) >= least:
            yield found[1]


def _edge(engine: str, values: Iterable[str | None], *, last: bool) -> str | None:
    """The outer end of several windows; an open one makes it open."""
    known = list(values)
    if None in known:
        return None
    order = book.load(engine).order
    pick = max if last else min
    return pick((v for v in known if v), key=lambda v: order(v.removeprefix("<=")))


def _message(
    row: MessageRow,
    names: Mapping[str, str],
    quotes: Mapping[tuple[str, str], list[Rule]],
    before: Mapping[str, Message],
) -> Message:
    where = f"{TABLE} {row.id}"
    engines = (row.engine,) if isinstance(row.engine, str) else row.engine
    for engine in engines:
        if engine not in names:
            raise RuleError(f"{where}: engine {engine!r} is not in [names]")
    rules = tuple(_said(row.says_of, engines, quotes, where))
    for key, bound in (("since", row.since), ("until", row.until)):
        if bound is not None and len(engines) != 1:
            raise RuleError(f"{where}: {key!r} needs exactly one engine")
    try:
        for bound in (row.since, row.until):
            if bound is not None and engines[0] in book.engine_files():
                book.load(engines[0]).order(bound.removeprefix("<="))
        patterns = tuple(_patterns(row, rules, before))
    except DraftcheckError as error:
        raise RuleError(f"{where}: {error.message}") from None
    if not patterns:
        raise RuleError(f"{where}: no pattern")
    shared = {name: getattr(row, name) for name in MessageText.__struct_fields__}
    engines = engines or (before[row.like].engines if row.like else ())
    return Message(**shared, engines=engines, patterns=patterns, rules=rules)


def _said(
    ids: Iterable[str],
    engines: tuple[str, ...],
    quotes: Mapping[tuple[str, str], list[Rule]],
    where: str,
) -> Iterator[Rule]:
    """The rule rows behind LCP001@b9109: all that share the text which that row quotes."""
    for wanted in ids:
        rule_id, _, version = wanted.partition("@")
        for (engine, _text), rules in quotes.items():
            order = book.load(engine).order
            if engine in engines and any(
                rule.id == rule_id
                and (not version or versions.covers(order, version, rule.since, rule.until))
                for rule in rules
            ):
                yield from rules
                break
        else:
            raise RuleError(f"{where}: no rule row quotes a message as {wanted!r}")


def _patterns(
    row: MessageRow, rules: Iterable[Rule], before: Mapping[str, Message]
) -> Iterator[Pattern]:
    for text in (row.pattern,) if isinstance(row.pattern, str) else row.pattern:
        yield compile_text(text)
    if row.like is not None:
        if row.like not in before:
            raise RuleError(f"'like' names {row.like!r}, which does not stand before it")
        yield from before[row.like].patterns
    if not row.pattern:  # a pattern of its own replaces a quote that is no literal text
        for quote in dict.fromkeys(rule.engine_says for rule in rules):
            yield from quoted(quote or "", row.names)


def _references(rows: Mapping[str, Message]) -> None:
    """Every id that a row names exists."""
    rules = {rule.id for name in book.engine_files() for rule in book.load(name).rules}
    rules |= {rule.id for rule in book.truth()}
    for message in rows.values():
        where = f"{TABLE} {message.id}"
        named = [*message.needs, *message.absent, *message.also]
        named += [seen for cause in message.causes for seen in cause.seen]
        for other in named:
            if other not in rows:
                raise RuleError(f"{where}: there is no message {other!r}")
        for rule in (rule for cause in message.causes for rule in cause.rules):
            if rule not in rules:
                raise RuleError(f"{where}: there is no rule {rule!r}")
