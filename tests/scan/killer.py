"""Runs a scan again and again, each time killed (-9) at another point, until one gets through.

python -m tests.scan.killer STORE SEED ARGUMENTS…; prints how many were killed, and where.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from draftcheck.cli import main
from draftcheck.scan import executors, judging, run, store, verdicts, writing  # noqa: F401  warm

MOST = 60


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def deadly(after: int, committed: bool) -> None:
    """The nth transaction is the last: just before it is committed, or just after."""
    real = store.ScanStore.transaction
    counts = [0]

    @contextmanager
    def transaction(self: Any) -> Iterator[Any]:
        with real(self) as db:
            yield db
            counts[0] += 1
            if counts[0] == after and not committed:
                die()
        if counts[0] == after:
            die()

    store.ScanStore.transaction = transaction  # type: ignore[method-assign, assignment]


def one(chance: random.Random, arguments: list[str]) -> str | None:
    """A child that may be killed; None: it came to the end."""
    how = chance.choice(("before", "after", "time"))
    after = chance.randint(1, 14)
    pid = os.fork()
    if pid == 0:
        if how == "time":
            threading.Timer(chance.uniform(0.02, 0.6), die).start()
        else:
            deadly(after, how == "after")
        code = main(arguments)
        os._exit(code)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return f"{how} {after}"
    assert os.WEXITSTATUS(status) in (0, 1, 3), os.WEXITSTATUS(status)
    return None


def finished(arguments: list[str]) -> int:
    """Scans that the store calls complete."""
    path = Path(arguments[arguments.index("--store") + 1])
    if not path.exists():
        return 0
    try:
        with store.ScanStore.open(path, readonly=True) as opened:
            return sum(scan.state == "complete" for scan in opened.scans())
    except store.StoreError:  # killed before there was anything in it
        return 0


def until_done(seed: int, arguments: list[str]) -> list[str]:
    chance = random.Random(seed)
    killed = []
    before = finished(arguments)
    for _ in range(MOST):
        where = one(chance, arguments)
        if where is not None:
            killed.append(where)
        # One that was killed behind its last word got through, too: the next is another night.
        if where is None or finished(arguments) > before:
            return killed
    raise SystemExit("it never gets through")


if __name__ == "__main__":
    found = until_done(int(sys.argv[1]), sys.argv[2:])
    print(f"killed {len(found)} times: {', '.join(found)}", file=sys.stderr)
