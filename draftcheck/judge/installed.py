"""Which engines are on this machine, in which version, and how that was found out.

Packages are looked up by their metadata and programs asked for their version; nothing is imported.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from draftcheck.errors import RuleError, UsageError
from draftcheck.rulebook import book, files

FILE = "installed"
TIMEOUT = 10
LONGEST = 64 * 1024


@dataclass(frozen=True, slots=True)
class InstalledEngine:
    engine: str
    version: str
    how: str


def engines() -> list[InstalledEngine]:
    """Every engine found, in the order of the rulebook; an error that says where it looked."""
    found: dict[str, InstalledEngine] = {}
    looked = []
    for row in _rows():
        looked.append(row.get("package") or row["program"])
        entry = _package(row) if "package" in row else _program(row)
        if entry is not None:
            found.setdefault(entry.engine, entry)
    if not found:
        raise UsageError(
            "--engine auto found no engine on this machine",
            hint=f"It looked for {', '.join(looked)}. Name one: --engine vllm@0.15.1.",
        )
    return [found[name] for name in book.engine_files() if name in found]


def _rows() -> Iterator[Mapping[str, Any]]:
    for row in files.load(FILE).get("look", []):
        if row.get("engine") not in book.engine_files() or not {"package", "program"} & set(row):
            raise RuleError(f"{FILE}.toml: {dict(row)} names no known engine, package or program")
        yield row


def _package(row: Mapping[str, Any]) -> InstalledEngine | None:
    name = row["package"]
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
    # 0.15.1+cu128 is the release 0.15.1 built for one CUDA version.
    return _known(row, version.partition("+")[0], f"found: the Python package {name} {version}")


def _program(row: Mapping[str, Any]) -> InstalledEngine | None:
    path = shutil.which(row["program"])
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, *row.get("arguments", ["--version"])],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=TIMEOUT, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(row["pattern"], done.stdout[:LONGEST].decode("utf-8", "replace"))
    if match is None:
        return None
    return _known(row, match[1], f"found: {path} says {match[0]!r}")


def _known(row: Mapping[str, Any], version: str, how: str) -> InstalledEngine | None:
    """The version as the rulebook spells it; None when the row cannot tell."""
    if "versions" in row:
        if version not in row["versions"]:
            return None
        version = row["versions"][version]
        how += f", which is {version}"
    try:
        text = book.load(row["engine"]).version(row.get("prefix", "") + version)
    except UsageError:
        return None
    return InstalledEngine(row["engine"], text, how)
