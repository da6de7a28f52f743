"""Runs a case and says what is wrong with what happened; shrinks the input of a failure.

Everything runs in this process: a start of the interpreter for each command would make thousands
of cases impossible. CPU time is limited by a timer that raises, memory by the address space of
the process and by its peak; a process that dies or hangs in C code is the parent's to notice.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import resource
import shutil
import signal
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import FrameType

from draftcheck.cli import main

CODES = (0, 1, 2, 3, 130)
CODES_SEEN: Counter[str] = Counter()
"""How often commands ended how: a surface that only ever gets 3 attacks nothing behind a door."""
CPU_SECONDS = 12.0
"""For one command over some kilobytes of input; a loaded machine inflates CPU time by a half."""
PEAK_BYTES = 700 << 20
ADDRESS_SPACE = 6 << 30
CANARY = "canary"
"""A file that hostile input tries to make."""


@dataclass(frozen=True)
class Command:
    """One command line of a case, and which files it may write."""

    arguments: tuple[str, ...]
    writes: frozenset[str] = frozenset()
    """Patterns of names at the top of the folder that may appear or change, with all below."""
    raw: bool = False
    """The output is a patch: it keeps the bytes of the files."""


@dataclass(frozen=True)
class Case:
    """Files of a folder, and what is run there."""

    files: dict[str, bytes]
    commands: tuple[Command, ...]
    damaged: str = ""
    """The file that was damaged: what a shrinker may make smaller."""
    server: Callable[[], contextlib.AbstractContextManager[str]] | None = None
    """Runs while the commands do; $URL in their arguments is its address."""
    check: Callable[[Sequence[Done], Path], str | None] | None = None
    """What must hold besides."""


@dataclass
class Done:
    """What a command did."""

    command: Command
    code: int
    out: str
    err: str
    before: dict[str, bytes] = field(repr=False)
    after: dict[str, bytes] = field(repr=False)


class TooLong(BaseException):
    """The timer of CPU seconds ran out."""


def limit_process() -> None:
    """For the life of this process."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    signal.signal(signal.SIGPROF, _too_long)
    for name in list(os.environ):
        if name.startswith(("HF_", "DRAFTCHECK_CACHE", "NO_COLOR")):
            del os.environ[name]
    os.environ["HF_HUB_OFFLINE"] = "1"


def _too_long(_signal: int, _frame: FrameType | None) -> None:
    raise TooLong


def run(case: Case, folder: Path) -> str | None:
    """What is wrong, or None."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, data in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    back = Path.cwd()
    os.chdir(folder)
    done: list[Done] = []
    try:
        with case.server() if case.server else contextlib.nullcontext("") as url:
            for command in case.commands:
                arguments = tuple(word.replace("$URL", url) for word in command.arguments)
                if wrong := _one(replace(command, arguments=arguments), folder, done):
                    return wrong
        return case.check(done, folder) if case.check else None
    finally:
        os.chdir(back)


def _one(command: Command, folder: Path, done: list[Done]) -> str | None:
    before = _contents(folder)
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    _reset_peak()
    at_start, began = _memory("VmRSS"), time.process_time()
    said = f"draftcheck {' '.join(command.arguments)}"[:300]
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(list(command.arguments))
    except TooLong:
        return f"{said}: more than {CPU_SECONDS:.0f} s of CPU"
    except SystemExit as error:
        return f"{said}: SystemExit {error.code}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    spent, peak = time.process_time() - began, _memory("VmHWM") - at_start
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8", "replace"))  # type: ignore[attr-defined]
    found = Done(command, code, texts[0], texts[1], before, _contents(folder))
    done.append(found)
    CODES_SEEN[f"{command.arguments[0]} {code}"] += 1
    for wrong in _wrong(found, spent, peak):
        return f"{said}: {wrong}"
    return None


def _wrong(done: Done, spent: float, peak: int) -> Iterator[str]:
    if done.code not in CODES:
        yield f"exit {done.code}\n{done.err[-3000:]}"
    if "Traceback" in done.err or "this is a bug" in done.err:
        yield f"traceback\n{done.err[-3000:]}"
    if "not enough memory" in done.err or peak > PEAK_BYTES:
        yield f"{peak / 1e6:.0f} MB more memory"
    if spent > CPU_SECONDS:
        yield f"{spent:.1f} s of CPU"
    if CANARY in done.after:
        yield "something was executed"
    for name in sorted(done.before.keys() | done.after.keys()):
        top = name.split("/")[0]
        if any(fnmatchcase(top, pattern) for pattern in done.command.writes):
            continue
        if done.before.get(name) != done.after.get(name):
            yield f"{name!r} was changed, made or removed"
    for text in (done.err, "" if done.command.raw else done.out):
        if bad := unseen(text):
            yield f"raw characters {sorted(bad)!r}"


def unseen(text: str) -> set[str]:
    """Characters that do not show, or that change how the rest is shown."""
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return {c for c in set(text) - {"\n"} if unicodedata.category(c) in kinds}


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }


def _reset_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _memory(name: str) -> int:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return int(status.split(f"{name}:")[1].split()[0]) * 1024


def shrunk(case: Case, folder: Path, wrong: str, tries: int = 120) -> tuple[Case, str]:
    """A smaller damaged file that fails in the same way, as far as some tries come."""
    if not case.damaged:
        return case, wrong
    kind = _kind(wrong)
    size = max(len(case.files[case.damaged]) // 2, 1)
    at = 0
    while tries > 0 and size >= 1:
        data = case.files[case.damaged]
        if at >= len(data):
            at, size = 0, size // 2
            continue
        tries -= 1
        smaller = replace(case, files={**case.files, case.damaged: data[:at] + data[at + size :]})
        again = run(smaller, folder)
        if again is not None and _kind(again) == kind:
            case, wrong = smaller, again
        else:
            at += size
    return case, wrong


def _kind(wrong: str) -> str:
    """The last line of a traceback with its place, or the words of an invariant."""
    lines = wrong.strip().splitlines()
    places = [line for line in lines if line.strip().startswith("File ")]
    return f"{places[-1:]} {lines[-1].split(':')[0][:60]}" if places else lines[0].split(": ")[-1]


def generator(surface: str, seed: int, number: int) -> random.Random:
    return random.Random(f"{surface} {seed} {number}")
