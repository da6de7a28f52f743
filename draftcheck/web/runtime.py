"""Python for the browser, from the package registries: Pyodide, and the one compiled library.

Both are pinned by version and digest, wherever they come from, so a site is made of the same bytes
on every machine. What was downloaded is kept in draftcheck's cache.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import os
import re
import tarfile
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

from draftcheck import atomic, settings
from draftcheck.errors import ReadError

LARGEST = 64 << 20
SECONDS = 60.0
NPM, PYPI = "https://registry.npmjs.org", "https://pypi.org/simple"
SCRIPTS = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm")
LIBRARY, LOCK = "python_stdlib.zip", "pyodide-lock.json"
"""With the scripts, the files of Pyodide that a page loads."""


@dataclass(frozen=True, slots=True)
class RuntimePart:
    """A file of a package registry."""

    file: str
    digest: str
    """As registries write it: the algorithm, a hyphen, the digest in base64."""

    def check(self, data: bytes, where: str) -> bytes:
        algorithm, _, wanted = self.digest.partition("-")
        found = b64encode(hashlib.new(algorithm, data).digest()).decode()
        if found != wanted:
            raise ReadError(f"{where}: not the {self.file} that was expected: another {algorithm}")
        return data


PYODIDE = RuntimePart(
    "pyodide-314.0.7.tgz",
    "sha512-0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A==",
)
MSGSPEC = RuntimePart(
    "msgspec-0.22.0-cp314-cp314-pyemscripten_2026_0_wasm32.whl",
    "sha256-pmsXZjEeQjceUJyZbDkzsWHHrg6r3zYa9TFt7Bl+ECI=",
)


@dataclass(frozen=True, slots=True)
class BrowserRuntime:
    """What a page needs besides this package."""

    pyodide: dict[str, bytes]
    """Name -> content of the files of Pyodide."""
    msgspec: bytes
    """The wheel."""


def load(place: Path | None) -> BrowserRuntime:
    """place: a folder with both files, or Pyodide's; what is missing there is downloaded."""
    folder = place.parent if place is not None and not place.is_dir() else place
    if place is not None and not place.exists():
        raise ReadError(f"{place}: no such file or folder")
    named = place if place is not None and place.is_file() else None
    packed = PYODIDE.check(_read(named), str(named)) if named else _part(PYODIDE, folder, _npm)
    wanted = {*SCRIPTS, LIBRARY, LOCK}
    try:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            inside = {name: archive.extractfile(f"package/{name}") for name in sorted(wanted)}
            found = {name: file.read() for name, file in inside.items() if file is not None}
    except (tarfile.TarError, KeyError) as error:  # the digest is right, so the pin is wrong
        raise ReadError(f"{PYODIDE.file}: {error}") from error
    return BrowserRuntime(found, _part(MSGSPEC, folder, _pypi))


def _part(part: RuntimePart, folder: Path | None, address: Callable[[RuntimePart], str]) -> bytes:
    """The file from the folder, the cache or the registry."""
    kept = settings.cache() / "web" / part.file
    for path in (folder / part.file if folder else kept, kept):
        if path.is_file():
            return part.check(_read(path), str(path))
    url = address(part)
    data = part.check(_get(url), url)
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        atomic.write(kept, data)
    except OSError:
        pass  # a cache that cannot be written is no error
    return data


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST)
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror}") from error


def _npm(part: RuntimePart) -> str:
    """Where npm would get it."""
    named = os.environ.get("NPM_CONFIG_REGISTRY") or NPM
    return f"{named.rstrip('/')}/pyodide/-/{part.file}"


def _pypi(part: RuntimePart) -> str:
    """Where pip would get it, from the index's page of the package."""
    page = f"{(os.environ.get('PIP_INDEX_URL') or PYPI).rstrip('/')}/msgspec/"
    match = re.search(
        rf'href="([^"#]*/{re.escape(part.file)})[#"]', _get(page).decode("utf-8", "replace")
    )
    if match is None:
        raise ReadError(f"{page}: has no {part.file}", hint=HINT)
    return urljoin(page, str(match[1]))


HINT = f"Put {PYODIDE.file} and {MSGSPEC.file} into a folder, and name it with --runtime."


def _get(url: str) -> bytes:
    if settings.offline():
        raise ReadError(f"{url}: not in the cache, and HF_HUB_OFFLINE is set", hint=HINT)
    if not url.startswith(("https://", "http://")):
        raise ReadError(f"{url}: not a web address", hint=HINT)
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            data: bytes = answer.read(LARGEST)
    except (OSError, http.client.HTTPException, ValueError) as error:
        says = error.reason if isinstance(error, urllib.error.URLError) else error
        raise ReadError(f"{url}: cannot be downloaded: {says}", hint=HINT) from error
    return data
