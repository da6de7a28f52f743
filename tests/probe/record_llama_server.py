"""Record what a real llama-server answers, with and without a draft; trimmed for the tests.

    python tests/probe/record_llama_server.py --server PATH/TO/llama-server \\
        --target TARGET.gguf --draft DRAFT.gguf --unfit OTHER.gguf

OTHER is a draft whose vocabulary does not fit. Writes recorded/llama_server.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

RECORDING = Path(__file__).parent / "recorded" / "llama_server.json"
BASIC = ["-c", "1024", "-np", "2", "-t", "1", "-td", "1", "-fit", "off", "-nr"]
SIMPLE = ["--spec-type", "draft-simple"]
LOOK = ("/v1/models", "/props", "/slots", "/metrics")
PROPS = ("model_alias", "endpoint_slots", "endpoint_metrics", "build_info", "is_sleeping", "role")
PROMPTS = ("Once upon a time there was a", "How to make soup:", "def ", "Dear friend")
Answer = dict[str, Any]


def fetch(url: str, body: object = None) -> Answer:
    """Status, the telling headers and the text of an answer."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(url, data, timeout=60) as answer:
            status, headers, text = answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        status, headers, text = error.code, error.headers, error.read().decode()
    except OSError:
        return {"status": 0, "body": ""}
    kept = {name: headers[name] for name in ("Server", "Content-Type") if headers[name]}
    return {"status": status, "headers": kept, "body": trim(text)}


def trim(text: str) -> Any:
    """Only what the probe looks at, in its place."""
    if text.startswith("# HELP"):
        kept = re.compile(r"(# TYPE )?llamacpp:(spec_|tokens_predicted_total)")
        return "".join(f"{line}\n" for line in text.splitlines() if kept.match(line))
    try:
        body = json.loads(text)
    except ValueError:
        return text
    if isinstance(body, list):
        return [slot(entry) for entry in body]
    if "build_info" in body:
        alias = {"model_alias": Path(body["model_alias"]).name}
        return {name: body[name] for name in PROPS if name in body} | alias
    if "data" in body:
        return {"object": body.get("object"), "data": [model(entry) for entry in body["data"]]}
    if "timings" in body:
        kept_timings = ("prompt_n", "predicted_n", "draft_n", "draft_n_accepted")
        return {"timings": {k: v for k, v in body["timings"].items() if k in kept_timings}}
    return body


def slot(entry: Answer) -> Answer:
    kept = {name: entry[name] for name in ("id", "n_ctx", "speculative", "is_processing")}
    if "params" in entry:
        types = entry["params"]["speculative.types"]
        kept["params"] = {"temperature": entry["params"]["temperature"], "speculative.types": types}
    return kept


def model(entry: Answer) -> Answer:
    kept = {name: entry[name] for name in ("id", "object", "owned_by")}
    kept["id"] = Path(kept["id"]).name
    if "status" in entry:
        kept["status"] = {"value": entry["status"]["value"]}
    return kept


@contextmanager
def running(server: Path, arguments: list[str]) -> Iterator[str]:
    """The address of a healthy server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [str(server), *arguments, *BASIC, "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"GGML_NO_BACKTRACE": "1"},
    )
    try:
        end = time.monotonic() + 60
        while fetch(url + "/health")["status"] != 200:
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"the server did not start: {command}")
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(10)


def look(url: str, query: str = "") -> dict[str, Answer]:
    return {path + query: fetch(url + path + query) for path in LOOK}


def complete(url: str, prompt: str) -> Answer:
    return fetch(url + "/completion", {"prompt": prompt, "n_predict": 48, "temperature": 0})


def session(server: Path, arguments: list[str], later: bool) -> dict[str, Any]:
    """A look before any request, one after three requests, and one after a fourth if wanted."""
    with running(server, arguments) as url:
        found: dict[str, Any] = {"fresh": look(url)}
        for prompt in PROMPTS[:-1]:
            complete(url, prompt)
        found["served"] = look(url)
        found["completion"] = complete(url, PROMPTS[-1])
        if later:
            found["later"] = look(url)
    return found


def router(server: Path, folder: Path) -> dict[str, Any]:
    """A router with nothing loaded, then with its target loaded."""
    with running(server, ["--models-dir", str(folder), "--metrics"]) as url:
        query = "?model=target&autoload=false"
        found = {"empty": look(url) | look(url, query)}
        fetch(url + "/models/load", {"model": "target"})
        while fetch(f"{url}/slots{query}")["status"] != 200:
            time.sleep(0.1)
        found["loaded"] = look(url) | look(url, query)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("server", "target", "draft", "unfit"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    given = parser.parse_args()
    plain = ["-m", str(given.target)]
    draft = [*plain, "-md", str(given.draft)]
    sessions = {
        "no draft": [*plain, "--metrics"],
        "draft": [*draft, *SIMPLE, "--metrics"],
        "draft, no metrics": [*draft, *SIMPLE],
        "draft, no slots": [*draft, *SIMPLE, "--no-slots"],
        "-md only": [*draft, "--metrics"],
        "unfit draft": [*plain, "-md", str(given.unfit), *SIMPLE, "--metrics"],
        "p-min 1": [*draft, *SIMPLE, "--metrics", "--spec-draft-p-min", "1"],
        "n-gram": [*plain, "--spec-type", "ngram-simple", "--metrics"],
        "key": [*plain, "--api-key", "not-given"],
    }
    found = {name: session(given.server, args, name == "draft") for name, args in sessions.items()}
    found["router"] = router(given.server, given.target.parent)
    text = json.dumps(found, indent=1, ensure_ascii=True)
    RECORDING.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
