"""What the Hub allows is kept to: never a 429, never more connections than said."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from draftcheck.models.sources.hub import budget
from draftcheck.models.sources.hub.budget import RequestBudget
from tests.hub import Hub
from tests.hub.process import Draftcheck, assert_calm
from tests.scan.world import TARGET

pytest.importorskip("huggingface_hub")
API, FILE = "https://hub/api/models/x", "https://hub/x/resolve/main/config.json"


class Time:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(budget.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


def answer(left: int, seconds: int, name: str = "api", quota: int = 500) -> dict[str, str]:
    policy = f'"fixed window";"{name}";q={quota};w=300'
    return {"ratelimit": f'"{name}";r={left};t={seconds}', "ratelimit-policy": policy}


def test_the_last_request_of_a_window_is_the_last(clock: Time) -> None:
    asked = RequestBudget(longest=330)
    assert asked.ahead(API, home=True) == 0
    asked.sent(API)
    asked.note_answer(API, answer(left=2, seconds=100))
    assert [asked.ahead(API, home=True) for _ in range(2)] == [0, 0]
    assert asked.ahead(API, home=True) == 101
    assert asked.ahead(FILE, home=True) == 0, "files are counted apart"
    assert asked.ahead(API, home=False) == 0, "another host"
    clock.now += 101.5
    assert asked.ahead(API, home=True) == 0


def test_requests_under_way_count(clock: Time) -> None:
    asked = RequestBudget(longest=330)
    asked.note_answer(API, answer(left=10, seconds=100))
    for _ in range(4):
        assert asked.ahead(API, home=True) == 0
        asked.sent(API)
    asked.note_answer(API, answer(left=4, seconds=100))  # three more are still to be counted
    assert asked.ahead(API, home=True) == 0
    assert asked.ahead(API, home=True) > 0


def test_a_wait_longer_than_patience_is_left_to_the_server(clock: Time) -> None:
    asked = RequestBudget()
    asked.note_answer(API, answer(left=0, seconds=999_999))
    assert asked.ahead(API, home=True) == 0


@pytest.mark.parametrize("text", ["", "r=;t=", '"api";r=-1;t=3', '"a"' * 5000, "r=1e9;t=5"])
def test_nonsense_is_no_limit(clock: Time, text: str) -> None:
    asked = RequestBudget(longest=330)
    asked.note_answer(API, {"ratelimit": text})
    assert asked.ahead(API, home=True) == 0


def test_connections_to_one_host() -> None:
    asked = RequestBudget(connections=2)
    most, now, lock = [0], [0], threading.Lock()

    def use() -> None:
        with asked.slot("hub"):
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])
            threading.Event().wait(0.02)
            with lock:
                now[0] -= 1

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 2


def test_a_whole_scan_is_never_told_429(hub: Hub, draftcheck: Draftcheck, tmp_path: Path) -> None:
    hub.quotas.set(3.0, api=6, resolvers=8)
    ran = draftcheck("scan", "--target", TARGET, "--store", tmp_path / "s.db", "--quiet")
    assert_calm(ran)
    assert ran.code == 0
    assert [entry for entry in hub.log if entry.status == 429] == [], hub.story()
    assert len(hub.log) > 20
