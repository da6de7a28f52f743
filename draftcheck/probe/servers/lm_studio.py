"""LM Studio: drafts are chosen by request or by the model's defaults; only an answer tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftcheck.probe.client import ProbedServer
from draftcheck.probe.readings import CompletionReply, ServerReading
from draftcheck.probe.servers import openai

ENGINE = "lm-studio"
OWNERS = frozenset({"organization_owner"})


def looks_like(server: ProbedServer) -> str | None:
    """Its own list of models says how each is quantised and whether it is loaded."""
    named = any("compatibility_type" in entry and "state" in entry for entry in _listed(server))
    return "the answer to /api/v0/models" if named else None


def _listed(server: ProbedServer) -> list[dict[str, Any]]:
    data = server.get("/api/v0/models").object().get("data")
    return [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []


def version(server: ProbedServer) -> str | None:
    """Not told."""
    return None


def _loaded(server: ProbedServer) -> list[str]:
    entries = [entry for entry in _listed(server) if entry.get("state") == "loaded"]
    named = [openai.text(e.get("id")) for e in entries if e.get("type") != "embeddings"]
    return [name for name in named if name is not None]


def read(server: ProbedServer, model: str | None) -> ServerReading:
    """Only which model is loaded can be told without a prompt."""
    name = model or next(iter(_loaded(server)), None)
    return ServerReading(model=name, cause="only-by-request" if name else "no-model")


def ask(server: ProbedServer, model: str | None, prompt: str) -> CompletionReply | None:
    """One completion; stats names the draft model and its tokens when there was one."""
    if model not in _loaded(server):
        return None  # the request would load it
    body = {"model": model, "prompt": prompt, "max_tokens": openai.MOST_TOKENS, "temperature": 0}
    answer = openai.complete(server, "/api/v0/completions", body)
    if (fault := openai.fault(answer)) is not None:
        return CompletionReply(fault=fault)
    whole = answer.object()
    stats, usage = whole.get("stats"), whole.get("usage")
    if not isinstance(stats, Mapping):
        return CompletionReply(fault="no stats")
    generated = openai.count(usage.get("completion_tokens")) if isinstance(usage, Mapping) else None
    drafted = openai.count(stats.get("total_draft_tokens_count"))
    accepted = openai.count(stats.get("accepted_draft_tokens_count"))
    counts = openai.figures(drafted, accepted, generated)
    return CompletionReply(counts, draftless=counts.none_drafted and "draft_model" not in stats)
