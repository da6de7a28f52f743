"""The browser that tests look at pages with, where there is one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = os.environ.get("DRAFTCHECK_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip
PHONE, DESK = {"width": 375, "height": 812}, {"width": 1280, "height": 900}


@contextmanager
def launched() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium: install one, or name it with DRAFTCHECK_CHROMIUM")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield found
        found.close()


def axe_violations(page: Any) -> list[str]:
    """What axe-core finds; it is evaluated from outside, past the page's policy."""
    folder = os.environ.get("DRAFTCHECK_WEB_RUNTIME") or Path(__file__).parent.parent / ".web"
    axe = Path(folder) / "package" / "axe.min.js"
    if not axe.is_file():
        pytest.skip("no axe-core: make web-runtime")
    page.evaluate(f"() => {{ {axe.read_text(encoding='utf-8')} }}")
    found = page.evaluate("axe.run()")["violations"]
    return [f"{row['id']}: {row['nodes'][0]['html']}" for row in found]


def sideways(page: Any) -> int:
    """Pixels by which a page can be moved sideways."""
    found: int = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return found
