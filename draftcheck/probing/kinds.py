"""The kinds of servers, and how one is told by its answers; never by its port."""

from __future__ import annotations

from typing import Protocol

from draftcheck.probing import (
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
from draftcheck.probing.reading import Reading, Reply
from draftcheck.probing.web import Site


class Kind(Protocol):
    """What a module for one kind of server offers."""

    ENGINE: str
    OWNERS: frozenset[str]
    """What it writes as owner of its models in /v1/models."""

    def looks_like(self, site: Site) -> str | None:
        """By what else it can be told, or None."""

    def version(self, site: Site) -> str | None: ...

    def read(self, site: Site, model: str | None) -> Reading: ...

    def ask(self, site: Site, model: str | None, prompt: str) -> Reply | None:
        """Send the prompt; None: nothing was sent, because the answer would not tell."""


KINDS: tuple[Kind, ...] = (
    llama_server,
    vllm,
    sglang,
    tabbyapi,
    ollama,
    lm_studio,
    mlx_lm,
    tensorrt_llm,
)


def recognise(site: Site) -> tuple[Kind, str] | None:
    """The kind of server and by what it was told: its models' owner first, that is one question."""
    owners = openai.owners(site)
    for kind in KINDS:
        if owners & kind.OWNERS:
            return kind, f"owned_by {min(owners & kind.OWNERS)} in {openai.MODELS}"
    for kind in KINDS:
        if (seen := kind.looks_like(site)) is not None:
            return kind, seen
    return None
