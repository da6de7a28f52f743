"""The checker's page against plain Pyodide and the command line: python -m benchmarks.web [ROUNDS]

Needs Chromium, playwright and the runtime (make web-runtime). Rounds take turns, each in a fresh
browser context with an empty cache; the best of each counts. Seconds until a page is ready are the
page's own, from the navigation on. A verdict is asked for when the page has loaded what it loads
while somebody reads it, and, early, in the moment in which it is ready: what the worker still loads
then counts. A second visit begins when the service worker has the site's files and Python's memory.
Memory is that of the whole process that runs the page and its worker.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
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
worker.onmessage = () => { document.body.dataset.ready = performance.now(); };
"""
PLAIN_WORKER = """
import { loadPyodide } from "./plain/pyodide.mjs";
await loadPyodide();
postMessage("ready");
"""


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def ready(page: Any, url: str) -> float:
    """Seconds until the page can be used."""
    page.goto(url)
    body = page.locator("body[data-ready]")
    body.wait_for(state="attached", timeout=SECONDS)
    return float(body.get_attribute("data-ready")) / 1000


def resident(browser: Any) -> int:
    """Bytes of the largest process that runs a page."""
    states = (Path(f"/proc/{process}/status").read_text() for process in renderers(browser))
    return max(int(state.partition("VmRSS:")[2].split()[0]) * 1024 for state in states)


def renderers(browser: Any) -> dict[int, float]:
    """The processes that run pages, and the CPU seconds that they used."""
    found = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    return {row["id"]: row["cpuTime"] for row in found if row["type"] == "renderer"}


def verdict(browser: Any, page: Any, folders: tuple[Path, Path], after: str) -> float:
    """CPU seconds of a verdict on dropped files: not wall time, the machine may be busy."""
    for side, folder in zip(("target", "draft"), folders, strict=True):
        page.set_input_files(f"#{side}-files", sorted(folder.iterdir()))
    page.locator(f"body[data-{after}]").wait_for(state="attached", timeout=SECONDS)
    before = sum(renderers(browser).values())
    page.click("#panel-pair button.main")
    page.locator("#answer .first").wait_for(timeout=SECONDS)
    return sum(renderers(browser).values()) - before


def measured(rounds: int, work: Path) -> list[Row]:
    parts = runtime.load(PARTS)
    size = site.write(work / "www", parts)
    (work / "www/plain").mkdir()
    for name, data in parts.pyodide.items():
        (work / "www/plain" / name).write_bytes(data)
    (work / "www/plain.html").write_text(PLAIN_PAGE, encoding="utf-8")
    (work / "www/plain.js").write_text(PLAIN_SCRIPT, encoding="utf-8")
    (work / "www/plain.mjs").write_text(PLAIN_WORKER, encoding="utf-8")
    folders = models.folders(work / "pair", WORDS)
    handler = partial(QuietHandler, directory=str(work / "www"))
    ours = plain = again = answered = early = float("inf")
    memory = 0
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, launched() as browser:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        for _ in range(rounds):
            with browser.new_context() as context:
                plain = min(plain, ready(context.new_page(), url + "plain.html"))
            with browser.new_context() as context:
                page = context.new_page()
                ours = min(ours, ready(page, url))
                answered = min(answered, verdict(browser, page, folders, "kept"))
                memory = max(memory, resident(browser))
                page.evaluate("navigator.serviceWorker.ready.then(() => true)")
                again = min(again, ready(page, url))
                verdict(browser, page, folders, "warm")
                memory = max(memory, resident(browser))
            with browser.new_context() as context:
                page = context.new_page()
                page.goto(url)
                early = min(early, verdict(browser, page, folders, "ready"))
                memory = max(memory, resident(browser))
        server.shutdown()
    command = Command(
        sys.executable, "-m", "draftcheck", "pair", *folders, "--quiet", codes=(0, 1, 3)
    )
    alone = cpu_seconds({"command": command}, rounds)["command"]
    return [
        Row("page ready / plain Pyodide", ours, plain, 1.5, "s"),
        Row("second visit ready / plain Pyodide", again, plain, 0.5, "s"),
        Row("verdict on two vocabularies / command line", answered, alone, 4.0, "s"),
        Row("the same, asked when the page is ready", early, alone, 4.0, "s"),
        Row("memory of the page and its worker", memory / 1e6, 400, 1.0, "MB"),
        Row("the site", size / 1e6, 15, 1.0, "MB"),
    ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        count = int(sys.argv[1]) if len(sys.argv) > 1 else 3
        sys.exit(show(measured(count, Path(folder))))
