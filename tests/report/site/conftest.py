"""One small site and one of full size, written once from stores by the real command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from draftcheck.cli import main
from draftcheck.report.site import pages
from draftcheck.report.site.data import SiteData
from tests.report.site.made_up import make
from tests.report.site.stores import fill


@dataclass(frozen=True)
class Written:
    """A site that lies in a folder, and what it was made from."""

    site: SiteData
    store: Path
    folder: Path

    def text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def pages(self) -> list[Path]:
        return sorted(self.folder.glob("*.html"))


def written(site: SiteData, folder: Path) -> Written:
    store = fill(folder / "scan.db", site)
    output = folder / "out"
    assert main(["report", "--store", str(store), "--output", str(output)]) == 0
    return Written(site, store, output)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Few targets, hostile names among them, every draft held against every target."""
    with pytest.MonkeyPatch.context() as patch:  # links lead to the Hub, whoever asks first
        patch.delenv("HF_ENDPOINT", raising=False)
        return written(make(6, 48), tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """18 x 300, each pair judged on every engine."""
    site, folder = make(18, 300), tmp_path_factory.mktemp("large")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("HF_ENDPOINT", raising=False)
        pages.write(site, folder)
    return Written(site, folder, folder)
