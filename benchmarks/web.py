"""The checker's page against plain Pyodide and the command line: python -m benchmarks.web [ROUNDS]

Needs Chromium, playwright and the runtime (make web-runtime). Rounds take turns, each in a fresh
browser context with an empty cache; the best of each counts.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks import models
from benchmarks.measure import Command, cpu_seconds
from benchmarks.rows import Row, show
from draftcheck.web import runtime, site
from tests.chromium import launched

ROOT = Path(__file__).parents[1]
PARTS = Path(os.environ.get("DRAFTCHECK_WEB_RUNTIME") or ROOT / ".web")
WORDS = 151_643
SECONDS = 300_000
PLAIN_PAGE = "<!doctype html><title>Pyodide</title><script src=plain.js></script>"
PLAIN_SCRIPT = """
const worker = new Worker("plain.mjs", {type: "module"});
worker.onmessage = () => { document.body.dataset.ready = ""; };
"""
PLAIN_WORKER = """
import { loadPyodide } from "./pyodide/pyodide.mjs";
await loadPyodide({ indexURL: new URL("pyodide/", import.meta.url).href });
postMessage("ready");
"""


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def started(browser: Any, url: str) -> tuple[Any, Any, float]:
    """A fresh page that is ready, and the seconds it took."""
    context = browser.new_context()
    page = context.new_page()
    begin = time.monotonic()
    page.goto(url)
    page.locator("body[data-ready]").wait_for(state="attached", timeout=SECONDS)
    return context, page, time.monotonic() - begin


def renderers(browser: Any) -> dict[int, float]:
    """The processes that run pages, and the CPU seconds that they used."""
    found = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    return {row["id"]: row["cpuTime"] for row in found if row["type"] == "renderer"}


def verdict(browser: Any, page: Any, folders: tuple[Path, Path]) -> float:
    """CPU seconds of a verdict on dropped files: not wall time, the machine may be busy."""
    for side, folder in zip(("target", "draft"), folders, strict=True):
        page.set_input_files(f"#{side}-files", sorted(folder.iterdir()))
    before = sum(renderers(browser).values())
    page.click("#panel-pair button.main")
    page.locator("#answer .first").wait_for(timeout=SECONDS)
    return sum(renderers(browser).values()) - before


def measured(rounds: int, work: Path) -> list[Row]:
    size = site.write(work / "www", runtime.load(PARTS))
    (work / "www/plain.html").write_text(PLAIN_PAGE, encoding="utf-8")
    (work / "www/plain.js").write_text(PLAIN_SCRIPT, encoding="utf-8")
    (work / "www/plain.mjs").write_text(PLAIN_WORKER, encoding="utf-8")
    folders = models.folders(work / "pair", WORDS)
    handler = partial(QuietHandler, directory=str(work / "www"))
    ours = plain = answered = float("inf")
    heap = 0.0
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, launched() as browser:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        for _ in range(rounds):
            context, _, seconds = started(browser, url + "plain.html")
            context.close()
            plain = min(plain, seconds)
            context, page, seconds = started(browser, url)
            ours = min(ours, seconds)
            answered = min(answered, verdict(browser, page, folders))
            heap = max(heap, page.evaluate("heap"))
            context.close()
        server.shutdown()
    command = Command(
        sys.executable, "-m", "draftcheck", "pair", *folders, "--quiet", codes=(0, 1, 3)
    )
    alone = cpu_seconds({"command": command}, rounds)["command"]
    return [
        Row("page ready / plain Pyodide", ours, plain, 1.5, "s"),
        Row("verdict on two vocabularies / command line", answered, alone, 4.0, "s"),
        Row("memory of Python in the worker", heap / 1e6, 400, 1.0, "MB"),
        Row("the site", size / 1e6, 15, 1.0, "MB"),
    ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        count = int(sys.argv[1]) if len(sys.argv) > 1 else 3
        sys.exit(show(measured(count, Path(folder))))
