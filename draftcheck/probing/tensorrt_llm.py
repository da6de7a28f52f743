"""trtllm-serve: recognised, not read, because reading /metrics takes the rows from others."""

from __future__ import annotations

from draftcheck.probing import openai
from draftcheck.probing.reading import Reading, Reply
from draftcheck.probing.web import Site

ENGINE = "tensorrt-llm"
OWNERS = frozenset({"tensorrt_llm"})


def looks_like(site: Site) -> str | None:
    return None


def version(site: Site) -> str | None:
    return openai.text(site.get("/version").object().get("version"))


def read(site: Site, model: str | None) -> Reading:
    return Reading(model=model or openai.first_model(site), cause="not-read")


def ask(site: Site, model: str | None, prompt: str) -> Reply | None:
    """Not sent: the answer would not tell."""
    return None
