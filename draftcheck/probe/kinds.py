"""The kinds of servers, and how one is told by its answers; never by its port."""

from __future__ import annotations

from typing import Protocol

from draftcheck.probe.client import ProbedServer
from draftcheck.probe.readings import CompletionReply, ServerReading
from draftcheck.probe.servers import (
    llama_server,
    lm_studio,
    mlx_lm,
    ollama,
    openai,
    sglang,
    tabbyapi,
    tensorrt_llm,
    vllm,
)


class ServerKind(Protocol):
    """What a module for one kind of server offers."""

    ENGINE: str
    OWNERS: frozenset[str]
    """What it writes as owner of its models in /v1/models."""

    def looks_like(self, server: ProbedServer) -> str | None:
        """By what else it can be told, or None."""

    def version(self, server: ProbedServer) -> str | None:
        """Ask for its version; None where it does not tell."""

    def read(self, server: ProbedServer, model: str | None) -> ServerReading:
        """Ask for what it tells about speculation, without a prompt."""

    def ask(self, server: ProbedServer, model: str | None, prompt: str) -> CompletionReply | None:
        """Send the prompt; None: nothing was sent, because the answer would not tell."""


KINDS: tuple[ServerKind, ...] = (
    llama_server,
    vllm,
    sglang,
    tabbyapi,
    ollama,
    lm_studio,
    mlx_lm,
    tensorrt_llm,
)


def recognise(server: ProbedServer) -> tuple[ServerKind, str] | None:
    """Find the kind of server, and by what: its models' owner first, that is one question."""
    owners = openai.owners(server)
    for kind in KINDS:
        if owners & kind.OWNERS:
            return kind, f"owned_by {min(owners & kind.OWNERS)} in {openai.MODELS}"
    for kind in KINDS:
        if (seen := kind.looks_like(server)) is not None:
            return kind, seen
    return None
