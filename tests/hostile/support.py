"""What every hostile input is held against, and raw GGUF bytes with any fault."""

from __future__ import annotations

import json
import os
import struct
import unicodedata
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from tests.conftest import ROOT, Ran, Run
from tests.hub import forks
from tests.hub.process import HANGS

T = TypeVar("T")
READ, REFERENCE, ANY, BROKEN = (3,), (2,), (0, 1, 3), (1,)
"""Exit codes: cannot be read; the reference is wrong; legal input, whatever the verdict;
read, and proven broken: inspect shows it with a warning, no pair with it is compatible."""
PREFIXES = ("error: ", "hint: ", "warning: ")
GIGABYTE = 1 << 30
LONG = float(os.environ.get("DRAFTCHECK_FUZZ", "1"))
"""How much longer than usual to fuzz."""


def some(values: Sequence[T], salt: str) -> list[T]:
    """A fixed half of the values, another one for each salt; all of them in a long run."""
    keep = [zlib.crc32(f"{salt} {value!r}".encode("utf-8", "replace")) % 2 for value in values]
    return [value for value, kept in zip(values, keep, strict=True) if kept or LONG > 1]


def assert_calm(ran: Ran) -> None:
    """No bug report, at most one error, nothing that a terminal would obey."""
    assert ran.code in (0, 1, 2, 3), ran.err
    assert "Traceback" not in ran.err
    lines = ran.err.splitlines()
    assert all(line.startswith(PREFIXES) for line in lines), ran.err
    assert sum(line.startswith("error: ") for line in lines) <= 1
    assert all(len(line) < 1000 for line in lines)
    for text in (ran.out, ran.err):
        assert not unseen(text), sorted(unseen(text))


def unseen(text: str) -> set[str]:
    """Characters that do not show, or that change how the rest is shown."""
    bad = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return {c for c in set(text) - {"\n"} if unicodedata.category(c) in bad}


def examine(
    run: Run,
    model: object,
    codes: Sequence[int],
    good: object = None,
    forms: Sequence[str] = ("json",),
) -> Ran:
    """Inspect a model in all formats and judge it on both sides; return the first run."""
    first = run("inspect", model)
    assert_calm(first)
    broken = tuple(codes) in (READ, REFERENCE)
    if broken:
        assert first.code == codes[0], first.err
        assert first.out == ""
        assert first.err.startswith("error: ")
    else:
        assert first.code == 0, first.err
        if tuple(codes) == BROKEN:
            assert first.err.startswith("warning: ")
    for form in ("json",) if broken else ("json", "markdown"):
        again = run("inspect", model, "--format", form)
        assert_calm(again)
        assert (again.code, again.err) == (first.code, first.err)
        if form == "json" and not broken:
            assert strict_json(again.out)["schema_version"] == 1
    if good is not None:
        for form in forms:
            assert_judged(run, (model, good), codes, form)
        assert_judged(run, (good, model), codes, "text")
    return first


def assert_judged(run: Run, pair: tuple[object, object], codes: Sequence[int], form: str) -> None:
    ran = run("pair", *pair, "--format", form, *(["--verbose"] if form == "text" else []))
    assert_calm(ran)
    assert ran.code in codes, ran.err
    if not ran.out:
        assert ran.code in (2, 3)
    elif form == "json":
        assert strict_json(ran.out)["verdict"]


def strict_json(text: str) -> dict:
    """JSON as the RFC has it: no NaN, no Infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    found: dict = json.loads(text, parse_constant=refuse)
    return found


class Bounded:
    """A command that ran in a process of its own, with limits."""

    def __init__(self, ran: Ran, peak: int) -> None:
        self.ran, self.peak = ran, peak


_LIMITED = """
import atexit, resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))

@atexit.register
def tell():
    # Not ru_maxrss: a child inherits that of the process that started it.
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    print("\\npeak", int(status["VmHWM"].split()[0]) * 1024, file=sys.stderr)
"""


def bounded(*arguments: object, memory: int = 3 * GIGABYTE // 2, seconds: int = 20) -> Bounded:
    """Run the real command with little address space; a hang or a crash fails the test.

    seconds: of the processor's time; others may keep it busy."""
    first = _LIMITED.format(memory=memory, seconds=seconds)
    ran = forks.run(list(map(str, arguments)), os.environ, ROOT, first, HANGS)
    said, _, peak = ran.err.rpartition("\npeak ")
    assert peak, (ran.code, ran.err[-1500:])
    found = Bounded(Ran(ran.code, ran.out, said.rstrip("\n")), int(peak))
    assert_calm(found.ran)
    return found


def as_nobody() -> bool:
    """Whether permissions bind this process."""
    return os.geteuid() != 0


# GGUF, byte by byte


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def key(name: str | bytes, kind: int, value: bytes) -> bytes:
    return text(name) + u32(kind) + value


def strings(*values: str | bytes) -> bytes:
    return u32(8) + u64(len(values)) + b"".join(map(text, values))


def tensor(name: str, dims: Sequence[int], kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + u32(len(dims)) + b"".join(map(u64, dims)) + u32(kind) + u64(offset)


def header(
    *keys: bytes,
    tensors: Sequence[bytes] = (),
    version: int = 3,
    n_keys: int | None = None,
    n_tensors: int | None = None,
    tail: bytes = b"",
) -> bytes:
    """A GGUF header from its parts; counts may lie."""
    counts = u64(len(tensors) if n_tensors is None else n_tensors)
    counts += u64(len(keys) if n_keys is None else n_keys)
    return b"GGUF" + u32(version) + counts + b"".join(keys) + b"".join(tensors) + tail


def write(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def sparse(path: Path, size: int, start: bytes = b"") -> Path:
    """A file of that size which takes no room on the disk."""
    with path.open("wb") as file:
        file.write(start)
        file.truncate(size)
    return path
