"""Every recorded answer: the stand-in gives it, and draftcheck makes the right thing of it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.hub import Hub, models
from tests.hub.process import Draftcheck

pytest.importorskip("huggingface_hub")
from huggingface_hub.utils import httpx

RECORDED = tomllib.loads((ROOT / "tests/hub/recorded.toml").read_text(encoding="utf-8"))["exchange"]
KEYS = {
    "number", "what", "source", "kept", "asked", "at", "follow", "range", "form", "token", "status",
    "has", "lacks", "holds", "omits", "setup", "run", "exit", "says", "waits", "sends", "same_as",
    "left_out",
}  # fmt: skip
SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2}  # fmt: skip


def no_sizes(hub: Hub) -> None:
    """The server knows no blobs=true."""

    def edit(body: bytes) -> bytes:
        answer = json.loads(body)
        for row in answer.get("siblings", []) if isinstance(answer, dict) else []:
            row.pop("size", None)
        return json.dumps(answer).encode()

    hub.fault("edit", path="/api/models/*", times=None, do=edit)


def short_pages(hub: Hub) -> None:
    hub.tree_page, hub.list_page = 3, 2


def wrong_total(hub: Hub) -> None:
    hub.repos["org/draft"].extra["safetensors"]["total"] = 664944


SETUPS: dict[str, Callable[[Hub], object]] = {
    "wrong total": wrong_total,
    "no commit header": lambda hub: hub.fault(
        "headers", path="*/resolve/*", times=None, set={"X-Repo-Commit": None}
    ),
    "no sizes": no_sizes,
    "short pages": short_pages,
    "no baseModels in lists": lambda hub: hub.not_in_lists.add("baseModels"),
    "504 once": lambda hub: hub.fault("status", path="/api/models", code=504, body=b"<html>"),
    "expired link": lambda hub: hub.fault("expired", origin="cdn"),
    "used up": lambda hub: hub.quotas.set(300, api=0),
    "429 of an edge": lambda hub: hub.fault(
        "status", path="/api/models/*", code=429, headers={"Content-Type": "text/html"}
    ),
    "no length": lambda hub: hub.fault("no_length", path="*/resolve*", times=None),
}


@pytest.fixture
def world(hub: Hub) -> Hub:
    add_world(hub)
    return hub


def add_world(hub: Hub) -> None:
    """The repos that the recordings speak of."""
    deep = {**SMALL, "num_hidden_layers": 8}
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    files = models.checkpoint(deep, words=300)
    size: dict[str, Any] = {"parameters": {"BF16": 350_000}, "total": 350_000}
    hub.add_repo(
        "org/open",
        {**files, "sub/notes.txt": b"notes"},
        downloads=1000,
        tags=("safetensors", "llama"),
        extra={"config": config, "safetensors": size, "model-index": None},
    )
    based = {"relation": "quantized", "models": [{"_id": "0" * 24, "id": "org/open"}]}
    hub.add_repo(
        "org/draft",
        models.checkpoint(SMALL, words=300),
        tags=("safetensors", "base_model:org/open", "base_model:quantized:org/open"),
        extra={"config": config, "safetensors": {**size, "total": 100_000}, "baseModels": based},
    )
    hub.add_repo("org/gated", {**files, "tokenizer.json": b"{}"}, gated="manual")
    hub.add_repo("org/off", files, gated="auto", disabled=True)
    about = {"gguf": {"total": 1000, "architecture": "llama", "context_length": 4096}}
    quants = {"m-Q4_K_M.gguf": models.small_gguf(), "m-Q8_0.gguf": models.small_gguf()}
    hub.add_repo("org/gguf", quants, tags=("gguf",), extra=about)
    hub.aliases |= dict.fromkeys(("org/old", "old", "gone/away"), "org/open")
    hub.add_token("hf_somebody")
    hub.add_token("hf_narrow", repos={"org/gated"}, reads_gated=False)


def filled(value: Any, hub: Hub) -> Any:
    """{sha}, {short} and {hub} in the texts of an entry."""
    sha = hub.repos["org/open"].sha
    if isinstance(value, dict):
        return {name: filled(text, hub) for name, text in value.items()}
    if isinstance(value, list):
        return [filled(text, hub) for text in value]
    for name, text in {"sha": sha, "short": sha[:8], "hub": hub.url}.items():
        value = value.replace(f"{{{name}}}", text) if isinstance(value, str) else value
    return value


def named(entry: dict[str, Any]) -> str:
    return f"{entry['number']}-{entry['what'][:40].replace(' ', '-')}"


def with_key(name: str) -> list[Any]:
    return [pytest.param(entry, id=named(entry)) for entry in RECORDED if name in entry]


def test_every_recording_is_there_with_its_source_and_a_case() -> None:
    assert {entry["number"] for entry in RECORDED} == set(range(1, 57))
    for entry in RECORDED:
        assert set(entry) <= KEYS, named(entry)
        assert entry["source"] and entry["kept"] in ("headers", "note"), named(entry)
        other = [more for more in RECORDED if more["number"] == entry.get("same_as")]
        cases = {"asked", "run", "left_out"} & entry.keys()
        assert cases or any("asked" in more for more in other), named(entry)
        assert ("status" in entry) == ("asked" in entry) and ("exit" in entry) == ("run" in entry)
        assert set(entry.get("setup", ())) <= set(SETUPS), named(entry)


@pytest.mark.parametrize("entry", with_key("asked"))
def test_the_stand_in_answers_as_recorded(entry: dict[str, Any], world: Hub) -> None:
    for name in entry.get("setup", ()):
        SETUPS[name](world)
    entry = filled(entry, world)
    method, _, path = entry["asked"].partition(" ")
    headers = {"Accept-Encoding": "identity"}
    if "token" in entry:
        headers["Authorization"] = f"Bearer {entry['token']}"
    if "range" in entry:
        headers["Range"] = entry["range"]
    if "form" in entry:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    home = world.mirror_url if entry.get("at") == "mirror" else world.url
    with httpx.Client(trust_env=False, follow_redirects=entry.get("follow", False)) as client:
        body = entry["form"].encode() if "form" in entry else None
        answer = client.request(method, home + path, headers=headers, content=body)
    assert answer.status_code == entry["status"], answer.text
    for name, pattern in entry.get("has", {}).items():
        assert fnmatchcase(answer.headers.get(name, ""), pattern), (name, answer.headers)
    for name in entry.get("lacks", ()):
        assert name not in answer.headers
    for text in entry.get("holds", ()):
        assert text in answer.text
    for text in entry.get("omits", ()):
        assert text not in answer.text


@pytest.mark.parametrize("entry", with_key("run"))
def test_draftcheck_understands_it(
    entry: dict[str, Any], world: Hub, draftcheck: Draftcheck
) -> None:
    for name in entry.get("setup", ()):
        SETUPS[name](world)
    entry = filled(entry, world)
    draftcheck.token = entry.get("token")
    home = world.mirror_url if entry.get("at") == "mirror" else world.url
    ran = draftcheck.skip_waits()(*entry["run"], HF_ENDPOINT=home)
    assert ran.code == entry["exit"], ran.err + world.story()
    for text in entry.get("says", ()):
        assert text in ran.err, ran.err
    assert draftcheck.waited <= entry.get("waits", 20)
    questions = [log.query for log in world.log if log.path == "/api/models"]
    for text in entry.get("sends", ()):
        assert text in questions[-1], questions
