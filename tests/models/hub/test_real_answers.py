"""What went wrong against recorded answers: mirrors, tokens, limits, lists. Nobody waits here."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftcheck.models.sources.hub import addresses, budget
from draftcheck.models.sources.hub.budget import RequestBudget
from tests.hub import Hub, models
from tests.hub.process import Draftcheck, assert_calm, reason
from tests.models.hub.test_recorded import world

pytest.importorskip("huggingface_hub")
__all__ = ["world"]
PAIR = ("pair", "org/open", "org/draft", "--engine", "vllm")
SCAN = ("scan", "--target", "org/open", "--engine", "vllm", "--limit", "100")
TOKEN = "hf_somebody"
HTML = {"Content-Type": "text/html; charset=utf-8"}


def questions(hub: Hub) -> list[dict[str, list[str]]]:
    """What was asked of the list of models."""
    return [entry.arguments for entry in hub.log if entry.path == "/api/models"]


# A: a mirror that leads to its Hub


@pytest.mark.parametrize("command", [PAIR, (*SCAN, "--quiet")], ids=["pair", "scan"])
def test_a_mirror_is_followed_without_the_token(
    command: tuple[str, ...], world: Hub, draftcheck: Draftcheck
) -> None:
    draftcheck.token = TOKEN
    ran = draftcheck(*command, HF_ENDPOINT=world.mirror_url)
    assert ran.code == 0, ran.err + world.story()
    assert {entry.origin for entry in world.log} == {"mirror", "api", "cdn"}
    assert all(entry.had_token == (entry.origin == "mirror") for entry in world.log), world.story()


@pytest.mark.parametrize("token", [None, TOKEN])
def test_behind_a_mirror_a_gated_repo_says_which_endpoint_to_set(
    token: str | None, world: Hub, draftcheck: Draftcheck
) -> None:
    draftcheck.token = token
    ran = draftcheck("pair", "org/gated", "org/draft", HF_ENDPOINT=world.mirror_url)
    assert ran.code == 3 and "gated" in ran.err, ran.err
    assert f"set HF_ENDPOINT={world.url} and HF_TOKEN" in ran.err, ran.err
    assert not [entry for entry in world.log if entry.origin == "api" and entry.had_token]


def test_only_the_same_place_of_another_host_is_a_mirror(
    world: Hub, draftcheck: Draftcheck
) -> None:
    world.fault("redirect", path="/api/models/org/open*", to=f"{world.elsewhere_url}/x", times=None)
    line = reason(draftcheck(*PAIR))
    assert "redirected to another host" in line
    assert "elsewhere" not in {entry.origin for entry in world.log}


def test_a_circle_of_mirrors_ends(world: Hub, draftcheck: Draftcheck) -> None:
    path = "/api/models/org/open"
    world.fault("redirect", path=path, origin="api", times=None, status=308,
                to=f"{world.mirror_url}{path}?blobs=true")  # fmt: skip
    assert "redirected more than" in reason(draftcheck(*PAIR, HF_ENDPOINT=world.mirror_url))


# B: pages whose next one is said to be at another host


def test_a_long_list_goes_on_at_the_endpoint(world: Hub, draftcheck: Draftcheck) -> None:
    world.list_page = 1
    draftcheck.token = TOKEN
    ran = draftcheck(*SCAN, "--quiet", "--format", "json")
    assert ran.code == 0, ran.err + world.story()
    assert len([asked for asked in questions(world) if "cursor" in asked]) == 3, world.story()
    assert not world.leaks


@pytest.mark.parametrize(
    "link, there",
    [
        ("https://huggingface.co/api/models?cursor=a%3D", "?cursor=a%3D"),
        ("https://huggingface.co/api/models/?cursor=1", "?cursor=1"),
        ("http://mirror/hf/api/models?cursor=1", "?cursor=1"),
        ("https://huggingface.co/models?cursor=1", None),
        ("https://huggingface.co/api/models/org/x?cursor=1", None),
        ("http://[::1", None),
    ],
)
def test_an_endpoint_below_a_path(link: str, there: str | None) -> None:
    endpoint = "http://mirror/hf"
    base = f"{endpoint}/api/models"
    found = addresses.rebased(link, base, endpoint)
    assert found == (link if there is None else base + there)


# C and H: 403


def test_a_token_without_the_right_leaves_the_digests(world: Hub, draftcheck: Draftcheck) -> None:
    world.add_repo("org/gated", models.checkpoint(words=300), gated="auto")
    draftcheck.token = "hf_narrow"
    ran = draftcheck("pair", "org/gated", "org/draft", "--engine", "vllm", "--format", "json")
    assert ran.code == 3 and "the token lacks a right" in ran.err, ran.err
    assert "ask for it" not in ran.err and "hf_narrow" not in ran.err
    assert ran.json["vocabulary"]["differing_ids"] == 0, "digests are public"


def test_a_403_says_its_own_words(world: Hub, draftcheck: Draftcheck) -> None:
    words = {"X-Error-Message": "This repository is not shown in your country"}
    world.fault("status", file="org/open/*", code=403, times=None, headers=words)
    assert "not allowed: config.json answered 403: This repository is not shown" in reason(
        draftcheck(*PAIR)
    )


@pytest.mark.parametrize("code", [401, 403])
@pytest.mark.parametrize("path", ["/api/models/org/open*", "/org/open/resolve/*"])
def test_a_page_of_an_edge_is_no_question_of_access(
    path: str, code: int, world: Hub, draftcheck: Draftcheck
) -> None:
    world.fault("status", path=path, code=code, times=None, headers=HTML, body=b"<html>no</html>")
    ran = draftcheck.skip_waits()(*PAIR)
    assert f"answered {code} with a web page" in reason(ran)
    assert "access" not in ran.err and "draftcheck doctor" in ran.err


# D: limits that an edge repeats, and waits that count


API = "https://hub/api/models/x"


@pytest.mark.parametrize("copy", [{"age": "29"}, {"x-cache": "Hit from cloudfront"}])
def test_limits_of_a_copy_are_not_believed(copy: dict[str, str]) -> None:
    limits = {"ratelimit": '"api";r=0;t=45', "ratelimit-policy": '"fixed window";"api";q=500;w=300'}
    asked = RequestBudget()
    asked.note_answer(API, {**limits, **copy})
    assert asked.ahead(API, home=True) == 0
    asked.note_answer(API, {**limits, "age": "0", "x-cache": "Error from cloudfront"})
    assert asked.ahead(API, home=True) > 40


def test_waits_for_a_window_count_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(budget.time, "monotonic", lambda: now[0])
    asked = RequestBudget(longest=60, altogether=100)
    waits = []
    for _ in range(4):
        asked.note_answer(API, {"ratelimit": '"api";r=0;t=40'})
        waits.append(asked.ahead(API, home=True))
        assert asked.ahead(API, home=True) in (waits[-1], 0), "a wait is counted once"
        now[0] += waits[-1] + 1
    assert waits == [41, 41, 0, 0], "then the server is asked, and may say 429"
    assert not asked.wait(30, asked=True), "41, 41 and 30 are too many"


# E and F: words that a server does not know


def test_one_word_that_is_not_known_is_left_out_alone(world: Hub, draftcheck: Draftcheck) -> None:
    world.not_in_lists.add("baseModels")
    ran = draftcheck("recommend", "org/open", "--engine", "vllm")
    assert ran.code == 0, ran.err
    first, second, *rest = questions(world)
    assert set(first["expand"]) - set(second["expand"]) == {"baseModels"}
    assert all(asked["sort"] == ["downloads"] for asked in (first, second, *rest))
    assert not any("baseModels" in asked["expand"] for asked in rest), "it was learnt once"


@pytest.mark.parametrize("size, sent", [("8B", "max:8000000000"), ("1.5T", "max:1500000000000")])
def test_sizes_are_whole_numbers(size: str, sent: str, world: Hub, draftcheck: Draftcheck) -> None:
    assert draftcheck(*SCAN, "--quiet", "--max-size", size).code == 0
    assert questions(world)[0]["num_parameters"] == [sent]


def test_a_size_that_cannot_be_asked_for_is_looked_at(world: Hub, draftcheck: Draftcheck) -> None:
    world.sizes = False
    ran = draftcheck(*SCAN, "--quiet", "--max-size", "50K", "--format", "json")
    assert ran.code == 0, ran.err + world.story()
    last = questions(world)[-1]
    assert "num_parameters" not in last and last["sort"] == ["downloads"] and last["expand"]
    assert not world.asked("org/draft/config.json"), "a hundred thousand are too many"


# G: patience


def told_to_wait(hub: Hub, seconds: int) -> None:
    hub.fault("status", path="/api/models/org/open*", code=429, reset=seconds, headers=HTML)


def test_a_wait_beyond_patience_says_how_to_have_more(world: Hub, draftcheck: Draftcheck) -> None:
    told_to_wait(world, 137)
    ran = draftcheck.skip_waits()(*PAIR)
    assert "it asks to wait 138 seconds" in reason(ran)
    assert "--patience 138" in ran.err and draftcheck.waited == 0


@pytest.mark.parametrize("command", [(*PAIR, "--patience", "300"), SCAN], ids=["pair", "scan"])
def test_a_window_is_waited_for(
    command: tuple[str, ...], world: Hub, draftcheck: Draftcheck
) -> None:
    told_to_wait(world, 290)
    ran = draftcheck.skip_waits()(*command)
    assert ran.code == 0, ran.err
    assert draftcheck.waited == 291
    assert "waiting 5 min: the Hub's rate limit" in ran.err, "in a log, too"


def test_an_edge_that_does_not_say_how_long_is_waited_for(
    world: Hub, draftcheck: Draftcheck
) -> None:
    """A scan has the time for a whole window; a pair has not."""
    world.fault("status", path="/api/models", code=429, headers=HTML, times=6)
    ran = draftcheck.skip_waits()(*SCAN)
    assert ran.code == 0 and draftcheck.waited == 360, ran.err + world.story()
    world.fault("status", path="/api/models/org/open*", code=429, headers=HTML, times=6)
    other = Draftcheck(world, draftcheck.home / "other").skip_waits()
    assert "429: too many requests" in reason(other(*PAIR)) and other.waited < 30


def test_no_patience_at_all(world: Hub, draftcheck: Draftcheck, tmp_path: Path) -> None:
    told_to_wait(world, 5)
    assert "6 seconds" in reason(draftcheck.skip_waits()(*PAIR, "--patience", "0"))
    world.reset()
    world.fault("status", path="/api/models/org/open*", code=503)
    other = Draftcheck(world, tmp_path / "other").skip_waits()
    assert other(*PAIR, "--patience", "0").code == 0, "a moment is always borne"
    ran = draftcheck(*PAIR, "--patience", "nan")
    assert ran.code == 2


# I: pages that are too long


def test_a_page_that_is_too_long_is_asked_for_in_parts(world: Hub, draftcheck: Draftcheck) -> None:
    draftcheck.first += """
from draftcheck.models.sources.hub import listing
listing.MAX_BODY, listing.PAGE = 1900, 16
"""
    ran = draftcheck(*SCAN, "--quiet", "--format", "json")
    assert_calm(ran)
    assert ran.code == 0, ran.err + world.story()
    sizes = [int(asked["limit"][0]) for asked in questions(world)]
    assert sizes == [16, 4, 1, 1, 1, 1], "four rows are too long, one is not"
