"""Night after night: what is asked of the Hub, what changes, and why."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import Ran
from tests.hub import Hub
from tests.hub.process import Draftcheck, assert_calm
from tests.scan.world import TARGET, checkpoint, results

pytest.importorskip("huggingface_hub")
DRAFTS = [f"org/draft-{number}" for number in range(4)]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def scan(draftcheck: Draftcheck, store: Path, *more: object, code: int = 0) -> Ran:
    ran = draftcheck(
        "scan", "--target", TARGET, "--store", store, "--format", "json", "--quiet", *more
    )
    assert_calm(ran)
    assert ran.code == code, ran.err + ran.out
    return ran


def changed(ran: Ran, kind: str) -> set[tuple[str | None, str]]:
    return {(c["draft"], c["cause"]) for c in ran.json["changes"] if c["kind"] == kind}


def test_the_first_night(hub: Hub, draftcheck: Draftcheck, store: Path) -> None:
    ran = scan(draftcheck, store)
    assert ran.json["changes"] == []
    [target] = ran.json["targets"]
    assert target["usable_drafts"] == len(DRAFTS) + 1, results(store)["rejected"]
    found = results(store)
    drafts = {row.draft for row in found["verdicts"]}
    assert drafts == {None, *DRAFTS, "org/tuned"}
    tuned = {row.relation for row in found["verdicts"] if row.draft == "org/tuned"}
    assert tuned == {"specials-differ"}
    why = {row.repo: (row.stage, row.why) for row in found["rejected"]}
    assert why["other/small"] == ("digest", "the vocabulary of no target")
    assert why["junk/readme"][0] == "listing" and why["junk/adapter"][0] == "listing"
    assert why["junk/picture"] == ("listing", "a model for text-to-image")
    assert not hub.leaks


def test_what_pair_says_is_what_the_store_says(
    hub: Hub, draftcheck: Draftcheck, store: Path
) -> None:
    scan(draftcheck, store)
    found = results(store)["verdicts"]
    for draft in ("org/draft-1", "org/tuned"):
        pair = draftcheck("pair", TARGET, draft, "--format", "json").json
        stored = {row.engine: row for row in found if row.draft == draft}
        assert stored.keys() == {entry["engine"] for entry in pair["engines"]}
        for entry in pair["engines"]:
            row = stored[entry["engine"]]
            said = (entry["verdict"], entry["reaction"], entry["method"], entry["decided_by"])
            assert (row.verdict, row.reaction, row.method, row.decided_by) == said
            assert row.setup == entry["setup"]
            failed = [(f["rule"], f["saw"]) for f in entry["findings"] if f["outcome"] != "ok"]
            assert [(saw.rule, saw.saw) for saw in row.findings] == failed


def test_a_night_with_nothing_new_is_a_listing(
    hub: Hub, draftcheck: Draftcheck, store: Path
) -> None:
    scan(draftcheck, store)
    before = results(store)
    hub.reset()
    ran = scan(draftcheck, store)
    assert [entry.path for entry in hub.log] == ["/api/models"], hub.story()
    after = results(store)
    assert after["verdicts"] == before["verdicts"] and ran.json["changes"] == []


def test_a_new_commit_without_new_files_costs_one_request(
    hub: Hub, draftcheck: Draftcheck, store: Path
) -> None:
    scan(draftcheck, store)
    hub.repos["org/draft-1"].commit({**checkpoint(layers=2), "README.md": "# New words\n"})
    hub.reset()
    ran = scan(draftcheck, store)
    assert len(hub.log) == 2, hub.story()
    assert ran.json["changes"] == [] and "verdicts" not in ran.json["scan"]["counts"]
    [model] = [m for m in results(store)["models"] if m.ref == "org/draft-1"]
    assert model.revision == hub.repos["org/draft-1"].sha


def test_new_models_vanished_ones_and_other_files(
    hub: Hub, draftcheck: Draftcheck, store: Path
) -> None:
    scan(draftcheck, store)
    hub.add_repo("org/newcomer", checkpoint(layers=3))
    del hub.repos["org/draft-0"]
    hub.repos["org/draft-1"].commit(checkpoint(seed=1))  # another vocabulary
    ran = scan(draftcheck, store)
    assert changed(ran, "new") == {("org/newcomer", "new-model")}
    assert ("org/draft-0", "vanished") in changed(ran, "gone")
    assert ("org/draft-1", "draft-files") in changed(ran, "gone")
    assert not {row.draft for row in results(store)["verdicts"]} & {"org/draft-0", "org/draft-1"}


def test_a_repo_with_a_new_name(hub: Hub, draftcheck: Draftcheck, store: Path) -> None:
    scan(draftcheck, store)
    hub.rename("org/draft-0", "org/renamed")
    ran = scan(draftcheck, store)
    assert changed(ran, "gone") == {("org/draft-0", "vanished")}
    assert changed(ran, "new") == {("org/renamed", "new-model")}
    [why] = {c["why"] for c in ran.json["changes"] if c["kind"] == "gone"}
    assert why == "org/draft-0 is called org/renamed now"


def test_a_page_that_overlooks_a_repo(hub: Hub, draftcheck: Draftcheck, store: Path) -> None:
    """Between two pages the order changed: what was not listed is asked for by name."""
    scan(draftcheck, store)

    def without(body: bytes) -> bytes:
        rows = [row for row in json.loads(body) if row["id"] != "org/draft-0"]
        return json.dumps(rows).encode()

    hub.fault("edit", path="/api/models", do=without)
    ran = scan(draftcheck, store)
    assert ran.json["changes"] == []
    assert "org/draft-0" in {row.draft for row in results(store)["verdicts"]}


def test_a_model_that_turns_gated(hub: Hub, draftcheck: Draftcheck, store: Path) -> None:
    scan(draftcheck, store)
    hub.repos["org/draft-2"].gated = "manual"
    config = str(checkpoint(layers=3)["config.json"]).replace("131072", "65536")
    hub.repos["org/draft-2"].commit({**checkpoint(layers=3), "config.json": config})
    ran = scan(draftcheck, store)
    assert changed(ran, "unclear") == {("org/draft-2", "gated")}


def test_a_repo_that_vanishes_between_listing_and_reading(
    hub: Hub, draftcheck: Draftcheck, store: Path
) -> None:
    hub.fault("call", path="/api/models/org/draft-3/*", do=lambda: hub.repos.pop("org/draft-3"))
    scan(draftcheck, store)
    found = results(store)
    [why] = [row for row in found["rejected"] if row.repo == "org/draft-3"]
    assert "no such repo" in why.why
    assert {row.draft for row in found["verdicts"]} == {None, *DRAFTS[:3], "org/tuned"}


def test_a_repo_that_lies_about_its_files(hub: Hub, draftcheck: Draftcheck, store: Path) -> None:
    hub.fault("corrupt", file="org/draft-3/config.json", times=None)
    ran = scan(draftcheck, store)
    [problem] = ran.json["problems"]
    assert problem["model"] == "org/draft-3" and "digest" in problem["saw"]
    hub.reset()
    scan(draftcheck, store)
    assert len(hub.log) == 1, "the same commit lies again: not asked twice\n" + hub.story()
    scan(draftcheck, store, "--retry")
    assert "org/draft-3" in {row.draft for row in results(store)["verdicts"]}


def test_a_list_of_many_pages_in_bad_weather(hub: Hub, draftcheck: Draftcheck, store: Path) -> None:
    hub.list_page = 3
    hub.fault("cut_json", path="/api/models", nth=2, times=3)
    ran = scan(draftcheck, store)
    assert ran.json["scan"]["counts"]["listed"] == len(hub.repos)
    hub.reset()
    assert scan(draftcheck, store, "--limit", "5").json["scan"]["counts"]["listed"] == 5


def test_weather_over_a_target_loses_nothing(hub: Hub, draftcheck: Draftcheck, store: Path) -> None:
    """It is not in the part of the Hub that is listed, and cannot be asked for by name."""
    listed = ("--search", "draft")
    scan(draftcheck, store, *listed)
    before = results(store)["verdicts"]
    hub.fault("drop", path=f"/api/models/{TARGET}*", times=None)
    ran = scan(draftcheck, store, *listed, code=3)
    assert "broke" in ran.json["targets"][0]["problem"] and ran.json["changes"] == []
    assert results(store)["verdicts"] == before
    hub.reset()
    assert scan(draftcheck, store, *listed).json["targets"][0]["problem"] is None


def test_damage_on_the_way_is_not_held_against_a_repo(
    hub: Hub, draftcheck: Draftcheck, store: Path
) -> None:
    hub.fault("corrupt", file="org/draft-3/config.json", times=2)  # as often as it is asked for
    assert scan(draftcheck, store).json["problems"] == []
    assert "org/draft-3" in {row.draft for row in results(store)["verdicts"]}


def test_weather_is_tried_again_the_next_night(
    hub: Hub, draftcheck: Draftcheck, store: Path
) -> None:
    hub.fault("status", file="org/draft-3/config.json", times=None, code=404)
    hub.fault("drop", path="/api/models/org/draft-2/*", times=None)
    scan(draftcheck, store)
    hub.reset()
    scan(draftcheck, store)
    assert "org/draft-2" in {row.draft for row in results(store)["verdicts"]}


def test_names_that_no_repo_can_have(hub: Hub, draftcheck: Draftcheck, store: Path) -> None:
    for name in ("evil/<script>", "evil/\x1b]0;x\x07", "evil/../x", "evil/a b"):
        hub.add_repo(name, checkpoint(layers=1))
    ran = draftcheck("scan", "--target", TARGET, "--store", store)
    assert_calm(Ran(ran.code, ran.out, ""))
    assert ran.code == 0 and "\x1b" not in ran.out + ran.err
    assert not [row for row in results(store)["models"] if "evil" in row.ref]


def test_a_pinned_pair_that_breaks(hub: Hub, draftcheck: Draftcheck, store: Path) -> None:
    pin = ("--pin", TARGET, "org/draft-1")
    ran = scan(draftcheck, store, *pin)
    assert ran.json["pins"][0]["verdict"] == "compatible"
    hub.repos["org/draft-1"].commit(checkpoint(seed=1))
    ran = scan(draftcheck, store, *pin, code=1)
    assert ran.json["pins"][0]["verdict"] == "incompatible"
    assert ("org/draft-1", "draft-files") in changed(ran, "broke")
    assert all(c["pinned"] for c in ran.json["changes"] if c["draft"] == "org/draft-1")
    text = draftcheck("scan", "--target", TARGET, *pin, "--store", store, "--quiet")
    assert text.code == 1 and "pinned org/large + org/draft-1: incompatible" in text.out


def test_a_pinned_pair_that_gets_worse_comes_first_and_is_told_in_texts(
    hub: Hub, draftcheck: Draftcheck, store: Path
) -> None:
    """Only llama.cpp drops it: the pair still works, yet somebody relied on it there."""
    asked = ("scan", "--target", TARGET, "--store", store, "--quiet")
    pins = ("--pin", TARGET, "org/draft-0", "--pin", TARGET, "org/draft-1")
    first = draftcheck(*asked, *pins)
    count = len(DRAFTS) + 1
    assert first.out.splitlines()[0] == (
        f"the first scan: {count} usable drafts for 1 target in {len(hub.repos)} repos"
    )
    same = draftcheck(*asked, *pins)
    assert same.out.splitlines()[0] == f"nothing changed in {len(hub.repos)} repos"
    files = checkpoint(layers=2)
    tokenizer = json.loads(files["tokenizer.json"])
    last = tokenizer["added_tokens"].pop()
    files["tokenizer.json"] = json.dumps(tokenizer).encode()
    hub.repos["org/draft-1"].commit(files)
    ran = draftcheck(*asked, *pins)
    lines = ran.out.splitlines()
    assert ran.code == 0 and lines[0].startswith("1 pinned pair got worse: org/large + org/draft-1")
    assert "incompatible on llama.cpp" in lines[0]
    pinned = [line for line in lines if line.startswith("pinned ")]
    assert "org/draft-1: degraded, worse on 11 engines" in pinned[0], "the worse one first"
    assert "worse" not in pinned[1]
    assert f"token {last['id']} is '{last['content']}' in the target" in ran.out
    again = draftcheck(*asked, *pins, "--format", "json")
    assert not re.search(r"~[0-9a-f]{16}", ran.out + again.out + str(results(store)))


def test_time_that_runs_out_is_no_loss(hub: Hub, draftcheck: Draftcheck, store: Path) -> None:
    whole = draftcheck.home.parent / "whole.db"
    scan(draftcheck, whole)
    hub.fault("delay", path="/api/models/org/draft-*", times=None, seconds=0.4)
    for name in hub.repos:
        hub.repos[name].downloads += 1
    slow = Draftcheck(hub, draftcheck.home.parent / "slow")
    ran = slow("scan", "--target", TARGET, "--store", store, "--max-time", "1.5", "--connections",
               "1", "--format", "json")  # fmt: skip
    assert ran.code in (0, 3)
    assert ran.json["scan"]["state"] == "partial"
    hub.reset()
    ran = scan(draftcheck, store)
    assert ran.json["scan"]["state"] == "complete" and ran.json["scan"]["number"] == 1
    assert results(store)["verdicts"] == results(whole)["verdicts"]
