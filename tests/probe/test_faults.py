"""Servers that are down, slow, endless, rude or hostile; keys that must not leak."""

from __future__ import annotations

import json
import math
import re
import socket
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run
from tests.probe import answers
from tests.probe.conftest import RECORDED, Ask, Serve
from tests.probe.server import Act, Fake, answer

SECRET = "sk-very-secret-0123456789"


def found(ran: Any) -> tuple[int, str, list[str]]:
    body = ran.json
    return ran.code, body["state"], [cause["id"] for cause in body["causes"]]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "no scheme"),
        ("ftp://host/x", "only http and https"),
        ("file:///etc/passwd", "only http and https"),
        ("http://", "Write http://HOST:PORT"),
        ("http://host:99999", "malformed"),
        ("http://host:x", "malformed"),
        ("http://[::1", "malformed"),
        ("http://host/?a=b", "Write http://HOST:PORT"),
        ("http://host/a\r\nX: y", "Write http://HOST:PORT"),
        ("http://user:hunter2@host/", "--api-key-file"),
        ("user:hunter2@host", "Write http://HOST:PORT"),
        ("host:80/v1?key=hunter2", "Write http://HOST:PORT"),
        ("host:80/v1#hunter2", "Write http://HOST:PORT"),
        ("http://host/v1?key=hunter2", "Write http://HOST:PORT"),
    ],
)
def test_addresses_that_are_none(run: Run, url: str, words: str) -> None:
    ran = run("probe", url)
    assert ran.code == 2 and words in ran.err and "hunter2" not in ran.err + ran.out


def test_an_address_without_a_scheme_is_http(run: Run, serve: Serve) -> None:
    fake = serve(RECORDED["draft"]["served"])
    ran = run("probe", fake.url.removeprefix("http://"), "--format", "json")
    assert ran.code == 0 and ran.json["url"] == fake.url


def test_the_first_line_has_the_figures(run: Run, serve: Serve) -> None:
    fake = serve(RECORDED["draft"]["served"])
    first = run("probe", fake.url).out.splitlines()[0]
    assert re.fullmatch(
        r"speculating: \d+ % accepted, \d\.\d\d tokens per pass(, position \d+ only \d+ %)?"
        r" \(llama.cpp .*\)",
        first,
    ), first


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/", "/v1/chat/completions", "/metrics"])
def test_an_endpoint_at_the_end_is_dropped(run: Run, serve: Serve, ending: str) -> None:
    fake = serve(RECORDED["draft"]["served"])
    ran = run("probe", fake.url + ending, "--format", "json")
    assert ran.code == 0 and ran.json["url"] == fake.url


def test_a_server_below_a_path(run: Run, serve: Serve) -> None:
    fake = serve({f"/llm{path}": what for path, what in RECORDED["draft"]["served"].items()})
    assert run("probe", f"{fake.url}/llm/v1").code == 0


def test_ipv6(run: Run, serve: Serve) -> None:
    try:
        fake = serve(RECORDED["draft"]["served"], host="::1")
    except OSError:
        pytest.skip("no IPv6 loopback here")
    assert fake.url.startswith("http://[::1]:")
    assert run("probe", fake.url).code == 0


def test_nothing_listens(run: Run) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        ran = run("probe", f"http://127.0.0.1:{free.getsockname()[1]}")
    assert ran.code == 3 and "connection refused" in ran.err and "hint:" in ran.err


def test_unknown_host(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    ran = run("probe", "http://no.such.host.example:8000")
    assert ran.code == 3 and "host name is not known" in ran.err


def test_https_asked_of_an_http_server(run: Run, serve: Serve) -> None:
    fake = serve({})
    ran = run("probe", fake.url.replace("http:", "https:"))
    assert ran.code == 3 and "no TLS there" in ran.err


def test_proxies_of_the_environment_are_ignored(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert run("probe", serve(RECORDED["draft"]["served"]).url).code == 0


# ---- answers that are none ----


def dripping(handler: BaseHTTPRequestHandler) -> None:
    """A byte now and then, for ever: only a deadline for the whole answer ends it."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while True:
        handler.wfile.write(b" ")
        time.sleep(0.02)


def dripping_headers(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        handler.wfile.write(b"x")
        time.sleep(0.02)


def only_continue(handler: BaseHTTPRequestHandler) -> None:
    while True:
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.002)


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    while True:
        handler.wfile.write(b"x" * 65536)


def endless_chunks(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        handler.wfile.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")


def endless_headers(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        handler.wfile.write(b"X: y\r\n")


def raw(data: bytes) -> Act:
    def act(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(data)
        handler.close_connection = True

    return act


@pytest.mark.parametrize(
    "act",
    [
        dripping,
        dripping_headers,
        only_continue,
        endless,
        endless_chunks,
        endless_headers,
        raw(b""),
        raw(b"SSH-2.0-OpenSSH_9.9\r\n"),
        raw(b"\x16\x03\x01\x00\xff" * 99),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n{}"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}"),
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b"),
        raw(b"HTTP/1.1 999999999 OK\r\n\r\n"),
    ],
    ids=lambda act: act.__name__,
)
def test_answers_that_cannot_be_used(ask: Ask, act: Act) -> None:
    """Everywhere: not recognised. At one address of a known server: the rest still counts."""
    ran = ask({"*": act}, "--timeout", "0.3")
    assert ran.code == 3 and ran.json["engine"] is None and ran.json["causes"]
    routes = RECORDED["draft"]["served"] | {"/metrics": act}
    ran = ask(routes, "--timeout", "1")
    assert ran.code == 0 and ran.json["since_start"] is None


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (answer("<!doctype html><html>Open WebUI</html>"), "web-page"),
        (answer("Not Found", 404), "stranger"),
        (answer({"data": "many"}), "stranger"),
        (answer([1, 2]), "stranger"),
        (answer("[" * 100000), "stranger"),
        (answer('{"data": [{"owned_by": ' + "9" * 5000 + "}]}"), "stranger"),
        (answer(b'{"data": "\xff\xfe"}'), "stranger"),
        (answer("boom", 500), "server-error"),
        (answer("", 401), "needs-key"),
        (answer("", 403), "needs-key"),
        (answer("", 302, Location="http://example.org/login?token=abc"), "no-answer"),
        (answer("", 302, Location="http://[bad"), "no-answer"),
        (answer("", 302), "no-answer"),
        (answer("", 302, Location="/v1/models"), "no-answer"),
    ],
)
def test_strangers(ask: Ask, reply: Any, cause: str) -> None:
    ran = ask({"*": reply})
    assert found(ran) == (3, "unknown", [cause])
    assert "token" not in ran.out


def test_a_redirect_to_another_host_is_reported_not_followed(
    run: Run, serve: Serve, tmp_path: Path
) -> None:
    other = serve(RECORDED["draft"]["served"])
    fake = serve({"*": answer("", 307, Location=f"{other.url}/v1/models")})
    (tmp_path / "key").write_text(SECRET)
    ran = run("probe", fake.url, "--api-key-file", tmp_path / "key", "--format", "json")
    assert ran.code == 3 and any(f"redirects to {other.url}" in note for note in ran.json["notes"])
    assert other.asked == []


# ---- hostile texts and numbers ----


def test_texts_of_the_server_are_escaped(ask: Ask) -> None:
    evil = "\x1b[31mowned\x1b[0m\u202e\n::error::x|`<b>"
    routes = answers.vllm(answers.vllm_metrics(30, 90, 60, (30, 20, 10), 99), version=evil)
    routes["/v1/models"] = answers.models("vllm", evil)
    for form in ("text", "markdown"):
        out = ask(routes, form=form).out
        assert "\x1b" not in out and "\u202e" not in out and "\n::error" not in out
    assert "\\<b\\>" in out
    ran = ask(routes)
    assert ran.json["model"] == evil and ran.out.isascii()


def test_endless_names_are_cut(ask: Ask) -> None:
    routes = answers.vllm(answers.vllm_metrics(30, 90, 60, (30,), 99), version="9" * 10**6)
    routes["/v1/models"] = answers.models("vllm", "x" * 10**6)
    for form in ("text", "json", "markdown"):
        assert len(ask(routes, form=form).out) < 5000


@pytest.mark.parametrize(
    "value", ["NaN", "+Inf", "-5", "1e400", "9" * 400, "twelve", "", "0x10", "1e30"]
)
def test_numbers_that_are_none(ask: Ask, value: str) -> None:
    metrics = answers.vllm_metrics(30, 90, 60, (30, 20, 10), 99)
    broken = metrics.replace("_num_drafts_total{", '_num_drafts_total{x="', 1).replace(
        "30.0", value
    )
    assert ask(answers.vllm(broken)).code in (0, 1, 3)
    ran = ask(answers.vllm(metrics.replace("} 60.0", "} " + value)))
    assert ran.code in (0, 1, 3)


@pytest.mark.parametrize(
    "value", [10**400, -(10**400), 10**4000, math.nan, math.inf, -1, 1e300, True, "5", [1], None]
)
def test_numbers_in_answers_that_are_none(ask: Ask, value: Any) -> None:
    """Each of them in every place where an answer holds a number."""
    timings = dict.fromkeys(("draft_n", "draft_n_accepted", "predicted_n"), value)
    names = ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens")
    figures = {"acceptance_histogram": [value] * 3, **dict.fromkeys(names, value)}
    meta = ("spec_verify_ct", "completion_tokens", "spec_num_correct_drafts")
    stats = ("total_draft_tokens_count", "accepted_draft_tokens_count")
    state = {"avg_spec_accept_length": value}
    servers: dict[str, dict[str, Any]] = {
        "llamacpp": {"POST /completion": answer({"timings": timings})},
        "vllm": {
            "/metrics": answer(answers.vllm_metrics(30, 90, 60, (30,), 99)),
            "POST /v1/completions": answer({"metrics": {"speculative_decoding": figures}}),
        },
        "sglang": {
            "/server_info": answer(
                {**answers.STANDALONE, "speculative_num_draft_tokens": value,
                 "internal_states": [state, {"avg_spec_accept_length": 2.5}]}
            ),
            "POST /generate": answer({"meta_info": dict.fromkeys(meta, value)}),
        },
        "organization_owner": {
            "/api/v0/models": answer({"data": [{"id": "org/model", "state": "loaded"}]}),
            "POST /api/v0/completions": answer(
                {"stats": dict.fromkeys(stats, value), "usage": {"completion_tokens": value}}
            ),
        },
        "library": {
            "/api/ps": answer({"models": [{"model": "m"}]}),
            "POST /api/show": answer(
                {"modelfile": value, "model_info": {"a.nextn_predict_layers": value}}
            ),
        },
    }  # fmt: skip
    for owner, routes in servers.items():
        ran = ask({"/v1/models": answers.models(owner), **routes}, "--prompt", "x")
        assert ran.code in (0, 1, 3), (owner, ran.err)
        json.loads(ran.out, parse_constant=pytest.fail)


def test_answers_as_large_as_allowed_are_read_in_a_moment(ask: Ask) -> None:
    """Labels without an end, and a histogram of a million steps."""
    metrics = answers.vllm_metrics(30, 90, 60, (30, 20, 10), 99)
    figures = {"num_spec_steps": 3, "num_accepted_draft_tokens": 6}
    figures["acceptance_histogram"] = [1] * 1_000_000  # type: ignore[assignment]
    routes = answers.vllm(metrics + "vllm:x{" + "a" * 3_000_000 + "} 1\n")
    routes["POST /v1/completions"] = answer({"metrics": {"speculative_decoding": figures}})
    assert ask(routes, "--prompt", "x").code in (0, 1)


def test_counters_that_contradict_each_other(ask: Ask) -> None:
    ran = ask(answers.vllm(answers.vllm_metrics(30, 10, 60, (99, 20), 99)))
    assert ran.json["since_start"]["acceptance_rate"] is None


def test_positions_beyond_reason(ask: Ask) -> None:
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    extra = "".join(
        f'{name}{{position="{at}"}} 1.0\n' for at in ("999999999999", "-1", "x", "²", "")
    )
    ran = ask(answers.vllm(answers.vllm_metrics(30, 90, 60, (30, 20), 99) + extra))
    assert len(ran.json["since_start"]["acceptance_by_position"]) == 2


def test_bytes_that_are_not_utf8_do_not_hide_the_counters(ask: Ask) -> None:
    text = answers.vllm_metrics(30, 90, 60, (30, 20, 10), 99).encode()
    ran = ask(answers.vllm() | {"/metrics": answer(b'vllm:x{y="\xff\xfe"} 1\n' + text)})
    assert ran.code == 0 and ran.json["since_start"]["drafts"] == 30


@pytest.mark.parametrize("body", [[], {}, None, "x", [None], [[]], {"data": {}}, 7])
def test_every_address_answering_something_else(ask: Ask, body: Any) -> None:
    """Recognised by the first answer, nonsense everywhere else: never a crash."""
    for owner in ("llamacpp", "vllm", "sglang", "tabbyAPI", "library", "organization_owner"):
        ran = ask({"/v1/models": answers.models(owner), "*": answer(body)}, "--prompt", "x")
        assert ran.code == 3, (owner, ran.out, ran.err)


# ---- the key ----


def with_key(run: Run, fake: Fake, tmp_path: Path, content: bytes, *options: str) -> Any:
    path = tmp_path / "key"
    path.write_bytes(content)
    return run("probe", fake.url, "--api-key-file", path, *options)


@pytest.mark.parametrize("content", [SECRET, f"{SECRET}\n", f"\ufeff{SECRET}\r\n", f"  {SECRET} "])
def test_the_key_is_sent(run: Run, serve: Serve, tmp_path: Path, content: str) -> None:
    fake = serve(RECORDED["draft"]["served"])
    ran = with_key(run, fake, tmp_path, content.encode())
    assert ran.code == 0 and set(fake.keys) == {f"Bearer {SECRET}"}
    assert SECRET not in ran.out + ran.err


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        f"{SECRET}\nX-Evil: 1".encode(),
        f"Bearer {SECRET}".encode(),
        f"{SECRET}\u20ac".encode(),
        b"\xff\xfe",
        b"a" * 9000,
    ],
)
def test_files_that_hold_no_key(run: Run, serve: Serve, tmp_path: Path, content: bytes) -> None:
    fake = serve({})
    ran = with_key(run, fake, tmp_path, content)
    assert ran.code == 2 and "not a key" in ran.err and SECRET not in ran.out + ran.err
    assert fake.asked == []


def test_a_key_that_the_server_echoes_is_not_shown(run: Run, serve: Serve, tmp_path: Path) -> None:
    routes = answers.vllm(answers.vllm_metrics(30, 90, 60, (30,), 99), version=f"v {SECRET}")
    routes["/v1/models"] = answers.models("vllm", f"Bearer {SECRET}")
    for form in ("text", "json", "markdown"):
        ran = with_key(run, serve(routes), tmp_path, SECRET.encode(), "--format", form)
        assert SECRET not in ran.out + ran.err
    moved = serve({"*": answer("", 302, Location=f"http://x.example/{SECRET}")})
    ran = with_key(run, moved, tmp_path, SECRET.encode())
    assert ran.code == 3 and SECRET not in ran.out + ran.err


def test_a_key_over_plain_http_is_warned_of(run: Run, tmp_path: Path, monkeypatch: Any) -> None:
    def nowhere(*_: object, **__: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", nowhere)
    (tmp_path / "key").write_text(SECRET)
    ran = run("probe", "http://host.example", "--api-key-file", tmp_path / "key")
    assert ran.code == 3 and "unencrypted" in ran.err and SECRET not in ran.err


# ---- the command ----


def test_usage(run: Run, tmp_path: Path) -> None:
    assert run("probe").code == 2
    for value in ("0", "-1", "nan", "inf", "-inf", "1e400", "9" * 400):
        for option in ("--interval", "--timeout"):
            ran = run("probe", "http://h", option, value)
            assert ran.code == 2, ran.err
            assert ran.err.splitlines()[-1].startswith(f"error: Invalid value for '{option}': ")
    assert run("probe", "http://h", "--interval", "1", "--prompt", "x").code == 2
    assert run("probe", "http://h", "--api-key-file", tmp_path / "none").code == 2
    assert run("probe", "http://h", "--format", "sarif").code == 2


def test_quiet_and_output(run: Run, serve: Serve, tmp_path: Path) -> None:
    fake = serve(RECORDED["-md only"]["served"])
    ran = run("probe", fake.url, "--quiet")
    assert (ran.code, ran.out) == (1, "")
    ran = run("probe", fake.url, "--output", tmp_path / "report")
    assert ran.out == "" and (tmp_path / "report").read_text().startswith("not-speculating: ")


def test_text_shows_figures_and_cause(ask: Ask) -> None:
    out = ask(RECORDED["draft"]["served"], form="text").out
    assert "72 of 199 drafted tokens accepted, rate 36.2%, mean length 2.06" in out
    assert "conditional   52.9%  63.9%  56.5%" in out
    out = ask(RECORDED["-md only"]["served"], form="text").out
    assert "  fix  Add --spec-type draft-simple" in out
    table = ask(RECORDED["draft"]["served"], form="markdown").out
    assert "| 2 | 33.8% | 63.9% |" in table


def test_every_cause_in_the_code_has_its_words() -> None:
    """And every row is well formed: a text, a fix, windows that can be ordered."""
    import re

    from draftcheck import versions
    from draftcheck.probe import run, servers
    from draftcheck.rulebook import files
    from tests.conftest import ROOT

    rows = files.read("probes", run.ProbeFile).cause
    engines = {kind.engine for kind in servers.KINDS}
    for row in rows:
        assert row.text.endswith(".") and row.fix.endswith(".")
        assert row.engine is None or row.engine in engines
        for bound in filter(None, (row.since, row.until)):
            versions.build(bound)
    known = {row.id for row in rows}
    code = "".join(path.read_text() for path in (ROOT / "draftcheck/probe").rglob("*.py"))
    used = set(re.findall(r'cause="([a-z-]+)"', code))
    assert used and used <= known
