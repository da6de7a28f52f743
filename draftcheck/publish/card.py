"""A model card: its header, its words, and the commands that it shows."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from draftcheck.deploy.deployment import Deployment
from draftcheck.gate import manifest, survey
from draftcheck.models.sources.source import ModelSource

NAME = "README.md"
LARGEST = 1 << 20
"""Bytes that are looked at."""
FENCE = "---"
UNNAMED = "other"
"""The Hub's word for a licence that it does not know."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """README.md of a repository."""

    text: str
    header: dict[str, Any]
    commands: tuple[Deployment, ...]
    """Engines that it starts with speculation."""
    nbytes: int

    @property
    def licence(self) -> str | None:
        """In small letters; of one that the Hub does not know, its name."""
        found = next(iter(self.listed("license")), "").lower()
        named = next(iter(self.listed("license_name")), "").lower() if found == UNNAMED else ""
        return named or found or None

    def listed(self, key: str) -> list[str]:
        """A field of the header that may hold one text or several."""
        found = self.header.get(key)
        rows = found if isinstance(found, list) else [found]
        return [row for row in rows if isinstance(row, str) and row.strip()]


def read(source: ModelSource, *, commands: bool = True) -> ModelCard | None:
    """The card among a model's files, as far as it is looked at; commands: with what it starts."""
    size = source.files().get(NAME)
    if size is None:
        return None
    data = source.read_range(NAME, 0, LARGEST) if size > LARGEST else source.read(NAME, LARGEST)
    text = data.decode("utf-8", "replace")
    return ModelCard(text, _header(text), tuple(_commands(data)) if commands else (), size)


def _header(text: str) -> dict[str, Any]:
    """The YAML between the first two lines of dashes; nothing where it cannot be read."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != FENCE:
        return {}
    end = next((n for n, line in enumerate(lines[1:], 1) if line.strip() == FENCE), 0)
    try:
        found = yaml.safe_load("\n".join(lines[1:end]))
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _commands(data: bytes) -> list[Deployment]:
    """As the gate reads a document: in a folder of its own, where nothing else says a version."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / NAME
        file.write_bytes(data)
        (Path(folder) / manifest.NAME).write_text("[gate]\nmarkdown = true\n", encoding="utf-8")
        taken = survey.take([str(file)], None)
    found = [setup.deployment for entry in taken.files for setup in entry.setups]
    return [deployment for deployment in found if deployment.speculates]
