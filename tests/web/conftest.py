"""The checker's site on loopback, below a path, with the loopback Hub as its Hub."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from draftcheck.web import runtime, site
from tests.chromium import DESK
from tests.conftest import ROOT
from tests.hub import Hub

PARTS = Path(os.environ.get("DRAFTCHECK_WEB_RUNTIME") or ROOT / ".web")
BELOW = "some/path"
SECONDS = 120_000
"""Milliseconds after which the page counts as hanging."""


@pytest.fixture(scope="session")
def parts() -> Path:
    for part in (runtime.PYODIDE, runtime.MSGSPEC):
        if not (PARTS / part.file).is_file():
            pytest.skip(f"no {part.file}: make web-runtime, or name DRAFTCHECK_WEB_RUNTIME")
    return PARTS


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


class CheckerSite:
    """The written site, where it is served, and the Hub that it asks."""

    def __init__(self, folder: Path, url: str, hub: Hub) -> None:
        self.folder, self.url, self.hub = folder, url, hub


@pytest.fixture(scope="session")
def checker(parts: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckerSite]:
    root = tmp_path_factory.mktemp("www")
    with Hub() as hub, pytest.MonkeyPatch.context() as patch:
        hub.cors, hub.packs = True, False
        patch.setenv("HF_ENDPOINT", hub.url)
        site.write(root / BELOW, runtime.load(parts), storage=[hub.cdn_url])
        handler = partial(QuietHandler, directory=str(root))
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            yield CheckerSite(root / BELOW, f"http://127.0.0.1:{server.server_port}/{BELOW}/", hub)
            server.shutdown()


class CheckerPage:
    """The page as somebody uses it; at the end nothing was logged and nobody else asked."""

    def __init__(self, browser: Any, made: CheckerSite, query: str = "", **options: Any) -> None:
        self.site, self.complaints = made, list[str]()
        self.asked = set[str]()
        self.context = browser.new_context(**{"viewport": DESK, **options})
        self.context.on("request", lambda request: self._note(request.url))
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(made.url + query)

    def _note(self, url: str) -> None:
        if not url.startswith(("blob:", "data:")):
            self.asked.add("/".join(url.split("/")[:3]))

    def ready(self) -> CheckerPage:
        self.page.locator("body[data-ready]").wait_for(timeout=SECONDS)
        return self

    def ask(self, kind: str = "pair", **fields: str) -> dict[str, Any]:
        """Fill the fields, press the button, wait: exit code, first line, JSON."""
        page = self.page
        page.click(f"#tab-{kind}")
        for box in page.locator(f"#panel-{kind} :is(input[name], textarea):enabled").all():
            box.fill(fields.get(box.get_attribute("name"), ""))
        page.click(f"#panel-{kind} button.main")
        return self.answer()

    def give(self, **sides: Sequence[Path]) -> None:
        """Files for a side; an empty list takes them away."""
        for side, files in sides.items():
            remove = self.page.locator(f".side[data-side={side}] .given button")
            if remove.is_visible():
                remove.click()
            if files:
                self.page.set_input_files(f"#{side}-files", list(files))

    def answer(self) -> dict[str, Any]:
        self.page.locator("#answer .first").wait_for(timeout=SECONDS)
        found = self.page.evaluate("({...document.querySelector('#answer').dataset})")
        first = self.page.inner_text("#answer .first")
        said = found.get("json") or ""
        return {
            "code": int(found.get("code", -1)),
            "first": first,
            "json": json.loads(said) if said else None,
        }

    def close(self) -> None:
        self.context.close()
        mine = "/".join(self.site.url.split("/")[:3])
        others = self.asked - {mine, self.site.hub.url, self.site.hub.cdn_url}
        assert not others, f"the page asked {others}"
        assert not self.complaints, self.complaints


@pytest.fixture(scope="session")
def open_page(browser: Any, checker: CheckerSite) -> Iterator[CheckerPage]:
    """One page for many questions: starting Python takes seconds."""
    page = CheckerPage(browser, checker).ready()
    yield page
    page.close()


@pytest.fixture
def page(open_page: CheckerPage) -> Iterator[CheckerPage]:
    open_page.site.hub.reset()
    yield open_page
    open_page.give(target=[], draft=[])
