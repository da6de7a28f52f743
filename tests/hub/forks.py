"""draftcheck as a process of its own, without the third of a second that its imports take.

A process that has imported everything but huggingface_hub, which reads the environment when it is
imported, forks for every run. What is run, how it ends and what it prints are those of a process
that was started.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.conftest import ROOT, Ran

POSSIBLE = hasattr(socket, "AF_UNIX")
SERVER = """
import json, os, pkgutil, runpy, select, signal, socket, sys
import asyncio, http.client, ssl, subprocess, tomllib
import click, draftcheck, jinja2, msgspec, yaml
for name in ("anyio", "httpcore", "httpx", "httpcore2", "httpx2"):
    try:
        __import__(name)
    except ImportError:
        pass
for module in pkgutil.walk_packages(draftcheck.__path__, "draftcheck."):
    if module.name.split(".")[1] not in ("__main__", "trial"):
        try:
            __import__(module.name)
        except ImportError:
            pass
assert "huggingface_hub" not in sys.modules and "numpy" not in sys.modules
server = socket.socket(fileno=int(sys.argv[1]))
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if sys.stdin in select.select([server, sys.stdin], [], [])[0]:
        sys.exit()  # whoever started this is gone
    asked, _ = server.accept()
    if os.fork():
        asked.close()
        continue
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    server.close()
    with asked.makefile("r") as lines:
        wish = json.loads(lines.readline())
    child = os.fork()
    if child:
        asked.sendall(f"{child}{os.linesep}".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        asked.sendall(str(code).encode())
        os._exit(0)
    asked.close()
    break
for number, name in enumerate((os.devnull, wish["out"], wish["err"])):
    handle = os.open(name, os.O_RDWR)
    os.dup2(handle, number)
    os.close(handle)
os.environ.clear()
os.environ.update(wish["env"])
os.chdir(wish["cwd"])
exec(wish["first"])
sys.argv = ["draftcheck", *wish["arguments"]]
runpy.run_module("draftcheck", run_name="__main__", alter_sys=True)
"""


@cache
def _server() -> str:
    """Where it listens; it ends when this process does."""
    folder = tempfile.TemporaryDirectory(prefix="draftcheck-forks-")
    name = str(Path(folder.name) / "socket")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(name)
    listening.listen(64)
    command = [sys.executable, "-c", SERVER, str(listening.fileno())]
    process = subprocess.Popen(
        command, pass_fds=[listening.fileno()], stdin=subprocess.PIPE, cwd=ROOT
    )
    _KEPT.extend((folder, process))
    listening.close()
    return name


_KEPT: list[object] = []


def run(arguments: list[str], env: Mapping[str, str], cwd: Path, first: str, seconds: float) -> Ran:
    """first: Python that is run before."""
    with (
        tempfile.NamedTemporaryFile() as out,
        tempfile.NamedTemporaryFile() as err,
        socket.socket(socket.AF_UNIX) as asked,
    ):
        asked.connect(_server())
        asked.settimeout(seconds)
        wish = {"arguments": arguments, "env": dict(env), "cwd": str(cwd), "first": first,
                "out": out.name, "err": err.name}  # fmt: skip
        asked.sendall(json.dumps(wish).encode() + b"\n")
        with asked.makefile("r") as said:
            child = int(said.readline())
            try:
                code = int(said.read())
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                raise AssertionError("draftcheck hangs") from None
        return Ran(code, out.read().decode(), err.read().decode())
