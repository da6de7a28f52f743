"""The cache: two at once, killed in the middle, damaged, read-only, offline."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hub import Hub, Virtual, models
from tests.hub.process import Draftcheck, assert_calm, finish, reason, verdict
from tests.models.hub.test_weather import GGUFS, PAIR, SHARD, repos

pytest.importorskip("huggingface_hub")
OFFLINE = {"HF_HUB_OFFLINE": "1"}


def kept(draftcheck: Draftcheck) -> list[Path]:
    """The files of draftcheck's own cache."""
    return sorted(path for path in (draftcheck.home / "cache").rglob("*") if path.is_file())


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.01)


def test_two_processes_on_one_cache(hub: Hub, draftcheck: Draftcheck) -> None:
    repos(hub)
    children = [draftcheck.start(*command) for command in (PAIR, PAIR, GGUFS, GGUFS)]
    runs = [finish(child) for child in children]
    for ran in runs:
        assert_calm(ran)
        assert ran.code == 0, ran.err
    assert verdict(runs[0]) == verdict(runs[1]) and verdict(runs[2]) == verdict(runs[3])
    hub.reset()
    assert verdict(draftcheck(*PAIR)) == verdict(runs[0]) and hub.requests <= 4, hub.story()


@pytest.mark.parametrize("way", ["kill", "interrupt"])
@pytest.mark.parametrize("file", [SHARD, "org/big/tokenizer.json", "org/small/model.safetensors"])
def test_ended_in_the_middle_and_run_again(
    file: str, way: str, hub: Hub, draftcheck: Draftcheck
) -> None:
    """By kill -9 or Ctrl-C, while a file is half read."""
    repos(hub)
    reached = threading.Event()
    hub.fault("call", file=file, do=reached.set)
    hub.fault("slow", file=file, times=None, bytes=100, seconds=0.2)
    child = draftcheck.start(*PAIR)
    assert reached.wait(120), "the file is never asked for"

    def half_read() -> bool:
        seen = (entry for entry in hub.log_book.entries if entry.status in (200, 206))
        return any(entry.file == file and entry.body for entry in seen)

    until(half_read, "some of it sent")
    if way == "kill":
        child.kill()
    else:
        child.send_signal(signal.SIGINT)
    ran = finish(child)
    assert not ran.out
    if way == "interrupt":
        assert ran.code == 130 and "Traceback" not in ran.err, ran.err
    hub.reset()
    again = draftcheck(*PAIR)
    assert again.code == 0, again.err
    fresh = Draftcheck(hub, draftcheck.home.parent / "fresh")
    assert verdict(again) == verdict(fresh(*PAIR))
    parts = [path for path in kept(draftcheck) if path.name.endswith((".part", ".incomplete"))]
    assert way == "kill" or not parts


def test_killed_at_any_moment(hub: Hub, draftcheck: Draftcheck) -> None:
    repos(hub)
    expected = verdict(Draftcheck(hub, draftcheck.home.parent / "fresh")(*PAIR))
    dice = random.Random(7)
    for _ in range(5):
        seen = hub.requests + dice.randrange(1, 14)
        child = draftcheck.start(*PAIR)
        until(lambda: hub.requests >= seen or child.poll() is not None, "so many requests")  # noqa: B023
        child.kill()
        finish(child)
    assert verdict(draftcheck(*PAIR)) == expected


def test_a_damaged_cache_is_as_good_as_none(hub: Hub, draftcheck: Draftcheck) -> None:
    repos(hub)
    expected = verdict(draftcheck(*PAIR))
    damages: dict[str, Callable[[bytes], bytes]] = {
        "flipped": lambda data: data[: len(data) // 2] + b"\xff" + data[len(data) // 2 + 1 :],
        "cut": lambda data: data[: len(data) // 2],
        "empty": lambda data: b"",
        "longer": lambda data: data + b"more",
        "HTML": lambda data: b"<html>",
        "zeros": lambda data: bytes(len(data)),
        "nested": lambda data: b"[" * 200_000,
    }
    for name, damage in damages.items():
        for path in kept(draftcheck):
            path.write_bytes(damage(path.read_bytes()))
        ran = draftcheck(*PAIR)
        assert_calm(ran)
        assert ran.code == 0 and verdict(ran) == expected, (name, ran.err)


def test_damaged_and_offline_is_said(hub: Hub, draftcheck: Draftcheck) -> None:
    repos(hub)
    draftcheck(*PAIR)
    for path in kept(draftcheck):
        path.write_bytes(path.read_bytes()[:-1])
    hub.reset()
    assert "org/big" in reason(draftcheck(*PAIR, "--offline"))
    assert hub.requests == 0


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of folders are POSIX")
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_cache_that_cannot_be_written(hub: Hub, draftcheck: Draftcheck) -> None:
    repos(hub)
    (draftcheck.home / "cache").mkdir(parents=True)
    (draftcheck.home / "cache").chmod(0o500)
    assert draftcheck(*PAIR).code == 0


def test_a_cache_that_is_a_file(hub: Hub, draftcheck: Draftcheck) -> None:
    repos(hub)
    draftcheck.home.mkdir()
    (draftcheck.home / "cache").write_text("in the way")
    ran = draftcheck(*PAIR)
    assert_calm(ran)
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("way", [["--offline"], []], ids=["option", "variable"])
def test_offline(way: list[str], hub: Hub, draftcheck: Draftcheck) -> None:
    repos(hub)
    env = {} if way else OFFLINE
    line = reason(draftcheck(*PAIR, *way, **env))
    assert "org/big" in line and hub.requests == 0
    expected = {command: verdict(draftcheck(*command)) for command in (PAIR, GGUFS)}
    hub.reset()
    for command in (PAIR, GGUFS):
        ran = draftcheck(*command, *way, **env)
        assert ran.code == 0 and verdict(ran) == expected[command], ran.err
    assert hub.requests == 0
    assert "small" in reason(draftcheck("pair", "org/big", "org/small@dev", *way, **env))


def test_offline_takes_the_newest_commit_that_was_read(hub: Hub, draftcheck: Draftcheck) -> None:
    """A scan reads commits, so nobody asked what main is: the newest stands for it, and is said."""
    repo = hub.add_repo("org/a", models.small_checkpoint())
    first = repo.sha
    for words in ("one", "two"):
        assert draftcheck("inspect", f"org/a@{repo.sha}").code == 0
        repo.commit({**models.small_checkpoint(), "README.md": f"# {words}\n"})
    hub.reset()
    ran = draftcheck("pair", "org/a", "org/a", "--offline", "--format", "json")
    newest = ran.json["target"]["revision"]
    assert ran.code == 0 and newest not in (first, repo.sha) and hub.requests == 0, ran.err
    assert ran.err.splitlines() == [
        f"warning: org/a: offline, so commit {newest[:12]} stands for main: the newest that was"
        " read before"
    ]
    assert "org/a at dev" in reason(draftcheck("inspect", "org/a@dev", "--offline"))
    assert draftcheck("inspect", "org/a").code == 0
    assert draftcheck("inspect", "org/a", "--offline").err == "", "main itself was read by now"


def test_offline_takes_what_the_hubs_own_client_has(hub: Hub, draftcheck: Draftcheck) -> None:
    """Downloaded by huggingface_hub, then read by draftcheck without a request."""
    files = models.small_checkpoint()
    del files["original/consolidated.00.pth"]
    hub.add_repo("org/a", files)
    code = "import sys; from huggingface_hub import snapshot_download as s; s('org/a')"
    env = hub.env(draftcheck.home)
    draftcheck.home.mkdir()
    import subprocess

    subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True)
    hub.reset()
    ran = draftcheck("pair", "org/a", "org/a", "--offline", "--format", "json")
    assert ran.code == 0 and ran.json["target"]["revision"] == hub.repos["org/a"].sha, ran.err
    assert hub.requests == 0
    assert draftcheck("pair", "org/a", "org/a").code == 0
    assert hub.requests <= 4 and hub.bytes < 20_000, hub.story()


def test_another_endpoint_does_not_believe_what_one_said(hub: Hub, draftcheck: Draftcheck) -> None:
    """A mirror claims the digest of a known file for other bytes: its claim is its own affair."""
    true, false = models.small_gguf(700), models.small_gguf(500)
    with Hub() as mirror:
        lie = Virtual(false.head + bytes(true.size - len(false.head)), true.size)
        lie.sha256 = true.sha256
        mirror.add_repo("org/a", {"m.gguf": lie})
        hub.add_repo("org/a", {"m.gguf": true})
        Draftcheck(mirror, draftcheck.home)("inspect", "org/a", "--format", "json")
    ran = draftcheck("inspect", "org/a", "--format", "json")
    assert ran.code == 0, ran.err
    fresh = Draftcheck(hub, draftcheck.home.parent / "fresh")(
        "inspect", "org/a", "--format", "json"
    )
    assert ran.json == fresh.json


def test_the_limit_is_kept(hub: Hub, draftcheck: Draftcheck) -> None:
    repos(hub)
    for command in (PAIR, GGUFS):
        assert draftcheck(*command, DRAFTCHECK_CACHE_LIMIT="100KB").code == 0
    assert sum(path.stat().st_size for path in kept(draftcheck)) <= 100 * 1024
    assert draftcheck(*PAIR, DRAFTCHECK_CACHE_LIMIT="0").code == 0
    assert draftcheck(*PAIR, DRAFTCHECK_CACHE_LIMIT="much").code == 2


def test_a_look_and_a_clearing(hub: Hub, draftcheck: Draftcheck) -> None:
    repos(hub)
    draftcheck(*PAIR)
    look = draftcheck("cache")
    assert_calm(look)
    assert look.code == 0 and "org/big" in look.out
    assert draftcheck("cache", "--clear").code == 0
    assert not kept(draftcheck)
    assert "org/big" not in draftcheck("cache").out


def test_a_link_in_the_cache_is_not_written_through(hub: Hub, draftcheck: Draftcheck) -> None:
    """A cache entry that is a link to somebody's file: that file stays what it is."""
    repos(hub)
    draftcheck(*PAIR)
    precious = draftcheck.home / "precious"
    precious.write_bytes(b"precious")
    for path in kept(draftcheck):
        path.unlink()
        path.symlink_to(precious)
    assert draftcheck(*PAIR).code == 0
    draftcheck("cache", "--clear")
    assert precious.read_bytes() == b"precious"
