"""The core in a browser: a verdict without threads, processes or compiled extras.

Pyodide has msgspec, click, packaging and PyYAML; it has no processes, and starts no threads.
"""

from __future__ import annotations

import json
import subprocess
import sys

from tests.conftest import ROOT

ABSENT = (
    "multiprocessing", "_multiprocessing", "ssl", "_ssl", "resource", "numpy", "torch",
    "transformers", "gguf", "safetensors", "tokenizers", "huggingface_hub",
)  # fmt: skip
CODE = f"""
import json, subprocess, sys, threading
for name in {ABSENT!r}:
    sys.modules[name] = None
def no_threads(self):
    raise RuntimeError("can't start new thread")
threading.Thread.start = no_threads
def no_processes(*arguments, **options):
    raise OSError(138, "emscripten does not support processes.")
subprocess.Popen = no_processes
import draftcheck
for pair in (("target", "draft"), ("target.gguf", "draft.gguf")):
    verdict = draftcheck.check(*(f"fixtures/pair/{{name}}" for name in pair))
    print(json.dumps(verdict.verdict.value))
"""


def test_a_verdict_needs_neither_processes_nor_threads() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == ["compatible"] * 2
