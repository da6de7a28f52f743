"""Docs that hold: what they show is what is printed, examples run, and the site builds."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.chromium import PHONE, sideways
from tests.conftest import ROOT
from tests.docs import printed

SCREEN = 48
"""Lines of a README that somebody sees before scrolling, on a large screen."""


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that examples speak of."""
    folder = tmp_path_factory.mktemp("reader")
    printed.fill(folder)
    return folder


@pytest.mark.parametrize(
    "page",
    [page for page in printed.PAGES if "<!-- run" in page.read_text(encoding="utf-8")],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_shown_is_what_is_printed(
    page: Path, reader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = page.read_text(encoding="utf-8")
    assert text.count("<!-- run") == len(printed.BLOCK.findall(text)), "a mark without a block"
    assert printed.refreshed(text, reader) == text, "python -m tests.docs.printed"


def test_the_readme_begins_with_a_good_and_a_bad_answer() -> None:
    first = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:SCREEN]
    asked = [at for at, line in enumerate(first) if line.startswith("$ draftcheck pair")]
    answers = [first[at + 1].partition(":")[0] for at in asked]
    assert answers == ["compatible", "incompatible"]
    assert [line.split("#")[0].strip() for line in first if line.startswith("$ make")] == [
        "$ make demo",
        "$ make test",
    ]


def test_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(links) > 20 and not [link for link in links if not (ROOT / link).exists()]


def test_python_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = ROOT / "docs" / "start" / "python.md"
    found = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert found.attempted > 4 and not found.failed


@pytest.mark.transformers
def test_the_notebook_shows_what_its_cells_give() -> None:
    for name in ("torch", "transformers"):
        pytest.importorskip(name, reason="the trial extra is not installed")
    text = printed.NOTEBOOK.read_text(encoding="utf-8")
    code = "import sys; from tests.docs import printed; print(printed.run_cells(sys.stdin.read()))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, input=text, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == text + "\n", "python -m tests.docs.printed"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("material") is None or find_spec("mkdocs") is None:
        pytest.skip("mkdocs-material is not installed: pip install 'draftcheck-llm[docs]'")
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_builds_with_every_page_and_every_link(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    for page in pages:
        index = page.name in ("index.md", "README.md")
        built = page.parent if index else page.with_suffix("")
        assert (site / built / "index.html").is_file(), page
    assert (site / "notebook.ipynb").is_file()


@pytest.mark.browser
def test_the_site_is_read_on_a_phone_and_asks_nobody_else(site: Path, browser: object) -> None:
    context = browser.new_context(viewport=PHONE)  # type: ignore[attr-defined]
    page, asked = context.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    for name in ("index.html", "start/vllm/index.html", "commands/index.html", "gate/index.html"):
        page.goto((site / name).as_uri())
        assert sideways(page) <= 0, name
    context.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
