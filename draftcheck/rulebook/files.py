"""Find and parse the TOML files of rules/. Knows no engine; rulebook.py gives them meaning."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from draftcheck import atomic, settings
from draftcheck.errors import RuleError


@cache
def folder() -> Path:
    """rules/ inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    for place in (package / "rules", package.parent / "rules"):
        if place.is_dir():
            return place
    raise RuleError("the rules folder is missing: reinstall draftcheck")


@cache
def load(name: str) -> dict[str, Any]:
    """The parsed file rules/NAME.toml; what parsing gave before is read far faster."""
    path = folder() / f"{name}.toml"
    kept = _kept(path, name)
    try:
        return dict(json.loads(kept.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        found = parse(path)
        _keep(kept, found)
        return found


def _kept(path: Path, name: str) -> Path:
    """Where the parsed form of these very bytes is kept."""
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:32]
    except OSError as error:
        raise RuleError(f"{path.name}: {error.strerror}") from None
    return settings.cache() / "rules" / f"{name.replace('/', '.')}-{digest}.json"


def _keep(kept: Path, found: dict[str, Any]) -> None:
    """Write it whole or not at all; a cache that cannot be written is no error."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        kept.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)  # shared with repos
        kept.parent.mkdir(exist_ok=True)
        # Exactly this file's: vllm-*.json would be vllm-mtp's too.
        for old in kept.parent.glob(f"{kept.name.rpartition('-')[0]}-{'[0-9a-f]' * 32}.json"):
            old.unlink(missing_ok=True)
        atomic.write(kept, json.dumps(found, default=str).encode())


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
