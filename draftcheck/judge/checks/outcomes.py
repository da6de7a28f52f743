"""The four outcomes of a check and what several checks say alike; model text made safe to print."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from draftcheck.values.facts import ModelFacts
from draftcheck.values.verdicts import JudgedPair
from draftcheck.values.words import CheckOutcome, Outcome

T = TypeVar("T")
LONGEST = 60
STAND_IN = re.compile(rb"~[0-9A-Za-z]{8,16}\.[0-9]+")
"""What condensed facts have instead of most token texts (judge/condensed/token_tables.py)."""
TEXTS_UNREAD = "the token texts were not read on both sides"
NO_LENGTH = "no draft length asked for"
UNTOLD = "the draft's files do not say what kind of model it is"
ok = partial(CheckOutcome, Outcome.OK)
fail = partial(CheckOutcome, Outcome.FAIL)
unknown = partial(CheckOutcome, Outcome.UNKNOWN)
not_applicable = partial(CheckOutcome, Outcome.NOT_APPLICABLE)


class Settled(Exception):
    """A check is answered before its end: it does not apply, or something was not read."""

    def __init__(self, outcome: CheckOutcome) -> None:
        super().__init__(outcome.saw)
        self.outcome = outcome


def needed(value: T | None, otherwise: str) -> T:
    """The value; where it is None the check is settled: unknown, for this reason."""
    if value is None:
        raise Settled(unknown(otherwise))
    return value


def applies(value: T | None, otherwise: str) -> T:
    """The value; where it is None the check is settled: it does not apply, for this reason."""
    if value is None:
        raise Settled(not_applicable(otherwise))
    return value


def longer_drafts(pair: JudgedPair, most: int) -> None:
    """Settle a check that is certain for drafts of more tokens alone, where no more are asked for.

    most: 0 where the length does not matter.
    """
    tokens = pair.setup.draft_tokens
    if most and tokens is not None and tokens <= most:
        raise Settled(unknown(f"drafts of {tokens}, certain from {most + 1} on"))


def needed_of_both(
    pair: JudgedPair, fact: Callable[[ModelFacts], T | None], what: str
) -> tuple[T, T]:
    """This fact of the target and of the drafter, as needed() gives it."""
    found = {side: fact(facts) for side, facts in pair.both}
    unread = [side for side, value in found.items() if value is None]
    otherwise = f"{what} of the {' and the '.join(unread)} was not read"
    return needed(found["target"], otherwise), needed(found["draft"], otherwise)


def unread_config(
    sides: Iterable[tuple[str, ModelFacts]], what: str = "config"
) -> CheckOutcome | None:
    """Unknown where the config of a side was not read, or has no model_type where that is asked.

    Every config names a model_type or a class.
    """
    missing = [
        side
        for side, facts in sides
        if facts.config.model_type is None
        and (what == "model_type" or facts.config.architectures is None)
    ]
    return unknown(f"{what} of the {' and the '.join(missing)} was not read") if missing else None


def quote(text: bytes | None) -> str:
    """A token's text between quotes, cut when long; "nothing" where no token is defined."""
    if text is None:
        return "nothing"
    if STAND_IN.fullmatch(text):
        return "a text that was not kept"
    shown = text.decode("utf-8", "backslashreplace")
    return f"'{shown[:LONGEST]}{'…' if len(shown) > LONGEST else ''}'"
