"""Files written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from draftcheck.errors import ReadError


def write(path: Path, data: bytes, shown: str) -> None:
    """Put the bytes in place; a file that is there keeps its mode, a link stays a link."""
    path = path.resolve()
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        temporary.chmod(path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise ReadError(f"{shown}: cannot be written: {error.strerror}") from error


def _umask() -> int:
    now = os.umask(0o077)
    os.umask(now)
    return now
