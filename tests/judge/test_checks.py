"""The registry of checks: what rules name, and what is there to be named."""

from __future__ import annotations

import inspect
import re
from collections import Counter

from draftcheck.judge.checks import CHECKS, MODULES
from draftcheck.rulebook import book


def named() -> dict[str, set[str]]:
    """The checks that rows of the rulebook name -> the parameters that they give."""
    rows = [*book.truth(), *book.truth_repairs()]
    for name in book.engine_files():
        engine = book.load(name)
        rows += [*engine.rules, *engine.repairs]
    found: dict[str, set[str]] = {}
    for row in rows:
        if row.check is not None:
            found.setdefault(row.check, set()).update(row.params)
    return found


def test_every_check_has_a_row_and_every_row_a_check() -> None:
    assert named().keys() == CHECKS.keys()


def test_every_parameter_of_a_check_is_given_by_a_row_or_another_check() -> None:
    calls = "".join(inspect.getsource(module) for module in MODULES)
    given = named()
    for name, check in CHECKS.items():
        _, *optional = inspect.signature(check).parameters
        passed = "".join(re.findall(rf"\b{name}\(\s*pair,[^)]*\)", calls))
        assert not [p for p in optional if p not in given[name] and f"{p}=" not in passed], name


def test_no_two_modules_share_the_name_of_a_check() -> None:
    found = Counter(name for module in MODULES for name in vars(module) if name in CHECKS)
    owners = Counter(check.__module__ for check in CHECKS.values())
    assert sum(owners.values()) == len(CHECKS)
    for name in found:
        homes = [m.__name__ for m in MODULES if vars(m).get(name) is CHECKS[name]]
        assert CHECKS[name].__module__ in homes
        others = [m for m in MODULES if name in vars(m) and vars(m)[name] is not CHECKS[name]]
        assert not others, name


def test_a_check_takes_parameters_by_name_and_says_what_it_does() -> None:
    for name, check in CHECKS.items():
        assert check.__doc__, name
        kinds = [p.kind for p in inspect.signature(check).parameters.values()]
        assert inspect.Parameter.VAR_KEYWORD not in kinds, name
        assert kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) == 1, name
