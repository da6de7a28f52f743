"""trtllm-serve: recognised, not read, because reading /metrics takes the rows from others."""

from __future__ import annotations

from draftcheck.probe.client import ProbedServer
from draftcheck.probe.readings import CompletionReply, ServerReading
from draftcheck.probe.servers import openai

ENGINE = "tensorrt-llm"
OWNERS = frozenset({"tensorrt_llm"})


def looks_like(site: ProbedServer) -> str | None:
    return None


def version(site: ProbedServer) -> str | None:
    return openai.text(site.get("/version").object().get("version"))


def read(site: ProbedServer, model: str | None) -> ServerReading:
    return ServerReading(model=model or openai.first_model(site), cause="not-read")


def ask(site: ProbedServer, model: str | None, prompt: str) -> CompletionReply | None:
    """Not sent: the answer would not tell."""
    return None
