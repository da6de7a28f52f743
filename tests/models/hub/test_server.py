"""The loopback Hub is to be trusted: the real client works with it as with the real one."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hub import LFS, Hub, Plain, Virtual, models

hf = pytest.importorskip("huggingface_hub")
from huggingface_hub import constants  # noqa: E402
from huggingface_hub import errors as hf_errors  # noqa: E402
from huggingface_hub.utils import get_session, httpx  # noqa: E402

GIT_EMPTY = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
"""What git itself says of an empty file."""


@pytest.fixture(autouse=True)
def _online(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))


@pytest.fixture
def api(hub: Hub) -> Any:
    """It goes where a Link leads, and takes a bare 401 for a missing repo on https only."""
    hub.link_host, hub.error_codes = None, True
    return hf.HfApi(endpoint=hub.url)


def fetch(hub: Hub, repo: str, name: str, folder: Path, **options: Any) -> Path:
    return Path(hf.hf_hub_download(repo, name, endpoint=hub.url, cache_dir=folder, **options))


@pytest.fixture
def client() -> Iterator[Any]:
    """A bare client, for what the library does not ask."""
    with httpx.Client(follow_redirects=False, timeout=10, trust_env=False) as made:
        yield made


# What is there


def test_digests_are_those_of_git_and_lfs(hub: Hub, api: Any) -> None:
    body = b"weights" * 1000
    hub.add_repo("org/a", {"empty": b"", "w.safetensors": body})
    info = api.model_info("org/a", files_metadata=True)
    by_name = {sibling.rfilename: sibling for sibling in info.siblings}
    assert by_name["empty"].blob_id == GIT_EMPTY and by_name["empty"].lfs is None
    lfs = by_name["w.safetensors"].lfs
    assert lfs.sha256 == hashlib.sha256(body).hexdigest() and lfs.size == len(body)
    pointer = (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{lfs.sha256}\nsize {len(body)}\n"
    )
    assert lfs.pointer_size == len(pointer)
    named = hashlib.sha1(f"blob {len(pointer)}\0{pointer}".encode()).hexdigest()
    assert by_name["w.safetensors"].blob_id == named


def test_an_info_answer_has_only_what_was_asked(hub: Hub, api: Any) -> None:
    hub.add_repo("org/a", {"x": b""}, tags=("gguf",), downloads=7, extra={"gguf": {"total": 5}})
    info = api.model_info("org/a", expand=["sha", "gguf"])
    assert info.sha == hub.repos["org/a"].sha and info.gguf == {"total": 5}
    assert info.downloads is None and info.siblings is None
    assert json.loads(get_session().get(f"{hub.url}/api/models/org/a").text)["downloads"] == 7
    with pytest.raises(hf_errors.BadRequestError):
        api.model_info("org/a", expand=["nonsense"])


def test_trees_come_in_pages(hub: Hub, api: Any) -> None:
    hub.tree_page = 3
    names = [f"a{i}.txt" for i in range(7)] + ["sub/b.txt", "sub/deep/c.txt"]
    hub.add_repo("org/a", dict.fromkeys(names, b"1"))
    found = [entry.path for entry in api.list_repo_tree("org/a", recursive=True)]
    assert sorted(found) == sorted([*names, "sub", "sub/deep"])
    assert len([entry for entry in hub.log if "/tree/" in entry.path]) == 4
    top = {entry.path for entry in api.list_repo_tree("org/a")}
    assert top == {*names[:7], "sub"}
    assert {e.path for e in api.list_repo_tree("org/a", "sub")} == {"sub/b.txt", "sub/deep"}
    expanded = list(api.list_repo_tree("org/a", expand=True))
    assert all(entry.last_commit.oid == hub.repos["org/a"].sha for entry in expanded)


def test_paths_info_leaves_out_what_is_missing(hub: Hub, api: Any) -> None:
    hub.add_repo("org/a", {"x": b"12", "s/y": b""})
    found = api.get_paths_info("org/a", ["x", "nope", "s"], expand=True)
    assert [(entry.path, getattr(entry, "size", None)) for entry in found] == [
        ("x", 2),
        ("s", None),
    ]


def test_refs_and_commits(hub: Hub, api: Any) -> None:
    repo = hub.add_repo("org/a", {"x": b"1"}, branches={"dev": {"x": b"2"}, "refs/pr/1": {}})
    old, new = repo.sha, repo.commit({"y": b"3"}, keep=True)
    refs = api.list_repo_refs("org/a", include_pull_requests=True)
    assert {ref.name: ref.target_commit for ref in refs.branches} == {
        "main": new, "dev": repo.refs["dev"]
    }  # fmt: skip
    assert [ref.name for ref in refs.pull_requests] == ["refs/pr/1"]
    assert [row.commit_id for row in api.list_repo_commits("org/a")] == [new, old]
    assert api.model_info("org/a", revision="refs/pr/1").sha == repo.refs["refs/pr/1"]
    assert len(api.model_info("org/a", revision=old).siblings) == 1
    assert len(api.model_info("org/a").siblings) == 2


def test_models_are_searched_filtered_sorted_paged(hub: Hub, api: Any) -> None:
    hub.list_page = 4
    for number in range(10):
        tags = ("gguf", "base_model:org/big") if number % 2 else ("safetensors",)
        size = {"safetensors": {"parameters": {"BF16": number * 10**9}, "total": number * 10**9}}
        files = {"config.json": b"{}"}
        hub.add_repo(f"org/m{number}", files, tags=tags, downloads=number, extra=size)
    hub.add_repo("me/m3-copy", {}, gated="auto")
    hub.add_repo("me/secret", {}, private=True)
    assert len(list(api.list_models())) == 11 and hub.requests == 3
    assert {row.id for row in api.list_models(search="M3")} == {"org/m3", "me/m3-copy"}
    assert {row.id for row in api.list_models(author="me")} == {"me/m3-copy"}
    tagged = api.list_models(filter=["gguf", "base_model:org/big"], sort="downloads", limit=2)
    assert [row.id for row in tagged] == ["org/m9", "org/m7"]
    sized = api.list_models(num_parameters="min:2B,max:3B")
    assert {row.id for row in sized} == {"org/m2", "org/m3"}
    assert [row.id for row in api.list_models(gated=True)] == ["me/m3-copy"]
    expanded = next(iter(api.list_models(search="m9", expand=["safetensors", "siblings"])))
    assert expanded.safetensors.total == 9 * 10**9 and expanded.downloads is None
    assert [sibling.rfilename for sibling in expanded.siblings] == ["config.json"]


# Files


@pytest.mark.parametrize("content", [Plain(b"small" * 9), LFS(b"large" * 9)], ids=["git", "lfs"])
def test_a_download_arrives(content: Any, hub: Hub, tmp_path: Path) -> None:
    repo = hub.add_repo("org/a", {"d/file": content})
    path = fetch(hub, "org/a", "d/file", tmp_path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == content.sha256
    assert path.parent.parent.name == repo.sha and path.resolve().name == content.etag
    expected = {("api", "HEAD"), ("cdn" if content.lfs else "api", "GET")}
    assert {(entry.origin, entry.method) for entry in hub.log} == expected
    hub.reset()
    fetch(hub, "org/a", "d/file", tmp_path, revision=repo.sha)
    assert hub.requests == 0


def test_a_token_never_reaches_the_cdn(hub: Hub, tmp_path: Path) -> None:
    hub.add_token("hf_good", repos={"org/a"})
    hub.add_repo("org/a", {"w.gguf": b"GGUF", "config.json": b"{}"}, gated="manual")
    for name in ("w.gguf", "config.json"):
        fetch(hub, "org/a", name, tmp_path, token="hf_good")
    assert not hub.leaks and {e.origin for e in hub.log if e.had_token} == {"api"}
    assert any(entry.origin == "cdn" for entry in hub.log)


def test_ranges(hub: Hub, client: Any) -> None:
    body = bytes(range(256)) * 4
    hub.add_repo("org/a", {"w.gguf": body, "small.json": body})
    for name in ("w.gguf", "small.json"):
        link = client.get(f"{hub.url}/org/a/resolve/main/{name}").headers["location"]
        link = link if link.startswith("http") else hub.url + link

        def ask(text: str, link: str = link) -> Any:
            return client.get(link, headers={"Range": text, "Accept-Encoding": "identity"})

        found = ask("bytes=10-19")
        assert (found.status_code, found.content) == (206, body[10:20])
        assert found.headers["content-range"] == "bytes 10-19/1024"
        assert ask("bytes=1000-9999").content == body[1000:]
        assert ask("bytes=1020-").content == body[1020:]
        assert ask("bytes=-3").content == body[-3:]
        beyond = ask("bytes=1024-1030")
        assert (beyond.status_code, beyond.headers["content-range"]) == (416, "bytes */1024")
    ranged = [entry for entry in hub.log if entry.range == "bytes=10-19"]
    assert [(entry.body, entry.file) for entry in ranged] == [
        (10, "org/a/w.gguf"), (10, "org/a/small.json")
    ]  # fmt: skip


def test_a_link_is_for_one_file_and_a_while(hub: Hub, client: Any) -> None:
    hub.add_repo("org/a", {"w.gguf": b"GGUF", "x.gguf": b"GGUF"})
    link = client.get(f"{hub.url}/org/a/resolve/main/w.gguf").headers["location"]
    assert client.get(link).status_code == 200
    assert client.get(link.replace("w.gguf", "x.gguf")).status_code == 403
    hub.expire_links()
    assert client.get(link).status_code == 403
    hub.link_seconds = -5
    link = client.get(f"{hub.url}/org/a/resolve/main/w.gguf").headers["location"]
    assert client.get(link).status_code == 403


def test_forty_gigabytes_cost_nothing(hub: Hub, client: Any) -> None:
    file = Virtual(b"GGUF", 40_000_000_000, more={39_999_999_990: b"tail"})
    hub.add_repo("org/a", {"w.gguf": file})
    link = client.get(f"{hub.url}/org/a/resolve/main/w.gguf").headers["location"]
    found = client.get(link, headers={"Range": "bytes=39999999988-39999999995"})
    assert found.content == b"\0\0tail\0\0"
    assert client.head(link).headers["content-length"] == "40000000000"
    assert sum(entry.body for entry in hub.log if entry.origin == "cdn") < 100


def test_small_files_are_packed_for_those_who_want_it(hub: Hub, client: Any) -> None:
    body = b"word " * 10_000
    hub.add_repo("org/a", {"t.json": body})
    packed = client.get(f"{hub.url}/org/a/resolve/main/t.json", follow_redirects=True)
    assert packed.content == body and packed.headers["content-encoding"] == "gzip"
    assert "content-length" not in packed.headers and hub.body_bytes < 1000
    plain = {"Accept-Encoding": "identity"}
    whole = client.get(str(packed.url), headers=plain)
    assert whole.content == body and whole.headers["content-length"] == str(len(body))


def test_shard_headers_by_the_library(hub: Hub, api: Any) -> None:
    hub.add_repo("org/a", models.shards(models.tensors(models.config(600)), 3))
    found = api.get_safetensors_metadata("org/a")
    assert found.sharded and found.parameter_count["BF16"] > 60e9
    assert {entry.range for entry in hub.log if entry.origin == "cdn"} == {"bytes=0-100000"}


# Who may see what


def test_gated_private_missing_disabled_renamed(hub: Hub, api: Any, tmp_path: Path) -> None:
    hub.add_token("hf_me", user="me")
    files = {"config.json": b"{}"}
    hub.add_repo("org/gated", files, gated="manual")
    hub.add_repo("me/own", files, private=True)
    hub.add_repo("org/off", files, disabled=True)
    hub.add_repo("org/old", files)
    hub.rename("org/old", "org/new")
    assert api.model_info("org/gated").gated == "manual"
    for token, status in ((False, 401), ("hf_me", 403)):
        with pytest.raises(hf_errors.GatedRepoError) as refused:
            fetch(hub, "org/gated", "config.json", tmp_path, token=token)
        assert refused.value.response.status_code == status
    for token in (False, "hf_me"):
        with pytest.raises(hf_errors.RepositoryNotFoundError):
            api.model_info("org/nothing", token=token)
    with pytest.raises(hf_errors.RepositoryNotFoundError):
        api.model_info("me/own", token=False)
    assert api.model_info("me/own", token="hf_me").private
    assert api.model_info("org/off", token=False).disabled
    with pytest.raises(hf_errors.LocalEntryNotFoundError) as closed:
        fetch(hub, "org/off", "config.json", tmp_path, token=False)
    assert isinstance(closed.value.__cause__, hf_errors.DisabledRepoError)
    with pytest.raises(hf_errors.HfHubHTTPError, match="Invalid credentials"):
        api.model_info("org/new", token="hf_other")
    assert api.model_info("org/old").id == "org/new"
    assert api.get_paths_info("org/old", ["config.json"])[0].path == "config.json"
    assert fetch(hub, "org/old", "config.json", tmp_path).read_bytes() == b"{}"
    with pytest.raises(hf_errors.RevisionNotFoundError):
        api.model_info("org/new", revision="nope")
    with pytest.raises(hf_errors.EntryNotFoundError):
        fetch(hub, "org/new", "nope.json", tmp_path)


def test_a_quota_is_enforced_and_said(hub: Hub, client: Any) -> None:
    hub.add_repo("org/a", {"x": b""})
    hub.quotas.set(600, api=2)
    states = [client.get(f"{hub.url}/api/models/org/a") for _ in range(3)]
    assert [state.status_code for state in states] == [200, 200, 429]
    assert states[0].headers["ratelimit"].startswith('"api";r=1;t=')
    assert states[2].headers["ratelimit"].startswith('"api";r=0;t=')
    assert "retry-after" not in states[2].headers and "html" in states[2].headers["content-type"]
    assert client.get(f"{hub.url}/org/a/resolve/main/x").status_code == 307


# What goes wrong on order


def test_faults_that_end_a_connection(hub: Hub, client: Any) -> None:
    hub.add_repo("org/a", {"x.json": bytes(100_000)})
    hub.small_files = "direct"
    link = f"{hub.url}/org/a/resolve/main/x.json"
    plain = {"Accept-Encoding": "identity"}
    hub.fault("cut", file="org/a/*", after=50_000)
    with pytest.raises(httpx.RemoteProtocolError):
        client.get(link, headers=plain)
    assert hub.log[-1].body == 50_000 and hub.log[-1].faults == ["cut"]
    hub.fault("cut", file="org/a/*", after=50_000, how="rst")
    with pytest.raises(httpx.ReadError):
        client.get(link, headers=plain)
    hub.fault("drop", path="/org/*")
    with pytest.raises(httpx.RemoteProtocolError):
        client.get(link, headers=plain)
    assert len(client.get(link, headers=plain).content) == 100_000


def test_faults_come_when_they_are_due(hub: Hub, client: Any) -> None:
    hub.add_repo("org/a", {"x": b"1"})
    hub.fault("status", path="/api/*", nth=2, times=2, code=503, retry_after=7)
    codes = [client.get(f"{hub.url}/api/models/org/a").status_code for _ in range(5)]
    assert codes == [200, 503, 503, 200, 200]
    assert [entry.faults for entry in hub.log if entry.status == 503] == [["status"]] * 2
    hub.fault("status", code=500, times=None)
    assert {client.get(f"{hub.url}/").status_code for _ in range(3)} == {500}


def test_faults_that_change_bodies(hub: Hub, client: Any) -> None:
    body = b"0123456789" * 100
    hub.add_repo("org/a", {"w.gguf": body})
    link = client.get(f"{hub.url}/org/a/resolve/main/w.gguf").headers["location"]
    ranged = {"Range": "bytes=10-19", "Accept-Encoding": "identity"}

    def with_fault(kind: str, **options: Any) -> Any:
        hub.fault(kind, origin="cdn", **options)
        return client.get(link, headers=ranged)

    assert with_fault("corrupt", at=12).content == b"0133456789"
    ignored = with_fault("ignore_range")
    assert (ignored.status_code, ignored.content) == (200, body)
    wrong = with_fault("wrong_range", shift=5)
    assert wrong.headers["content-range"] == "bytes 15-24/1000" and len(wrong.content) == 10
    assert len(with_fault("longer", by=50).content) == 60
    assert len(with_fault("shorter", by=4).content) == 6
    assert with_fault("gzip").content == body[10:20]
    bare = with_fault("no_length")
    assert "content-length" not in bare.headers and bare.content == body[10:20]
    assert with_fault("replace", body=b"!").content == b"!"
    assert with_fault("edit", do=bytes.upper).content == body[10:20]
    assert with_fault("headers", set={"ETag": None, "X-New": "1"}).headers["x-new"] == "1"
    assert with_fault("html").headers["content-type"].startswith("text/html")
    assert with_fault("expired").status_code == 403
    assert with_fault("redirect", to=hub.elsewhere_url).headers["location"] == hub.elsewhere_url
    assert client.get(link, headers=ranged).content == body[10:20]


def test_cut_json_loops_and_a_commit_in_between(hub: Hub, api: Any) -> None:
    repo = hub.add_repo("org/a", {"x": b"1"})
    hub.fault("cut_json", path="/api/models/*")
    with pytest.raises(json.JSONDecodeError):
        api.model_info("org/a")
    hub.fault("loop", path="/api/models/*", times=None)
    with pytest.raises(httpx.TooManyRedirects):
        api.model_info("org/a")
    hub.reset()
    before = repo.sha
    hub.fault("call", path="/api/models/*", nth=2, do=lambda: repo.commit({"x": b"2"}))
    assert [api.model_info("org/a").sha for _ in range(2)] == [before, repo.sha]
    assert repo.sha != before


def test_endless_and_slow_bodies_can_be_left(hub: Hub, client: Any) -> None:
    hub.add_repo("org/a", {"x": b"1" * 100})
    hub.fault("endless", path="/api/models/*")
    with client.stream("GET", f"{hub.url}/api/models/org/a") as answer:
        seen = 0
        for piece in answer.iter_raw():
            seen += len(piece)
            if seen > 5_000_000:
                break
    hub.fault("slow", path="/api/models/*", seconds=60)
    with client.stream("GET", f"{hub.url}/api/models/org/a") as answer:
        assert len(next(answer.iter_raw())) == 1


def test_the_end_of_a_hub_ends_its_threads() -> None:
    before = set(threading.enumerate())
    with Hub() as hub:
        hub.fault("hang", times=None)
        code = f"import urllib.request as r; r.urlopen({hub.url!r})"
        child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
        while not hub.log_book.entries and child.poll() is None:
            pass
    assert child.wait(60) != 0
    left = set(threading.enumerate()) - before
    for thread in left:
        thread.join(60)
    assert not any(thread.is_alive() for thread in left)


def test_many_at_once(hub: Hub, api: Any) -> None:
    hub.add_repo("org/a", {"x": b"1"})
    threads = [threading.Thread(target=api.model_info, args=("org/a",)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert hub.requests == 16 and {entry.status for entry in hub.log} == {200}
