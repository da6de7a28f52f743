"""[defaults] of draftcheck.toml: the engine and the GPU of those who always mean the same ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

NAME = "draftcheck.toml"
COMMANDS = ("pair", "recommend")


def found() -> dict[str, Any]:
    """Values by the names of the commands' options; nothing where there is no such file."""
    try:
        here = Path.cwd()
        if not any((folder / NAME).is_file() for folder in (here, *here.parents)):
            return {}
    except OSError:  # the folder is gone, or one above it may not be looked into
        return {}
    from draftcheck.deploy import discover
    from draftcheck.gate.survey import Manifests
    from draftcheck.report.exits import warn

    manifest = Manifests(discover.root(here)).root()
    for finding in manifest.findings[:1]:
        warn(f"{finding.place.file}:{finding.place.line}: {finding.saw}")
    said = manifest.defaults
    values = {"engines": said.engine and [said.engine], "gpu": said.gpu}
    return {name: value for name, value in values.items() if value}
