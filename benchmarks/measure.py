"""CPU seconds and peak memory of child processes; the best of several runs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence


class Command:
    """What to run, and the exit codes that mean it worked."""

    def __init__(self, *words: object, codes: Sequence[int] = (0,)) -> None:
        self.words = [str(word) for word in words]
        self.codes = codes

    def run(self, env: Mapping[str, str]) -> float:
        """Its user and system time: not wall time, the machine may be busy."""
        process = subprocess.Popen(
            self.words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env
        )
        assert process.stderr is not None
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in self.codes:
            words = " ".join(self.words)
            raise SystemExit(f"{words} failed:\n{errors.decode(errors='replace')}")
        return usage.ru_utime + usage.ru_stime


def cpu_seconds(commands: Mapping[str, Command | None], rounds: int) -> dict[str, float]:
    """The best of each, taking turns, so that a busy machine slows all of them.

    One run before the first round compiles what is imported: not every installation is compiled.
    """
    wanted = {name: command for name, command in commands.items() if command is not None}
    costs = dict.fromkeys(wanted, float("inf"))
    with tempfile.TemporaryDirectory() as compiled:
        env = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        for command in wanted.values():
            command.run(env)
        for _ in range(rounds):
            for name, command in wanted.items():
                costs[name] = min(costs[name], command.run(env))
    return costs


PEAK = """
import sys
from draftcheck.cli import main
main(sys.argv[1:])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def peak_megabytes(arguments: Sequence[str]) -> float:
    """Largest resident set of a draftcheck command, as the kernel counts it for the process."""
    command = [sys.executable, "-c", PEAK, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1]) / 1024
