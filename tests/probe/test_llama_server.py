"""llama-server: what a real one answered (recorded/llama_server.json), played again."""

from __future__ import annotations

import json
import re
import time
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import Run
from tests.probe.conftest import RECORDED, Ask, Serve, two
from tests.probe.server import answer


def causes(body: dict[str, Any]) -> list[str]:
    return [cause["id"] for cause in body["causes"]]


def test_a_draft_at_work(ask: Ask) -> None:
    ran = ask(RECORDED["draft"]["served"])
    assert ran.code == 0
    body = ran.json
    assert body["schema_version"] == 1
    assert (body["state"], body["engine"], body["method"]) == (
        "speculating",
        "llama.cpp",
        "draft-simple",
    )
    assert body["version"].startswith("b1-")
    since = body["since_start"]
    assert (since["drafts"], since["drafted_tokens"], since["accepted_tokens"]) == (68, 199, 72)
    assert since["acceptance_rate"] == pytest.approx(72 / 199)
    assert since["mean_accepted_length"] == pytest.approx(1 + 72 / 68)
    assert since["acceptance_by_position"] == pytest.approx([36 / 68, 23 / 68, 13 / 68])
    assert since["conditional_by_position"] == pytest.approx([36 / 68, 23 / 36, 13 / 23])


def test_before_the_first_request_its_own_word_counts(ask: Ask) -> None:
    ran = ask(RECORDED["draft"]["fresh"])
    assert ran.code == 0 and ran.json["state"] == "speculating"
    assert ran.json["since_start"]["acceptance_rate"] is None


def test_without_metrics_acceptance_is_not_told(ask: Ask) -> None:
    ran = ask(RECORDED["draft, no metrics"]["served"])
    assert ran.code == 0 and ran.json["since_start"] is None
    assert any("--metrics" in note for note in ran.json["notes"])


@pytest.mark.parametrize(
    ("session", "look", "expected"),
    [
        ("-md only", "fresh", ["off", "off", "off"]),
        ("unfit draft", "fresh", ["off", "off", "off"]),
        ("no draft", "fresh", ["off", "off", "off"]),
        ("-md only", "served", ["not-asked", "not-asked"]),
        ("no draft", "served", ["not-asked", "not-asked"]),
        ("unfit draft", "served", ["dropped"]),
    ],
)
def test_not_speculating_and_why(ask: Ask, session: str, look: str, expected: list[str]) -> None:
    """After one request the slots tell an unfit draft from one never asked for."""
    ran = ask(RECORDED[session][look])
    assert ran.code == 1 and ran.json["state"] == "not-speculating"
    assert causes(ran.json) == expected
    assert any("draftcheck pair" in cause["fix"] or "--spec-type" in cause["fix"]
               for cause in ran.json["causes"])  # fmt: skip


@pytest.mark.parametrize(
    ("build", "words"),
    [
        ("b9464-abc", ["-md alone", "does not fit", "No draft was given"]),
        ("b9463-abc", ["does not fit", "No draft was given"]),
        ("b9108-abc", ["No draft was given"]),
        ("b0-unknown", ["-md alone", "does not fit", "No draft was given"]),
        ("my-own-build", ["-md alone", "does not fit", "No draft was given"]),
    ],
)
def test_causes_by_build(ask: Ask, build: str, words: list[str]) -> None:
    routes = dict(RECORDED["no draft"]["fresh"])
    routes["/props"] = answer({"build_info": build})
    found = [cause["text"] for cause in ask(routes).json["causes"]]
    assert len(found) == len(words)
    assert all(word in text for word, text in zip(words, found, strict=True))


def test_drafts_that_are_never_made(ask: Ask) -> None:
    """p-min 1 filters every draft; the server still says speculative: true."""
    routes = dict(RECORDED["p-min 1"]["served"])
    ran = ask(routes)
    assert (ran.code, ran.json["state"], causes(ran.json)) == (3, "configured", ["never-drafts"])
    metrics = routes["/metrics"]["body"].replace("predicted_total 144", "predicted_total 256")
    ran = ask(routes | {"/metrics": answer(metrics)})
    assert (ran.code, ran.json["state"]) == (1, "not-speculating")
    assert "p-min" in ran.json["causes"][0]["text"]


def test_everything_rejected(ask: Ask) -> None:
    routes = dict(RECORDED["draft"]["served"])
    lines = [
        "llamacpp:tokens_predicted_total 300",
        "llamacpp:spec_decode_num_drafts_total 290",
        "llamacpp:spec_decode_num_draft_tokens_total 870",
        "llamacpp:spec_decode_num_accepted_tokens_total 9",
    ]
    ran = ask(routes | {"/metrics": answer("\n".join(lines))})
    assert (ran.code, ran.json["state"]) == (1, "not-accepting")
    assert causes(ran.json) == ["rejected"]


def test_neither_slots_nor_metrics(ask: Ask) -> None:
    ran = ask(RECORDED["draft, no slots"]["served"])
    assert (ran.code, causes(ran.json)) == (3, ["slots-off"])
    only_metrics = RECORDED["draft, no slots"]["served"] | {
        "/metrics": RECORDED["draft"]["served"]["/metrics"]
    }
    assert ask(only_metrics).code == 0


def test_slots_of_a_build_before_it_told(ask: Ask) -> None:
    routes = RECORDED["draft, no slots"]["served"] | {"/slots": answer([{"id": 0, "n_ctx": 1}, 7])}
    assert causes(ask(routes).json) == ["slots-off"]


def test_a_key_is_wanted(ask: Ask, tmp_path: Any) -> None:
    """Recognised by its header even so."""
    ran = ask(RECORDED["key"]["fresh"])
    assert (ran.code, ran.json["engine"], causes(ran.json)) == (3, "llama.cpp", ["needs-key"])
    assert "--api-key-file" in ran.json["causes"][0]["fix"]
    (tmp_path / "key").write_text("another\n")
    ran = ask(RECORDED["key"]["fresh"], "--api-key-file", tmp_path / "key")
    assert causes(ran.json) == ["key-refused"] and "another" not in ran.out + ran.err


def test_still_loading(ask: Ask) -> None:
    loading = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
    routes = {"*": answer(loading, 503, Server="llama.cpp")}
    for options in ((), ("--prompt", "x"), ("--interval", "0.1")):
        ran = ask(routes, *options)
        assert (ran.code, causes(ran.json)) == (3, ["loading"])


def test_a_sleeping_server_is_not_woken(run: Run, serve: Serve) -> None:
    routes = dict(RECORDED["draft"]["served"])
    routes["/props"] = answer({"build_info": "b11000-abc", "is_sleeping": True})
    fake = serve(routes)
    ran = run("probe", fake.url, "--format", "json")
    assert (ran.code, causes(ran.json)) == (3, ["sleeping"])
    assert ("GET", "/slots") not in fake.asked


def test_a_router(ask: Ask, run: Run, serve: Serve) -> None:
    ran = ask(RECORDED["router"]["empty"])
    assert (ran.code, causes(ran.json)) == (3, ["router"])
    assert "loaded: none" in ran.json["notes"]
    fake = serve(RECORDED["router"]["loaded"])
    ran = run("probe", fake.url, "--format", "json")
    assert (ran.code, ran.json["model"]) == (1, "target")
    assert all("model=" not in path or "autoload=false" in path for _, path in fake.asked)
    assert ask(RECORDED["router"]["loaded"], "--model", "draft").code == 3


def test_an_interval(ask: Ask) -> None:
    routes = two(RECORDED["draft"]["served"], RECORDED["draft"]["later"])
    ran = ask(routes, "--interval", "0.1")
    assert ran.code == 0
    between = ran.json["interval"]
    assert (between["drafts"], between["drafted_tokens"], between["accepted_tokens"]) == (
        13,
        37,
        34,
    )
    assert between["mean_accepted_length"] == pytest.approx(1 + 34 / 13)
    assert between["acceptance_by_position"] == pytest.approx([12 / 13, 11 / 13, 11 / 13])
    assert between["conditional_by_position"] == pytest.approx([12 / 13, 11 / 12, 1])
    assert between["seconds"] > 0


def test_watch(run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer, then a line for each interval, also of an outage; Ctrl-C ends it well."""
    served, later = RECORDED["draft"]["served"], RECORDED["draft"]["later"]
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 5:
            raise KeyboardInterrupt
        routes = {1: later, 2: later, 3: dict.fromkeys(served, answer("no", 503)), 4: served}
        fake.routes = dict(routes[len(waits)])

    timed = SimpleNamespace(sleep=wait, monotonic=time.monotonic)
    monkeypatch.setattr(import_module("draftcheck.probe.run"), "time", timed)
    fake = serve(served)
    ran = run("probe", fake.url, "--watch")
    lines = ran.out.splitlines()
    assert (ran.code, ran.err, waits) == (0, "", [10.0] * 5)
    assert re.match(r"speculating: \d+ % accepted, .* tokens per pass", lines[0])
    at = r"\d\d:\d\d:\d\d  "
    assert re.fullmatch(
        at + r"speculating: 92 % accepted, 3\.62 tokens per pass, 37 tokens drafted", lines[1]
    )
    assert re.fullmatch(at + r"\w+: nothing drafted, 0 tokens generated", lines[2])
    assert re.match(at + "unknown: ", lines[3]) and len(lines[3]) > 30
    assert re.fullmatch(at + r"speculating: no counters to compare \(a restart\?\)", lines[4])
    waits.clear()
    fake.routes = dict(served)
    ran = run("probe", fake.url, "--watch", "0.5", "--format", "json")
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert ran.code == 0 and waits == [0.5] * 5 and len(rows) == 5
    assert rows[1]["interval"]["drafts"] == 13 and rows[1]["time"] and not rows[0]["interval"]
    assert run("probe", fake.url, "--watch", "--prompt", "x").code == 2


def test_an_interval_without_traffic_or_with_a_restart(ask: Ask) -> None:
    still = RECORDED["draft"]["served"]
    ran = ask(two(still, still), "--interval", "0.1")
    assert ran.code == 0 and "nothing was drafted in the interval" in ran.json["notes"]
    ran = ask(two(RECORDED["draft"]["later"], still), "--interval", "0.1")
    assert ran.json["interval"] is None and any("restart" in note for note in ran.json["notes"])
    ran = ask(RECORDED["draft, no metrics"]["served"], "--interval", "0.1")
    assert any("one reading only" in note for note in ran.json["notes"])


def test_an_interval_in_which_it_stopped_drafting(ask: Ask) -> None:
    before = RECORDED["draft"]["served"]
    more = before["/metrics"]["body"].replace("predicted_total 144", "predicted_total 944")
    ran = ask(two(before, before | {"/metrics": answer(more)}), "--interval", "0.1")
    assert (ran.code, ran.json["state"], causes(ran.json)) == (
        1,
        "not-speculating",
        ["never-drafts"],
    )


def test_a_prompt(run: Run, serve: Serve) -> None:
    session = RECORDED["draft, no metrics"]
    fake = serve(
        two(session["fresh"], session["served"]) | {"POST /completion": session["completion"]}
    )
    ran = run("probe", fake.url, "--format", "json", "--prompt", "Dear friend")
    assert ran.code == 0
    prompt = ran.json["prompt"]
    assert (prompt["drafted_tokens"], prompt["accepted_tokens"]) == (37, 34)
    # 13 passes gave 47 tokens; how many of them held a draft is not told.
    assert prompt["mean_accepted_length"] == pytest.approx(47 / 13) and prompt["drafts"] is None
    [sent] = fake.bodies
    assert sent["prompt"] == "Dear friend" and sent["temperature"] == 0 and sent["n_predict"] <= 64
    assert [command for command, _ in fake.asked].count("POST") == 1


@pytest.mark.parametrize(
    ("timings", "expected"),
    [
        ({"predicted_n": 48, "draft_n": 135, "draft_n_accepted": 0}, (1, "not-accepting")),
        ({"predicted_n": 9, "draft_n": 20, "draft_n_accepted": 0}, (3, "unknown")),
        # One draft in 45 passes, mostly right: a strict p-min, not a bad draft.
        ({"predicted_n": 48, "draft_n": 3, "draft_n_accepted": 2}, (0, "speculating")),
        ({"predicted_n": 1, "draft_n": 3, "draft_n_accepted": 3}, (0, "speculating")),
    ],
)
def test_a_prompt_and_its_acceptance(
    ask: Ask, timings: dict[str, int], expected: tuple[int, str]
) -> None:
    routes = RECORDED["draft, no metrics"]["fresh"]
    ran = ask(routes | {"POST /completion": answer({"timings": timings})}, "--prompt", "x")
    assert (ran.code, ran.json["state"]) == expected


def test_a_prompt_that_shows_the_cause(ask: Ask) -> None:
    session = RECORDED["unfit draft"]
    routes = two(session["fresh"], session["served"])
    ran = ask(routes | {"POST /completion": session["completion"]}, "--prompt", "x")
    assert (ran.code, causes(ran.json)) == (1, ["dropped"])


def test_a_prompt_without_a_draft_proves_nothing(ask: Ask) -> None:
    session = RECORDED["n-gram"]
    ran = ask(session["fresh"] | {"POST /completion": session["completion"]}, "--prompt", "x")
    assert (ran.code, ran.json["state"]) == (3, "configured")


def test_a_prompt_that_fails(ask: Ask) -> None:
    ran = ask(RECORDED["draft"]["fresh"] | {"POST /completion": answer({}, 500)}, "--prompt", "x")
    assert (ran.code, causes(ran.json)) == (3, ["prompt-failed"])
    assert any("HTTP 500" in note for note in ran.json["notes"])


def test_no_prompt_unless_one_is_given(run: Run, serve: Serve) -> None:
    fake = serve(RECORDED["draft"]["served"])
    run("probe", fake.url)
    run("probe", fake.url, "--interval", "0.1")
    assert {command for command, _ in fake.asked} == {"GET"}
