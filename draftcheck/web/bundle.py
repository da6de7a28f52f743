"""The package for the browser: one archive with this code, the rules and the libraries it needs.

Left out is what a browser cannot do: trials, scans, servers, the code of engines. The libraries in
Python are those of this very installation; the compiled one comes as a wheel for the browser.
"""

from __future__ import annotations

import importlib.metadata
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

from draftcheck.errors import ReadError
from draftcheck.rulebook import files

PACKAGE = Path(__file__).parents[1]
LEFT_OUT = (
    "anchors/", "probe/", "publish/", "recommend/", "report/site/", "scan/", "trial/", "watch/",
    "web/assets/", "rules/anchors/",
)  # fmt: skip
"""Folders of which only __init__.py is there: names in `draftcheck` itself must be importable."""
SUFFIXES = (".py", ".html", ".toml", ".csv", ".txt")
LIBRARIES = ("click", "jinja2", "markupsafe", "packaging", "pyyaml")
EPOCH = (1980, 1, 1, 0, 0, 0)


def archive(msgspec: bytes) -> bytes:
    """A zip file; the same code gives the same bytes."""
    found = {**dict(_own()), **dict(_rules())}
    for name in LIBRARIES:
        found.update(_library(name))
    with zipfile.ZipFile(io.BytesIO(msgspec)) as wheel:
        found.update({name: wheel.read(name) for name in wheel.namelist()})
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name in sorted(found):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, found[name], compresslevel=9)
    return sink.getvalue()


def _own() -> Iterator[tuple[str, bytes]]:
    yield from _tree(PACKAGE, "draftcheck")


def _rules() -> Iterator[tuple[str, bytes]]:
    """Inside the package, where an installation has them."""
    yield from _tree(files.folder(), "draftcheck/rules")


def _tree(folder: Path, under: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        name = f"{under}/{path.relative_to(folder).as_posix()}"
        inner = name.removeprefix("draftcheck/")
        wanted = not inner.startswith(LEFT_OUT) or path.name == "__init__.py"
        if path.suffix in SUFFIXES and wanted and path.is_file():
            yield name, path.read_bytes()


def _library(name: str) -> Iterator[tuple[str, bytes]]:
    """The Python files of an installed distribution, and its licence."""
    listed = importlib.metadata.distribution(name).files
    if listed is None:
        raise ReadError(f"{name}: installed without a list of its files; install it with pip")
    for file in listed:
        if (file.suffix == ".py" or "licenses" in file.parts) and ".." not in file.parts:
            path = Path(str(file.locate()))
            if path.is_file() and path.suffix != ".pyc":
                yield file.as_posix(), path.read_bytes()
