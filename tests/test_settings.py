"""The usual Hub settings, and what must never be shown or sent of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftcheck import settings
from draftcheck.errors import ReadError, UsageError
from draftcheck.models.sources.hub import addresses
from draftcheck.models.sources.hub.client import HttpAnswer, asked_wait
from tests.conftest import Run

HUB = ("https", "hub.example", 443)


@pytest.mark.parametrize(
    "text", ["ftp://x", "http://", "hub.example", "http://x:0", "http://[", "x"]
)
def test_an_endpoint_that_is_none(text: str, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setenv("HF_ENDPOINT", text)
    ran = run("inspect", "org/name")
    assert ran.code == 2 and "HF_ENDPOINT" in ran.err


def test_an_endpoint_with_a_password_is_refused_without_showing_it(
    monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://user:hunter2@hub.example")
    ran = run("inspect", "org/name")
    assert ran.code == 2 and "hunter2" not in ran.err + ran.out


@pytest.mark.parametrize("token", ["hf_two words", "hf_€", "hf_a\tb"])
def test_a_token_that_is_none_is_not_shown(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(UsageError) as caught:
        settings.token()
    assert token[3:] not in caught.value.message + (caught.value.hint or "")


def test_offline_says_what_is_missing_and_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setenv("DRAFTCHECK_CACHE", str(tmp_path / "ours"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "theirs"))
    ran = run("pair", "org/big@dev", "org/small", "--offline")
    assert ran.code == 3 and "org/big at dev" in ran.err
    assert str(tmp_path / "ours") in ran.err and str(tmp_path / "theirs") in ran.err
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize(
    ("location", "there"),
    [
        ("/org/name/x", "https://hub.example/org/name/x"),
        ("https://cdn.example/x?s=1", "https://cdn.example/x?s=1"),
        ("//cdn.example/x", "https://cdn.example/x"),
    ],
)
def test_redirects_that_are_followed(location: str, there: str) -> None:
    assert addresses.follow("https://hub.example/a", location, "x", HUB, {HUB}, None) == there


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "ftp://cdn.example/x",
        "http://cdn.example/x",
        "https://127.0.0.1/x",
        "https://localhost/x",
        "https://10.0.0.1/x",
        "https://[::1]/x",
        "https://169.254.169.254/latest",
        "https://[::ffff:169.254.169.254]/latest",
        "https://[",
        "javascript:alert(1)",
    ],
)
def test_redirects_that_are_not(location: str) -> None:
    with pytest.raises(ReadError, match="redirected"):
        addresses.follow("https://hub.example/a", location, "x", HUB, {HUB}, None)


def test_a_token_is_bound_to_scheme_host_and_port() -> None:
    assert addresses.origin("https://HUB.example/x") == HUB
    for other in ("http://hub.example", "https://hub.example:8443", "https://hub.example.evil"):
        assert addresses.origin(other) != HUB


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        (429, {"ratelimit": '"api";r=0;t=55'}, 56.0),
        (429, {"ratelimit": '"api";r=3;t=55', "retry-after": "7"}, 7.0),
        (503, {"retry-after": "7"}, 7.0),
        (503, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        (503, {"retry-after": "soon"}, None),
        (503, {"retry-after": "-5"}, None),
        (429, {}, None),
    ],
)
def test_how_long_a_server_asks_to_wait(
    status: int, headers: dict[str, str], seconds: float | None
) -> None:
    assert asked_wait(HttpAnswer("https://hub.example", status, headers)) == seconds
