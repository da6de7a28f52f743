"""Files written whole or not at all.

The bytes go to a file beside the one that is wanted, which then takes its place in one step: a
reader sees the old content or the new, never half of either. The file beside it has a name that
nobody can foresee and must not exist, so a link planted there is never followed.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


def write(path: Path, data: bytes) -> None:
    """Put the bytes in place; a file that is there keeps its mode. Raises OSError."""
    temporary = path.with_name(f".{path.name[:40]}.{os.urandom(8).hex()}.part")
    try:
        with temporary.open("xb") as file:
            file.write(data)
        with contextlib.suppress(FileNotFoundError):
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def unfinished(path: Path) -> bool:
    """Whether it is what an interrupted writer left."""
    return path.name.startswith(".") and path.name.endswith(".part")
