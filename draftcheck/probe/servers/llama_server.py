"""llama-server: /slots says whether it speculates, /metrics how well, timings per request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from draftcheck.probe.client import ProbedServer
from draftcheck.probe.prometheus import Metrics
from draftcheck.probe.readings import (
    CompletionReply,
    ServerCounts,
    ServerReading,
    SpeculationSwitch,
)
from draftcheck.probe.servers import openai

ENGINE = "llama.cpp"
OWNERS = frozenset({"llamacpp"})
COUNTER = "llamacpp:spec_decode_num_"


def looks_like(server: ProbedServer) -> str | None:
    """Its Server header, also when it refuses or still loads."""
    if server.get(openai.MODELS).headers.get("server") == "llama.cpp":
        return "the header Server: llama.cpp"
    return "the answer to /props" if "build_info" in server.get("/props").object() else None


def version(server: ProbedServer) -> str | None:
    """Ask for its version."""
    return openai.text(server.get("/props").object().get("build_info"))


def read(server: ProbedServer, model: str | None) -> ServerReading:
    """Ask for the slots and the counters, but never wake or load a model for it."""
    if server.get("/props").status == 503:
        return ServerReading(cause="loading")
    props = server.get("/props").object()
    query = ""
    if props.get("role") == "router":
        loaded = _loaded(server)
        name = model if model is not None else loaded[0] if len(loaded) == 1 else None
        if name not in loaded or name is None:
            return ServerReading(
                cause="router", notes=(f"loaded: {', '.join(loaded[:20]) or 'none'}",)
            )
        query, model = f"?model={quote(name, safe='')}&autoload=false", name
        props = server.get("/props" + query).object()
    model = model or openai.text(props.get("model_alias")) or openai.first_model(server)
    if props.get("is_sleeping") is True:
        return ServerReading(cause="sleeping", model=model)
    return _slots(server, query, model)


def _loaded(server: ProbedServer) -> list[str]:
    """Names of the models that a router keeps loaded."""
    names = []
    for entry in openai.models(server):
        status = entry.get("status")
        if isinstance(status, Mapping) and status.get("value") == "loaded":
            names.append(openai.text(entry.get("id")) or "")
    return names


def _slots(server: ProbedServer, query: str, model: str | None) -> ServerReading:
    answer = server.get("/slots" + query)
    body = answer.json()
    slots = [s for s in body if isinstance(s, dict)] if isinstance(body, list) else []
    flags = [s["speculative"] for s in slots if isinstance(s.get("speculative"), bool)]
    counts = _counts(server, query)
    if not flags:
        cause = None if counts is not None else "needs-key" if answer.refused else "slots-off"
        return ServerReading(counts=counts, model=model, cause=cause)
    asked = _types(slots)
    among = f"{sum(flags) or len(flags)} of {len(flags)} slots"
    says = f"speculative: {str(any(flags)).lower()} in {among}"
    says += f", asked for: {asked or 'nothing'} (/slots)" if asked is not None else " (/slots)"
    if any(flags):
        notes = () if counts else ("acceptance is counted only with --metrics, or with --prompt",)
        return ServerReading(
            SpeculationSwitch.ON, says, counts, method=asked or None, model=model, notes=notes
        )
    cause = "off" if asked is None else "dropped" if asked else "not-asked"
    return ServerReading(SpeculationSwitch.OFF, says, counts, model=model, cause=cause)


def _types(slots: list[dict[str, Any]]) -> str | None:
    """The types of speculation asked for at start-up; told once a slot has served a request."""
    for slot in slots:
        params = slot.get("params")
        types = params.get("speculative.types") if isinstance(params, Mapping) else None
        if (types := openai.text(types)) is not None:
            return ",".join(name for name in types.split(",") if name not in ("", "none"))
    return None


def _counts(server: ProbedServer, query: str) -> ServerCounts | None:
    answer = server.get("/metrics" + query)
    if not answer.ok:
        return None
    metrics = Metrics(answer.text, "llamacpp:")
    drafts = metrics.counter(COUNTER + "drafts")
    if drafts is None:
        return None
    return ServerCounts(
        drafts,
        metrics.counter(COUNTER + "draft_tokens"),
        metrics.counter(COUNTER + "accepted_tokens"),
        metrics.counter("llamacpp:tokens_predicted"),
        metrics.positions(COUNTER + "accepted_tokens_per_pos"),
    )


def ask(server: ProbedServer, model: str | None, prompt: str) -> CompletionReply:
    """One completion; its timings hold the draft's figures when a draft was made."""
    body: dict[str, Any] = {"prompt": prompt, "n_predict": openai.MOST_TOKENS, "temperature": 0}
    path = "/completion"
    if server.get("/props").object().get("role") == "router":
        path, body["model"] = "/completion?autoload=false", model
    answer = openai.complete(server, path, body)
    if (fault := openai.fault(answer)) is not None:
        return CompletionReply(fault=fault)
    timings = answer.object().get("timings")
    if not isinstance(timings, Mapping):
        return CompletionReply(fault="no timings")
    names = ("draft_n", "draft_n_accepted", "predicted_n")
    return CompletionReply(openai.figures(*(openai.count(timings.get(name)) for name in names)))
