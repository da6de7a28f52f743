"""rules/messages.toml and the rulebook's own quotes -> the messages that can be explained.

A rule's `engine_says` is a message by itself; a row with `says_of` only adds to it. Rows are
refused with their id when they are not sound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Any

from draftcheck import versions
from draftcheck.errors import DraftcheckError, RuleError
from draftcheck.rulebook import book, files
from draftcheck.rulebook.book import BASES, Engine, Rule
from draftcheck.why.patterns import Pattern, compile_text

FILE = "messages"


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
STATS = ("mean", "last", "most")
ID = re.compile(r"WHY\d{3}")
_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z])")
_OPEN_END = re.compile(r"[.!?]( …)?[ .]*$")
_LAST_VALUE = re.compile(r"(.*[a-z])[ :=]*[(\['\"]?…[)\]'\"]?")
LEAST, LEAST_OPEN = 12, 28
"""Literal characters of a quote, and of one that begins with anything."""
_REQUIRED = {"id", "kind", "source", "basis", "example"}
_TEXTS = ("id", "kind", "source", "basis", "example", "meaning", "since", "until", "like")
_LISTS = ("next", "needs", "absent", "also")
_OPTIONAL = {*_TEXTS, *_LISTS, "engine", "pattern", "says_of", "names", "causes", "when"}


@dataclass(frozen=True, slots=True)
class MessageCause:
    """One reason for a message, and the messages that prove it."""

    says: str
    rules: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """Bounds on a number that lines carry: the first of the values that was seen counts."""

    stat: str
    bounds: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True, slots=True)
class Message:
    """Something an engine says, and what it means."""

    id: str
    kind: str
    engines: tuple[str, ...]
    """Empty: any engine."""
    patterns: tuple[Pattern, ...]
    source: str
    basis: str
    example: str
    meaning: str = ""
    causes: tuple[MessageCause, ...] = ()
    next: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    needs: tuple[str, ...] = ()
    """Messages that must be in the log too."""
    absent: tuple[str, ...] = ()
    """Messages that must not be in it."""
    when: tuple[Condition, ...] = ()
    also: tuple[str, ...] = ()
    """Messages that its example matches besides."""
    rules: tuple[Rule, ...] = ()
    """The rule rows that quote this message."""
    like: str | None = None

    @property
    def matched_as(self) -> str:
        """The id under which its lines are recorded: its own, or that of the row it is like."""
        return self.like or self.id

    def match(self, line: str) -> dict[str, str] | None:
        """What the named gaps hold in a line, by the first pattern that fits; None: none does."""
        matches = (pattern.match(line) for pattern in self.patterns)
        return next((values for values in matches if values is not None), None)


@dataclass(frozen=True, slots=True)
class MessageBook:
    """Every message that can be explained."""

    names: Mapping[str, str]
    """Engine id -> its name."""
    messages: tuple[Message, ...]
    unknown: tuple[str, ...] = ()
    """What to send when nothing is recognised."""
    vague: tuple[str, ...] = ()
    """Quotes of rules that would be found in any log."""


@cache
def load() -> MessageBook:
    """The messages of the shipped file and of the rulebook."""
    return parse(files.load(FILE))


def parse(data: Mapping[str, Any]) -> MessageBook:
    """Check the rows of the file, and add the rulebook's own quotes."""
    if extra := set(data) - {"names", "unknown", "message"}:
        raise RuleError(f"{FILE}.toml: unknown table {sorted(extra)[0]!r}")
    names = data.get("names", {})
    quotes = _quotes()
    rows: dict[str, Message] = {}
    for row in data.get("message", []):
        message = _message(row, names, quotes, rows)
        if message.id in rows:
            raise RuleError(f"{FILE}.toml {message.id}: the id stands twice")
        rows[message.id] = message
    taken = {rule.engine_says for message in rows.values() for rule in message.rules}
    vague = []
    for (engine, text), rules in quotes.items():
        if text in taken:
            continue
        if not (patterns := quoted(text)):
            vague.append(f"{rules[0].id}: {text}")
            continue
        message = _owner(rows, engine, patterns[0], rules) or _derived(engine, text, rules)
        rows[message.id] = message
    _references(rows)
    return MessageBook(
        names,
        tuple(rows.values()),
        tuple(data.get("unknown", {}).get("send", ())),
        tuple(vague),
    )


def _quotes() -> dict[tuple[str, str], list[Rule]]:
    """(engine, text) -> the rule rows that quote it, in the rulebook's order."""
    quotes: dict[tuple[str, str], list[Rule]] = {}
    for name in book.engine_files():
        for rule in book.load(name).rules:
            if rule.engine_says:
                quotes.setdefault((name, rule.engine_says), []).append(rule)
    return quotes


def _owner(
    rows: Mapping[str, Message], engine: str, quote: Pattern, rules: list[Rule]
) -> Message | None:
    """The row that already has this very text, with the rules added to it."""
    for message in rows.values():
        own = {_OPEN_END.sub("", pattern.text) for pattern in message.patterns}
        if engine in message.engines and quote.text in own:
            return replace(message, rules=(*message.rules, *rules))
    return None


def _derived(engine: str, text: str, rules: list[Rule]) -> Message:
    """A message made of rules alone: it has the first rule's id."""
    same = [rule for rule in book.load(engine).rules if rule.id == rules[0].id]
    number = list(dict.fromkeys(r.engine_says for r in same if r.engine_says)).index(text)
    return Message(
        id=rules[0].id if number == 0 else f"{rules[0].id}-{number + 1}",
        kind=MessageKind.CAUSE,
        engines=(engine,),
        patterns=quoted(text),
        source=rules[-1].source,
        basis=rules[-1].basis,
        example=text,
        next=("$ draftcheck pair {target} {draft}{engine}",),
        since=_edge(engine, [rule.since for rule in rules], last=False),
        until=_edge(engine, [rule.until for rule in rules], last=True),
        rules=tuple(rules),
    )


def quoted(text: str, names: tuple[str, ...] = ()) -> tuple[Pattern, ...]:
    """Patterns for a rule's quote: the whole, and the parts of it that people paste.

    None for a quote that begins anywhere and says little: it would be found in any log.
    """
    whole = _OPEN_END.sub("", text.lstrip("…"))
    least = LEAST_OPEN if text.startswith("…") else LEAST
    if len(whole.replace("…", "")) < least:
        return ()
    patterns = [compile_text(whole, names[: whole.count("…")])]
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
    row: Mapping[str, Any],
    names: Mapping[str, str],
    quotes: Mapping[tuple[str, str], list[Rule]],
    before: Mapping[str, Message],
) -> Message:
    where = f"{FILE}.toml {row.get('id', '?')}"
    _fields(row, where)
    engines = row.get("engine", ())
    engines = (engines,) if isinstance(engines, str) else tuple(engines)
    for engine in engines:
        if engine not in names:
            raise RuleError(f"{where}: engine {engine!r} is not in [names]")
    rules = tuple(_said(row["says_of"], engines, quotes, where)) if "says_of" in row else ()
    _window(row, engines, where)
    try:
        patterns = tuple(_patterns(row, rules, before))
    except RuleError as error:
        raise RuleError(f"{where}: {error.message}") from None
    if not patterns:
        raise RuleError(f"{where}: no pattern")
    values: dict[str, Any] = {key: row[key] for key in _TEXTS if key in row}
    values |= {key: tuple(row[key]) for key in _LISTS if key in row}
    return Message(
        engines=engines or (before[row["like"]].engines if "like" in row else ()),
        patterns=patterns,
        rules=rules,
        causes=tuple(_cause(entry, where) for entry in row.get("causes", ())),
        when=tuple(_condition(entry, where) for entry in row.get("when", ())),
        **values,
    )


def _fields(row: Mapping[str, Any], where: str) -> None:
    if missing := sorted(_REQUIRED - set(row)):
        raise RuleError(f"{where}: {missing[0]!r} is missing")
    if unknown := sorted(set(row) - _REQUIRED - _OPTIONAL):
        raise RuleError(f"{where}: unknown field {unknown[0]!r}")
    if not ID.fullmatch(row["id"]):
        raise RuleError(f"{where}: an id is WHY and three digits")
    if row["kind"] not in KINDS:
        raise RuleError(f"{where}: kind {row['kind']!r} is not one of {', '.join(KINDS)}")
    if row["basis"] not in BASES:
        raise RuleError(f"{where}: basis {row['basis']!r} is not one of {', '.join(BASES)}")
    explained = "meaning" in row or "says_of" in row
    if row["kind"] != MessageKind.ABOUT_RUN and not explained:
        raise RuleError(f"{where}: 'meaning' is missing")
    for name in _REQUIRED | ({"meaning"} & set(row)):
        if not str(row[name]).strip():
            raise RuleError(f"{where}: {name!r} is empty")


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
            if engine in engines and _quotes_it(book.load(engine), rules, rule_id, version):
                yield from rules
                break
        else:
            raise RuleError(f"{where}: no rule row quotes a message as {wanted!r}")


def _quotes_it(engine: Engine, rules: Iterable[Rule], rule_id: str, version: str) -> bool:
    return any(
        rule.id == rule_id
        and (not version or versions.covers(engine.order, version, rule.since, rule.until))
        for rule in rules
    )


def _patterns(
    row: Mapping[str, Any], rules: Iterable[Rule], before: Mapping[str, Message]
) -> Iterator[Pattern]:
    spellings = row.get("pattern", ())
    for text in (spellings,) if isinstance(spellings, str) else spellings:
        yield compile_text(text)
    if "like" in row:
        if row["like"] not in before:
            raise RuleError(f"'like' names {row['like']!r}, which does not stand before it")
        yield from before[row["like"]].patterns
    if not spellings:  # a pattern of its own replaces a quote that is no literal text
        for text in dict.fromkeys(rule.engine_says for rule in rules):
            yield from quoted(text or "", tuple(row.get("names", ())))


def _window(row: Mapping[str, Any], engines: tuple[str, ...], where: str) -> None:
    for key in ("since", "until"):
        if key not in row:
            continue
        if len(engines) != 1:
            raise RuleError(f"{where}: {key!r} needs exactly one engine")
        if engines[0] in book.engine_files():
            try:
                book.load(engines[0]).order(row[key].removeprefix("<="))
            except DraftcheckError as error:
                raise RuleError(f"{where}: {error.message}") from None


def _cause(entry: Mapping[str, Any], where: str) -> MessageCause:
    if not entry.get("says") or set(entry) - {"says", "rules", "seen"}:
        raise RuleError(f"{where}: a cause has 'says', and may have 'rules' and 'seen'")
    return MessageCause(entry["says"], tuple(entry.get("rules", ())), tuple(entry.get("seen", ())))


def _condition(entry: Mapping[str, Any], where: str) -> Condition:
    bounds = tuple(
        (name, float(value[0]), float(value[1]))
        for name, value in entry.items()
        if name != "stat" and isinstance(value, list) and len(value) == 2
    )
    if entry.get("stat") not in STATS or len(bounds) != len(entry) - 1 or not bounds:
        raise RuleError(f"{where}: 'when' has stat ({', '.join(STATS)}) and [low, high] by value")
    return Condition(entry["stat"], bounds)


def _references(rows: Mapping[str, Message]) -> None:
    """Every id that a row names exists."""
    rules = {rule.id for name in book.engine_files() for rule in book.load(name).rules}
    rules |= {rule.id for rule in book.truth()}
    for message in rows.values():
        where = f"{FILE}.toml {message.id}"
        named = [*message.needs, *message.absent, *message.also]
        named += [seen for cause in message.causes for seen in cause.seen]
        for other in named:
            if other not in rows:
                raise RuleError(f"{where}: there is no message {other!r}")
        for rule in (rule for cause in message.causes for rule in cause.rules):
            if rule not in rules:
                raise RuleError(f"{where}: there is no rule {rule!r}")
