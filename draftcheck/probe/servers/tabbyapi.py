"""TabbyAPI: tells at most which draft is loaded; acceptance only in its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftcheck.probe.client import ProbedServer
from draftcheck.probe.readings import CompletionReply, ServerReading, SpeculationSwitch
from draftcheck.probe.servers import openai

ENGINE = "tabbyapi"
OWNERS = frozenset({"tabbyAPI"})


def looks_like(server: ProbedServer) -> str | None:
    """Its service description needs no key."""
    software = server.get("/.well-known/serviceinfo").object().get("software")
    named = isinstance(software, Mapping) and software.get("name") == "TabbyAPI"
    return "the answer to /.well-known/serviceinfo" if named else None


def version(server: ProbedServer) -> str | None:
    """Not told."""
    return None


def read(server: ProbedServer, model: str | None) -> ServerReading:
    """The loaded model's card named its draft while ExLlamaV2 ran it; the draft list does now."""
    answer = server.get("/v1/model")
    card = answer.object()
    name = model or openai.text(card.get("id"))
    if not card:
        return ServerReading(model=name, cause="needs-key" if answer.refused else "no-model")
    parameters = card.get("parameters")
    draft = _name(parameters.get("draft")) if isinstance(parameters, Mapping) else None
    if draft is not None:
        return _loaded(draft, "/v1/model", name)
    # An admin's key lists every draft on the disk instead of the loaded one.
    if server.get("/v1/auth/permission").object().get("permission") != "api":
        return ServerReading(model=name, cause="admin-key")
    listed = server.get("/v1/model/draft/list").object().get("data")
    draft = _name(listed[0]) if isinstance(listed, list) and listed else None
    if draft is not None:
        return _loaded(draft, "/v1/model/draft/list", name)
    return ServerReading(model=name, cause="no-draft" if isinstance(listed, list) else "admin-key")


def _loaded(draft: str, path: str, model: str | None) -> ServerReading:
    says = f"draft model {draft} is loaded ({path})"
    return ServerReading(SpeculationSwitch.SET, says, draft=draft, model=model, cause="log-only")


def _name(card: Any) -> str | None:
    return openai.text(card.get("id")) if isinstance(card, Mapping) else None


def ask(server: ProbedServer, model: str | None, prompt: str) -> CompletionReply | None:
    """Not sent: the answer would not tell (its usage holds no draft figures)."""
    return None
