"""The cache: whole or not at all, never believed blindly, never larger than allowed."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest

from draftcheck import settings
from draftcheck.models.sources.hub.cache import HubCache, digest_of
from tests.conftest import FIXTURES, Run

HERE = "https://here.example"
GIT_HELLO = "git-sha1:b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0"
"""What `git hash-object` says of the five bytes hello."""


@pytest.fixture
def store(tmp_path: Path) -> HubCache:
    return HubCache(tmp_path / "cache", 1 << 30)


def files(store: HubCache) -> list[Path]:
    return [path for path in store.folder.rglob("*") if path.is_file()]


def test_digests_are_those_of_git_and_of_lfs() -> None:
    assert digest_of(b"hello", GIT_HELLO) == GIT_HELLO
    assert digest_of(b"x", "sha256:") == f"sha256:{hashlib.sha256(b'x').hexdigest()}"


def test_content_comes_back_in_another_process(store: HubCache) -> None:
    digest = digest_of(b"content", "sha256:")
    assert store.blob(digest) is None and not store.has_blob(digest)
    store.keep_blob(digest, b"content")
    again = HubCache(store.folder, 1 << 30)
    assert again.blob(digest) == b"content" and again.has_blob(digest)


def test_damaged_content_counts_as_absent(store: HubCache) -> None:
    digest = digest_of(b"content", "sha256:")
    store.keep_blob(digest, b"content")
    [path] = files(store)
    path.write_bytes(b"cont")
    assert store.blob(digest) is None and not path.exists()


def test_a_damaged_head_counts_as_absent(store: HubCache) -> None:
    digest = "sha256:" + "0" * 64
    store.keep_head(HERE, digest, b"first bytes")
    assert store.head(HERE, digest) == b"first bytes"
    [path] = files(store)
    path.write_bytes(path.read_bytes()[:-1])
    assert store.head(HERE, digest) == b"" and not path.exists()


def test_the_longer_head_stays(store: HubCache) -> None:
    digest = "sha256:" + "0" * 64
    store.keep_head(HERE, digest, b"long head")
    store.keep_head(HERE, digest, b"long")
    store.keep_head(HERE, digest, b"part", 500)
    assert store.head(HERE, digest) == b"long head" and store.head(HERE, digest, 500) == b"part"


def test_a_head_is_believed_only_where_it_came_from(store: HubCache) -> None:
    digest = "sha256:" + "0" * 64
    store.keep_head("https://elsewhere.example", digest, b"anything")
    assert store.head(HERE, digest) == b""


def test_listings_and_what_a_branch_meant(store: HubCache) -> None:
    assert store.ref(HERE, "org/a", None) is None
    store.keep_ref(HERE, "org/a", None, "c1")
    store.keep_ref(HERE, "org/a", "dev", "c2")
    assert store.ref(HERE, "org/a", None) == "c1" and store.ref(HERE, "org/a", "dev") == "c2"
    assert store.ref("https://elsewhere.example", "org/a", None) is None
    store.keep_listing(HERE, "org/a", "c1", {"files": {}})
    found = store.listing(HERE, "org/a", "c1")
    assert found["files"] == {} and found["endpoint"] == HERE
    for path in files(store):
        path.write_text("{cut")
    assert store.listing(HERE, "org/a", "c1") is None and store.ref(HERE, "org/a", None) is None


def test_parallel_writers_leave_one_whole_file(store: HubCache) -> None:
    digest = digest_of(b"x" * 100_000, "sha256:")
    writers = [
        threading.Thread(
            target=HubCache(store.folder, 1 << 30).keep_blob, args=(digest, b"x" * 10**5)
        )
        for _ in range(8)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(files(store)) == 1 and store.blob(digest) == b"x" * 100_000


def test_room_is_made_by_what_was_not_used_for_longest(tmp_path: Path) -> None:
    store = HubCache(tmp_path, 10_000)
    digests = []
    for number in range(4):
        data = bytes([number]) * 2000
        digests.append(digest_of(data, "sha256:"))
        store.keep_blob(digests[-1], data)
    for age, path in enumerate(sorted(files(store), key=lambda path: path.name)):
        os.utime(path, (age, age))
    assert store.blob(digests[0])  # used: now the youngest
    store.trim()
    assert len(files(store)) == 4
    store.keep_blob(digest_of(b"y" * 4000, "sha256:"), b"y" * 4000)
    store.trim()
    total = sum(path.stat().st_size for path in files(store))
    assert total <= 8000 and store.has_blob(digests[0])


def test_a_folder_that_cannot_be_written_is_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = HubCache(tmp_path / "file" / "cache", 1000)
    digest = digest_of(b"content", "sha256:")
    store.keep_blob(digest, b"content")
    assert store.blob(digest) == b"content"  # for this run
    assert HubCache(store.folder, 1000).blob(digest) is None
    store.trim()
    assert store.clear() == (0, 0)


def test_rubbish_of_killed_writers_is_not_an_entry(store: HubCache) -> None:
    store.keep_ref(HERE, "org/a", None, "c1")
    [path] = files(store)
    part = path.with_name(".x.part")
    part.write_bytes(b"half")
    assert [kept.path for kept in store.entries()] == [path]
    store.clear()
    assert not files(store)


def test_the_folder_follows_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert settings.cache() == tmp_path / "draftcheck"
    monkeypatch.setenv("DRAFTCHECK_CACHE", str(tmp_path / "own"))
    assert settings.cache() == tmp_path / "own"


@pytest.mark.parametrize(
    ("text", "limit"),
    [("", 4 << 30), ("1000", 1000), ("500MB", 500 << 20), ("2 GiB", 2 << 30), ("3k", 3 << 10)],
)
def test_the_limit(text: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTCHECK_CACHE_LIMIT", text)
    assert settings.cache_limit() == limit


def test_the_command_looks_and_clears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setenv("DRAFTCHECK_CACHE", str(tmp_path / "own"))
    assert run("cache", "--json").json["entries"] == 0
    store = HubCache(settings.cache(), 1 << 30)
    digest = digest_of(b"content", "sha256:")
    store.keep_blob(digest, b"content")
    body = {"repo": "org/a", "commit": "c" * 40, "files": {"x": [7, digest], "y": [9, None]}}
    store.keep_listing(HERE, "org/a", "c" * 40, body)
    found = run("cache", "--format", "json").json
    assert found["schema_version"] == 1 and found["folder"] == str(tmp_path / "own")
    assert found["entries"] == 2 and found["cleared"] is None
    [repo] = found["repos"]
    assert (repo["repo"], repo["entries"], repo["bytes"]) == ("org/a", 1, 7)
    assert "org/a@cccccccccccc" in run("cache").out
    found = run("cache", "--clear", "--json").json
    assert found["cleared"]["entries"] == 2 and found["entries"] == 0 and not files(store)


def test_a_bad_limit_is_a_usage_error(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setenv("DRAFTCHECK_CACHE_LIMIT", "much")
    ran = run("cache")
    assert ran.code == 2 and "DRAFTCHECK_CACHE_LIMIT" in ran.err


def test_what_somebody_planted_is_neither_read_nor_written_through(
    store: HubCache, tmp_path: Path
) -> None:
    digest = digest_of(b"content", "sha256:")
    store.keep_blob(digest, b"content")
    [path] = files(store)
    victim = tmp_path / "victim"
    victim.write_bytes(b"content")
    path.unlink()
    path.symlink_to(victim)
    assert store.blob(digest) is None, "a link was followed"
    store.keep_blob(digest, b"content")
    assert not path.is_symlink() and victim.read_bytes() == b"content"
    path.unlink()
    os.mkfifo(path)
    assert store.blob(digest) is None  # and nobody waits for a writer
    (path.parent / f"{path.name}.part").symlink_to(victim)
    store.keep_blob(digest, b"content")
    assert victim.read_bytes() == b"content" and store.blob(digest) == b"content"


def test_inspect_follows_no_link_beside_its_output(run: Run, tmp_path: Path) -> None:
    victim, out = tmp_path / "victim", tmp_path / "a.facts.json"
    victim.write_text("mine", encoding="utf-8")
    for name in ("a.facts.json.part", ".a.facts.json.part", "a.part"):
        (tmp_path / name).symlink_to(victim)
    ran = run("inspect", FIXTURES / "pair" / "draft", "--output", out)
    assert ran.code == 0, ran.err
    assert victim.read_text(encoding="utf-8") == "mine" and not out.is_symlink()
    assert len(list(tmp_path.iterdir())) == 5
