"""Progress: on a terminal, after a second, and never in a pipe."""

from __future__ import annotations

import os
import re
import sys

import pytest

from tests.hub import Hub
from tests.hub.process import Draftcheck, assert_calm, finish
from tests.models.hub.test_weather import PAIR, SHARD, repos

pytest.importorskip("huggingface_hub")


def test_progress_on_a_terminal_only(hub: Hub, draftcheck: Draftcheck) -> None:
    pty = pytest.importorskip("pty", reason="terminals of this kind are POSIX")
    repos(hub)
    hub.fault("delay", file=SHARD, seconds=2.5)
    piped = draftcheck(*PAIR)
    assert_calm(piped)
    assert piped.code == 0 and not piped.err, "nothing but the report in a pipe"
    hub.fault("delay", file=SHARD, seconds=2.5)
    ours, theirs = pty.openpty()
    fresh = Draftcheck(hub, draftcheck.home.parent / "fresh")
    child = fresh.start(*PAIR, stderr=theirs)
    os.close(theirs)
    ran = finish(child)
    shown = drained(ours)
    assert ran.code == 0 and ran.json
    assert re.search(r"\d+(\.\d+)? ?[kM]B", shown) and re.search(r"\d+ files", shown), shown
    assert "\n" not in shown and shown.endswith("\r"), "the line is wiped at the end"


def drained(descriptor: int) -> str:
    """What was written to a terminal."""
    parts = []
    try:
        while part := os.read(descriptor, 65536):
            parts.append(part)
    except OSError:  # Linux: the other side is closed
        assert sys.platform != "darwin" or parts
    os.close(descriptor)
    return b"".join(parts).decode()
