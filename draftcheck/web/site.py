"""The files of the checker's site, and how they come to lie in a folder.

Nothing in it is loaded from another host: Pyodide, this package and the rules lie beside the page.
It may lie below any path of any static host.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from draftcheck import settings
from draftcheck.errors import UsageError
from draftcheck.memory import gpus
from draftcheck.report.site import pages, written
from draftcheck.rulebook import book
from draftcheck.web import bundle, render
from draftcheck.web.runtime import LIBRARY, LOCK, PYODIDE, SCRIPTS, BrowserRuntime

ASSETS = Path(__file__).parent / "assets"
STORAGE = ("https://*.huggingface.co", "https://*.hf.co")
"""Where the public Hub sends requests for large files."""
OURS = re.compile(r"draftcheck-[0-9a-f]{12}\.zip|pyodide/[\w.-]+|[\w.-]+\.(html|js|mjs|css|json)")
ORIGIN = re.compile(r"https?://[\w.*-]+(:\d+)?", re.ASCII)


def write(
    folder: Path, runtime: BrowserRuntime, *, storage: Sequence[str] = (), report: bool = False
) -> int:
    """Write the site and give its size in bytes.

    storage: origins that the Hub sends us to; report: it lies beside the pages of a report.
    """
    made = files(runtime, storage, report=report)
    written.put(folder, {name: partial(bytes, data) for name, data in made.items()}, OURS)
    return sum(map(len, made.values()))


def files(
    runtime: BrowserRuntime, storage: Sequence[str] = (), *, report: bool = False
) -> dict[str, bytes]:
    """Name -> content."""
    archive = bundle.archive(runtime.msgspec)
    name = f"draftcheck-{sha256(archive).hexdigest()[:12]}.zip"
    endpoint = settings.endpoint()
    lock = json.loads(runtime.pyodide[LOCK])
    library, compiled = bundle.compiled(runtime.msgspec)
    found = {
        "index.html": _page(endpoint, _storage(endpoint, storage), report=report).encode(),
        "style.css": (pages.asset("site.css") + "\n" + _asset("checker.css")).encode(),
        "page.js": _asset("page.js").encode(),
        "worker.mjs": _asset("worker.mjs").encode(),
        name: archive,
        # Nothing is installed from Pyodide's own distribution, so its list of packages is empty.
        f"pyodide/{LOCK}": json.dumps({"info": lock["info"], "packages": {}}).encode(),
        **{f"pyodide/{script}": runtime.pyodide[script] for script in SCRIPTS},
        f"pyodide/{LIBRARY}": bundle.standard_library(runtime.pyodide[LIBRARY]),
        "pyodide/library.so": compiled,
    }
    digest = sha256(b"".join(sha256(found[name]).digest() for name in sorted(found)))
    digest.update(endpoint.encode())
    cache = f"draftcheck-{digest.hexdigest()[:12]}"
    told = {"archive": name, "library": library, "endpoint": endpoint, "cache": cache}
    found["site.json"] = json.dumps(told).encode()
    worker = _asset("sw.js").replace("{{ cache }}", cache)
    found["sw.js"] = worker.replace("{{ files }}", json.dumps(sorted(found))).encode()
    return found


def _page(endpoint: str, storage: Sequence[str], *, report: bool) -> str:
    parts = urlsplit(endpoint)
    return str(
        render.environment()
        .get_template("index.html")
        .render(
            connect=[f"{parts.scheme}://{parts.netloc}", *storage],
            host=parts.netloc,
            engines=[f"{name}@{book.load(name).checked}" for name in book.engine_files()],
            gpus=sorted(gpus.names()),
            version=settings.__version__,
            pyodide=PYODIDE.file.removeprefix("pyodide-").removesuffix(".tgz"),
            report=report,
        )
    )


def _storage(endpoint: str, named: Sequence[str]) -> tuple[str, ...]:
    for text in named:
        if not ORIGIN.fullmatch(text):
            raise UsageError(f"--storage {text!r} is not an origin", hint="As https://cdn.example.")
    return (*(STORAGE if endpoint == settings.ENDPOINT else ()), *named)


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")
