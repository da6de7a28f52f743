"""Small words that checks share: outcomes, and model text made safe to print."""

from __future__ import annotations

from draftcheck.values.words import CheckOutcome, Outcome

LONGEST = 60


def ok(saw: str) -> CheckOutcome:
    return CheckOutcome(Outcome.OK, saw)


def fail(saw: str) -> CheckOutcome:
    return CheckOutcome(Outcome.FAIL, saw)


def unknown(saw: str) -> CheckOutcome:
    return CheckOutcome(Outcome.UNKNOWN, saw)


def not_applicable(saw: str) -> CheckOutcome:
    return CheckOutcome(Outcome.NOT_APPLICABLE, saw)


def quote(text: bytes | None) -> str:
    """A token's text between quotes, cut when long; "nothing" where no token is defined."""
    if text is None:
        return "nothing"
    shown = text.decode("utf-8", "backslashreplace")
    return f"'{shown[:LONGEST]}{'…' if len(shown) > LONGEST else ''}'"
