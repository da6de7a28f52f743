"""The target behind an HTTP server: one that tells token ids, one that does not, ones that fail."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import FIXTURES, Run
from tests.probe.record_llama_server import running
from tests.probe.server import Fake, answer, send

pytest.importorskip("torch", reason="the trial extra is not installed")
pytest.importorskip("transformers", reason="the trial extra is not installed")
pytestmark = [pytest.mark.transformers, pytest.mark.filterwarnings("ignore")]

TARGET, DRAFT = FIXTURES / "pair" / "target", FIXTURES / "pair" / "draft"
QUESTIONS = [f"Once there were {n} birds and" for n in range(2, 10)]
COMMON = ("--tokens", "16", "--device", "cpu", "--no-cost", "--format", "json")
CHAT = "POST /v1/chat/completions"

Act = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("prompts") / "prompts.txt"
    file.write_text("\n".join(QUESTIONS))
    return file


@pytest.fixture(scope="module")
def written() -> dict[str, tuple[list[int], list[int]]]:
    """What the target really writes: question -> ids of the prompt and of the answer."""
    from draftcheck.trial.backends.backend import TrialOptions, open_backend
    from draftcheck.trial.prompts import Prompt

    options = TrialOptions(tokens=16, device="cpu")
    backend = open_backend("transformers", str(TARGET), str(DRAFT), options)
    found = {}
    for text in QUESTIONS:
        prompt = Prompt("prompts", ({"role": "user", "content": text},))
        [made] = backend.generate([prompt], options)
        found[text] = (made.prompt.tolist(), made.tokens.tolist())
    return found


def vllm(written: dict[str, tuple[list[int], list[int]]]) -> Act:
    """Answers as vLLM does, with token ids when they are asked for."""

    def act(handler: BaseHTTPRequestHandler) -> None:
        body = handler.body  # type: ignore[attr-defined]
        prompt, tokens = written[body["messages"][-1]["content"]]
        choice: dict[str, Any] = {"message": {"content": "…"}, "finish_reason": "length"}
        found: dict[str, Any] = {"choices": [choice]}
        if body.get("return_token_ids"):
            choice["token_ids"], found["prompt_token_ids"] = tokens, prompt
        send(handler, answer(found))

    return act


def texts_only(written: dict[str, tuple[list[int], list[int]]], *, strict: bool = False) -> Act:
    """Answers as a server does that knows OpenAI's fields alone."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(TARGET)

    def act(handler: BaseHTTPRequestHandler) -> None:
        body = handler.body  # type: ignore[attr-defined]
        if strict and "return_token_ids" in body:
            error = {"error": {"message": "Unrecognized request argument: return_token_ids"}}
            return send(handler, answer(error, 400))
        _, tokens = written[body["messages"][-1]["content"]]
        text = tokenizer.decode(tokens, skip_special_tokens=True)
        message = {"content": text, **({"reasoning": "Well."} if strict else {})}
        choice = {"message": message, "finish_reason": "length"}
        usage = {"completion_tokens": len(tokens)}
        return send(handler, answer({"choices": [choice], "usage": usage}))

    return act


def models(owner: str, *names: str) -> dict[str, Any]:
    return answer({"data": [{"id": name, "owned_by": owner} for name in names or ("big",)]})


@pytest.fixture
def serve() -> Iterator[Callable[..., Fake]]:
    servers: list[Fake] = []

    def start(chat: Any, owner: str = "vllm", *names: str) -> Fake:
        servers.append(Fake({"/v1/models": models(owner, *names), CHAT: chat}))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def test_token_ids_make_it_the_same_trial(
    run: Run, prompts: Path, serve: Any, written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-1")
    fake = serve(vllm(written))
    here = run("trial", TARGET, DRAFT, "--prompts", prompts, *COMMON).json
    there = run("trial", TARGET, DRAFT, "--prompts", prompts, *COMMON, "--target-url", fake.url)
    assert there.code == 0, there.err
    assert there.json["backend"] == "endpoint"
    assert there.json["lengths"] == here["lengths"]
    assert there.json["thresholds"] == here["thresholds"]
    assert not any("encoded anew" in note for note in there.json["notes"])
    assert set(fake.keys) == {"Bearer secret-1"}
    assert "secret-1" not in there.out + there.err
    assert {body["model"] for body in fake.bodies} == {"big"}
    assert all(body["temperature"] == 0 and body["max_tokens"] == 16 for body in fake.bodies)


@pytest.mark.parametrize("strict", [False, True])
def test_text_is_encoded_anew_and_that_is_said(
    run: Run, prompts: Path, serve: Any, written: Any, strict: bool
) -> None:
    fake = serve(texts_only(written, strict=strict), "someone")
    here = run("trial", TARGET, DRAFT, "--prompts", prompts, *COMMON).json
    there = run("trial", TARGET, DRAFT, "--prompts", prompts, *COMMON, "--target-url", fake.url)
    assert there.code == 0, there.err
    assert any("8 texts were encoded anew" in note for note in there.json["notes"])
    thoughts = any("came without their thinking" in note for note in there.json["notes"])
    assert thoughts is strict
    ours, theirs = (body["lengths"][3]["tokens_per_pass"] for body in (there.json, here))
    assert ours == pytest.approx(theirs, rel=0.15)


def failing_after(good: int, act: Act, then: Act) -> Act:
    lock, seen = threading.Lock(), [0]

    def play(handler: BaseHTTPRequestHandler) -> None:
        with lock:
            seen[0] += 1
            turn = seen[0]
        (act if turn <= good else then)(handler)

    return play


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.close()


def say(status: int, body: Any = "", **headers: str) -> Act:
    return lambda handler: send(handler, answer(body, status, **headers))


def sleep(handler: BaseHTTPRequestHandler) -> None:
    time.sleep(1)


@pytest.mark.parametrize(
    ("then", "words"),
    [
        (hang_up, "the connection was closed"),
        (say(500, {"error": {"message": "CUDA\x1b[31m error"}}), "HTTP 500: CUDA"),
        (say(429, "", Retry_After="0"), "HTTP 429, still busy after 4 tries"),
        (say(401), "it wants a key"),
        (say(200, "<html>"), "the answer is not a JSON object"),
        (say(200, {"choices": []}), "no choices"),
        (say(200, {"choices": [{"message": {"content": None}}]}), "neither text nor token ids"),
        (sleep, "no complete answer in time"),
    ],
    ids=["hangs-up", "500", "429", "401", "nonsense", "empty", "no-text", "slow"],
)
def test_what_was_measured_before_it_failed_is_kept(
    run: Run,
    prompts: Path,
    serve: Any,
    written: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    then: Act,
    words: str,
) -> None:
    from draftcheck.trial.backends import asking, endpoint

    monkeypatch.setattr(asking, "SECONDS", 0.3 if then is sleep else 30.0)
    monkeypatch.setattr(endpoint.Endpoint, "at_once", 1)
    fake = serve(failing_after(3, vllm(written), then))
    kept = tmp_path / "texts.json"
    common = ("trial", TARGET, DRAFT, "--prompts", prompts, *COMMON, "--target-url", fake.url)
    ran = run(*common, "--reuse", kept)
    assert ran.code == 3, ran.err
    assert ran.json["prompts"] == 3
    assert words in ran.json["stopped"]
    assert "\x1b" not in ran.out
    assert ran.json["lengths"][0]["tokens_per_pass"] > 1
    assert len(json.loads(kept.read_text())["texts"]) == 3
    fake.close()
    again = run(*common, "--reuse", kept)
    assert again.code == 0, again.err
    assert again.json["lengths"] == ran.json["lengths"]
    assert any("only the texts at hand" in note for note in again.json["notes"])


def test_a_server_that_fails_at_once_is_an_error(run: Run, prompts: Path, serve: Any) -> None:
    common = ("trial", TARGET, DRAFT, "--prompts", prompts, *COMMON)
    ran = run(*common, "--target-url", serve(hang_up).url)
    assert ran.code == 3
    assert "the target's server: /v1/chat/completions: the connection was closed" in ran.err
    ran = run(*common, "--target-url", serve(hang_up, "someone", "a", "b").url)
    assert ran.code == 2
    assert "lists 2 models" in ran.err and "Listed: a, b" in ran.err
    fake = Fake({"*": answer("", 401)})
    ran = run(*common, "--target-url", fake.url)
    fake.close()
    assert ran.code == 3
    assert "wants a key (set OPENAI_API_KEY)" in ran.err
    ran = run(*common, "--target-url", fake.url)
    assert ran.code == 3
    assert "connection refused" in ran.err
    assert run(*common, "--target-url", "ftp://localhost:8000").code == 2


def test_a_busy_server_is_asked_again(run: Run, prompts: Path, serve: Any, written: Any) -> None:
    busy = say(503, {"error": {"message": "Loading model"}}, Retry_After="0")
    fake = serve(failing_after(2, busy, vllm(written)))
    ran = run("trial", TARGET, DRAFT, "--prompts", prompts, *COMMON, "--target-url", fake.url)
    assert ran.code == 0, ran.err
    assert ran.json["prompts"] == len(QUESTIONS)


@pytest.mark.parametrize(
    "told", ["nan", "inf", "-5", "1e400", "9" * 400, "Sun, 15 Nov 2026 12:00:00 GMT", "1_0", ""]
)
def test_a_pause_that_is_none_is_not_waited_for(
    run: Run, prompts: Path, serve: Any, written: Any, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    """The program waits as it does for a server that names no pause, and never longer."""
    from draftcheck.trial.backends import asking

    pauses: list[float] = []
    monkeypatch.setattr(asking.time, "sleep", pauses.append)
    fake = serve(failing_after(1, say(503, "", Retry_After=told), vllm(written)))
    ran = run("trial", TARGET, DRAFT, "--prompts", prompts, *COMMON, "--target-url", fake.url)
    assert ran.code == 0, ran.err
    assert ran.json["prompts"] == len(QUESTIONS)
    assert pauses == [asking.PAUSE]


def test_prompts_too_long_for_the_server_are_left_out(
    run: Run, prompts: Path, serve: Any, written: Any
) -> None:
    words = "This model's maximum context length is 16 tokens."
    fake = serve(failing_after(2, say(400, {"error": {"message": words}}), vllm(written)))
    ran = run("trial", TARGET, DRAFT, "--prompts", prompts, *COMMON, "--target-url", fake.url)
    assert ran.code == 0, ran.err
    assert ran.json["prompts"] == len(QUESTIONS) - 2
    assert any("2 prompts left out" in note for note in ran.json["notes"])


@pytest.mark.llamacpp
@pytest.mark.parametrize("draft_too", [False, True])
def test_a_real_llama_server(
    run: Run, prompts: Path, monkeypatch: pytest.MonkeyPatch, draft_too: bool
) -> None:
    server = os.environ.get("DRAFTCHECK_LLAMA_SERVER")
    if not server or not Path(server).is_file():
        pytest.skip("DRAFTCHECK_LLAMA_SERVER does not name a llama-server")
    monkeypatch.setenv("LLAMA_ARG_THREADS", "1")
    pair = (f"{TARGET}.gguf", f"{DRAFT}.gguf")
    here = run("trial", *pair, "--prompts", prompts, *COMMON).json
    with (
        running(Path(server), ["-m", pair[0], "-c", "512"]) as target,
        running(Path(server), ["-m", pair[1], "-c", "512"]) as draft,
    ):
        more = ("--draft-url", draft) if draft_too else ()
        there = run("trial", *pair, "--prompts", prompts, *COMMON, "--target-url", target, *more)
    assert there.code == 0, there.err
    assert there.json["lengths"] == here["lengths"]
