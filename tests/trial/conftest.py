"""Models of a thousand tokens: more threads only get in each other's way."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    try:
        import torch
    except ImportError:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else runs beside the tests is not to be told."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.1, 0.1, 0.1), raising=False)
