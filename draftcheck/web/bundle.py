"""The package for the browser: one archive with this code, the rules and the libraries it needs.

Left out is what a browser cannot do: trials, scans, servers, the code of engines. The libraries in
Python are those of this very installation; the compiled one comes as a wheel for the browser. Rules
are there as they are kept in a cache, too: parsing them is a third of a first answer.
"""

from __future__ import annotations

import importlib.metadata
import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec

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
UNUSED = (
    "_pydatetime", "_pyio", "_pyrepl", "compileall", "doctest", "ensurepip", "ftplib", "imaplib",
    "mailbox", "modulefinder", "multiprocessing", "optparse", "pickletools", "plistlib", "poplib",
    "pydoc", "pydoc_data", "smtplib", "sqlite3", "trace", "unittest", "venv", "wave", "wsgiref",
    "xmlrpc", "zipapp",
)  # fmt: skip
"""Modules of the standard library that nothing in the archive imports."""
ENCODINGS = re.compile(
    r"encodings/(?!(__init__|aliases|ascii|charmap|cp1252|cp437|idna|latin_1|punycode|raw_unicode.*"
    r"|unicode_escape|utf_.*)\.py$)"
)
"""Tables of other letters: models' files are UTF-8."""
EPOCH = (1980, 1, 1, 0, 0, 0)


@cache
def archive(wheel: bytes) -> bytes:
    """Everything but Python, as a zip file; wheel: msgspec for the browser.

    Its compiled part is there by name alone: it is loaded from a file of its own (`compiled`).
    """
    found = {**dict(_tree(PACKAGE, "draftcheck")), **dict(_rules())}
    for name in LIBRARIES:
        found.update(_library(name))
    return _packed({**found, **_content(wheel), compiled(wheel)[0]: b""})


def compiled(wheel: bytes) -> tuple[str, bytes]:
    """The one compiled library in a wheel: where Python looks for it, and its content."""
    ((name, data),) = ((n, d) for n, d in _content(wheel).items() if n.endswith(".so"))
    return name, data


@cache
def standard_library(whole: bytes) -> bytes:
    """Pyodide's, without what nothing here uses."""
    return _packed(
        {
            name: data
            for name, data in _content(whole).items()
            if name.partition("/")[0].removesuffix(".py") not in UNUSED
            and not ENCODINGS.match(name)
        }
    )


def _content(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist() if not name.endswith("/")}


def _packed(found: Mapping[str, bytes]) -> bytes:
    """A zip file; the same content gives the same bytes."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name in sorted(found):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, found[name], compresslevel=9)
    return sink.getvalue()


def _rules() -> Iterator[tuple[str, bytes]]:
    """Inside the package, where an installation has them; and parsed, as the cache has them."""
    for name, data in _tree(files.folder(), "draftcheck/rules"):
        yield name, data
        if name.endswith(".toml"):
            short = name.removeprefix("draftcheck/rules/")
            kept = files.kept_name(short.removesuffix(".toml"), data)
            yield f"cache/{kept}", msgspec.json.encode(files.parse(files.folder() / short))


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
