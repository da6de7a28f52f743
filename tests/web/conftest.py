"""The checker's site on loopback, below a path, with the loopback Hub as its Hub.

Its worker runs under Node for all that is said, and in Chromium for what only a browser does.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from draftcheck.web import answers, runtime, site
from tests.chromium import DESK
from tests.conftest import ROOT, Ran, Run
from tests.hub import Hub

PARTS = Path(os.environ.get("DRAFTCHECK_WEB_RUNTIME") or ROOT / ".web")
BELOW = "some/path"
SIDES = ("target", "draft")
EARLY = "qzxj-early-bird\ndraft model vocab type must match target model to use speculation"
"""A question that is asked before Python is there."""
OTHER_PYTHON = re.compile(r"(?: JSON|inspect writes): [^\"\\]*")
"""What Python itself says of a fault is another sentence in another version."""
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


class NodeWorker:
    """The page's worker as a process of Node; as the page does, it is asked one thing at a time."""

    def __init__(self, node: str, site: Path) -> None:
        self.start = ""
        script = Path(__file__).with_name("node_worker.mjs")
        self.process = subprocess.Popen(
            [node, script, site], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )

    def ask(
        self, kind: str = "pair", files: dict[str, list[Path]] | None = None, token: str = "",
        **fields: str,
    ) -> dict[str, Any]:  # fmt: skip
        """Exit code, first line, JSON, and the bytes that were read of files."""
        given = {side: [str(path) for path in (files or {}).get(side, ())] for side in SIDES}
        asked = {"id": 1, "question": {"kind": kind, **fields}, "files": given, "token": token}
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            told = json.loads(line)
            assert "failed" not in told and "broke" not in told, told
            if told.get("ready"):
                self.start = "again" if told.get("again") else "first"
            if told.get("id"):
                found: dict[str, Any] = {**told["answer"], "sliced": told["sliced"]}
                found["json"] = json.loads(found["json"]) if found["json"] else None
                return found
        raise AssertionError("the worker ended")

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="session")
def worker(checker: CheckerSite) -> Iterator[NodeWorker]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node")
    made = NodeWorker(node, checker.folder)
    yield made
    made.close()


class Dropped:
    """Models as folders of a command line and as files of the page, under the same names."""

    def __init__(self, folder: Path, worker: NodeWorker, run: Run) -> None:
        self.folder, self.worker, self.run = folder, worker, run

    def ask(self, *models: Path, **fields: str) -> tuple[dict[str, Any], Ran]:
        """What both say of a target, or a pair: a file, or all plain files of a folder."""
        given, names = {}, []
        for side, model in zip(SIDES, models, strict=False):
            place = self.folder / side
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            inside = sorted(model.iterdir()) if model.is_dir() else [model]
            for file in inside:
                if file.is_file() and not file.is_symlink():
                    (place / file.name).hardlink_to(file)
            given[side] = found = sorted(place.iterdir())
            alone = len(found) == 1 and found[0].name.endswith(answers.MODELS)
            names.append(f"{side}/{found[0].name}" if alone else side)
        options = [word for name, value in fields.items() for word in (f"--{name}", value)]
        found = self.worker.ask(files=given, **fields)
        return found, self.run("pair", *names, *options, "--format", "json")

    def assert_same(self, *models: Path, **fields: str) -> dict[str, Any]:
        found, wanted = self.ask(*models, **fields)
        where = f"{models}: {wanted.code} {wanted.err} {found['code']} {found['first']}"
        assert found["code"] == wanted.code, where
        if wanted.out:
            ours, theirs = (
                OTHER_PYTHON.sub("", json.dumps(s)) for s in (found["json"], wanted.json)
            )
            assert json.loads(ours) == json.loads(theirs), where
        else:
            says = wanted.err.splitlines()[0].removeprefix("error: ")
            assert found["json"] is None and OTHER_PYTHON.split(says)[0] in found["first"], where
        return found


@pytest.fixture
def dropped(
    worker: NodeWorker, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Dropped:
    (tmp_path / "dropped").mkdir()
    monkeypatch.chdir(tmp_path / "dropped")
    return Dropped(tmp_path / "dropped", worker, run)


class CheckerPage:
    """The page as somebody uses it; at the end nothing was logged and nobody else asked."""

    def __init__(self, browser: Any, made: CheckerSite, query: str = "", **options: Any) -> None:
        self.site, self.complaints = made, list[str]()
        self.asked = set[str]()
        self.early = dict[str, Any]()
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

    def kept(self) -> None:
        """Wait until all is there that the next visit needs."""
        self.page.locator("body[data-kept][data-warm]").wait_for(timeout=SECONDS)
        self.page.evaluate("navigator.serviceWorker.ready.then(() => true)")

    @property
    def start(self) -> str:
        found: str = self.page.locator("body[data-ready]").get_attribute("data-start")
        return found

    def ask(self, kind: str = "pair", **fields: str) -> dict[str, Any]:
        """Fill the fields, press the button, wait: exit code, first line, JSON."""
        self.fill(kind, **fields)
        self.page.click(f"#panel-{kind} button.main")
        return self.answer()

    def fill(self, kind: str, **fields: str) -> None:
        """The fields of a tab; those that are not named are emptied."""
        self.page.click(f"#tab-{kind}")
        for box in self.page.locator(f"#panel-{kind} :is(input[name], textarea):enabled").all():
            box.fill(fields.get(box.get_attribute("name"), ""))

    def give(self, **sides: Sequence[Path]) -> None:
        """Files for a side; an empty list takes them away."""
        self.page.click("#tab-pair")
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
    """One page for many questions: starting Python takes seconds.

    They are asked on a second visit; the first has a question before Python is there.
    """
    page = CheckerPage(browser, checker, permissions=["clipboard-read", "clipboard-write"])
    page.early = page.ask("why", text=EARLY)
    page.kept()
    page.page.goto(checker.url)
    yield page.ready()
    page.close()


@pytest.fixture
def page(open_page: CheckerPage) -> Iterator[CheckerPage]:
    open_page.site.hub.reset()
    yield open_page
    open_page.give(target=[], draft=[])
