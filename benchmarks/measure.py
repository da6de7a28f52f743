"""CPU seconds and peak memory of a child process; the best of several runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence


def once(command: Sequence[str], codes: Sequence[int]) -> float:
    """Run the command; its user and system time."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in codes:
        raise SystemExit(f"{' '.join(command)} failed:\n{errors.decode(errors='replace')}")
    return usage.ru_utime + usage.ru_stime


def seconds(command: Sequence[str], rounds: int, codes: Sequence[int] = (0,)) -> float:
    """CPU time, not wall time: the machine may be busy. The minimum: noise only adds."""
    return min(once(command, codes) for _ in range(rounds))


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
