"""What huggingface_hub has downloaded: blobs by digest, and snapshots when there is no network."""

from __future__ import annotations

import re
from pathlib import Path

from draftcheck import settings
from draftcheck.errors import ReadError
from draftcheck.models.sources.folder import FolderSource

COMMIT = re.compile(r"[0-9a-f]{40}")
NAME = re.compile(r"[\w./-]{1,200}")


def folder(repo: str) -> Path:
    return settings.hub_cache() / f"models--{repo.replace('/', '--')}"


def blob(repo: str, digest: str, size: int) -> Path | None:
    """The file with that content, if the repo's folder has it whole."""
    path = folder(repo) / "blobs" / digest.partition(":")[2]
    try:
        real = path.resolve(strict=True)
        inside = real.is_relative_to(settings.hub_cache().resolve())
        return real if inside and real.is_file() and real.stat().st_size == size else None
    except OSError:
        return None


def commit(repo: str, revision: str | None) -> str | None:
    """The commit that the revision meant when the repo was downloaded."""
    name = revision or "main"
    if COMMIT.fullmatch(name):
        return name
    if not NAME.fullmatch(name) or ".." in name:
        return None
    try:
        text = FolderSource(folder(repo) / "refs").read(name, 1000).decode("ascii").strip()
    except (ReadError, ValueError):
        return None
    return text if COMMIT.fullmatch(text) else None


def snapshot(repo: str, sha: str, subfolder: str) -> FolderSource | None:
    """The downloaded files of a commit, as far as they are there."""
    root = folder(repo) / "snapshots" / sha
    try:
        if not root.is_dir():
            return None
    except OSError:
        return None
    return FolderSource(root / subfolder if subfolder else root)
