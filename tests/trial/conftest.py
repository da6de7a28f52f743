"""Trials on a machine that seems idle."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else runs beside the tests is not to be told."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.1, 0.1, 0.1), raising=False)
