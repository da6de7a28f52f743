"""User-facing errors: one line, a hint, an exit code. Anything else is a bug (70)."""

from __future__ import annotations

import re
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint: the known word that is nearest, whatever its dots and dashes, and all of them."""
    import difflib  # only for a word that is wrong

    every = list(known)
    plain = {re.sub(r"[\W_]", "", name).lower(): name for name in reversed(every)}
    near = difflib.get_close_matches(re.sub(r"[\W_]", "", word[:100]).lower(), plain, 1)
    guess = f"Did you mean {plain[near[0]]}? " if near else ""
    return f"{guess}Known: {', '.join(every)}."


class DraftcheckError(Exception):
    """An error that the user can act on."""

    exit_code = 70

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(DraftcheckError):
    """The command line or a reference is wrong."""

    exit_code = 2


class ReadError(DraftcheckError):
    """A model could not be read."""

    exit_code = 3


class GatedError(ReadError):
    """The files need an access that the user does not have; their listing may be public."""


class PointerError(ReadError):
    """A git-lfs pointer lies where the file should be."""


class RuleError(DraftcheckError):
    """A rule file is wrong; says which file and which rule."""

    exit_code = 70
