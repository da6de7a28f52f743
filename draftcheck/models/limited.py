"""Libraries that read files of others' making, in a child process with limits.

They run what the files say (regular expressions without end, sizes that are believed) or crash on
them, so they run outside this process, with bounded memory and time.
"""

from __future__ import annotations

import json
import sys
from typing import Any

MEMORY = 4 << 30
# Self-contained: the child imports nothing of draftcheck.
LIMITS = """
import json, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]),) * 2)
except (ImportError, ValueError, OSError):
    pass
"""


def run(code: str, *arguments: str, text: str = "", seconds: int = 20, memory: int = MEMORY) -> Any:
    """What the code prints as JSON; None when it fails. Its arguments start at sys.argv[3]."""
    import subprocess  # here: a browser has no processes, and most verdicts need none

    command = [sys.executable, "-P", "-c", LIMITS + code, str(memory), str(seconds), *arguments]
    try:
        done = subprocess.run(
            command, input=text.encode(), capture_output=True, timeout=seconds, check=False
        )
        return json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError, RecursionError):
        return None
