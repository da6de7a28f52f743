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

    def looks_like(self, site: ProbedServer) -> str | None:
        """By what else it can be told, or None."""

    def version(self, site: ProbedServer) -> str | None: ...

    def read(self, site: ProbedServer, model: str | None) -> ServerReading: ...

    def ask(self, site: ProbedServer, model: str | None, prompt: str) -> CompletionReply | None:
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


def recognise(site: ProbedServer) -> tuple[ServerKind, str] | None:
    """The kind of server and by what it was told: its models' owner first, that is one question."""
    owners = openai.owners(site)
    for kind in KINDS:
        if owners & kind.OWNERS:
            return kind, f"owned_by {min(owners & kind.OWNERS)} in {openai.MODELS}"
    for kind in KINDS:
        if (seen := kind.looks_like(site)) is not None:
            return kind, seen
    return None
