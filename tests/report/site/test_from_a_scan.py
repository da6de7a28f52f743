"""Two real nights against a Hub, then the report of them."""

from __future__ import annotations

import json
from pathlib import Path

from draftcheck.report.site import words
from tests.hub import Hub
from tests.hub.process import Draftcheck
from tests.scan.world import TARGET, checkpoint, populate

ENGINES = ("--engine", "vllm", "--engine", "llama.cpp", "--engine", "transformers")


def test_what_two_nights_found_is_on_the_pages(tmp_path: Path) -> None:
    store, folder = tmp_path / "scan.db", tmp_path / "out"
    night = ("scan", "--store", store, "--target", TARGET, "--gpu", "24GiB", *ENGINES)
    with Hub() as hub:
        # In a process of its own: the Hub's library reads its settings once.
        run = Draftcheck(hub, tmp_path / "home")
        populate(hub)
        assert run(*night, "--pin", TARGET, "org/draft-1").code == 0
        site = run("report", "--store", store, "--output", folder)
        assert site.code == 0 and site.out.splitlines() == [str(folder / "index.html")]
        first = json.loads((folder / "data.json").read_text(encoding="utf-8"))
        hub.add_repo("org/draft-1", checkpoint(seed=1))  # another tokenizer
        assert run(*night, "--pin", TARGET, "org/draft-1").code == 1
        ran = run("report", "--store", store, "--output", folder, "--title", "Our drafts")
        assert ran.code == 0, ran.err
        there = ("report", "--store", store, "--output", tmp_path / "there", "--gpu")
        assert run(*there, "h200", "--sequences", "16").code == 0
        assert run(*there, "no such card").code == 2
    assert [column["asked"] for column in first["engines"]] == ["vllm", "llama.cpp", "transformers"]
    drafts = [pair["draft"] for pair in first["pairs"]]
    assert drafts[:4] == [f"org/draft-{number}" for number in range(4)]  # cheapest first
    costs = [pair["break_even_acceptance"] for pair in first["pairs"][:4]]
    assert costs == sorted(costs) and costs[0] > 0
    assert first["pairs"][0]["memory"]["answer"] == "fits"
    page = (folder / words.target_page(TARGET)).read_text(encoding="utf-8")
    assert "pays from" in page
    assert page.index("Switch it on with vllm") < page.index("Switch it on with llama.cpp")
    overview = (folder / "index.html").read_text(encoding="utf-8")
    assert "Our drafts" in overview and "org/draft-1" in overview
    assert "1 pinned pair is broken." in overview
    changes = (folder / "changes.html").read_text(encoding="utf-8")
    assert "org/draft-1" in changes and "pinned" in changes
