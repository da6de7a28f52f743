"""Addresses and headers of a server that would make us send, show or believe too much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run
from tests.hub import Hub, models
from tests.hub.process import Draftcheck, assert_calm, assert_discreet, reason

pytest.importorskip("huggingface_hub")
SECRET = "Swordfish"
ASK = ("pair", "org/a", "org/a", "--engine", "vllm")


def with_user(url: str) -> str:
    return url.replace("://", f"://somebody:{SECRET}@")


def sent(hub: Hub) -> list[str]:
    """The kinds of authorization that the server was shown."""
    return [entry.headers.get("authorization", "").split(" ")[0] for entry in hub.log]


@pytest.mark.parametrize("where", ["api", "file", "range", "elsewhere"])
def test_a_redirect_to_a_user_and_a_password_is_refused(
    hub: Hub, draftcheck: Draftcheck, where: str
) -> None:
    hub.add_repo("org/a", models.small_checkpoint())
    api = f"{hub.url}/api/models/org/a"
    if where == "api":
        hub.fault("redirect", path="/api/models/org/a*", to=with_user(f"{api}?again=1"))
    elif where == "file":
        to = with_user(f"{hub.url}/org/a/resolve/main/config.json")
        hub.fault("redirect", file="org/a/config.json", to=to)
    elif where == "range":
        to = with_user(f"{hub.url}/org/a/resolve/main/model.safetensors")
        hub.fault("redirect", file="org/a/*.safetensors", to=to, times=None)
    else:
        hub.fault("redirect", path="*", to=with_user(hub.elsewhere_url))
    ran = draftcheck(*ASK)
    line = reason(ran)
    assert "a user or a password" in line and SECRET not in ran.err
    assert "Basic" not in sent(hub)
    assert_discreet(hub, "org/a")


def test_a_next_page_with_a_password_is_refused(hub: Hub, draftcheck: Draftcheck) -> None:
    hub.add_repo("org/a", models.small_checkpoint())

    def without_sizes(body: bytes) -> bytes:
        answer = json.loads(body)
        answer["siblings"] = [{"rfilename": row["rfilename"]} for row in answer["siblings"]]
        return json.dumps(answer).encode()

    sha = hub.repos["org/a"].sha
    hub.fault("edit", path="/api/models/org/a", do=without_sizes, times=None)
    where = with_user(f"{hub.url}/api/models/org/a/tree/{sha}?cursor=1")
    link = {"Link": f'<{where}>; rel="next"'}
    hub.fault("headers", path="/api/models/org/a/tree/*", times=None, set=link)
    ran = draftcheck(*ASK)
    assert "a user or a password" in reason(ran) and SECRET not in ran.err
    assert "Basic" not in sent(hub)


@pytest.mark.parametrize(
    "text", ["https://hub.example/?key={}", "https://a:{}@hub.example", "x#{}"]
)
def test_an_endpoint_keeps_its_secrets(
    run: Run, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", text.format(SECRET))
    ran = run("pair", "org/a", "org/b")
    assert ran.code == 2 and "HF_ENDPOINT" in ran.err
    assert SECRET not in ran.out + ran.err


HEADERS: list[dict[str, Any]] = [
    {"Retry-After": "nan"},
    {"Retry-After": "inf"},
    {"Retry-After": "-5"},
    {"Retry-After": "1" + "0" * 400},
    {"Retry-After": "Mon, 99 Nov 99999 99:99:99 GMT"},
    {"RateLimit": '"api";r=0;t=' + "9" * 400},
    {"RateLimit": '"api";r=-1;t=nan', "RateLimit-Policy": '"api";q=' + "9" * 400},
]


@pytest.mark.parametrize("headers", HEADERS)
def test_a_busy_server_that_says_nonsense(
    hub: Hub, draftcheck: Draftcheck, headers: dict[str, str]
) -> None:
    hub.add_repo("org/a", models.small_checkpoint())
    hub.fault("status", code=429, headers=headers)
    ran = draftcheck(*ASK)
    assert_calm(ran)
    assert ran.code in (0, 3), ran.err


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Length": "9" * 5000},
        {"Content-Length": "-1"},
        {"Content-Range": f"bytes 0-{'9' * 5000}/{'9' * 5000}"},
        {"Content-Range": "bytes 0-18446744073709551616/18446744073709551617"},
        {"X-Linked-Size": "9" * 5000},
    ],
)
@pytest.mark.parametrize("path", ["/api/models/*", "*"])
def test_lengths_that_no_file_has(
    hub: Hub, draftcheck: Draftcheck, headers: dict[str, str], path: str
) -> None:
    hub.add_repo("org/a", models.small_checkpoint())
    hub.fault("headers", path=path, times=None, set=headers)
    ran = draftcheck(*ASK, HF_HUB_DOWNLOAD_TIMEOUT="1")
    assert_calm(ran)
    assert ran.code in (0, 3), ran.err


def test_a_listing_of_the_cache_is_not_believed(hub: Hub, draftcheck: Draftcheck) -> None:
    """Numbers and digests that no Hub sends: it is asked for anew."""
    hub.add_repo("org/a", models.small_checkpoint())
    assert draftcheck(*ASK).code == 0
    [path] = (draftcheck.home).rglob("listings/*.json")
    body = json.loads(path.read_text(encoding="utf-8"))
    victim = Path(draftcheck.home) / "victim"
    victim.write_text("mine", encoding="utf-8")
    for size, digest in ((float("inf"), None), (-1, None), (10**400, None), (4, 7),
                         (4, f"sha256:../../../../../../..{victim}")):  # fmt: skip
        files = {name: [size, digest] for name in body["files"]}
        path.write_text(json.dumps({**body, "files": files}), encoding="utf-8")
        ran = draftcheck(*ASK)
        assert_calm(ran)
        assert ran.code == 0, ran.err
        assert victim.read_text(encoding="utf-8") == "mine"
