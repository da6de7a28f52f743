"""Find and parse the TOML files of rules/. Knows no engine; rulebook.py gives them meaning."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from draftcheck.errors import RuleError


@cache
def folder() -> Path:
    """rules/ inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parent
    for place in (package / "rules", package.parent / "rules"):
        if place.is_dir():
            return place
    raise RuleError("the rules folder is missing: reinstall draftcheck")


@cache
def load(name: str) -> dict[str, Any]:
    """The parsed file rules/NAME.toml."""
    return parse(folder() / f"{name}.toml")


def head(name: str) -> str:
    """The first lines of rules/NAME.toml."""
    with (folder() / f"{name}.toml").open(encoding="utf-8") as file:
        return file.read(4096)


def parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise RuleError(f"{path.name}: not valid TOML: {error}") from None
    except OSError as error:
        raise RuleError(f"{path.name}: {error.strerror}") from None


def names() -> tuple[str, ...]:
    """All rule files, without suffix."""
    return tuple(sorted(path.stem for path in folder().glob("*.toml")))
