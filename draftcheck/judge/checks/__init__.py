"""Checks: pure functions that rules name. (pair, *, params) -> CheckOutcome.

A check is any public function of these modules that returns a CheckOutcome; a rule names it by
its name, and see() asks it. What it needs and nobody read settles it at once: unknown (needed()).
outcomes.py has the constructors of outcomes, listed.py the engines' versioned lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from draftcheck.judge.checks import hardware, heads, listed, llama, model, vocabulary
from draftcheck.judge.checks.outcomes import Settled
from draftcheck.values.verdicts import JudgedPair
from draftcheck.values.words import CheckOutcome

MODULES = (vocabulary, llama, model, heads, listed, hardware)
CHECKS: dict[str, Callable[..., CheckOutcome]] = {
    name: function
    for module in MODULES
    for name, function in vars(module).items()
    if getattr(function, "__module__", None) == module.__name__
    and not name.startswith("_")
    and getattr(function, "__annotations__", {}).get("return") == "CheckOutcome"
}


def see(check: str, pair: JudgedPair, params: Mapping[str, Any]) -> CheckOutcome:
    """What the check of this name sees in the pair."""
    try:
        return CHECKS[check](pair, **params)
    except Settled as settled:
        return settled.outcome
