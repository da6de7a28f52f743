"""The four outcomes of a check and what several checks say alike; model text made safe to print."""

from __future__ import annotations

from collections.abc import Iterable

from draftcheck.values.facts import ModelFacts
from draftcheck.values.words import CheckOutcome, Outcome

LONGEST = 60
UNTOLD = "the draft's files do not say what kind of model it is"


def ok(saw: str) -> CheckOutcome:
    return CheckOutcome(Outcome.OK, saw)


def fail(saw: str) -> CheckOutcome:
    return CheckOutcome(Outcome.FAIL, saw)


def unknown(saw: str) -> CheckOutcome:
    return CheckOutcome(Outcome.UNKNOWN, saw)


def not_applicable(saw: str) -> CheckOutcome:
    return CheckOutcome(Outcome.NOT_APPLICABLE, saw)


def unread_config(
    sides: Iterable[tuple[str, ModelFacts]], what: str = "config"
) -> CheckOutcome | None:
    """Unknown where the config of a side was not read, which always names a model_type."""
    missing = [side for side, facts in sides if facts.config.model_type is None]
    return unknown(f"{what} of the {' and the '.join(missing)} was not read") if missing else None


def quote(text: bytes | None) -> str:
    """A token's text between quotes, cut when long; "nothing" where no token is defined."""
    if text is None:
        return "nothing"
    shown = text.decode("utf-8", "backslashreplace")
    return f"'{shown[:LONGEST]}{'…' if len(shown) > LONGEST else ''}'"
