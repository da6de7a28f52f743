"""Sound models to hold the hostile ones against."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import make


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound checkpoint folder."""
    return make.folder(tmp_path_factory.mktemp("good") / "model")


@pytest.fixture(scope="session")
def good_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound GGUF file."""
    return make.gguf(tmp_path_factory.mktemp("good") / "model.gguf")
