"""Files written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from draftcheck import atomic
from draftcheck.errors import ReadError


def write(path: Path, data: bytes, shown: str) -> None:
    """Put the bytes in place; a file that is there keeps its mode, a link stays a link."""
    try:
        atomic.write(path.resolve(), data)
    except OSError as error:
        raise ReadError(f"{shown}: cannot be written: {error.strerror}") from error
