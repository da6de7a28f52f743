"""mlx_lm.server: neither its addresses nor its answers say anything about drafts."""

from __future__ import annotations

from draftcheck.probe.client import ProbedServer
from draftcheck.probe.readings import CompletionReply, ServerReading
from draftcheck.probe.servers import openai

ENGINE = "mlx-lm"
OWNERS: frozenset[str] = frozenset()


def looks_like(server: ProbedServer) -> str | None:
    """Python's plain HTTP server, and models without an owner."""
    plain = server.get(openai.MODELS).headers.get("server", "").startswith("BaseHTTP/")
    listed = openai.models(server)
    bare = bool(listed) and all(set(entry) == {"id", "object", "created"} for entry in listed)
    return "the form of /v1/models" if plain and bare else None


def version(server: ProbedServer) -> str | None:
    """Not told."""
    return None


def read(server: ProbedServer, model: str | None) -> ServerReading:
    """Nothing is told."""
    return ServerReading(model=model, cause="not-told")


def ask(server: ProbedServer, model: str | None, prompt: str) -> CompletionReply | None:
    """Not sent: the answer would not tell."""
    return None
