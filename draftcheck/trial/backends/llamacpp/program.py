"""llama-server as a program of this machine: find it, ask what it can, start and end it."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import IO

from draftcheck.errors import ReadError
from draftcheck.models.readers.heads import FULL
from draftcheck.probe.client import ProbedServer, ServerAddress
from draftcheck.rulebook import files
from draftcheck.rulebook.files import Names, RuleRow, Text
from draftcheck.trial.backends import ctrl_c

ASKED_SECONDS = 60
START_SECONDS = 1800.0
"""A model of hundreds of gigabytes is read from a slow disk."""
LOG = 4096
"""Last bytes of its log that are looked at when it ends early."""
TIE = (
    "import ctypes, os, sys;"
    "ctypes.CDLL(None).prctl(1, 15);"  # PR_SET_PDEATHSIG, SIGTERM; kept over exec
    "os.execv(sys.argv[1], sys.argv[1:])"
)
LISTED = re.compile(
    r"^\s+(?P<name>\w+): (?P<what>.+?)(?: \(\d+ MiB(?:, (?P<free>\d+) MiB free)?.*)?$", re.MULTILINE
)


class OptionSpellings(RuleRow, frozen=True):
    """Spellings of one meaning by build, newest first."""

    draft_model: Names
    draft_tokens: Names
    fewest: Names
    p_min: Names
    method: Names
    prompt_cache: Names

    def named(self, meaning: str) -> Names:
        spelled: Names = getattr(self, meaning)
        return spelled


class ValueSpellings(RuleRow, frozen=True):
    method: Mapping[str, Names]
    """By what the draft is."""


class Spellings(RuleRow, frozen=True):
    """rules/tables/llama-server.toml."""

    program: Text
    environment: Text
    offload: Text
    """The environment's word for the layers that a GPU computes."""
    kept: Names
    """Settings from the environment that change how fast it is, not what it does."""
    options: OptionSpellings
    values: ValueSpellings


def spellings() -> Spellings:
    return files.read("tables/llama-server", Spellings)


def find() -> Path | None:
    """The program that the user names, or the one on PATH."""
    spelling = spellings()
    named = os.environ.get(spelling.environment)
    if named:
        return Path(named) if os.access(named, os.X_OK) and Path(named).is_file() else None
    found = shutil.which(spelling.program)
    return Path(found) if found else None


class LlamaProgram:
    """One llama-server binary."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _say(self, option: str) -> str:
        try:
            done = subprocess.run(
                [str(self.path), option], capture_output=True, timeout=ASKED_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ReadError(f"{self.path}: cannot be run: {error}") from error
        return (done.stdout + done.stderr).decode("utf-8", "replace")

    @cached_property
    def help(self) -> str:
        return self._say("--help")

    @cached_property
    def _devices(self) -> list[re.Match[str]]:
        return [*LISTED.finditer(self._say("--list-devices").partition("devices:")[2])]

    def device(self) -> str:
        """What it computes on when it is left to choose."""
        found = next(iter(self._devices), None)
        return f"{found['name']} ({found['what'].strip()})" if found else "cpu"

    def room(self) -> int:
        """Bytes that were free on that device; 0: not told."""
        found = next(iter(self._devices), None)
        return int(found["free"] or 0) << 20 if found else 0

    def option(self, meaning: str, value: str) -> list[str]:
        """An option as this build spells it; an error when it has none for that."""
        if found := self.if_known(meaning, value):
            return found
        names = ", ".join(spellings().options.named(meaning))
        raise ReadError(f"{self.path}: has no option such as {names}: a very old build?")

    def if_known(self, meaning: str, value: str) -> list[str]:
        """The same, or nothing where the build has no such option."""
        for name in spellings().options.named(meaning):
            line = rf"^(?:\S+, +)*{re.escape(name)}[ ,].*$"
            if any("has been removed" not in m[0] for m in re.finditer(line, self.help, re.M)):
                return [name, value]
        return []

    def method(self, kind: str = FULL) -> list[str]:
        """The switch for drafts of a kind; none where naming the draft is enough."""
        name = spellings().options.method[0]
        line = re.search(rf"^{re.escape(name)}[ =](?P<values>\S+)", self.help, re.MULTILINE)
        known = re.split(r"[,|\[\]]", line["values"]) if line else []
        words = spellings().values.method[kind]
        found = next(([name, word] for word in words if word in known), [])
        if not found and kind != FULL:
            raise ReadError(f"{self.path}: has no {name} {words[0]}: a build before this head?")
        return found


class RunningServer:
    """A llama-server that we started; ends with us."""

    def __init__(self, program: LlamaProgram, arguments: Sequence[str]) -> None:
        self.key = secrets.token_hex(16)
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the server)
        self._model = dict(pairwise(arguments)).get("-m", program.path)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.base = ServerAddress("http", "127.0.0.1", int(free.getsockname()[1]), "")
        # A step between us that asks the kernel of Linux to end it even when we are killed.
        tie = [sys.executable, "-I", "-c", TIE] if sys.platform == "linux" else []
        command = [*tie, str(program.path), *arguments, "--host", "127.0.0.1"]
        command += ["--port", str(self.base.port)]
        environment = {  # ours, less what would change its settings behind our back
            name: value
            for name, value in os.environ.items()
            if name in spellings().kept or not name.startswith("LLAMA_ARG_")
        }
        try:
            with ctrl_c.kept_from_children():
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=self._log,
                    stderr=subprocess.STDOUT,
                    env={**environment, "LLAMA_API_KEY": self.key},
                )
        except OSError as error:
            raise ReadError(f"{program.path}: cannot be started: {error.strerror}") from error
        atexit.register(self.close)

    def wait(self, seconds: float = START_SECONDS) -> None:
        """Until it has loaded its models; an error with its last words when it ends instead."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise self._ended()
            site = ProbedServer(self.base, self.key, seconds=5.0)
            if site.get("/health").status == 200:
                return
            time.sleep(0.05)
        self.close()
        raise ReadError(f"llama-server was not ready after {seconds:g} s")

    def _ended(self) -> ReadError:
        how = how_it_ended(self._process.returncode)
        words = f"{self._model}: llama-server {how}: {self.last_words()}"
        hint = None
        if re.search(r"out of memory|failed to allocate|unable to allocate", words, re.I):
            hint = "Use a smaller quantisation, a smaller draft, fewer --tokens, or --device cpu."
        return ReadError(words, hint)

    def last_words(self) -> str:
        """The end of its log that tells most: lines about errors first."""
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - LOG))
        lines = self._log.read().decode("utf-8", "replace").splitlines()
        told = [line for line in lines if re.search(r"error|fail|invalid|abort|unable", line, re.I)]
        return " / ".join(line.strip() for line in (told[-3:] or lines[-1:])) or "it said nothing"

    def close(self) -> None:
        atexit.unregister(self.close)
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        with contextlib.suppress(OSError):
            self._log.close()


def how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
