"""vLLM: counters in /metrics, there from the start when speculation is set up."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from draftcheck.probe.client import ProbedServer
from draftcheck.probe.prometheus import Metrics
from draftcheck.probe.readings import (
    CompletionReply,
    ServerCounts,
    ServerReading,
    SpeculationSwitch,
)
from draftcheck.probe.servers import openai

ENGINE = "vllm"
OWNERS = frozenset({"vllm"})
COUNTER = "vllm:spec_decode_num_"
# Declared by the first engine (V0) whether it speculates or not; filled by the first draft.
OLD_RATE = "vllm:spec_decode_draft_acceptance_rate"


def looks_like(server: ProbedServer) -> str | None:
    """Its metrics need no key."""
    metrics = server.get("/metrics")
    named = metrics.ok and bool(Metrics(metrics.text, "vllm:").samples)
    return "the counters vllm:… in /metrics" if named else None


def version(server: ProbedServer) -> str | None:
    """Ask for its version."""
    return openai.text(server.get("/version").object().get("version"))


def read(server: ProbedServer, model: str | None) -> ServerReading:
    """Counters, or their absence."""
    name = model or openai.first_model(server)
    answer = server.get("/metrics")
    metrics = Metrics(answer.text if answer.ok else "", "vllm:")
    if not metrics.samples:
        kept_off = answer.ok and "# TYPE " in answer.text
        cause = "stats-off" if kept_off else "needs-key" if answer.refused else "no-metrics"
        return ServerReading(model=name, cause=cause)
    drafts = metrics.counter(COUNTER + "drafts")
    drafted = metrics.counter(COUNTER + "draft_tokens")
    if drafts is None and drafted is None:
        if OLD_RATE in metrics.declared:
            return ServerReading(model=name, cause="no-evidence")
        return ServerReading(
            SpeculationSwitch.OFF, "no spec_decode counters (/metrics)", model=name, cause="off"
        )
    counts = ServerCounts(
        drafts,
        drafted,
        metrics.counter(COUNTER + "accepted_tokens"),
        metrics.counter("vllm:generation_tokens"),
        metrics.positions(COUNTER + "accepted_tokens_per_pos"),
        told_rate=metrics.mean(OLD_RATE),
    )
    return ServerReading(
        SpeculationSwitch.SET, "spec_decode counters are there (/metrics)", counts, model=name
    )


def ask(server: ProbedServer, model: str | None, prompt: str) -> CompletionReply:
    """One completion; most servers show its effect only in the counters."""
    body = {"prompt": prompt, "max_tokens": openai.MOST_TOKENS, "temperature": 0}
    answer = openai.complete(server, "/v1/completions", {"model": model, **body} if model else body)
    if (fault := openai.fault(answer)) is not None:
        return CompletionReply(fault=fault)
    metrics = answer.object().get("metrics")
    figures = metrics.get("speculative_decoding") if isinstance(metrics, Mapping) else None
    return CompletionReply(_counts(figures)) if isinstance(figures, Mapping) else CompletionReply()


def _counts(figures: Mapping[str, Any]) -> ServerCounts:
    """The figures of --per-request-spec-decode-metrics (0.29.0 and newer)."""
    histogram = figures.get("acceptance_histogram")
    steps = [openai.count(n) or 0 for n in histogram] if isinstance(histogram, list) else []
    at_least = [*accumulate(reversed(steps))][::-1]
    return ServerCounts(
        openai.count(figures.get("num_spec_steps")),
        openai.count(figures.get("num_draft_tokens")),
        openai.count(figures.get("num_accepted_draft_tokens")),
        by_position=tuple(at_least[1:257]),
    )
