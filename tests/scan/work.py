"""Tasks for executors: functions that other processes can find."""

from __future__ import annotations

import os
import time
from pathlib import Path


def square(number: int) -> int:
    return number * number


def die_once(item: tuple[str, int]) -> int:
    """The first worker that comes here dies."""
    flag, number = item
    try:
        Path(flag).touch(exist_ok=False)
    except FileExistsError:
        return number
    os._exit(9)


def sleep(folder: str) -> None:
    """Leave a sign of life, then wait to be killed."""
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)
