"""SGLang: /server_info names the algorithm and the mean accepted length since start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftcheck.probe.client import ProbedServer, ServerAnswer
from draftcheck.probe.prometheus import Metrics
from draftcheck.probe.readings import (
    CompletionReply,
    ServerCounts,
    ServerReading,
    SpeculationSwitch,
)
from draftcheck.probe.servers import openai

ENGINE = "sglang"
OWNERS = frozenset({"sglang"})


def looks_like(server: ProbedServer) -> str | None:
    """Its metrics, or its settings."""
    metrics = server.get("/metrics")
    if metrics.ok and Metrics(metrics.text, "sglang:").samples:
        return "the counters sglang:… in /metrics"
    return (
        "the answer to /server_info" if "speculative_algorithm" in _info(server).object() else None
    )


def _info(server: ProbedServer) -> ServerAnswer:
    """The settings; the address without a verb came at the end of 2025."""
    answer = server.get("/server_info")
    return answer if answer.status != 404 else server.get("/get_server_info")


def version(server: ProbedServer) -> str | None:
    """Ask for its version."""
    return openai.text(_info(server).object().get("version"))


def read(server: ProbedServer, model: str | None) -> ServerReading:
    """Only what concerns speculation is taken out: the settings also hold keys."""
    answer = _info(server)
    info = answer.object()
    name = model or openai.text(info.get("served_model_name")) or openai.first_model(server)
    if "speculative_algorithm" not in info:
        cause = "needs-key" if answer.refused else "no-info"
        return ServerReading(counts=_counts(server, None, None), model=name, cause=cause)
    algorithm = openai.text(info["speculative_algorithm"])
    if algorithm is None:
        says = "speculative_algorithm: none (/server_info)"
        return ServerReading(SpeculationSwitch.OFF, says, model=name, cause="off")
    return ServerReading(
        SpeculationSwitch.SET,
        f"speculative_algorithm: {algorithm} (/server_info)",
        _counts(server, _mean_length(info), openai.count(info.get("speculative_num_draft_tokens"))),
        method=algorithm,
        draft=openai.text(info.get("speculative_draft_model_path")),
        model=name,
    )


def _mean_length(info: Mapping[str, Any]) -> float | None:
    """Since start, over all ranks that have drafted."""
    states = info.get("internal_states")
    states = states if isinstance(states, list) else [states]
    told = [openai.number(s.get("avg_spec_accept_length")) for s in states if isinstance(s, dict)]
    lengths = [length for length in told if length is not None]
    return sum(lengths) / len(lengths) if lengths else None


def _counts(server: ProbedServer, length: float | None, width: int | None) -> ServerCounts | None:
    """Counters need --enable-metrics; accepted tokens follow from them."""
    answer = server.get("/metrics")
    metrics = Metrics(answer.text if answer.ok else "", "sglang:")
    passes = metrics.counter("sglang:spec_verify_calls")
    generated = metrics.counter("sglang:generation_tokens")
    requests = metrics.counter("sglang:num_requests")
    accepted = drafted = rate = None
    if passes is not None and generated is not None and requests is not None:
        # Each request gets its first token from the prompt's pass, and one from each later pass.
        accepted = max(0, generated - requests - passes)
    if length is None and passes is None:
        length = metrics.mean("sglang:spec_accept_length") or None  # of the last batches logged
    if width is not None and width > 1:
        drafted = passes * (width - 1) if passes is not None else None
        rate = max(0.0, length - 1) / (width - 1) if length is not None else None
    if length is None and passes is None and generated is None:
        return None
    return ServerCounts(passes, drafted, accepted, generated, told_length=length, told_rate=rate)


def ask(server: ProbedServer, model: str | None, prompt: str) -> CompletionReply:
    """The native endpoint: its meta_info holds the figures of this request."""
    sampling = {"max_new_tokens": openai.MOST_TOKENS, "temperature": 0}
    answer = openai.complete(server, "/generate", {"text": prompt, "sampling_params": sampling})
    if (fault := openai.fault(answer)) is not None:
        return CompletionReply(fault=fault)
    meta = answer.object().get("meta_info")
    if not isinstance(meta, Mapping):
        return CompletionReply(fault="no meta_info")
    passes, generated = (openai.count(meta.get(k)) for k in ("spec_verify_ct", "completion_tokens"))
    accepted = openai.count(meta.get("spec_num_correct_drafts", meta.get("spec_accepted_drafts")))
    drafted = openai.count(meta.get("spec_num_proposed_drafts", meta.get("spec_proposed_drafts")))
    if accepted is None and passes and generated:
        accepted = max(0, generated - 1 - passes)
    return CompletionReply(ServerCounts(passes or 0, drafted, accepted, generated))
