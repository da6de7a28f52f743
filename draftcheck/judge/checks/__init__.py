"""Checks: pure functions that rules name. (comparison, setup, *, params) -> CheckOutcome.

A check is any public function of these modules that returns a CheckOutcome; a rule names it by
its name. outcomes.py has the constructors of outcomes, listed.py the engines' versioned lists.
"""

from __future__ import annotations

from collections.abc import Callable

from draftcheck.judge.checks import (
    deployment,
    detection,
    drafts,
    engines,
    hardware,
    head_targets,
    heads,
    listed,
    llama,
    llama_heads,
    memory,
    model,
    own_layers,
    translation,
    vocabulary,
    weights,
)
from draftcheck.values.words import CheckOutcome

Check = Callable[..., CheckOutcome]
MODULES = (
    vocabulary, llama, llama_heads, model, heads, head_targets, listed, drafts, deployment,
    own_layers, translation, engines, hardware, detection, memory, weights,
)  # fmt: skip

CHECKS: dict[str, Check] = {
    name: function
    for module in MODULES
    for name, function in vars(module).items()
    if getattr(function, "__module__", None) == module.__name__
    and not name.startswith("_")
    and getattr(function, "__annotations__", {}).get("return") == "CheckOutcome"
}
