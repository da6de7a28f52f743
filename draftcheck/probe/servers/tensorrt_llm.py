"""trtllm-serve: recognised, not read, because reading /metrics takes the rows from others."""

from __future__ import annotations

from draftcheck.probe.client import ProbedServer
from draftcheck.probe.readings import CompletionReply, ServerReading
from draftcheck.probe.servers import openai

ENGINE = "tensorrt-llm"
OWNERS = frozenset({"tensorrt_llm"})


def looks_like(server: ProbedServer) -> str | None:
    """By its models' owner alone."""
    return None


def version(server: ProbedServer) -> str | None:
    """Ask for its version."""
    return openai.text(server.get("/version").object().get("version"))


def read(server: ProbedServer, model: str | None) -> ServerReading:
    """Not read: see above."""
    return ServerReading(model=model or openai.first_model(server), cause="not-read")


def ask(server: ProbedServer, model: str | None, prompt: str) -> CompletionReply | None:
    """Not sent: the answer would not tell."""
    return None
