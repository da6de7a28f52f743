"""The loopback Hub as a fixture, and draftcheck with that Hub as its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub import Hub
from tests.hub.process import Draftcheck


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as made:
        yield made


@pytest.fixture
def draftcheck(hub: Hub, tmp_path: Path) -> Draftcheck:
    return Draftcheck(hub, tmp_path / "home")
