"""The source of a release: a wheel, a folder, what is installed here, or a download."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from draftcheck.anchors.trees import FolderTree, SourceTree, WheelTree
from draftcheck.errors import ReadError
from draftcheck.judge import installed
from draftcheck.rulebook.anchors import AnchorFile

TIMEOUT = 1800


@contextmanager
def opened(
    anchors: AnchorFile,
    *,
    version: str | None = None,
    wheel: Path | None = None,
    source: Path | None = None,
    here: bool = False,
) -> Iterator[SourceTree]:
    """The tree that was asked for; without a file or folder, the release from the index."""
    if wheel is not None:
        yield WheelTree(wheel, anchors.package)
    elif source is not None:
        yield FolderTree(source, anchors.package, version)
    elif here:
        yield installed.tree(anchors)
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield WheelTree(_download(anchors.engine, version, Path(folder)), anchors.package)


def _download(engine: str, version: str | None, folder: Path) -> Path:
    """The wheel, by the pip of this Python, which knows the user's index."""
    packages = installed.packages(engine)
    if not packages:
        raise ReadError(
            f"{engine} has no Python package to download", hint="Give its source: --source FOLDER."
        )
    name = f"{packages[0]}=={version}" if version else packages[0]
    command = (
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
        "--no-deps", "--only-binary", ":all:", "--dest", str(folder), name,
    )  # fmt: skip
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ReadError(f"{name}: pip could not be run: {error}") from None
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no wheel came"]
        raise ReadError(
            f"{name}: pip download failed: {lines[-1]}",
            hint="Give a wheel or a source folder: --wheel FILE, --source FOLDER.",
        )
    return wheels[0]
