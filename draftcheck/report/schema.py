"""The JSON Schemas of the reports, as they are shipped: one for each --format json."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from draftcheck.errors import UsageError, did_you_mean

FOLDER = Path(__file__).parent / "schemas"


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load(name: str) -> dict[str, Any]:
    if name not in names():
        raise UsageError(f"there is no schema {name!r}", hint=did_you_mean(name, names()))
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def listed(found: Mapping[str, str]) -> str:
    return "\n".join(f"{name.ljust(10)} {title}" for name, title in found.items())


FORMATS: Mapping[str, Callable[[Mapping[str, str]], str]] = {
    "text": listed,
    "json": lambda found: json.dumps(found, indent=2),
}
"""Form -> the names of the schemas with their titles."""
