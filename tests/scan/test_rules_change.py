"""A changed rule or a newer engine judges stored facts again, and is named as the cause."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT, Ran
from tests.hub import Hub
from tests.hub.process import Draftcheck, assert_calm
from tests.scan.world import TARGET, checkpoint, results

pytest.importorskip("huggingface_hub")
RULE = """
[[rule]]
id = "VLL999"
slug = "made-up"
title = "Made up for a test"
methods = ["draft_model"]
check = "relation_is"
params = { bad = "identical" }
since = "99.0.0"
severity = "error"
reaction = "refuses"
why = "a test"
fix = "none"
source = "a test"
basis = "read"
"""


class Copy:
    """draftcheck with rules of its own, and a store that it scans into."""

    def __init__(self, hub: Hub, folder: Path) -> None:
        self.rules = folder / "copy" / "rules"
        ignore = shutil.ignore_patterns("__pycache__")
        for name in ("draftcheck", "rules"):
            shutil.copytree(ROOT / name, folder / "copy" / name, ignore=ignore)
        self.store = folder / "store.db"
        self._run = Draftcheck(hub, folder / "home", PYTHONPATH=str(folder / "copy"))

    def scan(self, *more: str) -> Ran:
        ran = self._run(
            "scan", "--target", TARGET, "--store", self.store, "--format", "json", "--quiet", *more
        )
        assert_calm(ran)
        return ran

    def edit(self, old: str, new: str) -> None:
        path = self.rules / "engines" / "vllm.toml"
        text, count = re.subn(old, new, path.read_text(), count=1, flags=re.MULTILINE)
        assert count == 1
        path.write_text(text)


@pytest.fixture
def copy(hub: Hub, tmp_path: Path) -> Copy:
    return Copy(hub, tmp_path)


def test_what_broke_and_why(hub: Hub, copy: Copy) -> None:
    copy.scan()
    hub.reset()
    copy.edit(r"\Z", RULE)
    ran = copy.scan("--offline")
    assert ran.json["changes"] == [], "the rule is for a later version"
    assert ran.json["scan"]["counts"]["verdicts"] > 0
    copy.edit(r'^checked = "[^"]+"', 'checked = "99.0.0"')
    changes = copy.scan("--offline").json["changes"]
    assert {(c["kind"], c["engine"], c["cause"]) for c in changes} == {
        ("broke", "vllm", "engine-version")
    }
    assert {c["draft"] for c in changes} == {f"org/draft-{number}" for number in range(4)}
    assert all(re.search(r"version \S+ became 99\.0\.0; VLL999: ", c["why"]) for c in changes)
    copy.edit('params = { bad = "identical" }', 'params = { bad = "differs" }')
    changes = copy.scan("--offline").json["changes"]
    assert {(c["kind"], c["before"], c["cause"]) for c in changes} == {
        ("works", "incompatible", "rule")
    }
    assert hub.log == [], "rules are no reason to ask the Hub"
    assert [number for number, _ in results(copy.store)["scans"]] == [1, 2, 3, 4]


def test_other_questions(hub: Hub, copy: Copy) -> None:
    """An engine less, an engine more, another deployment."""
    copy.scan("--engine", "vllm")
    more = copy.scan("--offline", "--engine", "vllm", "--engine", "transformers").json["changes"]
    assert {(c["kind"], c["engine"], c["cause"]) for c in more} == {
        ("new", "transformers", "newly-asked")
    }
    less = copy.scan("--offline", "--engine", "transformers").json["changes"]
    assert {(c["kind"], c["engine"], c["cause"]) for c in less} == {("gone", "vllm", "not-asked")}
    big = copy.scan("--offline", "--engine", "transformers", "--gpu", "1MiB").json["changes"]
    assert {c["cause"] for c in big} <= {"settings"}


def test_files_and_rules_in_one_night(hub: Hub, copy: Copy) -> None:
    """Each change has the cause that alone would have brought it about."""
    pins = [word for n in (0, 1) for word in ("--pin", TARGET, f"org/draft-{n}")]
    copy.scan(*pins)
    copy.edit(r"\Z", RULE)  # changes nothing yet
    hub.repos["org/draft-0"].commit(checkpoint(seed=1))
    changes = copy.scan(*pins).json["changes"]
    assert {(c["draft"], c["cause"]) for c in changes} == {("org/draft-0", "draft-files")}
    assert "vllm" in {c["engine"] for c in changes}
    copy.edit('since = "99.0.0"\n', "")
    hub.repos["org/draft-1"].commit({"config.json": config(), "README.md": "#"}, keep=True)
    changes = copy.scan(*pins).json["changes"]
    causes = {(c["draft"], c["engine"]): c["cause"] for c in changes if c["kind"] == "broke"}
    assert causes["org/draft-1", "vllm"] == "rule"


def config() -> str:
    """Other files, but nothing that a verdict would mind."""
    return str(checkpoint(layers=2)["config.json"]).replace("131072", "262144")
